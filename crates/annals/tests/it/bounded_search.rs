//! Searches that end when enough hits are found, and give hits as they are found.

use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use annals::search::Order;
use annals::service::{Found, SearchRequest, Service};
use annals::store::{Root, Store};

use crate::support::cases;

const QUERIES: &[&str] = &[
    "question",
    "e*",
    "-the",
    "role:user",
    "the OR t*",
    "tool:Bash",
    "project:app e*",
];

fn names(found: &Found) -> Vec<(String, u64)> {
    let hits = found.hits.iter();
    hits.map(|row| (row.hit.file.display().to_string(), row.hit.offset))
        .collect()
}

fn request(query: &str, first: Option<usize>) -> SearchRequest {
    let mut request = SearchRequest::new(query);
    request.first = first;
    request.limit = usize::MAX;
    request
}

/// A bound changes how many hits are found, and an index only how fast.
#[test]
fn bounded_answers_are_the_same_with_and_without_an_index() {
    let (mut ended_early, mut complete) = (0, 0);
    for case in cases() {
        let state = tempfile::tempdir().unwrap();
        let plain = Service::new(Store::new(vec![case.root()]));
        let indexed = Service::new(Store::new(vec![case.root()])).with_index(state.path());
        indexed.update_text_index(&|| false);
        let inventory = plain.inventory();
        for query in QUERIES {
            let all = plain.search_in(&inventory, &request(query, None), &|| false);
            let all = all.unwrap();
            for first in [2, 1_000_000] {
                let request = request(query, Some(first));
                let [found, with_index] = [&plain, &indexed].map(|service| {
                    let found = service.search_in(&inventory, &request, &|| false);
                    found.unwrap()
                });
                let context = format!("{} {query} {first}", case.name);
                let counts = |found: &Found| (found.total, found.sessions, found.at_least);
                assert_eq!(names(&found), names(&with_index), "{context}");
                assert_eq!(counts(&found), counts(&with_index), "{context}");
                assert_eq!(found.total, all.total.min(first as u64), "{context}");
                assert_eq!(found.at_least, found.total == first as u64, "{context}");
                if found.at_least {
                    ended_early += 1;
                } else {
                    assert_eq!(names(&found), names(&all), "{context}");
                    complete += 1;
                }
            }
        }
    }
    assert!(
        ended_early > 100 && complete > 100,
        "{ended_early} {complete}"
    );
}

fn line(number: usize, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{number:08x}-0000-4000-8000-000000000000","parentUuid":null,"cwd":"/w/app","timestamp":"2026-03-01T10:{:02}:{:02}Z","message":{{"role":"user","content":"{text} {number}"}}}}"#,
        number / 60 % 60,
        number % 60,
    )
}

/// Returns a store with logs of `lines` lines; the last log was written to last.
fn store(logs: usize, lines: usize) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-w-app");
    fs::create_dir_all(&folder).unwrap();
    for log in 0..logs {
        let name = folder.join(format!("{log:08x}-0000-4000-8000-000000000000.jsonl"));
        let numbers = log * lines..(log + 1) * lines;
        let text: Vec<String> = numbers.map(|number| line(number, "common word")).collect();
        fs::write(&name, text.join("\n") + "\n").unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + log as u64);
        fs::File::open(&name).unwrap().set_modified(time).unwrap();
    }
    (
        dir,
        Store::new(vec![Root::claude_code(folder.ancestors().nth(2).unwrap())]),
    )
}

#[test]
fn hits_are_given_as_they_are_found_newest_first() {
    let (_dir, store) = store(6, 20);
    let state = tempfile::tempdir().unwrap();
    let service = Service::new(store).with_index(state.path());
    for is_indexed in [false, true] {
        if is_indexed {
            service.update_text_index(&|| false);
        }
        for query in ["common", "c*", "-absent", "role:user"] {
            let inventory = service.inventory();
            let mut asked = request(query, Some(70));
            asked.order = Some(Order::Newest);
            let mut given = Vec::new();
            let found = service.search_each(&inventory, &asked, &|| false, &mut |hits| {
                given.push(hits.to_vec());
            });
            let found = found.unwrap();
            assert_eq!((found.total, found.at_least), (70, true), "{query}");
            // The newest log is scanned alone, so that its hits are there first.
            assert_eq!(given[0].len(), 20, "{query}");
            assert!(given.len() > 2, "{query}");
            let given: Vec<u64> = given.concat().iter().map(|hit| hit.line).collect();
            let newest: Vec<u64> = (0..70).map(|at| 20 - at % 20).collect();
            assert_eq!(given, newest, "{query}");
            let mut ranked: Vec<u64> = found.hits.iter().map(|row| row.hit.line).collect();
            ranked.truncate(20);
            assert_eq!(ranked, newest[..20], "{query}");
            assert!(found.hits.iter().all(|row| row.id.contains('@')), "{query}");
        }
        // Without a bound all hits are given.
        let mut count = 0;
        let all = request("common", None);
        let found = service.search_each(&service.inventory(), &all, &|| false, &mut |hits| {
            count += hits.len();
        });
        let found = found.unwrap();
        assert_eq!((found.total, found.at_least, count), (120, false, 120));
    }
}

/// A search that is no longer wanted ends within a log.
#[test]
fn a_search_stops_within_a_log() {
    let (_dir, store) = store(1, 5_000);
    let service = Service::new(store);
    for first in [None, Some(1_000_000)] {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) > 10;
        let found = service.search(&request("common", first), &stop).unwrap();
        assert!(found.at_least && found.total > 0, "{}", found.total);
        assert!(found.total < 1_000, "{}", found.total);
    }
    // A search may also be stopped by what it found.
    let (_dir, store) = self::store(8, 10);
    let service = Service::new(store);
    let (count, enough) = (Cell::new(0), std::sync::atomic::AtomicBool::new(false));
    let all = request("common", None);
    let found = service.search_each(
        &service.inventory(),
        &all,
        &|| enough.load(Ordering::Relaxed),
        &mut |hits| {
            count.set(count.get() + hits.len());
            enough.store(true, Ordering::Relaxed);
        },
    );
    let found = found.unwrap();
    assert_eq!((found.total, found.at_least, count.get()), (10, true, 10));
}
