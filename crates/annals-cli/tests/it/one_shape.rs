//! The library's service gives the rows that the program prints, for every fixture.

use std::fs;
use std::path::Path;

use annals::layout::LAYOUTS;
use annals::service::{CostRequest, MessagesRequest, SearchRequest, Service, SessionsRequest};
use annals::store::{Root, Store};
use serde_json::{Value, json};

use crate::harness::Stage;

/// Runs the program and returns its document.
fn printed(stage: &Stage, layout: &str, root: &Path, args: &[&str]) -> Value {
    let root = format!("{layout}:{}", root.display());
    let output = stage
        .command()
        .args(["--root", &root, "--no-index", "--json"])
        .args(args)
        .output()
        .unwrap();
    // Arguments of tools keep their spelling, which may be no valid text.
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn the_service_answers_what_the_program_prints() {
    let stage = Stage::empty();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut compared = 0;
    for layout in LAYOUTS {
        for entry in fs::read_dir(fixtures.join(layout.name())).unwrap() {
            let root = entry.unwrap().path();
            if !root.is_dir() {
                continue;
            }
            let root = match layout.root_is_file() {
                true => fs::read_dir(&root).unwrap().next().unwrap().unwrap().path(),
                false => root,
            };
            // Absolute, as the program makes it.
            let root = std::path::absolute(root).unwrap();
            let name = layout.name();
            let ask = |args: &[&str]| printed(&stage, name, &root, args);
            let store = Store::new(vec![Root::new(name, &root).unwrap()]);
            let service = Service::new(store).with_now("2026-11-15T12:00:00Z".parse().unwrap());
            let same = |what: &str, answer: Value, document: &Value| {
                if !document.is_null() {
                    assert_eq!(&answer, document, "{what} of {}", root.display());
                }
            };
            let listed = service.sessions(&SessionsRequest::default()).unwrap();
            let sessions = ask(&["sessions"]);
            same("sessions", json!(listed.rows), &sessions["sessions"]);
            same("total", json!(listed.total), &sessions["total"]);
            same(
                "projects",
                json!(service.projects()),
                &ask(&["projects"])["projects"],
            );
            let found = service
                .search(&SearchRequest::new("question"), &|| false)
                .unwrap();
            let search = ask(&["search", "question"]);
            same("hits", json!(found.hits), &search["hits"]);
            same("hits in all", json!(found.total), &search["total"]);
            let cost = service.cost(&CostRequest::default()).unwrap();
            same("cost", json!(cost), &ask(&["cost"]));
            let Some(first) = listed.rows.first() else {
                continue;
            };
            let id = first.info.file.display().to_string();
            let Ok(open) = service.open(&id) else {
                continue;
            };
            let messages = open.messages(&MessagesRequest::default()).unwrap();
            let show = ask(&["show", &id]);
            // Texts that are not valid text have no value.
            let entries = serde_json::to_value(&messages.entries).unwrap_or_default();
            same("messages", entries, &show["entries"]);
            same("flaws", json!(open.flaws()), &show["flaws"]);
            compared += 1;
        }
    }
    assert!(compared > 90, "{compared}");
}
