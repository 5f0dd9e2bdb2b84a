//! Days and sessions: shared files, midnight, the lifecycle of a session.

use std::fs;
use std::path::PathBuf;
use std::thread;

use annals::store::{
    Root, Session, SessionFiles, SessionState, SessionWriter, Store, WriteOptions,
};

use super::*;
use crate::support::{QUICK, case, conversations, picture};

const CWD: &str = "/home/dev/work";

struct Stage {
    dir: tempfile::TempDir,
    zone: &'static str,
}

impl Stage {
    fn in_zone(zone: &'static str) -> Self {
        Stage {
            dir: tempfile::tempdir().unwrap(),
            zone,
        }
    }

    fn root(&self) -> Root {
        Root::new("orchestrator", self.dir.path().join("root")).unwrap()
    }

    fn store(&self) -> Store {
        Store::new(vec![self.root()])
            .with_state(self.dir.path().join("state"))
            .with_zone(TimeZone::get(self.zone).unwrap())
    }

    fn begin(&self, id: &str, now: &str) -> SessionWriter {
        let new = NewSession::new(SessionId::new(id).unwrap(), CWD).git_branch("main");
        self.store().create(&self.root(), &new, at(now)).unwrap()
    }

    fn files(&self, id: &str) -> SessionFiles {
        let sessions = self.store().inventory().sessions;
        let mut found = sessions.into_iter().filter(|files| files.id.as_str() == id);
        found.next().expect(id)
    }

    fn open(&self, id: &str, now: &str) -> SessionWriter {
        self.store().open_writer(&self.files(id), at(now)).unwrap()
    }

    fn read(&self, id: &str) -> Session {
        Session::read(self.files(id)).unwrap()
    }

    fn log(&self, day: &str) -> PathBuf {
        let folder = Orchestrator.folder(CWD).unwrap();
        let path = format!("root/projects/{folder}/{day}.jsonl");
        self.dir.path().join(path)
    }

    /// Returns the days that have logs.
    fn days(&self) -> Vec<String> {
        let folder = self.log("x").parent().unwrap().to_owned();
        let names = fs::read_dir(folder).unwrap();
        let mut days: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()))
            .collect();
        days.sort();
        days
    }
}

fn at(now: &str) -> WriteOptions {
    WriteOptions {
        now: Some(time(now)),
        live: true,
        ..QUICK
    }
}

fn said(session: &Session) -> Vec<String> {
    let mut all = conversations(session);
    assert_eq!(all.len(), 1, "one conversation: {all:?}");
    all.remove(0)
}

/// A session continues in its file on the next day, like the document's `Session`.
#[test]
fn session_continues_in_its_first_log_after_midnight() {
    let stage = Stage::in_zone("UTC");
    let (before, after) = ("2026-12-31T23:59:58Z", "2027-01-01T00:00:01Z");
    let writer = stage.begin("s1", before);
    writer.append(Draft::user("one")).unwrap();
    let two = writer.append(Draft::assistant([text("two")])).unwrap();
    let other = stage.begin("s2", after);
    other.append(Draft::user("other")).unwrap();
    let writer = stage.open("s1", after);
    let three = writer.append(Draft::user("three")).unwrap();
    assert_eq!(three.parent, two.id);
    writer.append(Draft::assistant([text("four")])).unwrap();
    assert_eq!(stage.days(), ["2026-12-31", "2027-01-01"]);
    assert_eq!(writer.path(), stage.log("2026-12-31"));
    let session = stage.read("s1");
    assert_eq!(said(&session), ["one", "two", "three", "four"]);
    assert_eq!(said(&stage.read("s2")), ["other"]);
    assert_eq!(session.flaws().count(), 0);
    assert_eq!(session.info(None).project.path, CWD);
    // A tail read gives the same.
    let tail = Session::read_tail(stage.files("s1"), 3).unwrap();
    let ids = |session: &Session| -> Vec<_> {
        let last = session.last_messages(3).unwrap();
        last.into_iter()
            .map(|entry| (entry.id, entry.parent))
            .collect()
    };
    assert_eq!(ids(&tail), ids(&session));
    writer
        .append(Draft::user("instead").with_parent(two.id.unwrap()))
        .unwrap();
    assert_eq!(
        conversations(&stage.read("s1")),
        [
            vec!["one", "two", "three", "four"],
            vec!["one", "two", "instead"]
        ]
    );
}

/// Only prompts name their session, so the companion file assigns the other records.
#[test]
fn replies_in_a_shared_log_are_assigned_to_their_sessions() {
    let stage = Stage::in_zone("UTC");
    let now = "2026-11-15T12:00:00Z";
    let (one, two) = (stage.begin("s1", now), stage.begin("s2", now));
    one.append(Draft::user("ask 1")).unwrap();
    two.append(Draft::user("ask 2")).unwrap();
    one.append(Draft::assistant([text("answer 1")])).unwrap();
    one.append(Draft::assistant([text("more 1")])).unwrap();
    two.append(Draft::assistant([text("answer 2")])).unwrap();
    assert_eq!(said(&stage.read("s1")), ["ask 1", "answer 1", "more 1"]);
    assert_eq!(said(&stage.read("s2")), ["ask 2", "answer 2"]);
    // The log's own program rewrites it without blank lines, so all offsets change.
    let log = stage.log("2026-11-15");
    let lines = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = lines
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    assert_eq!(said(&stage.read("s1")), ["ask 1", "answer 1", "more 1"]);
    assert_eq!(said(&stage.read("s2")), ["ask 2", "answer 2"]);
}

/// Data without a native form is written to the companion file and read back.
#[test]
fn entries_without_native_form_are_read_from_the_companion() {
    let stage = Stage::in_zone("UTC");
    let new = NewSession::unnamed(CWD).unwrap();
    let now = "2026-11-15T12:00:00Z";
    let writer = stage.store().create(&stage.root(), &new, at(now)).unwrap();
    let own = format!("2026-11-15-{}", Orchestrator.folder(CWD).unwrap());
    assert_eq!(writer.session().as_str(), own);
    assert_eq!(fs::read(stage.log("2026-11-15")).unwrap(), b"");
    let system = Message::new(Role::System, vec![text("be brief")]);
    writer.append(Draft::new(Body::Message(system))).unwrap();
    let named = Draft::user("hello").with_id(EntryId::new("msg_01"));
    assert_eq!(writer.append(named).unwrap().id, id("msg_01"));
    let thought = Block::Thinking {
        text: "hm".to_owned(),
        signature: None,
    };
    writer
        .append(Draft::assistant([thought, text("hi")]))
        .unwrap();
    let session = stage.read(&own);
    assert_eq!(said(&session), ["be brief", "hello", "[thinking]"]);
    assert!(session.find_entry("msg_01").is_ok());
    assert_eq!(session.info(None).project.path, CWD);
    assert_eq!(session.flaws().count(), 0);
    let log = fs::read_to_string(stage.log("2026-11-15")).unwrap();
    for hidden in ["annals", "msg_01", "brief", "thinking", "sessionId"] {
        assert!(!log.contains(hidden), "{hidden} in {log}");
    }
    // The companion file is deleted and restored with the log.
    let before = picture(&stage.dir.path().join("root"));
    let store = stage.store();
    store
        .trash()
        .move_in(&stage.files(&own), time(now))
        .unwrap();
    assert!(!stage.log("2026-11-15").with_extension("annals").exists());
    store.trash().restore(&own).unwrap();
    let mut after = picture(&stage.dir.path().join("root"));
    after.extend(
        before
            .clone()
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|ending| ending == "lock")),
    );
    assert_eq!(after, before);
}

#[test]
fn sessions_of_one_file_are_written_concurrently() {
    const EACH: usize = 20;
    let stage = Stage::in_zone("UTC");
    let now = "2026-11-15T12:00:00Z";
    let writers: Vec<SessionWriter> = (0..3).map(|n| stage.begin(&format!("s{n}"), now)).collect();
    thread::scope(|scope| {
        for writer in &writers {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let name = writer.session().to_string();
                        writer.append(Draft::user(name)).unwrap();
                    }
                });
            }
        }
    });
    assert_eq!(stage.days(), ["2026-11-15"]);
    for writer in &writers {
        let id = writer.session().to_string();
        let session = stage.read(&id);
        assert_eq!(said(&session), vec![id.clone(); 2 * EACH]);
        assert_eq!(session.flaws().count(), 0);
        assert_eq!(writer.totals().unwrap().messages, 2 * EACH as u64);
    }
    // The id is taken, although the file could be created.
    let new = NewSession::new(SessionId::new("s1").unwrap(), CWD);
    assert!(stage.store().create(&stage.root(), &new, at(now)).is_err());
}

#[test]
fn session_state_follows_its_life() {
    let stage = Stage::in_zone("UTC");
    let now = "2026-11-15T12:00:00Z";
    let state = |id: &str, days: i64| {
        let info = stage.read(id).info(None);
        let modified = info.expires.unwrap() - jiff::SignedDuration::from_hours(30 * 24);
        info.state_at(modified + jiff::SignedDuration::from_hours(24 * days))
    };
    // An empty file is a session that was not used yet.
    let day = stage.log("2026-11-14");
    fs::create_dir_all(day.parent().unwrap()).unwrap();
    fs::write(&day, "").unwrap();
    let own = format!("2026-11-14-{}", Orchestrator.folder(CWD).unwrap());
    assert_eq!(state(&own, 1), SessionState::Created);
    let writer = stage.begin("s1", now);
    assert_eq!(writer.state(), SessionState::Created);
    assert_eq!(state("s1", 1), SessionState::Created);
    // The document's check uses only the age.
    assert_eq!(state("s1", 31), SessionState::Expired);
    writer.append(Draft::user("one")).unwrap();
    assert_eq!(writer.state(), SessionState::Active);
    writer.append(Draft::user("two")).unwrap();
    assert_eq!(state("s1", 1), SessionState::Active);
    assert_eq!(state("s1", 31), SessionState::Expired);
    // A reopened session is resumed until the next message.
    let writer = stage.open("s1", now);
    assert_eq!(writer.state(), SessionState::Resumed);
    writer.append(Draft::user("three")).unwrap();
    assert_eq!(writer.state(), SessionState::Active);
    assert_eq!(state("s1", 1), SessionState::Active);
    assert_eq!(state("s1", 31), SessionState::Expired);
    let store = stage.store();
    store
        .trash()
        .move_in(&stage.files("s1"), time(now))
        .unwrap();
    let deleted = store.trash().sessions().unwrap();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].state_at(time(now)), SessionState::Deleted);
    assert_eq!(deleted[0].messages, 3);
    assert_eq!(deleted[0].file, stage.log("2026-11-15"));
    store.trash().restore("s1").unwrap();
    assert_eq!(state("s1", 1), SessionState::Active);
}

#[test]
fn ten_thousand_records_of_one_day_are_read() {
    let stage = Stage::in_zone("UTC");
    let day = stage.log("2026-11-15");
    fs::create_dir_all(day.parent().unwrap()).unwrap();
    let noon = time("2026-11-15T12:00:00Z");
    let mut log = String::new();
    for n in 0..10_000_u64 {
        let when = noon + jiff::SignedDuration::from_millis(n as i64);
        // In the design only prompts name their session.
        log += &match n % 4 {
            0 => format!(
                r#"{{"type":"user","content":"ask {n}","timestamp":"{when}","metadata":{{"sessionId":"s{}"}}}}"#,
                n / 4 % 5
            ),
            1 => format!(
                r#"{{"type":"tool_call","tool":"Bash","arguments":{{"n":{n}}},"timestamp":"{when}"}}"#
            ),
            2 => format!(
                r#"{{"type":"tool_result","tool":"Bash","result":"{n}","timestamp":"{when}"}}"#
            ),
            _ => format!(
                r#"{{"type":"assistant","content":"answer {n}","timestamp":"{when}","usage":{{"inputTokens":{n},"outputTokens":1}},"model":"m"}}"#
            ),
        };
        log.push('\n');
    }
    fs::write(&day, &log).unwrap();
    let sessions = stage.store().inventory().sessions;
    assert_eq!(sessions.len(), 5);
    let mut input = 0;
    for files in sessions {
        let writer = stage
            .store()
            .open_writer(&files, at("2026-11-15T18:00:00Z"))
            .unwrap();
        let totals = writer.totals().unwrap();
        assert_eq!((totals.messages, totals.responses), (2_000, 500));
        input += totals.usage.input;
        let session = Session::read(files).unwrap();
        assert_eq!(session.stats(&TimeZone::UTC).total, totals);
        assert_eq!(session.flaws().count(), 0);
        assert_eq!(said(&session).len(), 2_000);
        let last = session.last_messages(1).unwrap().remove(0);
        let next = writer.append(Draft::user("more")).unwrap();
        assert_eq!(next.parent, last.id);
        assert_eq!(writer.totals().unwrap().messages, 2_001);
    }
    let wanted: u64 = (0..10_000).filter(|n| n % 4 == 3).sum();
    assert_eq!(input, wanted);
    assert!(fs::read_to_string(&day).unwrap().starts_with(&log));
}

/// Both programs may store their sessions in one directory.
#[test]
fn a_root_may_be_shared_with_another_layout() {
    let orchestrator = crate::support::cases()
        .into_iter()
        .find(|case| case.name == "unknown-files" && case.layout.name() == "orchestrator")
        .unwrap();
    let roots = Root::parse(orchestrator.path.to_str().unwrap()).unwrap();
    let names: Vec<&str> = roots.iter().map(|root| root.layout.name()).collect();
    assert_eq!(names, ["claude-code", "orchestrator"]);
    let sessions = Store::new(roots).inventory().sessions;
    let mut found: Vec<(&str, &str)> = sessions
        .iter()
        .map(|files| (files.root.layout.name(), files.id.as_str()))
        .collect();
    found.sort_unstable();
    let folder = Orchestrator.folder(CWD).unwrap();
    let own = format!("2026-03-01-{folder}");
    let uuid = "8c549c46-16ca-47dd-b731-f4c264becc53";
    assert_eq!(
        found,
        [
            // A folder named after a path holds sessions of any name.
            ("claude-code", "2026-03-01"),
            ("claude-code", uuid),
            ("claude-code", uuid),
            ("orchestrator", own.as_str())
        ]
    );
}

/// A result names its tool, which is in the record of the call, possibly from the day before.
#[test]
fn tool_result_names_the_called_tool() {
    let stage = Stage::in_zone("UTC");
    let writer = stage.begin("s1", "2026-11-15T12:00:00Z");
    let calls = [
        called("a", "Bash", "{}"),
        called("b", "Read", "{}"),
        called("c", "Grep", "{}"),
    ];
    writer.append(Draft::assistant(calls)).unwrap();
    writer.append(Draft::tool_result("b", "1")).unwrap();
    let later = stage.open("s1", "2026-11-15T12:00:01Z");
    later.append(Draft::tool_result("a", "2")).unwrap();
    let next_day = stage.open("s1", "2026-11-16T12:00:01Z");
    next_day.append(Draft::tool_result("c", "3")).unwrap();
    next_day.append(Draft::tool_result("x", "4")).unwrap();
    // A second result of an answered call, and one of a call that is not in the tail of the log.
    next_day.append(Draft::tool_result("b", "5")).unwrap();
    let long = "x".repeat(64 << 10);
    for _ in 0..32 {
        next_day.append(Draft::user(long.clone())).unwrap();
    }
    let reopened = stage.open("s1", "2026-11-16T12:00:02Z");
    reopened.append(Draft::tool_result("a", "6")).unwrap();
    let refused = reopened.check_tools(&[Draft::tool_result("x", "7")]);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("`x`") && refused.contains("\"name\""),
        "{refused}"
    );
    let mut tools = Vec::new();
    for day in stage.days() {
        let log = fs::read_to_string(stage.log(&day)).unwrap();
        for line in log.lines().filter(|line| !line.trim().is_empty()) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            if line["type"] == "tool_result" {
                tools.push(format!("{} {}", line["toolCallId"], line["tool"]));
            }
        }
    }
    let wanted = [
        r#""b" "Read""#,
        r#""a" "Bash""#,
        r#""c" "Grep""#,
        r#""x" "unknown""#,
        r#""b" "Read""#,
        r#""a" "Bash""#,
    ];
    assert_eq!(tools, wanted);
}

/// In some layouts the lines of one response repeat its tokens; a program of this layout sums them.
#[test]
fn converted_session_preserves_total_usage() {
    use annals::convert::{self, ConvertOptions, ConvertSelection};
    let mut reported = 0;
    for case in crate::support::cases() {
        if case.layout.name() != "claude-code" {
            continue;
        }
        let sessions = case.sessions().into_iter();
        let used: u64 = sessions
            .map(|files| Session::read(files).unwrap().info(None).usage)
            .map(|usage| usage.total())
            .sum();
        let stage = Stage::in_zone("UTC");
        let plan = convert::plan(ConvertSelection::Root(case.root()), stage.root(), None).unwrap();
        let mut options = ConvertOptions::default();
        options.origin = false;
        convert::run(&plan, &options, &|_, _| ()).unwrap();
        let mut added = 0;
        let mut days: Vec<PathBuf> = stage
            .store()
            .inventory()
            .sessions
            .iter()
            .flat_map(|files| files.logs().flat_map(|log| log.volumes()))
            .map(|volume| volume.path.clone())
            .collect();
        days.sort();
        days.dedup();
        for day in days {
            let log = fs::read_to_string(day).unwrap();
            for line in log.lines().filter(|line| !line.trim().is_empty()) {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                for name in [
                    "input_tokens",
                    "output_tokens",
                    "cache_creation_tokens",
                    "cache_read_tokens",
                ] {
                    added += line["usage"][name].as_u64().unwrap_or_default();
                }
            }
        }
        // The tokens of a reply without a model have no price, so they are in the companion file.
        let unpriced = if case.name == "usage-unknown-model" {
            15
        } else {
            0
        };
        assert_eq!(added + unpriced, used, "{}", case.name);
        reported += used;
    }
    assert!(reported > 10_000, "{reported}");
}

/// The document's program deletes by file time.
#[test]
fn session_expires_by_file_time() {
    let copy = case("one-day").copy();
    let files = &copy.sessions()[0];
    let info = copy.again(files).info(None);
    let touched = fs::metadata(files.main_path()).unwrap().modified().unwrap();
    let touched = Timestamp::try_from(touched).unwrap();
    let days = jiff::SignedDuration::from_hours(30 * 24);
    assert_eq!(info.expires, Some(touched + days));
    assert_eq!(info.state_at(touched + days), SessionState::Active);
    let later = touched + days + jiff::SignedDuration::from_secs(1);
    assert_eq!(info.state_at(later), SessionState::Expired);
}

#[test]
fn ambiguous_message_prefix_is_an_error() {
    let copy = case("one-day").copy();
    let session = copy.again(&copy.sessions()[0]);
    let (_, scan, _) = session.main_log().unwrap();
    let ids: Vec<EntryId> = scan.outlines.iter().filter_map(Outline::id).collect();
    let alike = ids.iter().filter(|id| id.as_str().starts_with("20260301"));
    assert!(alike.count() > 1, "{ids:?}");
    match session.find_entry("20260301") {
        Err(annals::Error::Ambiguous { candidates, .. }) => assert!(candidates.len() > 1),
        other => panic!("{other:?}"),
    }
    for id in &ids {
        let at = session.find_entry(id.as_str()).unwrap();
        assert_eq!(session.entry_id(at).as_ref(), Some(id));
    }
}

#[test]
fn session_sharing_its_file_with_sub_agents_is_deleted() {
    let copy = case("sub-agent").copy();
    let before = picture(&copy.root.path);
    let files = copy.files("main");
    assert!(!files.agents.is_empty());
    let gone = copy
        .store()
        .trash()
        .move_in(&files, time("2026-03-05T00:00:00Z"))
        .unwrap();
    assert_eq!(gone.files.len(), 1);
    assert!(copy.sessions().is_empty());
    copy.store().trash().restore("main").unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn sessions_of_one_file_are_deleted_and_undeleted_together() {
    let copy = case("two-sessions-one-log").copy();
    let (store, now) = (copy.store(), time("2026-03-05T00:00:00Z"));
    let before = picture(&copy.root.path);
    let sessions = copy.sessions();
    let all: Vec<&SessionFiles> = sessions.iter().collect();
    let (first, others) = all.split_first().unwrap();
    assert!(others.len() > 1);
    assert_eq!(SessionFiles::group_by_shared_files(&all).len(), 1);
    for some in [&[][..], &others[1..]] {
        let refused = store.trash().move_group_in(first, some, now).unwrap_err();
        assert!(
            refused.to_string().contains("contains other sessions"),
            "{refused}"
        );
        assert_eq!(picture(&copy.root.path), before);
    }
    let gone = store.trash().move_group_in(first, others, now).unwrap();
    assert_eq!(gone.sessions().count(), all.len());
    assert!(copy.sessions().is_empty());
    let deleted = store.trash().sessions().unwrap();
    assert_eq!(deleted.len(), all.len());
    assert!(
        deleted
            .iter()
            .all(|info| info.state == SessionState::Deleted && info.messages > 0)
    );
    // Any of their ids restores all of them.
    store.trash().restore(others[0].id.as_str()).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

/// A fork into the same log copies lines byte for byte; companion entries of the copies do not
/// apply to the originals.
#[test]
fn fork_into_the_same_log_leaves_the_source_unchanged() {
    let stage = Stage::in_zone("UTC");
    let now = Timestamp::now();
    let day = now.to_zoned(TimeZone::UTC).date();
    let log = stage.log(&day.to_string());
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let lines = [
        format!(r#"{{"type":"user","content":"ask","timestamp":"{now}"}}"#),
        format!(
            r#"{{"type":"assistant","content":"answer","timestamp":"{now}","usage":{{"input_tokens":10,"output_tokens":1,"cache_creation_tokens":0,"cache_read_tokens":0}},"model":"m"}}"#
        ),
    ];
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    let own = format!("{day}-{}", Orchestrator.folder(CWD).unwrap());
    let source = stage.read(&own);
    let path = source
        .tree()
        .unwrap()
        .path(&source.tree().unwrap().conversations[0]);
    let to = SessionId::new("ff").unwrap();
    stage
        .store()
        .fork(&source, &path, to, None, jiff::Timestamp::now())
        .unwrap();
    assert_eq!(said(&stage.read(&own)), ["ask", "answer"]);
    assert_eq!(said(&stage.read("ff")), ["ask", "answer"]);
    // A program that sums the log counts the reply once.
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches(r#""input_tokens":10"#).count(), 1, "{text}");
}

/// Companion entries are matched again after the log was rewritten, and not applied to another log.
#[test]
fn companion_entries_survive_a_rewritten_log() {
    let stage = Stage::in_zone("UTC");
    let now = "2026-11-15T12:00:00Z";
    let store = stage.store();
    let new = NewSession::unnamed(CWD).unwrap();
    let writer = store.create(&stage.root(), &new, at(now)).unwrap();
    let system = |text: &str| {
        let message = Message::new(Role::System, vec![self::text(text)]);
        Draft::new(Body::Message(message))
    };
    writer.append(Draft::user("one")).unwrap();
    writer.append(system("first rule")).unwrap();
    writer
        .append(Draft::user("two").with_id(EntryId::new("m2")))
        .unwrap();
    writer.append(system("second rule")).unwrap();
    let id = writer.session().to_string();
    drop(writer);
    let log = stage.log("2026-11-15");
    let whole = fs::read_to_string(&log).unwrap();
    let all = ["one", "first rule", "two", "second rule"];
    assert_eq!(said(&stage.read(&id)), all);
    // The document's own repair removes blank lines.
    let kept: Vec<&str> = whole
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    fs::write(&log, kept.join("\n") + "\n").unwrap();
    assert_eq!(said(&stage.read(&id)), all);
    assert!(stage.read(&id).find_entry("m2").is_ok());
    stage.open(&id, now).append(Draft::user("three")).unwrap();
    let more = ["one", "first rule", "two", "second rule", "three"];
    assert_eq!(said(&stage.read(&id)), more);
    // The companion entries do not apply to a new log under the old name.
    fs::write(
        &log,
        "{\"type\":\"user\",\"content\":\"new\",\"timestamp\":\"2026-11-15T13:00:00Z\"}\n",
    )
    .unwrap();
    assert_eq!(said(&stage.read(&id)), ["new"]);
}

/// An append interrupted between the companion file and the log leaves nothing that is read.
#[test]
fn companion_entry_of_an_interrupted_append_is_ignored() {
    let stage = Stage::in_zone("UTC");
    let now = "2026-11-15T12:00:00Z";
    let writer = stage.begin("s1", now);
    writer.append(Draft::user("one")).unwrap();
    let log = stage.log("2026-11-15");
    let before = fs::read(&log).unwrap();
    let message = Message::new(Role::System, vec![text("never acknowledged")]);
    writer.append(Draft::new(Body::Message(message))).unwrap();
    drop(writer);
    fs::write(&log, &before).unwrap();
    assert_eq!(said(&stage.read("s1")), ["one"]);
    let writer = stage.open("s1", now);
    let message = Message::new(Role::System, vec![text("acknowledged")]);
    writer.append(Draft::new(Body::Message(message))).unwrap();
    writer.append(Draft::user("two")).unwrap();
    assert_eq!(said(&stage.read("s1")), ["one", "acknowledged", "two"]);
}
