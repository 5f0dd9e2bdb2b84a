//! Writing sessions of Codex and pi: what their programs need of a log.

use std::fs::{self, File};

use annals::convert::{self, ConvertOptions, ConvertSelection};
use annals::convert::{ExportSource, ImportOptions, Importer};
use annals::export::{ExportOptions, ExportPart, Exporter, Format};
use annals::model::{Block, Body, Draft};
use annals::retain::{CleanupPlan, Expired, Policy, RetainReason, Term};
use annals::store::{Root, Session, SessionFiles, SessionInfo, Store};
use annals::time_input::Now;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::support::{Case, Copy, QUICK, case, cases, picture};

fn case_of(layout: &str, name: &str) -> Case {
    let is_it = |case: &Case| case.layout.name() == layout && case.name == name;
    cases().into_iter().find(is_it).unwrap()
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the texts that Codex sends, in file order.
fn sent(path: &std::path::Path) -> Vec<String> {
    let mut texts = Vec::new();
    for line in lines(path) {
        let payload = &line["payload"];
        match line["type"].as_str().unwrap() {
            "response_item" if payload["type"] == "message" => {
                for part in payload["content"].as_array().unwrap() {
                    texts.extend(part["text"].as_str().map(str::to_owned));
                }
            }
            "response_item" => texts.push(payload["call_id"].as_str().unwrap_or("").to_owned()),
            "compacted" => texts = vec![payload["message"].as_str().unwrap().to_owned()],
            _ => {}
        }
    }
    texts
}

fn convert(from: &Root, to: &Root) {
    let selection = ConvertSelection::Root(from.clone());
    let plan = convert::plan(selection, to.clone(), None).unwrap();
    let report = convert::run(&plan, &ConvertOptions::default(), &|_, _| ()).unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
}

/// A log of the newer version ends in a line with a number, or the program refuses it.
#[test]
fn numbers_of_codex_lines_continue() {
    let copy = case_of("codex", "0.166-s02-tools").copy();
    let writer = copy.writer("");
    let before = lines(&writer.path());
    writer.append(Draft::user("one more")).unwrap();
    writer.append(Draft::reply("answer")).unwrap();
    writer.append(Draft::note("a note")).unwrap();
    let after = lines(&writer.path());
    let last = before.last().unwrap()["ordinal"].as_u64().unwrap();
    let new = after[before.len()..].iter();
    let numbers: Vec<u64> = new.map(|line| line["ordinal"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [last + 1, last + 2, last + 3]);
    // Logs of the older version have none, and events that show the texts.
    let copy = case_of("codex", "0.80-s01-qa").copy();
    let writer = copy.writer("");
    let before = lines(&writer.path()).len();
    writer.append(Draft::user("one more")).unwrap();
    let after = lines(&writer.path());
    let kinds: Vec<&str> = after[before..]
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["response_item", "event_msg"]);
    assert!(after[before..].iter().all(|line| line["ordinal"].is_null()));
}

#[test]
fn codex_session_that_is_open_in_its_program_is_not_written() {
    let copy = case_of("codex", "0.80-s01-qa").copy();
    let files = copy.sessions().remove(0);
    let locks = copy.root.path.join("thread-writer-locks");
    fs::create_dir(&locks).unwrap();
    let path = locks.join(format!("{}.lock", files.id));
    let held = File::create(&path).unwrap();
    held.lock().unwrap();
    let log = files.log.clone().unwrap().path;
    let before = fs::read(&log).unwrap();
    let refused = copy.store().open_writer(&files, QUICK);
    let refused = refused.and_then(|writer| writer.append(Draft::user("one more")));
    assert!(refused.unwrap_err().to_string().contains(".lock"));
    assert_eq!(fs::read(&log).unwrap(), before);
    drop(held);
    let writer = copy.store().open_writer(&files, QUICK).unwrap();
    writer.append(Draft::user("one more")).unwrap();
    assert!(!path.exists());
}

/// A fork by reference has only its own lines.
#[test]
fn codex_session_that_a_fork_continues_stays_with_it() {
    let copy = case_of("codex", "0.166-s03-fork").copy();
    let (parent, fork) = (copy.files("01a1e488-9f87"), copy.files("01a1e488-cca5"));
    let now = jiff::Timestamp::now();
    let store = copy.store();
    let whole = fs::read(&parent.log.as_ref().unwrap().path).unwrap();
    for refused in [
        store.trash().move_in(&parent, now).map(drop),
        store.move_to_archive(&[&parent], true, now).map(drop),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("by reference"), "{refused}");
    }
    store.trash().move_in(&fork, now).unwrap();
    assert_eq!(fs::read(&parent.log.as_ref().unwrap().path).unwrap(), whole);
    let parent = copy.files("01a1e488-9f87");
    store.trash().move_in(&parent, now).unwrap();
    assert!(copy.sessions().is_empty());
}

/// Copies a log under the name and id of another session.
fn copy_log(from: &std::path::Path, id: &str, other: &str) {
    let text = fs::read_to_string(from).unwrap().replace(id, other);
    let path = from.to_str().unwrap().replace(id, other);
    fs::write(path, text).unwrap();
}

#[test]
fn codex_session_and_its_forks_are_removed_together() {
    let copy = case_of("codex", "0.166-s03-fork").copy();
    let fork = copy.files("01a1e488-cca5");
    let second = "01a1e488-cca6-7263-a998-82938dd9b632";
    copy_log(fork.main_path(), fork.id.as_str(), second);
    let [parent, fork, second] =
        ["01a1e488-9f87", "01a1e488-cca5", second].map(|id| copy.files(id));
    let ids = |sessions: &[&SessionFiles]| -> Vec<Vec<String>> {
        let groups = SessionFiles::group_by_shared_files(sessions).into_iter();
        let ids = |group: Vec<&SessionFiles>| group.iter().map(|it| it.id.to_string()).collect();
        groups.map(ids).collect()
    };
    let [first, one, two] = [&parent, &fork, &second].map(|it| it.id.to_string());
    // A session comes before its forks; without it, nothing connects these.
    let all = [vec![first, one.clone(), two.clone()]];
    assert_eq!(ids(&[&fork, &second, &parent]), all);
    assert_eq!(ids(&[&fork, &second]), [[one], [two]]);
    let store = copy.store();
    let before = picture(&copy.root.path);
    let texts = |copy: &Copy| -> Vec<String> {
        let read = copy.store().session("01a1e488-cca5").unwrap();
        read.last_messages(9)
            .unwrap()
            .iter()
            .map(|it| format!("{it:?}"))
            .collect()
    };
    let said = texts(&copy);
    assert!(
        said.iter().any(|text| text.contains("capital of France")),
        "{said:?}"
    );
    let now = jiff::Timestamp::now();
    let trashed = store.trash().move_group_in(&parent, &[&fork, &second], now);
    assert!(copy.sessions().is_empty());
    store.trash().restore(&trashed.unwrap().id).unwrap();
    assert_eq!(picture(&copy.root.path), before);
    // Two of three are not enough.
    let [parent, fork, second] = [&parent, &fork, &second].map(|it| copy.files(it.id.as_str()));
    let refused = store.move_to_archive(&[&parent, &fork], true, now);
    assert!(refused.unwrap_err().to_string().contains("by reference"));
    assert_eq!(picture(&copy.root.path), before);
    let archived = store.move_to_archive(&[&parent, &fork, &second], true, now);
    assert_eq!(archived.unwrap().sessions.len(), 3);
    assert!(store.inventory_without_archive().sessions.is_empty());
    assert_eq!(texts(&copy), said);
}

/// A fork expires by itself; a session that a fork continues stays with it.
#[test]
fn cleanup_keeps_what_a_fork_continues() {
    let copy = case_of("codex", "0.166-s03-fork").copy();
    let store = copy.store();
    let plan = |wanted: &[&str]| {
        let inventory = store.inventory();
        let rows = store.sessions(&inventory).read(&|_, _| ());
        let rows = rows.into_iter().map(Result::unwrap).collect();
        let now = Now {
            time: "2027-11-16T00:00:00Z".parse().unwrap(),
            zone: TimeZone::UTC,
        };
        let policy = Policy::new(Term::parse("30d").unwrap());
        let pins = store.retention().pins().unwrap();
        let wanted = |row: &SessionInfo| wanted.iter().any(|it| row.id.as_str().starts_with(it));
        CleanupPlan::new(&inventory, rows, &policy, &pins, &now, &wanted)
    };
    let groups = |plan: &CleanupPlan| -> Vec<Vec<String>> {
        let groups = plan.groups.iter();
        let id = |old: &Expired| old.info.id.as_str()[..13].to_owned();
        groups.map(|group| group.iter().map(id).collect()).collect()
    };
    let (parent, fork) = ("01a1e488-9f87", "01a1e488-cca5");
    let both = plan(&[parent, fork]);
    assert_eq!(
        (groups(&both), both.files()),
        (vec![vec![parent.to_owned(), fork.to_owned()]], 2)
    );
    let alone = plan(&[fork]);
    assert_eq!(
        (groups(&alone), alone.files()),
        (vec![vec![fork.to_owned()]], 1)
    );
    assert!(alone.retained.is_empty(), "{:?}", alone.retained);
    let kept = plan(&[parent]);
    assert!(kept.groups.is_empty(), "{:?}", kept.groups);
    let reasons: Vec<&RetainReason> = kept.retained.iter().map(|it| &it.reason).collect();
    assert!(
        matches!(reasons.as_slice(), [RetainReason::SharesLog { with, .. }] if with.as_str().starts_with(fork)),
        "{reasons:?}"
    );
}

/// An interrupted conversion has written the first lines of a log.
#[test]
fn second_conversion_to_codex_appends_the_missing_lines() {
    for name in ["2.0.77-s02-tools", "chorus-calls-with-blocks"] {
        let from = case(name).copy();
        let dir = tempfile::tempdir().unwrap();
        let to = Root::new("codex", dir.path().join("codex")).unwrap();
        convert(&from.root, &to);
        let logs = || Store::new(vec![to.clone()]).inventory().sessions;
        let count = logs().len();
        let path = logs().remove(0).main_path().to_owned();
        let whole = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        assert!(lines.len() > 4, "{name} {}", lines.len());
        for kept in 0..=lines.len() {
            fs::write(&path, lines[..kept].concat()).unwrap();
            convert(&from.root, &to);
            assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{name} {kept}");
            assert_eq!(logs().len(), count, "{name}");
        }
    }
}

/// A fork that annals makes has all lines, so it needs no other log.
#[test]
fn copied_fork_of_a_fork_by_reference_is_independent() {
    let copy = case_of("codex", "0.166-s03-fork").copy();
    let session = copy.read("01a1e488-cca5");
    let path = session.tree().unwrap().resumed_path().unwrap();
    let to = annals::model::SessionId::new("01a1e488-0000-7000-8000-00000000000f").unwrap();
    let made = copy
        .store()
        .fork(&session, &path, to, None, jiff::Timestamp::now())
        .unwrap();
    let texts = sent(&made.path);
    for asked in [
        "What is the capital of France?",
        "And of Spain?",
        "A third question",
    ] {
        assert!(texts.iter().any(|text| text == asked), "{asked} {texts:?}");
    }
    assert!(
        !fs::read_to_string(&made.path)
            .unwrap()
            .contains("history_base")
    );
}

#[test]
fn codex_sends_only_the_resumed_branch_of_a_converted_session() {
    for name in [
        "branch-edited-prompt",
        "2.1.325-s01-multiturn",
        "agents-todos-origin",
    ] {
        let case = case(name);
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new("codex", dir.path()).unwrap();
        convert(&case.root(), &there);
        for files in Store::new(vec![there]).inventory().sessions {
            let session = Session::read(files).unwrap();
            let path = session.tree().unwrap().resumed_path().unwrap_or_default();
            let mut said = Vec::new();
            session
                .each_entry_of_log(0, &path, |entry| {
                    if let Body::Message(message) = entry.body {
                        if message.compact_summary {
                            said.clear();
                        }
                        for block in message.blocks.iter().filter(|_| !message.api_error) {
                            match block {
                                Block::Text(text) => said.push(text.clone()),
                                Block::ToolUse { id, .. } => said.push(id.clone()),
                                Block::ToolResult { call, .. } => said.push(call.clone()),
                                _ => {}
                            }
                        }
                    }
                    Ok(true)
                })
                .unwrap();
            assert_eq!(
                sent(&session.files.log.as_ref().unwrap().path),
                said,
                "{name}"
            );
        }
    }
}

#[test]
fn codex_session_has_one_branch() {
    let copy = case_of("codex", "0.80-s01-qa").copy();
    let session = Session::read(copy.sessions().remove(0)).unwrap();
    let path = session.tree().unwrap().resumed_path().unwrap();
    let inner = session.entry_id(path[1]).unwrap();
    let refused = copy
        .writer("")
        .append(Draft::user("a branch").with_parent(inner));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("annals fork"), "{refused}");
}

/// Returns the id and the parent of each line of a log.
fn links(copy: &Copy) -> Vec<(String, String)> {
    let path = copy.sessions().remove(0).log.unwrap().path;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let link = |line: &Value| (text(&line["id"]), text(&line["parentId"]));
    lines(&path).iter().skip(1).map(link).collect()
}

/// pi resumes at the last line, whatever its type.
#[test]
fn lines_of_pi_continue_the_last_line() {
    let copy = case_of("pi", "0.87-s02-tools").copy();
    let before = links(&copy);
    let writer = copy.writer("");
    writer.retitle("Another title").unwrap();
    writer.append(Draft::user("one more")).unwrap();
    writer.append(Draft::note("a note")).unwrap();
    writer.tag("important").unwrap();
    writer.append(Draft::reply("answer")).unwrap();
    drop(writer);
    copy.writer("").append(Draft::user("and more")).unwrap();
    let after = links(&copy);
    for pair in after[before.len() - 1..].windows(2) {
        assert_eq!(pair[1].1, pair[0].0, "{after:?}");
    }
    assert_eq!(after.len(), before.len() + 6);
}

#[test]
fn converted_session_of_pi_ends_in_the_resumed_branch() {
    let mut branched = 0;
    for case in cases() {
        if case.layout.name() == "pi" {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new("pi", dir.path()).unwrap();
        convert(&case.root(), &there);
        let resumed = |root: &Root| {
            let sessions = Store::new(vec![root.clone()])
                .inventory()
                .sessions
                .into_iter();
            // A session that is only in a list is not converted.
            let texts = sessions.filter(|files| !files.is_unwritten()).map(|files| {
                let session = Session::read(files).unwrap();
                let tree = session.tree();
                branched += usize::from(tree.is_some_and(|tree| tree.conversations.len() > 1));
                let last = session.last_messages(1).unwrap_or_default();
                last.first().map(|entry| match &entry.body {
                    Body::Message(message) => format!("{:?}", message.blocks.last()),
                    _ => String::new(),
                })
            });
            // A session may have only errors.
            let mut texts: Vec<String> = texts.flatten().filter(|text| !text.is_empty()).collect();
            texts.sort();
            texts
        };
        let mut resumed = resumed;
        let (before, after) = (resumed(&case.root()), resumed(&there));
        // System messages without an id are not part of a conversation of Claude Code.
        if !case.name.starts_with("agentpool") {
            assert_eq!(after, before, "{} {}", case.layout.name(), case.name);
        }
    }
    assert!(branched > 20, "{branched}");
}

/// The records of an export are derived from a rollout; Codex would not read them.
#[test]
fn import_into_codex_writes_lines_that_codex_reads() {
    let mut imported = 0;
    for case in cases() {
        if case.layout.name() != "codex" {
            continue;
        }
        for files in case.sessions() {
            let session = Session::read(files).unwrap();
            let mut text = Vec::new();
            let options = ExportOptions::new(Format::Jsonl);
            let mut exporter = Exporter::begin(options, None, &mut text).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
            exporter.finish().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new("codex", dir.path()).unwrap();
            let store = Store::new(vec![root.clone()]);
            let importer = Importer::new(&store, root, ImportOptions::default()).unwrap();
            let source = ExportSource::read(&text[..], "test").unwrap();
            importer
                .run(&source, &source.read_contents().unwrap())
                .unwrap();
            for files in store.inventory().sessions {
                for log in files.logs() {
                    for line in lines(&log.path) {
                        assert!(line["type"].is_string(), "{} {line}", case.name);
                        assert!(line["payload"].is_object(), "{} {line}", case.name);
                    }
                    imported += 1;
                }
            }
        }
    }
    assert!(imported > 10, "{imported}");
}
