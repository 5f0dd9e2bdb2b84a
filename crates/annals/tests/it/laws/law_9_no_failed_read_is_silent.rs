//! A failed read is an error or is reported to the store; nothing is omitted silently.
//!
//! A link in place of a found file is not followed, so nobody can read it. Errors of the walk
//! itself need a mode that forbids reading, which the superuser ignores; `gates/faults.py` fails
//! every call of every verb.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use annals::convert::{self, ConvertSelection};
use annals::export::{ExportOptions, ExportPart, Exporter, Format};
use annals::search::{Dialect, Query};
use annals::store::{Inventory, SessionFiles};

use super::*;
use crate::support::{Copy, case, disk_path};

/// An operation that reads sessions; returns its errors.
type Verb = fn(&Store, &Inventory) -> Vec<String>;

const VERBS: [(&str, Verb); 5] = [
    ("sessions", |store, inventory| {
        errors(store.sessions(inventory).read(&|_, _| {}))
    }),
    ("conversations", |store, inventory| {
        let all: Vec<usize> = (0..inventory.sessions.len()).collect();
        errors(
            store
                .sessions(inventory)
                .conversations(&all, &|_| None, &|_, _| {}),
        )
    }),
    ("search", |store, inventory| {
        let query = Query::parse("e", &Dialect::default()).unwrap();
        let found = store.search(inventory, &query).unwrap();
        found.errors.iter().map(ToString::to_string).collect()
    }),
    ("show", |_, inventory| {
        errors(inventory.sessions.iter().map(show))
    }),
    ("export", |_, inventory| {
        errors(inventory.sessions.iter().map(export))
    }),
];

fn errors<T>(results: impl IntoIterator<Item = annals::Result<T>>) -> Vec<String> {
    let failed = results.into_iter().filter_map(Result::err);
    failed.map(|error| error.to_string()).collect()
}

fn show(files: &SessionFiles) -> annals::Result<()> {
    let session = Session::read(files.clone())?;
    session.todos()?;
    session.notes()?;
    for (at, scan) in session.logs.iter().enumerate() {
        let all: Vec<usize> = (0..scan.outlines.len()).collect();
        session.each_entry_of_log(at, &all, |_| Ok(true))?;
    }
    Ok(())
}

fn export(files: &SessionFiles) -> annals::Result<()> {
    let session = Session::read(files.clone())?;
    let mut out = Vec::new();
    let mut exporter = Exporter::begin(ExportOptions::new(Format::Jsonl), None, &mut out)?;
    exporter.session(&session, &ExportPart::Whole)?;
    exporter.finish().map(drop)
}

/// Returns all errors, including those reported to the store.
fn reported(store: &Store, mut reported: Vec<String>) -> Vec<String> {
    let failures = store.failures().take().into_iter();
    reported.extend(failures.map(|error| error.to_string()));
    reported
}

fn names(reported: &[String], path: &Path) -> bool {
    let path = path.display().to_string();
    reported.iter().any(|text| text.contains(&path))
}

/// Replaces a file by a link while `work` runs.
fn unreadable<T>(path: &Path, work: impl FnOnce() -> T) -> T {
    let aside = path.with_extension("aside");
    fs::rename(path, &aside).unwrap();
    symlink(&aside, path).unwrap();
    let done = work();
    fs::remove_file(path).unwrap();
    fs::rename(&aside, path).unwrap();
    done
}

#[test]
fn every_operation_reports_an_unreadable_log() {
    let mut tried = 0;
    for case in cases() {
        let copy = case.copy();
        let inventory = copy.store().inventory();
        let logs = inventory.sessions.iter().flat_map(SessionFiles::logs);
        let logs = logs.flat_map(annals::store::RootFile::volumes);
        // An empty log has nothing to report.
        let logs = logs.filter(|log| log.id.len > 0);
        let logs: BTreeSet<PathBuf> = logs.map(|log| disk_path(&log.path).to_owned()).collect();
        for log in &logs {
            for (name, verb) in VERBS {
                // Sessions report to the store of their inventory.
                let store = copy.store();
                let inventory = store.inventory();
                let said = unreadable(log, || verb(&store, &inventory));
                let said = reported(&store, said);
                assert!(
                    names(&said, log),
                    "{} {name}: {}: {said:?}",
                    case.name,
                    log.display()
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 900, "{tried}");
}

#[test]
fn index_reports_an_unreadable_sub_agent_each_time() {
    for case in [
        "subagents-every-placement",
        "agents-todos-origin",
        "sub-agent",
    ]
    .map(case)
    {
        let copy = case.copy();
        let agent = copy.sessions()[0].agents[0].path.clone();
        for _ in 0..2 {
            let store = copy.store().with_state(copy.state()).with_index();
            let inventory = store.inventory();
            let said = unreadable(&agent, || {
                errors(store.sessions(&inventory).read(&|_, _| {}))
            });
            assert!(names(&reported(&store, said), &agent), "{}", case.name);
        }
    }
}

#[test]
fn session_readers_report_unreadable_attachments() {
    let mut tried = BTreeSet::new();
    for case in cases() {
        let copy = case.copy();
        let inventory = copy.store().inventory();
        let read = |kind| {
            use ArtifactKind::{AgentMeta, Notes, Task, Todos};
            matches!(kind, AgentMeta | Notes | Task | Todos)
        };
        let beside = inventory
            .sessions
            .iter()
            .flat_map(|files| &files.attachments);
        for file in beside.filter(|file| read(file.artifact.kind)) {
            let store = copy.store();
            let inventory = store.inventory();
            let said = unreadable(&file.path, || errors(inventory.sessions.iter().map(show)));
            let said = reported(&store, said);
            assert!(
                names(&said, &file.path),
                "{}: {}: {said:?}",
                case.name,
                file.path.display()
            );
            tried.insert(format!("{:?}", file.artifact.kind));
        }
    }
    assert_eq!(tried.len(), 4, "{tried:?}");
}

#[test]
fn unreadable_settings_are_reported() {
    let copy = case("settings").copy();
    let store = copy.store();
    let inventory = store.inventory();
    let (_, file) = inventory
        .others_of_kind(ArtifactKind::Settings)
        .next()
        .expect("settings");
    let days = unreadable(&file.path, || inventory.retention_days());
    assert!(days.is_empty());
    assert!(names(&reported(&store, Vec::new()), &file.path));
}

#[test]
fn unreadable_sub_agent_fails_the_conversion_of_its_session() {
    let copy = case("subagents-every-placement").copy();
    let store = copy.store();
    let sessions = store.inventory().sessions;
    let agent = sessions[0].agents[0].path.clone();
    let into = Root::new("clog", copy.dir.path().join("into")).unwrap();
    let plan = convert::plan(ConvertSelection::Sessions(sessions), into, None).unwrap();
    let options = convert::ConvertOptions::default();
    let report = unreadable(&agent, || convert::run(&plan, &options, &|_, _| {})).unwrap();
    let (_, error) = report.failed.first().expect("a failed session");
    assert!(error.contains(agent.to_str().unwrap()), "{error}");
    assert_eq!(report.sessions, 0);
    // No partial output is left that a second run would take for complete.
    let report = convert::run(&plan, &options, &|_, _| {}).unwrap();
    assert_eq!((report.sessions, report.already_converted), (1, 0));
}

#[test]
fn unreadable_archived_file_is_reported_by_every_walk() {
    for case in ["subagents-every-placement", "chorus-plain", "sub-agent"].map(case) {
        let copy = case.copy();
        let store = copy.store();
        let sessions = store.inventory().sessions;
        let group: Vec<&SessionFiles> = sessions.iter().collect();
        let now = jiff::Timestamp::now();
        for files in &group {
            store.move_to_archive(&[files], true, now).unwrap();
        }
        let archive = store.archive().unwrap();
        let archived = archive.sessions().unwrap().0.remove(0);
        let (log, id) = (archived.path, archived.sessions[0].id.clone());
        unreadable(&log, || {
            let _ = store.inventory();
            assert!(names(&reported(&store, Vec::new()), &log), "inventory");
            let store = copy.store();
            let (_, troubles) = store.costs().ledger(&|_, _| {});
            let troubles = troubles.iter().map(ToString::to_string).collect();
            assert!(names(&reported(&store, troubles), &log), "ledger");
            let store = copy.store();
            let found = errors([store.session(&id).map(drop)]);
            assert!(names(&reported(&store, found), &log), "session");
        });
    }
}

/// The superuser can read everything, so the test is skipped for it.
#[test]
fn walks_report_paths_without_read_permission() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: the superuser reads everything");
        return;
    }
    for case in [
        "subagents-every-placement",
        "chorus-plain",
        "todos",
        "annex",
    ]
    .map(case)
    {
        let copy = case.copy();
        for (path, is_dir) in below(&copy.root.path) {
            let matters = |kind: ArtifactKind| kind.is_conversation() || kind.is_log();
            let within = path.strip_prefix(&copy.root.path).unwrap();
            let kind = copy.root.layout.classify(within).map(|it| it.kind);
            let read = match is_dir {
                true => copy.root.layout.may_hold_files(within),
                false => kind.is_some_and(matters) || kind == Some(ArtifactKind::SessionList),
            };
            if !read {
                continue;
            }
            let mode = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
            let said = walks(&copy);
            fs::set_permissions(&path, mode).unwrap();
            for (name, said) in said {
                assert!(names(&said, &path), "{name}: {}: {said:?}", path.display());
            }
        }
    }
}

/// Returns every path below a directory, and whether it is a directory.
fn below(dir: &Path) -> Vec<(PathBuf, bool)> {
    let paths = picture(dir).into_keys().map(|within| dir.join(within));
    let paths = paths.map(|path| (path.clone(), path.is_dir()));
    paths.collect()
}

fn walks(copy: &Copy) -> Vec<(&'static str, Vec<String>)> {
    let store = copy.store();
    let inventory = store.inventory();
    let listed = errors(store.sessions(&inventory).read(&|_, _| {}));
    let mut said = vec![("sessions", reported(&store, listed))];
    let store = copy.store();
    let latest = errors([store.latest(None)]);
    said.push(("latest", reported(&store, latest)));
    said
}
