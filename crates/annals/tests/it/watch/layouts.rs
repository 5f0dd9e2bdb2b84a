//! Following in every layout, and special cases of some.

use std::collections::BTreeMap;

use annals::model::{Draft, Framing, SessionId, Span};

use super::*;
use crate::support;

#[test]
fn appended_entry_is_reported_in_every_layout() {
    let layouts = annals::layout::LAYOUTS.iter();
    for layout in layouts.filter(|layout| layout.writer().is_some()) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout.name(), dir.path().join("root")).unwrap();
        let store = Store::new(vec![root]);
        let session = store.begin("/home/me/app").unwrap();
        session.append(Draft::user("before")).unwrap();
        let mut options = FollowOptions::default().last(1);
        if ["codex", "gemini"].contains(&layout.name()) {
            // Further lines show a prompt again, or when the log was changed.
            options = options.filter(|entry| matches!(entry.body, Body::Message(_)));
        }
        let follower = Follower::new(&store, Selection::all(), options).unwrap();
        let feed = Feed::at_once(follower);
        assert_eq!(feed.texts(1), ["before"], "{}", layout.name());
        let written = session.append(Draft::user("now")).unwrap();
        let fresh = feed.fresh();
        assert_eq!(text(&fresh.entry), "now");
        assert_eq!(fresh.entry.id, written.id);
        assert_eq!(fresh.entry.parent, written.parent, "{}", layout.name());
        assert_eq!(fresh.session, session.session(), "{}", layout.name());
        let other = store.begin("/home/me/other").unwrap();
        other.append(Draft::user("another")).unwrap();
        let fresh = feed.wait_for(|event| match event {
            Event::Entry(fresh) if text(&fresh.entry) == "another" => Some(fresh),
            _ => None,
        });
        assert_eq!(fresh.session, other.session(), "{}", layout.name());
    }
}

/// Returns whether each log of a fixture is written line by line, and its records are derived.
fn is_derived(case: &support::Case) -> bool {
    logs_are(case, Framing::keeps_lines)
}

fn logs_are(case: &support::Case, is: impl Fn(Framing) -> bool) -> bool {
    let sessions = case.sessions();
    let mut logs = sessions.iter().flat_map(|session| session.logs());
    logs.all(|log| is(log.artifact.framing))
}

/// Writes each file line by line.
fn write_lines(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(line).unwrap();
        }
    }
}

/// Every record of every fixture is reported as it is decoded when the file is read at once.
#[test]
fn fixture_written_line_by_line_reports_every_entry() {
    for case in
        support::writable_cases().filter(|case| logs_are(case, |framing| framing == Framing::Lines))
    {
        println!("{}/{}", case.layout.name(), case.name);
        let copy = case.copy();
        let store = copy.store();
        let inventory = store.inventory();
        let mut wanted: Vec<(PathBuf, u64, Option<String>)> = Vec::new();
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for session in &inventory.sessions {
            for log in session.logs() {
                for volume in log.volumes() {
                    let mut alone = volume.clone();
                    alone.earlier.clear();
                    for entry in session.root.entries(&alone).unwrap() {
                        let id = entry.id.map(|id| id.to_string());
                        wanted.push((volume.path.clone(), entry.span.offset, id));
                    }
                    if !files.iter().any(|(path, _)| *path == volume.path) {
                        files.push((volume.path.clone(), fs::read(&volume.path).unwrap()));
                    }
                }
            }
        }
        // An unterminated last line is not reported.
        for (path, bytes) in &files {
            let end = bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            wanted.retain(|(of, offset, _)| of != path || *offset < end as u64);
            File::create(path).unwrap();
        }
        let feed =
            Feed::new(Follower::new(&store, Selection::all(), FollowOptions::default()).unwrap());
        write_lines(&files);
        // A repeated line is reported once.
        let mut reported: Vec<(PathBuf, u64, Option<String>)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        wanted.sort();
        wanted.retain(|(path, offset, id)| {
            let (_, bytes) = files.iter().find(|(of, _)| of == path).unwrap();
            let rest = &bytes[*offset as usize..];
            let line = rest.split(|byte| *byte == b'\n').next();
            id.is_none() || seen.insert((path.clone(), id.clone(), line))
        });
        while reported.len() < wanted.len() {
            let fresh = feed.fresh();
            let id = fresh.entry.id.as_ref().map(|id| id.to_string());
            reported.push((fresh.log.path.clone(), fresh.entry.span.offset, id));
        }
        reported.sort();
        assert_eq!(reported, wanted, "{}/{}", case.layout.name(), case.name);
    }
}

/// The records of a rollout are derived from the whole file, so a later line may change an earlier
/// entry, and the offsets of entries. Their last reported states are those of the whole file.
#[test]
fn rollout_written_line_by_line_reports_the_last_state_of_every_entry() {
    type States = BTreeMap<(PathBuf, String), String>;
    fn put(states: &mut States, path: &Path, mut entry: Entry) {
        let id = entry.id.as_ref().map(|id| id.to_string());
        // Entries without an id that are the same are reported once.
        let unnamed = || format!("{} {:?}", entry.body.kind(), entry.time);
        let name = id.unwrap_or_else(unnamed);
        entry.span = Span::default();
        states.insert((path.to_owned(), name), format!("{entry:?}"));
    }
    let mut entries = 0;
    for case in support::writable_cases().filter(is_derived) {
        println!("{}/{}", case.layout.name(), case.name);
        let copy = case.copy();
        let store = copy.store();
        let mut wanted = States::new();
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for session in &store.inventory().sessions {
            for volume in session.logs().flat_map(|log| log.volumes()) {
                // An unterminated last line is not reported.
                let mut bytes = fs::read(&volume.path).unwrap();
                let end = bytes.iter().rposition(|byte| *byte == b'\n');
                bytes.truncate(end.map_or(0, |at| at + 1));
                fs::write(&volume.path, &bytes).unwrap();
                let mut alone = volume.clone();
                alone.earlier.clear();
                for entry in session.root.entries(&alone).unwrap() {
                    put(&mut wanted, &volume.path, entry);
                }
                if !files.iter().any(|(path, _)| *path == volume.path) {
                    files.push((volume.path.clone(), bytes));
                }
            }
        }
        for (path, _) in &files {
            File::create(path).unwrap();
        }
        let feed =
            Feed::new(Follower::new(&store, Selection::all(), FollowOptions::default()).unwrap());
        write_lines(&files);
        let mut reported = States::new();
        // Gemini writes a result with its call, and then as a message, which replaces it.
        let has_replaced = case.layout.name() == "gemini";
        // The tokens of a response stand alone until Qwen Code and Copilot write its text.
        let is_count = |entry: &str| entry.contains("id: None") && entry.contains("blocks: []");
        let is_complete = |reported: &States| {
            let is_wanted = |key, entry: &String| wanted.get(key) == Some(entry);
            wanted
                .iter()
                .all(|(key, entry)| reported.get(key) == Some(entry))
                && reported
                    .iter()
                    .all(|(key, entry)| has_replaced || is_wanted(key, entry) || is_count(entry))
        };
        while !is_complete(&reported) {
            let fresh = feed.wait_for(|event| match event {
                Event::Entry(fresh) => Some(fresh),
                Event::Error(error) => panic!("{}: {error}", case.name),
                _ => None,
            });
            put(&mut reported, &fresh.log.path, fresh.entry);
        }
        entries += wanted.len();
    }
    assert!(entries > 100, "{entries}");
}

const FOLDER: &str = "v_FXjHoCS5zUJmfyn-5v";

fn orchestrated(kind: &str, text: &str, time: &str, session: Option<&str>) -> String {
    let metadata = session.map_or(String::new(), |id| {
        format!(r#","metadata":{{"sessionId":"{id}"}}"#)
    });
    format!("{{\"type\":\"{kind}\",\"content\":\"{text}\",\"timestamp\":\"{time}\"{metadata}}}\n")
}

#[test]
fn orchestrator_session_continues_in_the_log_of_the_next_day() {
    for way in ways() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("projects").join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let monday = folder.join("2026-11-16.jsonl");
        let tuesday = folder.join("2026-11-17.jsonl");
        append(
            &monday,
            &orchestrated("user", "early", "2026-11-16T08:00:00Z", None),
        );
        append(
            &monday,
            &orchestrated("user", "hello", "2026-11-16T23:58:00Z", Some("s1")),
        );
        let store = Store::new(vec![Root::new("orchestrator", dir.path()).unwrap()]);
        let feed = Feed::new(Follower::new(&store, Selection::all(), way).unwrap());
        let next = || {
            let fresh = feed.fresh();
            (text(&fresh.entry), fresh.session.to_string())
        };
        // No session is named: the record belongs to the session of the record before it, which was
        // written before following began.
        append(
            &monday,
            &orchestrated("assistant", "hm", "2026-11-16T23:59:00Z", None),
        );
        assert_eq!(next(), ("hm".to_owned(), "s1".to_owned()));
        append(
            &tuesday,
            &orchestrated("assistant", "yes", "2026-11-17T00:01:00Z", None),
        );
        assert_eq!(next(), ("yes".to_owned(), "s1".to_owned()));
        append(
            &tuesday,
            &orchestrated("user", "other", "2026-11-17T00:02:00Z", Some("s2")),
        );
        assert_eq!(next(), ("other".to_owned(), "s2".to_owned()));
        append(
            &tuesday,
            &orchestrated("assistant", "ok", "2026-11-17T00:03:00Z", None),
        );
        assert_eq!(next(), ("ok".to_owned(), "s2".to_owned()));
    }
}

#[test]
fn one_of_several_sessions_in_a_log_is_followed_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects").join(FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let day = folder.join("2026-11-16.jsonl");
    for (n, session) in [(1, "s1"), (2, "s2"), (3, "s1"), (4, "s2")] {
        let time = format!("2026-11-16T08:0{n}:00Z");
        append(
            &day,
            &orchestrated("user", &format!("old {n}"), &time, Some(session)),
        );
    }
    let store = Store::new(vec![Root::new("orchestrator", dir.path()).unwrap()]);
    let target = store.find(&store.inventory(), "s1").unwrap();
    let selection = Selection::all().target(target).unwrap();
    let follower = Follower::new(&store, selection, FollowOptions::default().last(1)).unwrap();
    let feed = Feed::at_once(follower);
    assert_eq!(feed.texts(1), ["old 3"]);
    append(
        &day,
        &orchestrated("assistant", "theirs", "2026-11-16T09:00:00Z", None),
    );
    append(
        &day,
        &orchestrated("user", "ours", "2026-11-16T09:01:00Z", Some("s1")),
    );
    let fresh = feed.fresh();
    assert_eq!(text(&fresh.entry), "ours");
    assert_eq!(fresh.session, SessionId::new("s1").unwrap());
}
