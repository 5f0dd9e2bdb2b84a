//! Decides which requests are answered. Each rule is a row of [`RULES`]; docs/THREATS.md says what
//! each one prevents.

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::access::{Access, HostKind};
use crate::problem::Problem;

/// A rule, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Host,
    FetchSite,
    Origin,
    Method,
    Secret,
    FormToken,
    Headers,
    Mask,
    Limits,
}

/// Which rules hold; tests turn one off to see that it is the one that refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub(crate) without: Option<Rule>,
}

impl Rules {
    #[cfg(test)]
    pub(crate) fn holds(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    #[cfg(not(test))]
    pub(crate) fn holds(self, _: Rule) -> bool {
        true
    }
}

/// Properties of the server that the rules depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) access: &'a Access,
    pub(crate) rules: Rules,
    /// Forms are offered.
    pub(crate) write: bool,
}

type Check = fn(&Guard<'_>, &Parts) -> Result<(), Problem>;

/// The rules in the order in which they are checked.
const RULES: [(Rule, Check); 5] = [
    (Rule::Host, host),
    (Rule::FetchSite, fetch_site),
    (Rule::Origin, origin),
    (Rule::Secret, secret),
    (Rule::Method, method),
];

impl Guard<'_> {
    /// Returns why a request is refused.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), Problem> {
        let mut rules = RULES.iter().filter(|(rule, _)| self.rules.holds(*rule));
        rules.try_for_each(|(_, check)| check(self, request))
    }

    /// Returns the key in the address, if this request may exchange it for the cookie.
    pub(crate) fn key<'r>(&self, request: &'r Parts) -> Option<&'r str> {
        let is_top = request.method == Method::GET && request.uri.path() == "/";
        let query = request.uri.query().filter(|_| is_top)?;
        query.split('&').find_map(|pair| pair.strip_prefix("key="))
    }
}

/// `Host` is ours exactly. A page of another site whose name was changed to lead here sends its own
/// name, and no `Origin`.
fn host(guard: &Guard<'_>, request: &Parts) -> Result<(), Problem> {
    match host_kind(guard, request) {
        Some(_) => Ok(()),
        None => Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "This is not the name of this server.",
            "Open the address that `annals serve` printed. For a tunnel that renames it, start with --also-host NAME.",
        )),
    }
}

impl Guard<'_> {
    /// Returns how a request names the server.
    pub(crate) fn host_kind(&self, request: &Parts) -> Option<HostKind> {
        host_kind(self, request)
    }
}

fn host_kind(guard: &Guard<'_>, request: &Parts) -> Option<HostKind> {
    let host = only(&request.headers, HOST)?;
    // A request may name a server twice.
    let named = request.uri.authority().map(|authority| authority.as_str());
    if named.is_some_and(|named| named != host) {
        return None;
    }
    guard.access.host_kind(host)
}

/// Browsers say where a request comes from: from this site, or typed. Only the overview may be
/// opened from elsewhere, because a link may lead to it.
fn fetch_site(_: &Guard<'_>, request: &Parts) -> Result<(), Problem> {
    let value = |name: &'static str| request.headers.get(HeaderName::from_static(name));
    let Some(site) = value("sec-fetch-site") else {
        return Ok(());
    };
    let is_own = site == "same-origin" || site == "none";
    let is_top = value("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && value("sec-fetch-dest").is_some_and(|dest| dest == "document");
    let is_overview = request.method == Method::GET && request.uri.path() == "/";
    match is_own || (is_top && is_overview) {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "Another site asked for this page.",
            "Open it from the overview, or type its address.",
        )),
    }
}

/// `Origin`, if it is sent, is ours.
fn origin(guard: &Guard<'_>, request: &Parts) -> Result<(), Problem> {
    let mut origins = request.headers.get_all(ORIGIN).iter();
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok();
        origin.is_some_and(|origin| guard.access.is_own_origin(origin))
    };
    let is_sent = request.headers.contains_key(ORIGIN);
    match origins.all(is_own) && (is_sent || request.method != Method::POST) {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "The request is not from a page of this server.",
            "Use the forms of its pages.",
        )),
    }
}

/// GET and HEAD look, POST changes something and needs `--write`. There are no other methods.
fn method(guard: &Guard<'_>, request: &Parts) -> Result<(), Problem> {
    let refused = |message, hint| Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, message, hint));
    match request.method {
        Method::GET | Method::HEAD => Ok(()),
        Method::POST if guard.write => Ok(()),
        Method::POST => refused(
            "This server changes nothing.",
            "Start it with `annals serve --write`.",
        ),
        _ => refused("There is no such method here.", "Use GET."),
    }
}

/// The cookie or, for scripts, the token. 127.0.0.1 answers only to the token: browsers send cookies
/// of one port to all others.
fn secret(guard: &Guard<'_>, request: &Parts) -> Result<(), Problem> {
    let text = |name| {
        let values = request.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok())
    };
    let is_browser = host_kind(guard, request) != Some(HostKind::Script);
    let known = text(AUTHORIZATION).any(|header| guard.access.has_bearer(header))
        || (is_browser && text(COOKIE).any(|header| guard.access.has_cookie(header)));
    match known {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "This browser is not signed in.",
            "Open the address that `annals serve` printed. It works once: to open another browser, start `annals serve` again.",
        )),
    }
}

/// Returns the value of a header that is sent exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Content security policy: files of this server, and pictures in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Headers of every answer.
pub(crate) const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Adds the headers that every answer has.
///
/// Browsers send `Origin: null` with forms of pages that send no referrer. Pages with forms therefore
/// send it to this server, and to no other.
pub(crate) fn add_headers(headers: &mut HeaderMap, write: bool) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if write {
        let own = HeaderValue::from_static("same-origin");
        headers.insert(header::REFERRER_POLICY, own);
    }
}
