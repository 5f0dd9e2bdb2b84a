//! Repairs: plans, results and undo.

mod deeds;
mod held;
mod laws;
mod lines;
mod links;
mod names;
mod orphans;
mod places;
mod strays;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use annals::layout::ClaudeCode;
use annals::model::{Artifact, ArtifactKind, Link, SessionId};
use annals::repair::{Action, LineEdits, RepairPlan, RepairTarget};
use annals::store::{LogScan, Root, Store};
use annals::tree::{Scope, Tree};
use jiff::Timestamp;

const SESSION: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn uuid(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// Returns a line as the client writes it; parent 0 means none.
fn line(number: u64, parent: u64) -> Vec<u8> {
    named(number, number, parent)
}

/// Returns the same line with an id other than its number.
fn named(number: u64, own: u64, parent: u64) -> Vec<u8> {
    let parent = match parent {
        0 => "null".to_owned(),
        parent => format!("\"{}\"", uuid(parent)),
    };
    let (kind, message) = match number % 2 {
        1 => (
            "user",
            format!(r#"{{"role":"user","content":"question {number}"}}"#),
        ),
        _ => (
            "assistant",
            format!(
                r#"{{"id":"msg_{number}","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"answer {number}"}}]}}"#
            ),
        ),
    };
    let (minute, own) = (number, uuid(own));
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"cwd":"/work","sessionId":"{SESSION}","type":"{kind}","message":{message},"uuid":"{own}","timestamp":"2026-11-10T05:{minute:02}:00.000Z"}}"#
    )
    .into_bytes()
}

/// Returns a conversation of ten messages.
fn chain() -> Vec<Vec<u8>> {
    (1..=10).map(|number| line(number, number - 1)).collect()
}

fn file_of(lines: &[Vec<u8>]) -> Vec<u8> {
    let lines = lines.iter().flat_map(|line| [line.as_slice(), b"\n"]);
    lines.collect::<Vec<_>>().concat()
}

fn artifact() -> Artifact {
    Artifact {
        session: Some(SessionId::new(SESSION).unwrap()),
        folder: Some("-work".to_owned()),
        ..Artifact::new(ArtifactKind::SessionLog)
    }
}

/// A root with one old log, and a state directory.
struct Place {
    dir: tempfile::TempDir,
    log: PathBuf,
}

impl Place {
    fn with(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("root/projects/-work");
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join(format!("{SESSION}.jsonl"));
        fs::write(&log, bytes).unwrap();
        let place = Place { dir, log };
        place.age();
        place
    }

    /// Sets the modification time far back.
    fn age(&self) {
        let long_ago = std::time::Duration::from_nanos(1_700_000_000_123_456_789);
        let time = std::time::UNIX_EPOCH + long_ago;
        let file = fs::File::options().append(true).open(&self.log).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(time))
            .unwrap();
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn store(&self) -> Store {
        let root = Root::new("claude-code", self.dir.path().join("root")).unwrap();
        Store::new(vec![root]).with_state(self.state())
    }

    /// Plans at a time when no file is old.
    fn plan(&self) -> RepairPlan {
        self.plan_at(Timestamp::UNIX_EPOCH)
    }

    fn plan_at(&self, at: Timestamp) -> RepairPlan {
        let patients = RepairTarget::all(&self.store().inventory());
        let patients = RepairTarget::filter_by_path(patients, &self.log);
        RepairPlan::new(&patients[0], at).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.log).unwrap()
    }
}

fn repaired(bytes: &[u8]) -> (LineEdits, Vec<u8>) {
    let edits = LineEdits::new(&ClaudeCode, &artifact(), bytes).unwrap();
    let result = edits.apply(bytes);
    (edits, result)
}

/// Returns the numbers of the messages on the path that the client would resume.
fn resumed(bytes: &[u8]) -> Vec<u64> {
    let place = Place::with(bytes);
    let files = place.store().inventory().sessions.remove(0);
    let scan = LogScan::read(&files.root, files.log.as_ref().unwrap()).unwrap();
    let tree = Tree::build(&scan.outlines, Scope::Main);
    let path = tree.path(&tree.conversations[tree.resume.unwrap()]);
    let minute = |at: usize| {
        let time = scan.outlines[at].time.unwrap();
        time.to_string()[14..16].parse().unwrap()
    };
    path.into_iter().map(minute).collect()
}

/// A kind of damage: name, file, messages readable after its repair, and the actions.
type Damage = (&'static str, Vec<u8>, Vec<u64>, Vec<Action>);

fn damages() -> Vec<Damage> {
    use Action::{CutCycle, Drop, NewId, Relink, Salvage, Split, StripNuls};
    let lines = chain();
    let without = |gone: &[u64]| (1..=10).filter(|n| !gone.contains(n)).collect::<Vec<u64>>();
    let put = |at: usize, with: Vec<u8>| {
        let mut lines = chain();
        lines[at] = with;
        file_of(&lines)
    };
    let half = |at: usize| lines[at][..lines[at].len() * 2 / 3].to_vec();
    let glue = |at: usize, with: &[u8]| {
        let mut lines = chain();
        let next = lines.remove(at + 1);
        lines[at] = [with, &next].concat();
        file_of(&lines)
    };
    let mut gone = chain();
    gone.drain(3..7);
    let nuls = [&lines[4][..40], &[0; 16], &lines[4][40..]].concat();
    let mut ring = chain();
    ring[2] = line(3, 8);
    let mut twins = chain();
    twins[4] = named(5, 3, 4);
    twins[5] = line(6, 3);
    let mut foreign = chain();
    foreign.insert(2, b"null".to_vec());
    foreign.insert(0, b"Segmentation fault".to_vec());
    let mut branches = chain()[..4].to_vec();
    branches.extend([line(5, 2)[..200].to_vec(), line(6, 5), line(7, 6)]);
    let mut alternatives = chain()[..5].to_vec();
    alternatives.extend([line(6, 99), line(8, 99), line(9, 8)]);
    let mut compacted = chain();
    compacted[4] = line(5, 0)[..100].to_vec();
    let summary = String::from_utf8(line(7, 5)).unwrap();
    let summary = summary.replace("\"cwd\"", "\"isCompactSummary\":true,\"cwd\"");
    compacted.splice(5..7, [summary.into_bytes()]);
    let crlf = put(4, half(4)).into_iter().flat_map(|byte| match byte {
        b'\n' => b"\r\n".to_vec(),
        byte => vec![byte],
    });
    let mark = [b"\xef\xbb\xbf".as_slice(), &glue(0, &lines[0])].concat();
    let scattered = {
        let mut lines = chain();
        (lines[1], lines[3], lines[6]) = (half(1), lines[3][120..].to_vec(), b"{x}".to_vec());
        file_of(&lines)
    };
    vec![
        (
            "torn, then glued",
            glue(4, &half(4)),
            without(&[5]),
            vec![Salvage, Relink],
        ),
        ("glued", glue(4, &lines[4]), without(&[]), vec![Split]),
        (
            "a line of NULs",
            put(4, vec![0; 99]),
            without(&[5]),
            vec![Drop, Relink],
        ),
        ("NULs within", put(4, nuls), without(&[]), vec![StripNuls]),
        (
            "half a line",
            put(4, half(4)),
            without(&[5]),
            vec![Drop, Relink],
        ),
        (
            "a line without head",
            put(4, lines[4][100..].to_vec()),
            without(&[5]),
            vec![Drop, Relink],
        ),
        (
            "the first line",
            put(0, half(0)),
            without(&[1]),
            vec![Drop, Relink],
        ),
        (
            "deleted lines",
            file_of(&gone),
            without(&[4, 5, 6, 7]),
            vec![Relink],
        ),
        ("a ring", file_of(&ring), without(&[]), vec![CutCycle]),
        (
            "its own parent",
            put(4, line(5, 5)),
            without(&[]),
            vec![CutCycle],
        ),
        (
            "two of one id",
            file_of(&twins),
            without(&[]),
            vec![NewId, Relink],
        ),
        (
            "foreign lines",
            file_of(&foreign),
            without(&[]),
            vec![Drop, Drop],
        ),
        (
            "a branch",
            file_of(&branches),
            vec![1, 2, 6, 7],
            vec![Drop, Relink],
        ),
        (
            "alternatives",
            file_of(&alternatives),
            vec![1, 2, 3, 4, 5, 8, 9],
            vec![Relink, Relink],
        ),
        (
            "a compaction",
            file_of(&compacted),
            vec![7, 8, 9, 10],
            vec![Drop, Relink],
        ),
        (
            "Windows line ends",
            crlf.collect(),
            without(&[5]),
            vec![Drop, Relink],
        ),
        ("a byte order mark", mark, without(&[]), vec![Split]),
        (
            "everywhere",
            scattered,
            without(&[2, 4, 7]),
            vec![Drop, Relink, Drop, Relink, Drop, Relink],
        ),
    ]
}

#[test]
fn each_kind_of_damage_is_repaired_and_the_rest_resumes() {
    for (what, bytes, wanted, actions) in damages() {
        let (edits, result) = repaired(&bytes);
        let done: Vec<Action> = edits.steps.iter().map(|step| step.action).collect();
        assert_eq!(done, actions, "{what}: {:?}", edits.steps);
        assert_eq!(
            resumed(&result),
            wanted,
            "{what}: {}",
            String::from_utf8_lossy(&result)
        );
    }
}

#[test]
fn relink_changes_only_the_parent() {
    let lines = chain();
    let mut gone = chain();
    gone.remove(4);
    let (_, result) = repaired(&file_of(&gone));
    let text = String::from_utf8(lines[5].clone()).unwrap();
    gone[4] = text.replacen(&uuid(5), &uuid(4), 1).into_bytes();
    assert_eq!(result, file_of(&gone));
}

#[test]
fn copies_and_torn_tail_are_not_damage() {
    let mut lines = chain();
    lines.insert(5, line(5, 4));
    let torn = [file_of(&lines), line(11, 10)[..80].to_vec()].concat();
    let (edits, result) = repaired(&torn);
    assert_eq!(edits.steps, []);
    assert_eq!(edits.unrepaired.len(), 1, "the last line is pending");
    assert_eq!(result, torn);
}

#[test]
fn oversize_line_stays_and_its_children_are_not_orphans() {
    let long = String::from_utf8(line(5, 4)).unwrap();
    let words = "x".repeat(annals::jsonl::MAX_LINE);
    let mut lines = chain();
    lines[4] = long.replace("question 5", &words).into_bytes();
    lines[7].truncate(100);
    let bytes = file_of(&lines);
    let (edits, result) = repaired(&bytes);
    let actions: Vec<Action> = edits.steps.iter().map(|step| step.action).collect();
    assert_eq!(
        actions,
        [Action::Drop],
        "for all we know, its children have a parent"
    );
    let left: Vec<u64> = edits.unrepaired.iter().map(|left| left.line).collect();
    assert_eq!(left, [5, 6, 9]);
    lines.remove(7);
    assert!(result == file_of(&lines));
}

#[test]
fn deep_nesting_is_not_damage() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let mut lines = chain();
    let odd = String::from_utf8(line(5, 4)).unwrap();
    lines[4] = odd.replace("\"question 5\"", &deep).into_bytes();
    let (edits, _) = repaired(&file_of(&lines));
    assert_eq!((edits.steps, edits.unrepaired), (vec![], vec![]));
}

#[test]
fn parallel_results_stay_on_the_path_when_a_call_is_lost() {
    let call = |number: u64, parent: u64| {
        let text = String::from_utf8(line(number, parent)).unwrap();
        let block =
            format!(r#"{{"type":"tool_use","id":"toolu_{number}","name":"Bash","input":{{}}}}"#);
        text.replace(
            &format!(r#"{{"type":"text","text":"answer {number}"}}"#),
            &block,
        )
        .replace(&format!("msg_{number}"), "msg_both")
        .into_bytes()
    };
    let result = |number: u64, parent: u64, of: u64| {
        let text = String::from_utf8(line(number, parent)).unwrap();
        let block =
            format!(r#"[{{"type":"tool_result","tool_use_id":"toolu_{of}","content":"ok"}}]"#);
        text.replace(&format!("\"question {number}\""), &block)
            .into_bytes()
    };
    // The first call is lost; the parent of each result is its own call, that of the answer the
    // first result.
    let lines = [
        line(1, 0),
        call(4, 2),
        result(3, 2, 2),
        result(5, 4, 4),
        line(6, 3),
    ];
    let (_, repaired) = repaired(&file_of(&lines));
    let way = resumed(&repaired);
    assert!(
        way.contains(&1) && way.contains(&4) && way.contains(&6),
        "{way:?}"
    );
}

#[test]
fn offset_ids_are_written_where_a_parent_names_them() {
    let case = crate::support::case("branches");
    let (layout, root) = (
        annals::layout::by_name("orchestrator").unwrap(),
        case.root(),
    );
    assert_eq!(case.layout.name(), "orchestrator");
    let artifact = case.files()[0].artifact.clone();
    let record = |text: &str, annex: &str| {
        format!(
            r#"{{"type":"user","content":"{text}","timestamp":"2026-03-01T10:00:00.000Z","metadata":{{"sessionId":"s"}}{annex}}}"#
        )
    };
    let first = record("first", "");
    let garbage = "x".repeat(50);
    let second = record("second", "");
    let place = first.len() + 1 + garbage.len() + 1;
    let third = record(
        "third",
        &format!(r#","annals":{{"parent":"20260301-{place}"}}"#),
    );
    let bytes = [first, garbage, second, third, String::new()]
        .join("\n")
        .into_bytes();
    let links = |bytes: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(case.layout.path_for(&artifact));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let store = Store::new(vec![Root::new(root.layout.name(), dir.path()).unwrap()]);
        let files = store.inventory().sessions.remove(0);
        let scan = LogScan::read(&files.root, files.log.as_ref().unwrap()).unwrap();
        let known: HashSet<_> = scan.outlines.iter().filter_map(|one| one.key).collect();
        let found = scan.outlines.iter().filter_map(|one| match one.link {
            Link::Parent(key) => Some(known.contains(&key)),
            _ => None,
        });
        found.collect::<Vec<bool>>()
    };
    assert_eq!(links(&bytes), [true, true]);
    let edits = LineEdits::new(layout, &artifact, &bytes).unwrap();
    let actions: Vec<Action> = edits.steps.iter().map(|step| step.action).collect();
    assert_eq!(actions, [Action::Drop, Action::KeepId]);
    assert_eq!(links(&edits.apply(&bytes)), [true, true]);
}

/// Returns a record of the orchestrator with additional members.
fn day_record(text: &str, more: &str) -> String {
    format!(
        r#"{{"type":"user","content":"{text}","timestamp":"2026-03-01T10:00:00.000Z","metadata":{{"sessionId":"s"}}{more}}}"#
    )
}

/// Creates a root of the orchestrator with these days of March 2026.
fn days(days: &[(u32, &str)]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/eSlgu1iz-VWavn8Y4vLC");
    fs::create_dir_all(&folder).unwrap();
    for (day, text) in days {
        fs::write(folder.join(format!("2026-03-{day:02}.jsonl")), text).unwrap();
    }
    let store = Store::new(vec![Root::new("orchestrator", dir.path()).unwrap()]);
    (dir, store)
}

#[test]
fn offset_ids_named_by_another_day_are_written() {
    let (first, garbage) = (day_record("first", ""), "x".repeat(50));
    let second = day_record("second", "");
    let place = first.len() + 1 + garbage.len() + 1;
    let parent = format!(r#","annals":{{"parent":"20260301-{place}"}}"#);
    let next_day = day_record("third", &parent) + "\n";
    let broken = [first, garbage, second, String::new()].join("\n");
    let actions = |days_of: &[(u32, &str)]| {
        let (_dir, store) = days(days_of);
        let patients = RepairTarget::all(&store.inventory());
        assert_eq!(patients.len(), days_of.len());
        let plan = RepairPlan::new(&patients[0], Timestamp::now()).unwrap();
        let actions = plan.edits.steps.iter().map(|step| step.action);
        actions.collect::<Vec<Action>>()
    };
    let named = [(1, broken.as_str()), (2, next_day.as_str())];
    assert_eq!(actions(&named), [Action::Drop, Action::KeepId]);
    let other = day_record("third", "") + "\n";
    let unnamed = [(1, broken.as_str()), (2, other.as_str())];
    assert_eq!(actions(&unnamed), [Action::Drop]);
}

#[test]
fn parent_of_a_shared_log_entry_is_not_guessed() {
    let lost = r#","annals":{"parent":"20260301-99999"}"#;
    let log = [
        day_record("first", ""),
        day_record("second", lost),
        String::new(),
    ];
    let (_dir, store) = days(&[(1, &log.join("\n"))]);
    let plan =
        RepairPlan::new(&RepairTarget::all(&store.inventory())[0], Timestamp::now()).unwrap();
    assert_eq!(plan.edits.steps, []);
}

#[test]
fn shared_file_belongs_to_a_session_only_if_it_is_the_only_one() {
    let session = |name: &str| {
        let inventory = crate::support::case(name).inventory();
        let patients = RepairTarget::all(&inventory);
        patients[0].session.clone()
    };
    assert!(session("sub-agent").is_some());
    let two = day_record("one", "").replace(r#":"s""#, r#":"t""#);
    let (_dir, store) = days(&[(1, &format!("{}\n{two}\n", day_record("two", "")))]);
    let patients = RepairTarget::all(&store.inventory());
    let sessions: Vec<_> = patients.iter().map(|it| it.session.clone()).collect();
    assert_eq!(sessions, [None]);
}

#[test]
fn plans_cover_only_files_with_findings() {
    let place = Place::with(&file_of(&chain()));
    let folder = place.log.parent().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(format!("{name}bbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee.jsonl"));
        fs::write(&path, bytes).unwrap();
        path
    };
    let broken = write("b", b"{\"type\":\n{\"type\":\"user\"}\n");
    let left = write("c", b"{\"type\":\"mode\"}\n{\"type\":");
    let patients = RepairTarget::all(&place.store().inventory());
    let total: u64 = patients.iter().map(|it| it.file.id.len).sum();
    let reported = std::sync::Mutex::new(Vec::new());
    let plans = RepairPlan::all(&patients, Timestamp::now(), &|done, of| {
        reported.lock().unwrap().push((done, of))
    });
    let plans: Vec<RepairPlan> = plans.into_iter().map(Result::unwrap).collect();
    let paths: Vec<_> = plans.iter().map(|plan| plan.file.path.clone()).collect();
    assert_eq!(paths, [broken, left]);
    assert_eq!(plans[1].edits.steps, []);
    assert_eq!(plans[1].edits.unrepaired.len(), 1);
    let reported = reported.into_inner().unwrap();
    assert_eq!(reported.len(), patients.len());
    assert!(
        reported
            .iter()
            .all(|(done, of)| (1..=total).contains(done) && *of == total)
    );
    assert!(reported.contains(&(total, total)), "{reported:?}");
}

#[test]
fn session_list_of_a_log_is_distinguished_from_others() {
    let stale = crate::support::cases().into_iter().find_map(|case| {
        let store = Store::new(vec![case.root()]);
        let mut found = store.repairs().stale_session_lists(&store.inventory());
        Some((found.pop()?.unwrap(), case))
    });
    let (mut stale, case) = stale.unwrap();
    let patients = RepairTarget::all(&case.inventory());
    assert!(patients.iter().any(|one| one.is_listed_in(&stale)));
    stale.path = case.root().path.join("elsewhere.json");
    assert!(!patients.iter().any(|one| one.is_listed_in(&stale)));
}
