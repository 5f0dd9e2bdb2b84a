//! Server-sent events: new entries of logs.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use annals::service::{FollowRequest, FollowedEvents};
use annals::watch::Stopper;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_core::Stream;
use serde::Deserialize;
use tokio::sync::mpsc::{self, Receiver};

use crate::app::{App, SessionPlace, blocking};
use crate::guard::Rule;
use crate::pages::Parameters;
use crate::problem::Problem;

/// Maximum number of open streams.
const MAX_STREAMS: usize = 8;

/// Number of events that wait for a slow browser.
const WAITING: usize = 64;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/events", get(events))
}

/// Follows everything, a project, or a session. The id of an event is its cursor: a browser that
/// connects again goes on after it.
async fn events(
    State(app): State<Arc<App>>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let place = OpenStream::new(&app)?;
    let since = headers.get("last-event-id");
    let since = since
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let followed = blocking(&app, move |app, _| {
        let session = parameters.get("session");
        let session = match session.split_once('/') {
            Some((root, id)) => {
                let files = app.files(&app.service.inventory(), &SessionPlace::parse(root, id)?)?;
                Some(files.main_path().display().to_string())
            }
            None if session.is_empty() => None,
            None => return Err(Problem::bad_value("`session` is ROOT/ID.")),
        };
        let request = FollowRequest {
            project: parameters.given("project"),
            session,
            last: 0,
            since,
        };
        Ok(app.service.follow(&request)?)
    });
    let followed = followed.await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let stopper = followed.stopper();
    let masking = Arc::clone(&app);
    let thread = std::thread::Builder::new().name("annals-events".to_owned());
    let spawned = thread.spawn(move || {
        // The browser knows that it is connected.
        _ = sender.blocking_send(": connected\n\n".to_owned());
        each_frame(followed, &masking, |frame| {
            sender.blocking_send(frame).is_ok()
        });
    });
    spawned.map_err(|error| {
        let hint = "Close some pages and try again.";
        let message = format!("No thread could be started: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message, hint)
    })?;
    let stream = EventStream {
        receiver,
        stopper,
        _place: place,
    };
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::from_stream(stream)).into_response())
}

/// Hands over the frame of each event until `send` returns false.
fn each_frame(followed: FollowedEvents, app: &App, send: impl Fn(String) -> bool) {
    #[derive(Deserialize)]
    struct Named {
        kind: String,
        cursor: Option<String>,
    }
    for event in followed {
        let Ok(json) = serde_json::to_string(&event) else {
            continue;
        };
        let Ok(named) = serde_json::from_str::<Named>(&json) else {
            continue;
        };
        // JSON has no line breaks, so an event is one line.
        let json = app.masked_json(json);
        let cursor = named.cursor.map(|cursor| format!("id: {cursor}\n"));
        let frame = format!(
            "event: {}\n{}data: {json}\n\n",
            named.kind,
            cursor.unwrap_or_default()
        );
        if !send(frame) {
            return;
        }
    }
}

/// One of the places for open streams.
struct OpenStream(Arc<App>);

impl OpenStream {
    fn new(app: &Arc<App>) -> Result<Self, Problem> {
        let open = app.streams.fetch_add(1, Ordering::AcqRel);
        let place = OpenStream(Arc::clone(app));
        match open < MAX_STREAMS || !app.rules.holds(Rule::Limits) {
            true => Ok(place),
            false => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{MAX_STREAMS} pages are following already."),
                "Close one of them; this page shows new messages when it is loaded again.",
            )),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Frames for one browser. Following ends with it.
struct EventStream {
    receiver: Receiver<String>,
    stopper: Stopper,
    _place: OpenStream,
}

impl Stream for EventStream {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
