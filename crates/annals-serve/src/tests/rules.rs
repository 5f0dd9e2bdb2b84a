//! Every rule of docs/THREATS.md for `annals serve`, each with a control: without the rule, what it
//! refuses is answered.

use annals::model::Draft;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};

use super::{HOSTILE, SECRET, Served, runtime};
use crate::app::Options;
use crate::guard::{HEADERS, Rule};

const WRITE: Options = Options {
    write: true,
    mask: false,
};

/// Asserts that a request is refused, and answered without the rule that refuses it.
fn refused(
    rule: Rule,
    status: StatusCode,
    options: Options,
    request: impl Fn(&Served) -> Request<Body>,
) {
    let served = Served::new(options);
    assert_eq!(served.answer(request(&served)).status(), status, "{rule:?}");
    let control = Served::without(options, Some(rule));
    let answered = control.answer(request(&control)).status();
    assert!(
        answered.is_success() || answered.is_redirection(),
        "{rule:?} is not what refuses: {answered}"
    );
}

fn empty(request: axum::http::request::Builder) -> Request<Body> {
    request.body(Body::empty()).unwrap()
}

/// Replaces a header of a request.
fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

#[test]
fn host_must_be_ours_for_pages_and_assets() {
    for path in ["/", "/sessions", "/api/v1/sessions", "/nowhere"] {
        for host in [
            "evil.example",
            "evil.example:4711",
            "localhost:4711",
            "127.0.0.1:80",
            "",
        ] {
            let served = Served::new(Options::default());
            let request = with(empty(served.get(path)), "host", host);
            assert_eq!(
                served.answer(request).status(),
                StatusCode::MISDIRECTED_REQUEST,
                "{host} {path}"
            );
        }
    }
    refused(
        Rule::Host,
        StatusCode::MISDIRECTED_REQUEST,
        Options::default(),
        |served| with(empty(served.get("/sessions")), "host", "evil.example"),
    );
    // A second name in the request line, and none at all.
    let served = Served::new(Options::default());
    let twice = empty(served.get("http://evil.example/sessions"));
    assert_eq!(
        served.answer(twice).status(),
        StatusCode::MISDIRECTED_REQUEST
    );
    let mut none = empty(served.get("/"));
    none.headers_mut().remove(header::HOST);
    assert_eq!(
        served.answer(none).status(),
        StatusCode::MISDIRECTED_REQUEST
    );
}

#[test]
fn everything_needs_the_cookie_or_the_token() {
    refused(
        Rule::Secret,
        StatusCode::UNAUTHORIZED,
        Options::default(),
        |served| with(empty(served.get("/sessions")), "cookie", "annals=0123; x=y"),
    );
    let served = Served::new(Options::default());
    let script = |token: &str| {
        Request::get("/api/v1/sessions")
            .header(header::HOST, "127.0.0.1:4711")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
    };
    let bearer = served.app().access.bearer().to_owned();
    assert_eq!(served.status(script(&bearer)), StatusCode::OK);
    assert_eq!(served.status(script("wrong")), StatusCode::UNAUTHORIZED);
    // The cookie counts nowhere but under the random name, and no secret counts in an address.
    let cookie = with(empty(served.get("/")), "host", "127.0.0.1:4711");
    assert_eq!(served.answer(cookie).status(), StatusCode::UNAUTHORIZED);
    let key = served.app().access.key().to_owned();
    for address in [format!("/sessions?key={key}"), format!("/?token={bearer}")] {
        let request = Request::get(address).header(header::HOST, served.app().access.host());
        assert_eq!(served.status(request), StatusCode::UNAUTHORIZED);
    }
}

#[test]
fn key_works_once_and_sets_a_strict_cookie() {
    let served = Served::new(Options::default());
    let access = &served.app().access;
    let request = |key: &str, host: &str| {
        empty(Request::get(format!("/?key={key}")).header(header::HOST, host))
    };
    let wrong = served.answer(request("0", access.host()));
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    // Not under the address for scripts: its cookies would reach other ports.
    let script = served.answer(request(access.key(), "127.0.0.1:4711"));
    assert_eq!(script.status(), StatusCode::UNAUTHORIZED);
    let head = Request::head(format!("/?key={}", access.key()));
    let head = served.status(head.header(header::HOST, access.host()));
    assert_eq!(head, StatusCode::UNAUTHORIZED);
    let first = served.answer(request(access.key(), access.host()));
    assert_eq!(first.status(), StatusCode::OK);
    let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("Max-Age") && !cookie.contains("Domain"));
    assert!(!cookie.contains(access.key()));
    let second = served.answer(request(access.key(), access.host()));
    assert_eq!(second.status(), StatusCode::UNAUTHORIZED);
    // Who is signed in is sent to the address without the key.
    let again = served.answer(empty(served.get("/?key=anything")));
    assert_eq!(again.status(), StatusCode::SEE_OTHER);
    assert_eq!(again.headers()[header::LOCATION], "/");
}

#[test]
fn secrets_are_long_and_differ_between_starts() {
    let (one, other) = (
        Served::new(Options::default()),
        Served::new(Options::default()),
    );
    let (one, other) = (&one.app().access, &other.app().access);
    assert_eq!(one.key().len(), 64);
    assert_eq!(one.host().split('.').next().unwrap().len(), 16);
    for (a, b) in [
        (one.key(), other.key()),
        (one.bearer(), other.bearer()),
        (one.form_token(), other.form_token()),
        (one.host(), other.host()),
        (one.key(), one.bearer()),
        (one.key(), one.form_token()),
    ] {
        assert_ne!(a, b);
    }
}

#[test]
fn requests_of_other_sites_are_refused() {
    let cross = |served: &Served, path: &str, mode: &str| {
        let request = with(empty(served.get(path)), "sec-fetch-site", "cross-site");
        let request = with(request, "sec-fetch-mode", mode);
        with(
            request,
            "sec-fetch-dest",
            if mode == "navigate" {
                "document"
            } else {
                "empty"
            },
        )
    };
    for (path, mode) in [
        ("/sessions", "navigate"),
        ("/", "cors"),
        ("/api/v1/sessions", "no-cors"),
    ] {
        refused(
            Rule::FetchSite,
            StatusCode::FORBIDDEN,
            Options::default(),
            |served| cross(served, path, mode),
        );
    }
    // A link may lead to the overview.
    let served = Served::new(Options::default());
    let link = cross(&served, "/", "navigate");
    assert_eq!(served.answer(link).status(), StatusCode::OK);
    let framed = with(cross(&served, "/", "navigate"), "sec-fetch-dest", "iframe");
    assert_eq!(served.answer(framed).status(), StatusCode::FORBIDDEN);
    for site in ["same-origin", "none"] {
        let own = with(empty(served.get("/sessions")), "sec-fetch-site", site);
        assert_eq!(served.answer(own).status(), StatusCode::OK);
    }
}

#[test]
fn origin_must_be_ours() {
    for origin in [
        "http://evil.example",
        "null",
        "https://evil.localhost:4711",
        "http://127.0.0.1:4711",
    ] {
        refused(
            Rule::Origin,
            StatusCode::FORBIDDEN,
            Options::default(),
            |served| with(empty(served.get("/api/v1/sessions")), "origin", origin),
        );
    }
    let served = Served::new(Options::default());
    let answer = served.answer(empty(served.get("/api/v1/sessions")));
    let cors = answer
        .headers()
        .keys()
        .filter(|name| name.as_str().starts_with("access-control"));
    assert_eq!(cors.count(), 0);
    let own = format!("http://{}", served.app().access.host());
    let own = with(empty(served.get("/sessions")), "origin", &own);
    assert_eq!(served.answer(own).status(), StatusCode::OK);
}

/// A form that tags the only session.
fn tag(served: &Served, token: &str) -> Request<Body> {
    let body = format!("tag=blue&token={token}");
    let path = format!("{}/tag", served.session());
    served.post(&path).body(Body::from(body)).unwrap()
}

#[test]
fn forms_need_write_origin_and_token() {
    let own = |served: &Served| tag(served, served.app().access.form_token());
    refused(
        Rule::Method,
        StatusCode::METHOD_NOT_ALLOWED,
        Options::default(),
        own,
    );
    refused(Rule::FormToken, StatusCode::FORBIDDEN, WRITE, |served| {
        tag(served, "wrong")
    });
    refused(Rule::Origin, StatusCode::FORBIDDEN, WRITE, |served| {
        let mut request = own(served);
        request.headers_mut().remove(header::ORIGIN);
        request
    });
    let served = Served::new(WRITE);
    assert_eq!(served.answer(own(&served)).status(), StatusCode::SEE_OTHER);
    let (_, page) = served.page("/sessions?tag=blue");
    assert!(page.contains("1 session <small>"), "{page}");
    for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
        let request = served.get("/").method(method.clone());
        assert_eq!(served.status(request), StatusCode::METHOD_NOT_ALLOWED);
        // Who is not signed in is told nothing else.
        let request = Request::get("/").method(method);
        let request = request.header(header::HOST, served.app().access.host());
        assert_eq!(served.status(request), StatusCode::UNAUTHORIZED);
    }
}

#[test]
fn every_answer_has_the_headers() {
    let served = Served::new(Options::default());
    let control = Served::without(Options::default(), Some(Rule::Headers));
    let has_all = |served: &Served, request: Request<Body>| {
        let answer = served.answer(request);
        HEADERS
            .iter()
            .all(|(name, value)| answer.headers().get(name).is_some_and(|it| it == value))
    };
    let paths = [
        "/",
        "/nowhere",
        "/api/v1/sessions",
        "/search?q=%22",
        "/s/0/x",
    ];
    for path in paths {
        assert!(has_all(&served, empty(served.get(path))), "{path}");
        assert!(!has_all(&control, empty(control.get(path))), "{path}");
    }
    // Also if it is refused.
    assert!(has_all(
        &served,
        with(empty(served.get("/")), "host", "evil.example")
    ));
    let policy = HEADERS[0].1;
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    assert!(!policy.contains("unsafe") && !policy.contains('*'));
}

#[test]
fn no_path_comes_from_a_request() {
    let served = Served::new(Options::default());
    std::fs::write(served.dir.path().join("root/secret.txt"), "hunter2").unwrap();
    let log = served.app().service.inventory().sessions[0]
        .main_path()
        .to_owned();
    let encoded = crate::text::percent_encode(&log.display().to_string());
    for path in [
        "/s/0/..%2F..%2Fetc%2Fpasswd",
        "/s/0/%2Fetc%2Fpasswd",
        "/s/7/x",
        "/s/-1/x",
        "/s/0.9/x",
        "/s/0/secret.txt",
        "/assets/..%2Fstyle.css",
        &format!("/s/0/{encoded}"),
        &format!("{}/files/%2Fetc%2Fpasswd", served.session()),
        &format!("{}/raw?line=1&log=/etc/passwd", served.session()),
    ] {
        let (status, page) = served.page(path);
        assert!(status.is_client_error(), "{path} {status}");
        assert!(
            !page.contains("hunter2") && !page.contains("root:x"),
            "{path}"
        );
    }
    // The control: the address of the session itself.
    assert_eq!(served.page(&served.session()).0, StatusCode::OK);
}

#[test]
fn text_of_logs_is_never_markup() {
    let served = Served::new(Options::default());
    let session = served.session();
    let mut shown = 0;
    for path in [
        "/".to_owned(),
        "/sessions".to_owned(),
        "/search?q=socket".to_owned(),
        format!("/search?q={}", crate::text::percent_encode(HOSTILE)),
        format!("/sessions?text={}", crate::text::percent_encode(HOSTILE)),
        "/cost?by=session".to_owned(),
        "/watch".to_owned(),
        session.clone(),
        format!("{session}/tree"),
        format!("{session}/files"),
        format!("{session}/part"),
    ] {
        let (_, page) = served.page(&path);
        for markup in ["<img src=x", "<script>alert", "onerror=alert(1)>\""] {
            assert!(!page.contains(markup), "{path} has {markup}");
        }
        shown += usize::from(page.contains("onerror=alert(1)"));
    }
    assert!(shown >= 6, "the control: most pages show the text; {shown}");
}

#[test]
fn masking_holds_on_every_page_and_in_json() {
    let mask = Options {
        mask: true,
        ..Options::default()
    };
    let served = Served::new(mask);
    let control = Served::without(mask, Some(Rule::Mask));
    let paths = |served: &Served| {
        let session = served.session();
        let inventory = served.app().service.inventory();
        let log = std::fs::read_to_string(inventory.sessions[0].main_path()).unwrap();
        let line = log.lines().position(|line| line.contains(SECRET)).unwrap() + 1;
        [
            "/".to_owned(),
            "/sessions".to_owned(),
            "/search?q=upload".to_owned(),
            "/watch".to_owned(),
            "/api/v1/sessions".to_owned(),
            "/api/v1/search?q=upload".to_owned(),
            format!("/api/v1{session}"),
            format!("/api/v1{session}/messages"),
            session.clone(),
            format!("{session}/tree"),
            format!("{session}/files"),
            format!("{session}/part"),
            format!("{session}/raw?line={line}"),
        ]
    };
    for (masked, open) in paths(&served).iter().zip(paths(&control)) {
        let part = &SECRET[8..];
        assert!(!served.page(masked).1.contains(part), "{masked}");
        assert!(control.page(&open).1.contains(part), "the control: {open}");
    }
}

#[test]
fn streams_are_limited_and_freed() {
    let served = Served::new(Options::default());
    let runtime = runtime();
    let open = |served: &Served| {
        let request = empty(served.get("/events"));
        runtime.block_on(served.site.answer(request))
    };
    let mut streams: Vec<_> = (0..8).map(|_| open(&served)).collect();
    assert!(
        streams
            .iter()
            .all(|stream| stream.status() == StatusCode::OK)
    );
    assert_eq!(open(&served).status(), StatusCode::SERVICE_UNAVAILABLE);
    streams.pop();
    assert_eq!(open(&served).status(), StatusCode::OK);
    let control = Served::without(Options::default(), Some(Rule::Limits));
    let streams: Vec<_> = (0..9).map(|_| open(&control)).collect();
    assert!(
        streams
            .iter()
            .all(|stream| stream.status() == StatusCode::OK)
    );
}

#[test]
fn long_forms_are_refused() {
    let served = Served::new(WRITE);
    let post = |length: usize| {
        let token = served.app().access.form_token();
        let body = format!("token={token}&text={}", "a".repeat(length));
        let request = served.post(&format!("{}/note", served.session()));
        served
            .answer(request.body(Body::from(body)).unwrap())
            .status()
    };
    assert_eq!(post(70_000), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(post(60_000), StatusCode::SEE_OTHER);
}

#[test]
fn a_panic_is_an_error_page_and_others_go_on() {
    let served = Served::new(Options::default());
    let app = std::sync::Arc::clone(served.app());
    let asked = runtime().block_on(crate::app::blocking(&app, |_, _| -> Result<(), _> {
        panic!("a test")
    }));
    assert_eq!(asked.unwrap_err().status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(served.page("/").0, StatusCode::OK);
}

#[test]
fn nothing_is_written_without_write() {
    fn tree(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>, std::time::SystemTime)> {
        let mut found = Vec::new();
        let mut waiting = vec![dir.to_owned()];
        while let Some(dir) = waiting.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => waiting.push(path),
                    false => {
                        let changed = path.metadata().unwrap().modified().unwrap();
                        found.push((path.clone(), std::fs::read(&path).unwrap(), changed));
                    }
                }
            }
        }
        found.sort();
        found
    }
    let served = Served::new(Options::default());
    let root = served.dir.path().join("root");
    let before = tree(&root);
    let session = served.session();
    for path in super::pages::all_paths(&session) {
        served.page(&path);
    }
    for action in ["title", "tag", "note", "pin", "todo", "fork", "trash"] {
        let token = served.app().access.form_token();
        let body = format!("token={token}&title=x&tag=x&text=x");
        let request = served.post(&format!("{session}/{action}"));
        let status = served
            .answer(request.body(Body::from(body)).unwrap())
            .status();
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
    assert_eq!(tree(&root), before);
    // The control: a writer changes the tree.
    let writer = super::store(served.dir.path()).begin("/x").unwrap();
    writer.append(Draft::user("x")).unwrap();
    assert_ne!(tree(&root), before);
}
