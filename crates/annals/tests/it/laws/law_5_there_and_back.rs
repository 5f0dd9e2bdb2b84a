//! Convert to another layout and back: the same bytes, and in between the same conversation.

use super::*;
use annals::convert::{self, Options, Selection};

fn convert(from: &Root, to: Root) -> convert::Report {
    let plan = convert::plan(Selection::Root(from.clone()), to).unwrap();
    let mut options = Options::default();
    options.zone = jiff::tz::TimeZone::UTC;
    let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert!(report.there.is_empty(), "{:?}", report.there);
    report
}

/// Links are not carried, and say so.
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
fn every_root_comes_back_byte_for_byte() {
    let compared = each_pair(|case, layout| {
        let dir = tempfile::tempdir().unwrap();
        let there = Root::new(layout.name(), dir.path().join("there")).unwrap();
        let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
        let before = picture(&case.path);
        convert(&case.root(), there.clone());
        assert_eq!(picture(&case.path), before, "the source is only read");
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
}

/// What the conversations of a session say, block by block: layouts differ in how many entries a
/// reply takes.
fn said(session: &Session) -> BTreeSet<Vec<String>> {
    let Some(tree) = session.tree() else {
        return BTreeSet::new();
    };
    let words = |conversation| {
        let mut words = Vec::new();
        session
            .each_entry(conversation, |entry| {
                if let Body::Message(message) = entry.body {
                    let blocks = message.blocks.iter();
                    words
                        .extend(blocks.map(|block| format!("{} {block:?}", message.role.as_str())));
                }
                Ok(true)
            })
            .unwrap();
        words
    };
    let all = tree.conversations.iter().map(words);
    all.filter(|words| !words.is_empty()).collect()
}

/// Those whose conversations come out otherwise. Claude Code tells what a person typed by how it
/// begins, and that fixture says the contrary of some messages, which parts its turns elsewhere.
const OTHERWISE: [&str; 1] = ["annex → claude-code"];

#[test]
fn a_converted_session_says_the_same() {
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
