//! HTTP: which requests there are, and what they may do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_segments::protocol::{self, Acknowledged, HOST, KnownEnd, KnownEnds, Machine, Refused};
use annals_segments::{SegmentReader, SourceId, group};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use crate::access::Owner;
use crate::ask::{Question, Verb};
use crate::error::Error;
use crate::hub::Hub;

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 4096;

/// Maximum length of a body: the longest segment.
const MAX_BODY: usize = 68 << 20;

/// Bytes of bodies that are in memory at the same time.
const BODIES: usize = 512 << 20;

/// Time in which a head must arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time in which a body must arrive.
const BODY_TIME: Duration = Duration::from_secs(120);

/// What handlers share.
#[derive(Debug)]
struct Site {
    hub: Arc<Hub>,
    bodies: Semaphore,
}

/// Answers requests until the listener fails.
pub async fn serve(listener: TcpListener, hub: Arc<Hub>) -> io::Result<()> {
    let site = Arc::new(Site {
        hub,
        bodies: Semaphore::new(BODIES >> 10),
    });
    let mut router = Router::new()
        .route("/v1/machine", get(machine))
        .route("/v1/ends", get(ends))
        .route("/v1/segments", post(segments))
        .route("/health", get(health))
        .route("/metrics", get(metrics));
    for (name, verb) in Verb::ALL {
        let answer = move |site, headers, query| ask(verb, site, headers, query);
        router = router.route(&format!("/v1/{name}"), get(answer));
    }
    let router = router
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "there is nothing here") })
        .with_state(site);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return Ok(());
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The connection ended before it was accepted, or there are too many open files.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve_connection(stream, router).await;
            drop(place);
        });
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        async move { router.call(request.map(Body::new)).await }
    });
    // What goes wrong in a connection ends it, and nothing else.
    _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// An answer to a request that failed.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    why: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json(self.status, &Refused { error: self.why })
    }
}

fn refuse(status: StatusCode, why: impl ToString) -> Refusal {
    Refusal {
        status,
        why: why.to_string(),
    }
}

/// Returns the answer to a request that failed. Details of the store are for the operator only.
fn failure(error: &Error) -> Refusal {
    match error {
        Error::Refused(why) => refuse(StatusCode::CONFLICT, why),
        Error::Segment(error) => refuse(StatusCode::UNPROCESSABLE_ENTITY, error),
        Error::Asked(why) => refuse(StatusCode::BAD_REQUEST, why),
        Error::Forbidden(why) => refuse(StatusCode::FORBIDDEN, why),
        _ => refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the store of the hub cannot be used now; try again later",
        ),
    }
}

/// Returns the token of a request, and its owner.
async fn owner(hub: &Hub, headers: &HeaderMap) -> Result<(String, Owner), Refusal> {
    let bearer = headers.get(header::AUTHORIZATION);
    let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let token = bearer
        .filter(|token| token.len() <= 200)
        .unwrap_or_default();
    match hub.access().owner(token).await {
        Ok(Some(owner)) => Ok((token.to_owned(), owner)),
        Ok(None) => {
            hub.counters.refused.fetch_add(1, Ordering::Relaxed);
            Err(refuse(StatusCode::UNAUTHORIZED, "unknown or revoked token"))
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Returns the machine that sends a request.
async fn sender(hub: &Hub, headers: &HeaderMap) -> Result<(SourceId, String), Refusal> {
    let (_, owner) = owner(hub, headers).await?;
    let Owner::Machine { source, name } = owner else {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "this token is not that of a machine",
        ));
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.filter(|host| host.len() <= 100);
    let host =
        host.ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "the header annals-host is missing"))?;
    let checked = hub.check_host(source, host).await;
    checked.map_err(|error| failure(&error))?;
    Ok((source, name))
}

async fn ask(
    verb: Verb,
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let (token, owner) = owner(&site.hub, &headers).await?;
    let question = Question::parse(verb, &query.unwrap_or_default());
    let question = question.map_err(|error| failure(&error))?;
    let answer = site.hub.answer(&owner, &token, question).await;
    let answer = answer.map_err(|error| failure(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

async fn machine(State(site): State<Arc<Site>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let (source, name) = sender(&site.hub, &headers).await?;
    let machine = Machine {
        version: protocol::VERSION,
        source,
        name,
    };
    Ok(json(StatusCode::OK, &machine))
}

async fn ends(State(site): State<Arc<Site>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let (source, _) = sender(&site.hub, &headers).await?;
    let known = known_ends(&site.hub, source).await;
    let known = known.map_err(|error| failure(&error))?;
    Ok(json(StatusCode::OK, &known))
}

async fn known_ends(hub: &Hub, source: SourceId) -> Result<KnownEnds, Error> {
    let mut committer = hub.committer(source)?.lock().await;
    // What is acknowledged is in the inbox, and counts.
    hub.count(committer.run().await?);
    let known = committer.ends().newest(source);
    let files = known.map(|(file, generation, end)| KnownEnd {
        file,
        generation,
        kind: end.kind,
        end: end.end,
        last_start: end.last_start,
        last_digest: end.last_digest,
    });
    Ok(KnownEnds {
        source,
        files: files.collect(),
    })
}

async fn segments(State(site): State<Arc<Site>>, request: Request) -> Result<Response, Refusal> {
    let (source, _) = sender(&site.hub, request.headers()).await?;
    let stored = store_segments(&site, source, request).await;
    if stored.is_err() {
        site.hub.counters.refused.fetch_add(1, Ordering::Relaxed);
    }
    let stored = stored?;
    Ok(json(StatusCode::OK, &stored))
}

async fn store_segments(
    site: &Site,
    source: SourceId,
    request: Request,
) -> Result<Acknowledged, Refusal> {
    let len = request.headers().get(header::CONTENT_LENGTH);
    let len = len.and_then(|len| len.to_str().ok()?.parse::<usize>().ok());
    let len = len.ok_or_else(|| {
        refuse(
            StatusCode::LENGTH_REQUIRED,
            "the length of the body is missing",
        )
    })?;
    if len > MAX_BODY {
        return Err(refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too long",
        ));
    }
    let permits = u32::try_from(len >> 10).unwrap_or(u32::MAX) + 1;
    // Held until the segments are stored.
    let held = site.bodies.acquire_many(permits).await;
    let _held = held.map_err(|_| failure(&Error::Ended))?;
    let body = tokio::time::timeout(BODY_TIME, to_bytes(request.into_body(), MAX_BODY)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return Err(refuse(StatusCode::BAD_REQUEST, "the body ended too early")),
        Err(_) => {
            return Err(refuse(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long",
            ));
        }
    };
    // Decompresses everything, so it must not block other requests.
    let verified = tokio::task::spawn_blocking(move || verify(&body, source)).await;
    let segments = verified.map_err(|_| failure(&Error::Ended))?;
    let segments = segments.map_err(|error| failure(&error))?;
    let count = segments.len();
    let bytes: usize = segments.iter().map(|segment| segment.bytes().len()).sum();
    if count > 0 {
        let ingest = site.hub.ingest(source).map_err(|error| failure(&error))?;
        ingest
            .put(segments)
            .await
            .map_err(|error| failure(&error))?;
    }
    let counters = &site.hub.counters;
    counters.segments.fetch_add(count as u64, Ordering::Relaxed);
    counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    Ok(Acknowledged { segments: count })
}

/// Parses and verifies the segments of a machine.
fn verify(body: &[u8], source: SourceId) -> Result<Vec<annals_segments::Segment>, Error> {
    let segments = group::read_all(body)?;
    let mut reader = SegmentReader::new()?;
    for segment in &segments {
        if segment.header.source != source {
            return Err(Error::Segment(annals_segments::Error::Invalid(
                "the segment is of another machine".into(),
            )));
        }
        reader.content(segment)?;
    }
    Ok(segments)
}

async fn health() -> Response {
    "ok\n".into_response()
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let counters = &site.hub.counters;
    let rows: [(&str, &str, &AtomicU64); 7] = [
        (
            "annals_hub_segments_total",
            "segments acknowledged",
            &counters.segments,
        ),
        (
            "annals_hub_bytes_total",
            "compressed bytes acknowledged",
            &counters.bytes,
        ),
        (
            "annals_hub_refused_total",
            "requests refused",
            &counters.refused,
        ),
        (
            "annals_hub_committed_total",
            "segments committed",
            &counters.committed,
        ),
        (
            "annals_hub_put_aside_total",
            "groups and segments moved to refused/",
            &counters.put_aside,
        ),
        (
            "annals_hub_failed_passes_total",
            "commits that failed",
            &counters.failed_passes,
        ),
        (
            "annals_hub_waiting",
            "segments that wait for missing bytes",
            &counters.waiting,
        ),
    ];
    let mut text = String::new();
    for (name, help, counter) in rows {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let value = counter.load(Ordering::Relaxed);
        text.push_str(&format!(
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
        ));
    }
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        Body::from(text),
    )
        .into_response()
}
