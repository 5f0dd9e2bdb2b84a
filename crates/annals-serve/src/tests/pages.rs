//! Pages of fixtures, and what happens when something is missing.

use std::path::Path;

use annals::model::Draft;
use annals::store::{Root, Store};
use axum::body::Body;
use axum::http::StatusCode;

use super::{Served, said, store};
use crate::app::Options;

/// Addresses of all pages.
pub(super) fn all_paths(session: &str) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/",
        "/projects",
        "/sessions",
        "/sessions?sort=cost&since=7d&state=active",
        "/search",
        "/search?q=the",
        "/cost",
        "/cost?by=session",
        "/cost?by=model&format=csv",
        "/watch",
        "/check",
        "/archive",
        "/trash",
        "/api/v1/",
        "/api/v1/sessions",
        "/api/v1/projects",
        "/api/v1/search?q=the",
        "/api/v1/cost?by=model",
        "/api/v1/check",
        "/api/v1/archive",
        "/api/v1/trash",
    ]
    .map(str::to_owned)
    .into();
    let of_session = [
        "",
        "?from=0",
        "?to=1",
        "/part",
        "/tree",
        "/files",
        "/raw?line=1",
    ];
    paths.extend(of_session.map(|it| format!("{session}{it}")));
    paths.push(format!("/api/v1{session}"));
    paths.push(format!("/api/v1{session}/messages?limit=2"));
    let place = session.trim_start_matches("/s/");
    paths.push(format!("/watch?session={place}"));
    paths.push("/watch?project=/home/me/app".to_owned());
    paths
}

fn fixture(name: &str) -> Served {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude-code")
        .join(name);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(root)]).with_state(dir.path().join("state"));
    Served::over(store, dir, Options::default(), None)
}

#[test]
fn every_page_answers() {
    let served = Served::new(Options::default());
    for path in all_paths(&served.session()) {
        let (status, text) = served.page(&path);
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert!(
            !text.contains("style=\""),
            "{path} has a style that the policy forbids"
        );
        assert!(!text.contains(" onclick"), "{path}");
    }
}

/// Pages and JSON name what could not be read; without the failure, they do not.
#[test]
fn pages_and_json_name_what_could_not_be_read() {
    let served = Served::new(Options::default());
    let path = [
        "/",
        "/sessions",
        "/projects",
        "/search?q=closes",
        "/cost",
        "/check",
    ];
    let json = ["sessions", "projects", "search?q=closes", "cost", "check"];
    let json = json.map(|name| format!("/api/v1/{name}"));
    let all = || path.into_iter().chain(json.iter().map(String::as_str));
    for path in all() {
        let text = served.page(path).1;
        assert!(
            !text.contains("Not read") && !text.contains("\"problems\""),
            "{path}"
        );
    }
    let inventory = served.app().service.inventory();
    let project = inventory.sessions[0].main_path().parent().unwrap();
    let link = project.join("5a5a5a5a-0000-4000-8000-000000000009.jsonl");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    for path in all().chain(all()) {
        let text = served.page(path).1;
        let named = match path.starts_with("/api") {
            true => text.split("\"problems\"").nth(1).unwrap_or_default(),
            false => text.split("Not read").nth(1).unwrap_or_default(),
        };
        assert!(named.contains("000000000009.jsonl"), "{path}: {text}");
    }
}

#[test]
fn a_home_without_history_says_where_it_looked() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::over(store(dir.path()), dir, Options::default(), None);
    let (status, page) = served.page("/");
    assert_eq!(status, StatusCode::OK);
    assert!(
        page.contains("No sessions yet. annals reads these places:"),
        "{page}"
    );
    for path in [
        "/sessions",
        "/projects",
        "/cost",
        "/search?q=x",
        "/watch",
        "/check",
        "/trash",
    ] {
        assert_eq!(served.page(path).0, StatusCode::OK, "{path}");
    }
}

#[test]
fn branches_have_numbers_and_links() {
    let served = fixture("branch-three-way");
    let session = served.session();
    let (_, page) = served.page(&session);
    assert!(page.contains(" of 3</span>"), "{page}");
    // Every branch has a page, on which it is another one of them.
    let places: Vec<&str> = page
        .match_indices("branch ")
        .map(|(at, _)| &page[at..at + 13])
        .collect();
    assert!(
        places.contains(&"branch 3 of 3") || places.contains(&"branch 2 of 3"),
        "{places:?}"
    );
    let (_, tree) = served.page(&format!("{session}/tree"));
    assert!(tree.matches("<circle").count() >= 3, "{tree}");
}

#[test]
fn conversation_page_is_as_before() {
    for name in [
        "branch-three-way",
        "file-history",
        "subagents-every-placement",
    ] {
        let served = fixture(name);
        let (status, page) = served.page(&served.session());
        assert_eq!(status, StatusCode::OK);
        let start = page.find("<div id=\"messages\"").unwrap();
        let end = page[start..].find("<p id=\"news\"").unwrap();
        insta::assert_snapshot!(name, &page[start..start + end]);
    }
}

#[test]
fn windows_join_without_gap_or_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let writer = store.begin("/home/me/app").unwrap();
    for number in 0..130 {
        writer
            .append(Draft::user(format!("prompt {number}.")))
            .unwrap();
        writer.append(said(&format!("answer {number}."))).unwrap();
    }
    drop(writer);
    let served = Served::over(store, dir, Options::default(), None);
    let session = served.session();
    let mut texts = Vec::new();
    let mut from = 0;
    loop {
        let (_, part) = served.page(&format!("{session}/part?from={from}"));
        let number = |name: &str| -> usize {
            let start = part.find(name).unwrap() + name.len();
            part[start..].split('"').next().unwrap().parse().unwrap()
        };
        assert_eq!(number("data-start=\""), from);
        texts.push(part.clone());
        from = number("data-end=\"");
        if from == number("data-total=\"") {
            break;
        }
    }
    let all = texts.concat();
    for number in 0..130 {
        assert_eq!(
            all.matches(&format!("prompt {number}.")).count(),
            1,
            "{number}"
        );
        assert_eq!(
            all.matches(&format!("answer {number}.")).count(),
            1,
            "{number}"
        );
    }
    assert_eq!(texts.len(), 6);
    // The page shows the end, and an address of a message shows what is around it.
    let (_, end) = served.page(&session);
    assert!(end.contains("answer 129.") && !end.contains("answer 100."));
    assert!(end.len() < 200_000, "{}", end.len());
}

#[test]
fn a_session_that_is_deleted_while_it_is_read_is_reported() {
    let served = Served::new(Options::default());
    let session = served.session();
    assert_eq!(served.page(&session).0, StatusCode::OK);
    let log = served.app().service.inventory().sessions[0]
        .main_path()
        .to_owned();
    std::fs::remove_file(log).unwrap();
    let (status, page) = served.page(&session);
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(page.contains("look in the trash and the archive"), "{page}");
    assert_eq!(served.page("/sessions").0, StatusCode::OK);
    std::fs::remove_dir_all(served.dir.path().join("root")).unwrap();
    for path in ["/", "/sessions", "/search?q=x", "/cost"] {
        assert_eq!(served.page(path).0, StatusCode::OK, "{path}");
    }
}

#[test]
fn a_wrong_query_shows_its_column() {
    let served = Served::new(Options::default());
    let (status, page) = served.page("/search?q=socket%20role%3Anobody");
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("The query is wrong at column "), "{page}");
    let (status, json) = served.page("/api/v1/search?q=socket%20role%3Anobody");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(json.contains("\"error\""), "{json}");
}

#[test]
fn nonsense_in_addresses_is_answered_with_what_to_do() {
    let served = Served::new(Options::default());
    let session = served.session();
    for path in [
        "/sessions?offset=x".to_owned(),
        "/sessions?since=yesterdayish".to_owned(),
        "/cost?by=colour".to_owned(),
        "/events?session=x".to_owned(),
        "/%ff%fe".to_owned(),
        format!("{session}?at=nothing"),
        format!("{session}?agent=nobody"),
        format!("{session}?from=99999999999999999999"),
        format!("{session}/raw"),
        format!("{session}/raw?line=99"),
        format!("{session}/files/99"),
    ] {
        let (status, page) = served.page(&path);
        assert!(status.is_client_error(), "{path} {status} {page}");
    }
    // Numbers beyond the end are the end.
    for path in [
        format!("{session}?from=99999"),
        format!("{session}?to=0"),
        "/sessions?offset=99999".to_owned(),
    ] {
        assert_eq!(served.page(&path).0, StatusCode::OK, "{path}");
    }
}

#[test]
fn forms_write_and_the_pages_show_it() {
    let served = Served::new(Options {
        write: true,
        ..Options::default()
    });
    let session = served.session();
    let send = |action: &str, fields: &str| {
        let token = served.app().access.form_token();
        let request = served.post(&format!("{session}/{action}"));
        let request = request.body(Body::from(format!("token={token}&{fields}")));
        served.answer(request.unwrap())
    };
    for (action, fields, shown) in [
        ("title", "title=A+new+title", "A new title"),
        ("tag", "tag=green", "green"),
        ("note", "text=Ask+again", "Ask again"),
        ("todo", "text=Write+a+test", "Write a test"),
        ("pin", "", ">pinned<"),
    ] {
        let answer = send(action, fields);
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{action}");
        let (_, page) = served.page(&session);
        assert!(page.contains(shown), "{action}");
    }
    let forked = send("fork", "at=");
    assert_eq!(forked.status(), StatusCode::SEE_OTHER);
    let fork = forked.headers()["location"].to_str().unwrap().to_owned();
    assert_ne!(fork, session);
    assert!(served.page(&fork).1.contains("It closes the"));
    assert_eq!(send("trash", "").status(), StatusCode::SEE_OTHER);
    assert_eq!(served.page(&session).0, StatusCode::NOT_FOUND);
    let (_, trash) = served.page("/trash");
    assert!(trash.contains("<b>A new title</b>"), "{trash}");
    let (_, rows) = served.page("/api/v1/trash");
    assert!(rows.contains("\"title\":\"A new title\""), "{rows}");
    let id = trash
        .split("name=\"id\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let token = served.app().access.form_token();
    let back = served
        .post("/trash")
        .body(Body::from(format!("token={token}&id={id}")));
    assert_eq!(served.answer(back.unwrap()).status(), StatusCode::SEE_OTHER);
    assert_eq!(served.page(&session).0, StatusCode::OK);
}

#[test]
fn a_message_leads_to_the_form_that_forks_there() {
    let read = Served::new(Options::default());
    let (_, page) = read.page(&read.session());
    assert!(!page.contains("Fork here"), "{page}");
    let served = Served::new(Options {
        write: true,
        ..Options::default()
    });
    let session = served.session();
    let (_, page) = served.page(&session);
    let link = page.split("<p class=\"act\"><a href=\"").nth(1).unwrap();
    let link = link.split("#fork").next().unwrap().replace("&amp;", "&");
    let message = link.split("fork=").nth(1).unwrap();
    let (_, page) = served.page(&link);
    assert!(page.contains("<details class=\"write\" open>"), "{page}");
    assert!(
        page.contains(&format!("name=\"at\" value=\"{message}\"")),
        "{page}"
    );
}

#[test]
fn what_agents_do_is_shown_with_titles_and_without_internal_records() {
    let served = fixture("branch-three-way");
    let (_, page) = served.page("/watch");
    assert!(page.contains(">question 1</a>"), "{page}");
    assert!(!page.contains("opaque"), "{page}");
    // One session alone.
    let place = served.session().trim_start_matches("/s/").to_owned();
    let (_, page) = served.page(&format!("/watch?session={place}"));
    assert!(page.contains("/events?session="), "{page}");
    let other = served.page("/watch?session=0/nobody");
    assert_eq!(other.0, StatusCode::NOT_FOUND);
}

#[test]
fn a_month_narrows_to_that_month() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for (month, text) in [(1, "one"), (2, "two"), (3, "three")] {
        let now = format!("2026-{month:02}-28T12:00:00Z").parse().unwrap();
        let writer = store.begin("/home/me/app").unwrap();
        let draft = Draft::user(format!("socket {text}"));
        writer.append(draft.with_time(now)).unwrap();
    }
    let served = Served::over(store, dir, Options::default(), None);
    let (_, page) = served.page("/search?q=socket");
    let link = page
        .split("href=\"")
        .find(|link| link.contains("2026-02-01"))
        .unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let (_, page) = served.page(&link);
    assert!(page.contains("1 hit in 1 session"), "{page}");
    assert!(page.contains("two") && !page.contains("three"), "{page}");
}
