//! Answers a request: the guard, the pages, and the headers of every answer.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tower_service::Service as _;

use crate::access::HostKind;
use crate::app::App;
use crate::guard::{Rule, add_headers};
use crate::problem::Problem;
use crate::{api, assets, events, forms, pages};

/// Maximum length of the body of a request.
pub(crate) const MAX_BODY: usize = 64 << 10;

/// The whole server, without connections.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) app: Arc<App>,
    router: Router,
}

impl Site {
    pub(crate) fn new(app: App) -> Self {
        let app = Arc::new(app);
        let router = Router::new()
            .merge(pages::routes())
            .merge(api::routes())
            .merge(events::routes())
            .merge(forms::routes())
            .merge(assets::routes())
            .fallback(|| async { Problem::no_page() })
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::clone(&app));
        Site { app, router }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let is_api = parts.uri.path().starts_with("/api/");
        let mut response = match self.admit(&parts) {
            Ok(None) => {
                let request = Request::from_parts(parts, body);
                let answered = CatchPanic(Box::pin(self.router.clone().call(request)));
                match answered.await {
                    Some(Ok(response)) => response,
                    Some(Err(never)) => match never {},
                    None => Problem::panicked().into_response(),
                }
            }
            Ok(Some(response)) => response,
            Err(problem) => problem.into_response(),
        };
        // Problems become pages here, because only the application knows what a page looks like.
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            response = match is_api {
                true => problem.json(),
                false => pages::problem_page(&self.app, &problem),
            };
        }
        if self.app.rules.holds(Rule::Headers) {
            let cache = response.headers_mut().remove(header::CACHE_CONTROL);
            add_headers(response.headers_mut(), self.app.options.write);
            if let Some(cache) = cache {
                response.headers_mut().insert(header::CACHE_CONTROL, cache);
            }
        }
        response
    }

    /// Checks the rules. A request with the key of the address gets the cookie.
    fn admit(&self, request: &Parts) -> Result<Option<Response>, Problem> {
        let guard = self.app.guard();
        let checked = guard.check(request);
        let Some(key) = guard.key(request) else {
            return checked.map(|()| None);
        };
        match checked {
            // Signed in before: only the key leaves the address.
            Ok(()) => {
                let home = [(header::LOCATION, "/")];
                Ok(Some((StatusCode::SEE_OTHER, home).into_response()))
            }
            Err(problem)
                if problem.status == StatusCode::UNAUTHORIZED
                    && guard.host_kind(request) == Some(HostKind::Browser) =>
            {
                let cookie = self.app.access.exchange_key(key).ok_or(problem)?;
                let mut response = pages::signed_in();
                if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                    response.headers_mut().insert(header::SET_COOKIE, cookie);
                }
                Ok(Some(response))
            }
            Err(problem) => Err(problem),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// A future whose panic is an answer: other requests go on.
struct CatchPanic<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchPanic<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_) => Poll::Ready(None),
        }
    }
}
