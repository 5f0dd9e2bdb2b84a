//! Conversion to another layout and back gives the same bytes; the converted session has the same
//! conversations.

use super::*;
use annals::convert::{self, ConvertOptions, ConvertSelection};

fn convert(from: &Root, to: Root) -> convert::ConvertReport {
    let mut plan = convert::plan(ConvertSelection::Root(from.clone()), to, None).unwrap();
    // Settings and other files that control a program are restored only if they are named.
    let held = plan.withheld.clone();
    plan.restore_also(&held).unwrap();
    assert!(plan.withheld.is_empty(), "{:?}", plan.withheld);
    let mut options = ConvertOptions::default();
    options.zone = jiff::tz::TimeZone::UTC;
    let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert!(
        report.existing_files.is_empty(),
        "{:?}",
        report.existing_files
    );
    report
}

/// Removes symbolic links, which a conversion skips and reports.
fn without_links(picture: std::collections::BTreeMap<std::path::PathBuf, String>) -> Vec<String> {
    let files = picture.into_iter();
    let files = files.filter(|(_, what)| !what.starts_with("->"));
    files
        .map(|(path, what)| format!("{} {what}", path.display()))
        .collect()
}

fn writable() -> Vec<&'static dyn Layout> {
    let layouts = LAYOUTS.iter().copied();
    layouts.filter(|layout| layout.writer().is_some()).collect()
}

/// Runs a check on every fixture and every other layout, on two threads.
fn each_pair(check: impl Fn(&Case, &'static dyn Layout) + Sync) -> usize {
    let cases = cases();
    let pairs: Vec<(&Case, &'static dyn Layout)> = cases
        .iter()
        .flat_map(|case| writable().into_iter().map(move |layout| (case, layout)))
        .filter(|(case, layout)| case.layout.name() != layout.name())
        .collect();
    let (even, odd): (Vec<_>, Vec<_>) = pairs.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let run = |half: Vec<(usize, &(&Case, &'static dyn Layout))>| {
        half.into_iter()
            .for_each(|(_, (case, layout))| check(case, *layout));
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(odd));
        run(even);
        other.join().unwrap();
    });
    pairs.len()
}

#[test]
fn every_root_round_trips_byte_for_byte() {
    let compared = each_pair(|case, layout| {
        if case.layout.writer().is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new(layout.name(), dir.path().join("there")).unwrap();
        let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
        let mut before = picture(&case.path);
        convert(&case.root(), there.clone());
        assert_eq!(picture(&case.path), before, "the source is only read");
        if case.layout.spec().has_secret_files {
            // Only what the layout knows, because other files may contain keys.
            let all = before.clone();
            let is_data = |path: &Path| {
                let known = case.layout.classify(path);
                known.is_some_and(|it| it.kind != ArtifactKind::Settings)
            };
            before.retain(|path, what| {
                let mut within = all.keys().filter(|below| below.starts_with(path));
                let is_empty = within.clone().count() == 1;
                let is_dir = what.is_empty() && (is_empty || within.any(|below| is_data(below)));
                is_dir || is_data(path)
            });
        }
        convert(&there, back.clone());
        assert_eq!(
            without_links(picture(&back.path)),
            without_links(before),
            "{} → {} → back",
            case.name,
            layout.name()
        );
    });
    assert!(compared > 500, "{compared}");
    let counts = crate::gates::Counts {
        points: compared,
        ..Default::default()
    };
    crate::gates::print_counts(9, "every root, there and back", counts);
}

/// Returns the blocks of each conversation: layouts differ in the number of entries of a reply.
fn said(session: &Session) -> BTreeSet<Vec<String>> {
    let Some(tree) = session.tree() else {
        return BTreeSet::new();
    };
    let outlines = &session.logs[0].outlines;
    let blocks = |entry: &annals::model::Entry| -> Vec<String> {
        let Body::Message(message) = &entry.body else {
            return Vec::new();
        };
        let blocks = message.blocks.iter();
        let blocks = blocks.map(|block| format!("{} {block:?}", message.role.as_str()));
        blocks.collect()
    };
    let words = |conversation| {
        let mut words = Vec::new();
        session
            .each_entry(conversation, |entry| {
                words.extend(blocks(&entry));
                let is_summary =
                    matches!(&entry.body, Body::Message(message) if message.compact_summary);
                let compaction = entry.parent.as_ref().filter(|_| is_summary);
                let compaction = compaction.map(|id| Some(id.key()));
                let compaction = compaction
                    .and_then(|key| outlines.iter().position(|outline| outline.key == key));
                // A conversion writes what the compaction keeps after its summary.
                let kept = compaction.map(|at| tree.kept_messages(outlines, at));
                session.each_entry_of_log(0, &kept.unwrap_or_default(), |entry| {
                    words.extend(blocks(&entry));
                    Ok(true)
                })?;
                Ok(true)
            })
            .unwrap();
        words
    };
    let all = tree.conversations.iter().map(words);
    all.filter(|words| !words.is_empty()).collect()
}

/// Pairs whose conversations differ. A system message without an id is in no conversation of Claude
/// Code; in the other layouts it follows the message before it.
const OTHERWISE: [&str; 16] = [
    "agentpool-entry-types → chorus",
    "agentpool-entry-types → clog",
    "agentpool-entry-types → codex",
    "agentpool-entry-types → copilot",
    "agentpool-entry-types → gemini",
    "agentpool-entry-types → orchestrator",
    "agentpool-entry-types → pi",
    "agentpool-entry-types → qwen",
    "agentpool-session → chorus",
    "agentpool-session → clog",
    "agentpool-session → codex",
    "agentpool-session → copilot",
    "agentpool-session → gemini",
    "agentpool-session → orchestrator",
    "agentpool-session → pi",
    "agentpool-session → qwen",
];

#[test]
fn converted_session_has_the_same_conversations() {
    let failed = std::sync::Mutex::new(Vec::new());
    let compared = each_pair(|case, layout| {
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new(layout.name(), dir.path().join("there")).unwrap();
        convert(&case.root(), there.clone());
        let all = |root: &Root| -> Vec<Session> {
            let sessions = Store::new(vec![root.clone()]).inventory().sessions;
            let read = sessions
                .into_iter()
                .map(|files| Session::read(files).unwrap());
            read.collect()
        };
        let words = |sessions: &[Session]| -> Vec<BTreeSet<Vec<String>>> {
            let mut words: Vec<_> = sessions.iter().map(said).collect();
            words.retain(|words| !words.is_empty());
            words.sort();
            words
        };
        let (before, after) = (all(&case.root()), all(&there));
        if words(&before) != words(&after) {
            let name = format!("{} → {}", case.name, layout.name());
            failed.lock().unwrap().push(name);
        }
    });
    assert!(compared > 500, "{compared}");
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    assert_eq!(failed, OTHERWISE);
}

/// Regression: the title in the header of a sub-agent's log became the session's title.
#[test]
fn converted_session_title_is_not_that_of_its_sub_agent() {
    let case = crate::support::case("agents-todos-origin");
    let dir = tempfile::tempdir().unwrap();
    let there = Root::new("chorus", dir.path().join("there")).unwrap();
    convert(&case.root(), there.clone());
    let session_list = there
        .path
        .join("sessions/ws-37a635997607/annals/conversations.json");
    let first = fs::read_to_string(&session_list).unwrap();
    let title = case.sessions().remove(0);
    let title = Session::read(title).unwrap().title().unwrap().text;
    assert!(
        first.contains(&format!("\"title\": \"{title}\"")),
        "{first}"
    );
    // Rebuilding only the session list gives the same bytes.
    fs::remove_file(&session_list).unwrap();
    convert(&case.root(), there);
    assert_eq!(fs::read_to_string(&session_list).unwrap(), first);
}

#[test]
fn interrupted_conversion_is_completed() {
    let mut cut = 0;
    for name in ["2.1.325-s01-multiturn", "same-session-two-projects"] {
        let case = crate::support::case(name);
        for layout in writable() {
            if layout.name() == case.layout.name() {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let whole = Root::new(layout.name(), dir.path().join("whole")).unwrap();
            convert(&case.root(), whole.clone());
            let wanted = picture(&whole.path);
            let files = wanted.iter().filter(|(_, what)| !what.is_empty());
            for (path, _) in files {
                let again = Root::new(layout.name(), dir.path().join("again")).unwrap();
                crate::support::copy_tree(&whole.path, &again.path);
                let shared = layout
                    .classify(path)
                    .is_some_and(|meaning| meaning.kind == ArtifactKind::SharedLog);
                let victim = again.path.join(path);
                let log = layout
                    .classify(path)
                    .is_some_and(|meaning| meaning.kind == ArtifactKind::SessionLog);
                if shared {
                    // Torn in the middle of a line, as a killed append leaves it.
                    let bytes = fs::read(&victim).unwrap();
                    fs::write(&victim, &bytes[..bytes.len() * 2 / 3]).unwrap();
                } else if log {
                    // The log is renamed into place last, so without it no other file is certain.
                    fs::remove_dir_all(again.path.join("sessions")).ok();
                    fs::remove_file(&victim).ok();
                } else {
                    continue;
                }
                cut += 1;
                let plan = convert::plan(ConvertSelection::Root(case.root()), again.clone(), None)
                    .unwrap();
                let mut options = ConvertOptions::default();
                options.zone = jiff::tz::TimeZone::UTC;
                let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
                assert!(report.failed.is_empty(), "{:?}", report.failed);
                let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
                convert(&again, back.clone());
                assert_eq!(
                    without_links(picture(&back.path)),
                    without_links(picture(&case.path)),
                    "{name} {} {}",
                    layout.name(),
                    path.display()
                );
                if !shared {
                    assert_eq!(picture(&again.path), wanted, "{name} {}", layout.name());
                }
                fs::remove_dir_all(&again.path).unwrap();
                fs::remove_dir_all(&back.path).unwrap();
            }
        }
    }
    assert!(cut > 8, "{cut}");
}

/// Changes to a converted session are converted back: a message, a branch, a sub-agent's message, a
/// compaction, todos, a title; nothing else changes.
#[test]
fn changes_after_conversion_survive_converting_back() {
    use annals::model::{Draft, Todo};
    let case = crate::support::case("2.1.325-s04-agent");
    for layout in writable() {
        if layout.name() == case.layout.name() {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new(layout.name(), dir.path().join("there")).unwrap();
        let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
        convert(&case.root(), there.clone());
        let store = Store::new(vec![there.clone()]).with_zone(jiff::tz::TimeZone::UTC);
        let files = store.inventory().sessions.remove(0);
        let session = Session::read(files.clone()).unwrap();
        let tree = session.tree().unwrap();
        let inner = tree.path(&tree.conversations[0])[1];
        let inner = session.entry_id(inner).unwrap();
        let before = tree.conversations.len();
        let writer = store.open_writer(&files, QUICK).unwrap();
        writer.append(Draft::user("said since")).unwrap();
        writer.compact("summed up since", None).unwrap();
        let is_linear = layout.writer().unwrap().is_linear();
        let branch = writer.append(Draft::user("a branch since").with_parent(inner));
        assert_eq!(branch.is_err(), is_linear, "{}", layout.name());
        writer.set_todos(&[Todo::pending("done since")]).unwrap();
        writer.retitle("Titled since").unwrap();
        writer.close().unwrap();
        let agent = files.agents[0].artifact.agent.clone().unwrap();
        let of_agent = SessionWriter::open_agent(&store, &files, agent.as_str(), QUICK).unwrap();
        of_agent.append(Draft::user("an agent since")).unwrap();
        of_agent.close().unwrap();
        let report = convert(&there, back.clone());
        let least = if is_linear { 6 } else { 7 };
        assert!(report.added >= least, "{} {}", layout.name(), report.added);
        let old = Session::read(case.sessions().remove(0)).unwrap();
        let now = Store::new(vec![back.clone()]);
        let now = Session::read(now.inventory().sessions.remove(0)).unwrap();
        let name = layout.name();
        assert_eq!(now.title().unwrap().text, "Titled since", "{name}");
        assert_eq!(
            now.todos().unwrap().last().unwrap().1,
            [Todo::pending("done since")],
            "{name}"
        );
        let said = |text: &str| {
            let conversations = crate::support::conversations(&now);
            let mut found = conversations.iter();
            found.any(|words| words.iter().any(|word| word == text))
        };
        assert!(said("said since") && said("summed up since"), "{name}");
        assert_eq!(said("a branch since"), !is_linear, "{name}");
        assert_eq!(
            now.tree().unwrap().conversations.len(),
            before + usize::from(!is_linear),
            "{name}"
        );
        assert_eq!(now.agents.len(), old.agents.len(), "{name}");
        for (file, older) in now.files.logs().zip(old.files.logs()) {
            let (new, old) = (
                fs::read(&file.path).unwrap(),
                fs::read(&older.path).unwrap(),
            );
            assert!(new.starts_with(&old), "{name} {}", file.path.display());
        }
        let agents = now.files.agents.iter();
        let grown = agents.filter(|file| {
            let bytes = fs::read_to_string(&file.path).unwrap();
            bytes.contains("an agent since")
        });
        assert_eq!(grown.count(), 1, "{name}");
    }
}

/// The second run reports the difference and changes nothing.
#[test]
fn changed_source_is_reported_by_the_second_run() {
    use annals::model::Draft;
    let case = crate::support::case("branch-edited-prompt");
    for layout in writable() {
        if layout.name() == case.layout.name() {
            continue;
        }
        let copy = case.copy();
        let into = Root::new(layout.name(), copy.dir.path().join("there")).unwrap();
        convert(&copy.root, into.clone());
        let before = picture(&into.path);
        let writer = copy.writer("");
        writer.append(Draft::user("later")).unwrap();
        drop(writer);
        let plan = convert::plan(
            ConvertSelection::Root(copy.root.clone()),
            into.clone(),
            None,
        )
        .unwrap();
        let report = convert::run(&plan, &ConvertOptions::default(), &|_, _| ()).unwrap();
        assert_eq!(report.differing.len(), 1, "{}", layout.name());
        assert_eq!(
            report.already_converted + report.sessions,
            0,
            "{}",
            layout.name()
        );
        assert_eq!(picture(&into.path), before, "{}", layout.name());
    }
}
