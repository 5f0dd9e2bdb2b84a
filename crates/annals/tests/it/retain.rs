//! Expired sessions, reasons to retain them, and the state after a cleanup.

mod pins;

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::layout::{NewSession, Spawn};
use annals::model::{AgentId, Draft, SessionId, Todo};
use annals::retain::{CleanupPlan, Policy, RetainReason, Term};
use annals::store::{
    Root, SessionFiles, SessionInfo, SessionState, SessionWriter, Store, WriteOptions,
};
use annals::time_input::Now;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tempfile::TempDir;

use crate::support::{QUICK, case, picture, writable_cases, writable_layouts};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn at(text: &str) -> WriteOptions {
    WriteOptions {
        now: Some(time(text)),
        ..QUICK
    }
}

/// A root of a layout, and a state directory.
struct Place {
    dir: TempDir,
    root: Root,
    store: Store,
}

impl Place {
    fn new(layout: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout, dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()])
            .with_state(dir.path().join("state"))
            .with_zone(TimeZone::UTC);
        Place { dir, root, store }
    }

    /// Creates a session with one message at the given time and a numbered id.
    fn session(&self, number: u32, cwd: &str, when: &str) -> SessionWriter {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let new = NewSession::new(SessionId::new(&id).unwrap(), cwd);
        let writer = self.store.create(&self.root, &new, at(when)).unwrap();
        writer
            .append(Draft::user(format!("session {number}")))
            .unwrap();
        writer
    }

    fn plan_by(&self, policy: &Policy, now: &str) -> CleanupPlan {
        let inventory = self.store.inventory();
        let rows = self.store.sessions(&inventory).read(&|_, _| ());
        let rows: Vec<SessionInfo> = rows.into_iter().map(Result::unwrap).collect();
        let pins = self.store.retention().pins().unwrap();
        let now = Now {
            time: time(now),
            zone: TimeZone::UTC,
        };
        CleanupPlan::new(&inventory, rows, policy, &pins, &now, &|_| true)
    }

    fn plan(&self, term: &str, now: &str) -> CleanupPlan {
        self.plan_by(&policy(term), now)
    }

    fn info(&self) -> SessionInfo {
        let inventory = self.store.inventory();
        let mut rows = self.store.sessions(&inventory).read(&|_, _| ());
        assert_eq!(rows.len(), 1);
        rows.remove(0).unwrap()
    }
}

fn policy(term: &str) -> Policy {
    Policy::new(Term::parse(term).unwrap())
}

fn numbers(plan: &CleanupPlan) -> Vec<u32> {
    plan.expired().map(|old| number(&old.info)).collect()
}

fn number(info: &SessionInfo) -> u32 {
    u32::from_str_radix(&info.id.as_str()[..8], 16).unwrap()
}

fn touch(path: &Path, when: &str) {
    let since = Duration::from_secs(time(when).as_second() as u64);
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
    let file = File::options().append(true).open(path).unwrap();
    file.set_times(times).unwrap();
}

#[test]
fn session_age_is_that_of_its_newest_entry() {
    let place = Place::new("claude-code");
    let old = place.session(1, "/w", "2026-01-01T10:00:00Z");
    // Its sub-agent continued a month later.
    let alive = place.session(2, "/w", "2026-01-01T10:00:00Z");
    let spawn = Spawn::new(AgentId::new("a1").unwrap(), "k", "d");
    let begun = alive.spawn(&spawn).unwrap();
    begun.append(Draft::user("begin")).unwrap();
    let files = place.store.inventory().sessions.remove(1);
    let agent = SessionWriter::open_agent(&place.store, &files, "a1", at("2026-02-20T10:00:00Z"));
    agent.unwrap().append(Draft::user("more")).unwrap();
    let young = place.session(3, "/w", "2026-02-25T10:00:00Z");
    // The file times say the opposite: one file was copied, the other restored from a backup.
    touch(&old.path(), "2026-02-28T00:00:00Z");
    touch(&alive.path(), "2020-01-01T00:00:00Z");
    touch(&young.path(), "2020-01-01T00:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    assert_eq!(numbers(&plan), [1]);
    let old = plan.expired().next().unwrap();
    let last = old.last;
    // Writers put a millisecond between two records.
    assert_eq!(last.as_second(), time("2026-01-01T10:00:00Z").as_second());
    assert!(!old.from_file_time);
    // The limit itself is not yet too old.
    let edge = last + SignedDuration::from_hours(30 * 24);
    let old_at = |now: Timestamp| numbers(&place.plan("30d", &now.to_string()));
    assert!(old_at(edge).is_empty());
    assert_eq!(old_at(edge + 1.nanosecond()), [1]);
}

#[test]
fn session_without_entry_times_ages_by_file_time() {
    let place = Place::new("claude-code");
    let folder = place.root.path.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("00000001-0000-4000-8000-000000000000.jsonl");
    fs::write(
        &log,
        "{\"type\":\"user\",\"message\":{\"content\":\"hi\"}}\n",
    )
    .unwrap();
    touch(&log, "2026-01-01T00:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    assert_eq!(numbers(&plan), [1]);
    assert!(plan.expired().next().unwrap().from_file_time);
    touch(&log, "2026-02-28T00:00:00Z");
    // It was touched after the plan was made.
    let error = place
        .store
        .retention()
        .clean(&plan.groups[0], false, Timestamp::UNIX_EPOCH);
    assert!(
        matches!(error, Err(Error::File(FileError::Changed { .. }))),
        "{error:?}"
    );
    assert!(numbers(&place.plan("30d", "2026-03-01T00:00:00Z")).is_empty());
}

#[test]
fn entries_in_the_future_keep_a_session() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2031-01-01T10:00:00Z");
    assert!(numbers(&place.plan("0d", "2026-03-01T00:00:00Z")).is_empty());
}

#[test]
fn pinned_and_newest_sessions_of_each_project_are_kept() {
    let place = Place::new("claude-code");
    for (number, cwd, month) in [
        (1, "/a", 1),
        (2, "/a", 2),
        (3, "/a", 3),
        (4, "/b", 1),
        (5, "/b", 2),
    ] {
        place.session(number, cwd, &format!("2026-0{month}-01T00:00:00Z"));
    }
    let now = "2026-09-01T00:00:00Z";
    assert_eq!(numbers(&place.plan("30d", now)), [1, 4, 2, 5, 3]);
    let inventory = place.store.inventory();
    let pinned = place
        .store
        .retention()
        .pin(&[&inventory.sessions[0]], time(now))
        .unwrap();
    assert_eq!(pinned.len(), 1);
    assert!(
        place
            .store
            .retention()
            .pin(&[&inventory.sessions[0]], time(now))
            .unwrap()
            .is_empty()
    );
    let policy = Policy {
        keep_last: 1,
        ..policy("30d")
    };
    let plan = place.plan_by(&policy, now);
    assert_eq!(numbers(&plan), [4, 2]);
    let kept: BTreeSet<(u32, bool)> = plan
        .retained
        .iter()
        .map(|kept| (number(&kept.info), kept.reason == RetainReason::Pinned))
        .collect();
    assert_eq!(kept, [(1, true), (3, false), (5, false)].into());
    // The pin also applies through another path of the root.
    let linked = place.dir.path().join("linked");
    std::os::unix::fs::symlink(&place.root.path, &linked).unwrap();
    let pins = place.store.retention().pins().unwrap();
    assert!(pins.contains("claude-code", &linked, inventory.sessions[0].id.as_str()));
    assert!(!pins.contains("clog", &linked, inventory.sessions[0].id.as_str()));
    assert_eq!(place.store.retention().unpin(&pinned).unwrap(), pinned);
    assert_eq!(numbers(&place.plan("30d", now)).len(), 5);
}

#[test]
fn session_pinned_or_changed_after_the_plan_is_kept() {
    let place = Place::new("claude-code");
    let writers: Vec<SessionWriter> = (1..=5)
        .map(|number| place.session(number, "/w", "2026-01-01T00:00:00Z"))
        .collect();
    writers[3].set_todos(&[Todo::pending("x")]).unwrap();
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    assert_eq!(numbers(&plan), [1, 2, 3, 4, 5]);
    let inventory = place.store.inventory();
    place
        .store
        .retention()
        .pin(&[&inventory.sessions[0]], Timestamp::UNIX_EPOCH)
        .unwrap();
    writers[1].append(Draft::user("more")).unwrap();
    // A sub-agent began; the log itself is unchanged.
    let agents = writers[2].path().with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("agent-a1.jsonl"), "{}\n").unwrap();
    writers[3].set_todos(&[Todo::pending("y")]).unwrap();
    let before = picture(&place.root.path);
    for group in &plan.groups[..4] {
        let done = place
            .store
            .retention()
            .clean(group, true, Timestamp::UNIX_EPOCH);
        assert!(done.is_err(), "{}", group[0].info.id);
        assert_eq!(picture(&place.root.path), before);
    }
    assert!(place.store.trash().items().unwrap().is_empty());
    place
        .store
        .retention()
        .clean(&plan.groups[4], true, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert!(!writers[4].path().exists());
}

/// Returns every directory with its mode.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let below = picture(dir).into_keys().map(|path| dir.join(path));
    let dirs = below.filter(|path| path.is_dir());
    dirs.map(|path| {
        let mode = path.metadata().unwrap().permissions().mode();
        (path, mode & 0o777)
    })
    .collect()
}

/// All files of a session are moved and restored with it: in every layout and every fixture with
/// several sessions or with files other than the log.
#[test]
fn all_files_of_a_session_are_cleaned_and_undeleted() {
    for case in writable_cases() {
        let sessions = case.sessions();
        let plain = |files: &SessionFiles| files.agents.is_empty() && files.attachments.is_empty();
        if sessions.len() < 2 && sessions.iter().all(plain) {
            continue;
        }
        let copy = case.copy();
        for (dir, _) in modes(&copy.root.path) {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o750)).unwrap();
        }
        let store = copy.store();
        let inventory = store.inventory();
        let rows = store
            .sessions(&inventory)
            .read(&|_, _| ())
            .into_iter()
            .flatten();
        let now = Now {
            time: time("2100-01-01T00:00:00Z"),
            zone: TimeZone::UTC,
        };
        let pins = store.retention().pins().unwrap();
        let plan = CleanupPlan::new(
            &inventory,
            rows.collect(),
            &policy("30d"),
            &pins,
            &now,
            &|_| true,
        );
        let before = (picture(&copy.root.path), modes(&copy.root.path));
        let mut gone = Vec::new();
        for group in &plan.groups {
            match store.retention().clean(group, true, now.time) {
                Ok(trashed) => gone.push(trashed),
                // Files shared by several copies were counted with a copy that was cleaned first.
                Err(error) => assert!(
                    matches!(error, Error::File(FileError::Changed { .. })),
                    "{}: {error}",
                    case.name
                ),
            }
        }
        let left = store.inventory();
        assert_eq!(
            left.sessions.len() + plan.expired().count(),
            inventory.sessions.len(),
            "{}",
            case.name
        );
        for trashed in gone.iter().rev() {
            store.trash().restore(&trashed.id).unwrap();
        }
        let after = (picture(&copy.root.path), modes(&copy.root.path));
        // Session lists are rewritten; their contents are compared elsewhere.
        let plain = case.layout.name() != "chorus";
        assert!(
            !plain || after == before,
            "{}: {after:#?} {before:#?}",
            case.name
        );
        assert_eq!(after.1, before.1, "{}", case.name);
        assert!(store.trash().items().unwrap().is_empty());
    }
}

#[test]
fn empty_project_folders_are_removed_and_others_stay() {
    let place = Place::new("claude-code");
    let writer = place.session(1, "/gone", "2026-01-01T00:00:00Z");
    let own = writer.path().with_extension("");
    fs::create_dir_all(own.join("tool-results")).unwrap();
    place.session(2, "/kept", "2026-01-01T00:00:00Z");
    fs::create_dir_all(place.root.path.join("projects/-kept/memory")).unwrap();
    fs::write(place.root.path.join("projects/-kept/memory/MEMORY.md"), "x").unwrap();
    let before = picture(&place.root.path);
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    let gone: Vec<String> = plan
        .groups
        .iter()
        .map(|group| {
            place
                .store
                .retention()
                .clean(group, true, Timestamp::UNIX_EPOCH)
                .unwrap()
                .id
        })
        .collect();
    assert!(!place.root.path.join("projects/-gone").exists());
    assert!(
        place
            .root
            .path
            .join("projects/-kept/memory/MEMORY.md")
            .exists()
    );
    assert!(place.root.path.join("projects").exists());
    for id in &gone {
        place.store.trash().restore(id).unwrap();
    }
    assert_eq!(picture(&place.root.path), before);
}

/// As if the process had been killed after it moved the last file.
#[test]
fn directory_emptied_by_an_interrupted_clean_is_removed_by_the_next() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2026-01-01T00:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    place
        .store
        .retention()
        .clean(&plan.groups[0], true, Timestamp::UNIX_EPOCH)
        .unwrap();
    let folder = place.root.path.join("projects/-w");
    fs::create_dir(&folder).unwrap();
    place.store.retention().finish().unwrap();
    assert!(
        folder.exists(),
        "someone may be about to begin a session in it"
    );
    let long_ago = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    File::open(&folder).unwrap().set_times(long_ago).unwrap();
    place.store.retention().finish().unwrap();
    assert!(!folder.exists() && place.root.path.join("projects").exists());
}

#[test]
fn sessions_sharing_a_daily_log_are_cleaned_together() {
    let place = Place::new("orchestrator");
    let begin = |id: &str, when: &str| {
        let new = NewSession::new(SessionId::new(id).unwrap(), "/w");
        let writer = place.store.create(&place.root, &new, at(when)).unwrap();
        writer.append(Draft::user("said")).unwrap();
        touch(&writer.path(), when);
        writer
    };
    begin("one", "2026-01-01T10:00:00Z");
    begin("two", "2026-01-01T11:00:00Z");
    let three = begin("three", "2026-01-02T10:00:00Z");
    let ids = |plan: &CleanupPlan| -> Vec<Vec<String>> {
        let ids = |group: &Vec<annals::retain::Expired>| {
            group.iter().map(|old| old.info.id.to_string()).collect()
        };
        plan.groups.iter().map(ids).collect()
    };
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    let groups = ids(&plan);
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert_eq!(groups[0], ["one", "two"]);
    let before = picture(&place.root.path);
    let gone = place
        .store
        .retention()
        .clean(&plan.groups[0], true, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(gone.sessions().collect::<Vec<_>>(), ["one", "two"]);
    place.store.trash().restore(&gone.id).unwrap();
    assert_eq!(picture(&place.root.path), before);
    drop(three);
    let files = place.store.inventory().sessions;
    let two = files
        .iter()
        .find(|files| files.id.as_str() == "two")
        .unwrap();
    let writer = place
        .store
        .open_writer(two, at("2026-02-27T10:00:00Z"))
        .unwrap();
    writer.append(Draft::user("more")).unwrap();
    touch(&writer.path(), "2026-02-27T10:00:00Z");
    // The document's program uses the file time, which both share.
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    assert_eq!(ids(&plan), [["three"]]);
    assert!(plan.retained.is_empty(), "{:?}", plan.retained);
    // If one of them is retained, so is the other.
    touch(&writer.path(), "2026-01-01T10:00:00Z");
    place
        .store
        .retention()
        .pin(&[two], Timestamp::UNIX_EPOCH)
        .unwrap();
    let mut plan = place.plan("30d", "2026-03-01T00:00:00Z");
    plan.retained.retain(|kept| kept.info.id.as_str() == "one");
    assert_eq!(ids(&plan), [["three"]]);
    let kept: Vec<(&str, &RetainReason)> = plan
        .retained
        .iter()
        .map(|kept| (kept.info.id.as_str(), &kept.reason))
        .collect();
    assert!(
        matches!(kept.as_slice(), [("one", RetainReason::SharesLog { with, .. })] if with.as_str() == "two"),
        "{kept:?}"
    );
}

/// The session list shows a session as expired exactly if a cleanup with the program's own term
/// plans it.
#[test]
fn lists_and_clean_ups_agree_on_what_is_old() {
    let policy = Policy {
        program_terms: true,
        ..policy("30d")
    };
    let now = "2026-03-01T00:00:00Z";
    for layout in writable_layouts().filter(|it| it.retention_days().is_some()) {
        for (said, touched) in [
            ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
            ("2026-01-01T10:00:00Z", "2026-02-28T00:00:00Z"),
            ("2026-02-28T00:00:00Z", "2026-01-01T10:00:00Z"),
            ("2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z"),
        ] {
            let place = Place::new(layout.name());
            let writer = place.session(1, "/w", said);
            touch(&writer.path(), touched);
            let plan = place.plan_by(&policy, now);
            let listed = place.info().state_at(time(now)) == SessionState::Expired;
            let name = layout.name();
            let age = if layout.ages_by_file() { touched } else { said };
            assert_eq!(
                plan.expired().count() == 1,
                listed,
                "{name} {said} {touched}"
            );
            assert_eq!(listed, age < "2026-01-30", "{name} {said} {touched}");
            let by_file = plan.expired().next().map(|old| old.from_file_time);
            assert_eq!(by_file, listed.then_some(layout.ages_by_file()), "{name}");
        }
    }
}

/// A longer term in the program's settings applies to the list and to the cleanup.
#[test]
fn the_settings_of_the_program_say_when_a_session_is_expired() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2026-01-01T10:00:00Z");
    let settings = place.root.path.join("settings.json");
    let policy = Policy {
        program_terms: true,
        ..policy("30d")
    };
    for (days, now, old) in [
        (90, "2026-03-01T00:00:00Z", 0),
        (90, "2026-04-10T00:00:00Z", 1),
        (7, "2026-01-10T00:00:00Z", 1),
    ] {
        fs::write(&settings, format!("{{\"cleanupPeriodDays\":{days}}}")).unwrap();
        let plan = place.plan_by(&policy, now);
        assert_eq!(plan.expired().count(), old, "{days} {now}");
        let listed = place.info().state_at(time(now)) == SessionState::Expired;
        assert_eq!(listed, old == 1, "{days} {now}");
    }
}

fn at_day(number: u32) -> String {
    format!("2026-01-{number:02}T10:00:00Z")
}

/// Old files of deleted logs are cleaned and can be restored; files of existing logs stay.
#[test]
fn companions_and_lock_files_of_logs_that_are_gone_are_cleaned_up() {
    let place = Place::new("orchestrator");
    let begin = |day: u32| {
        let new = NewSession::new(SessionId::new(&format!("s{day}")).unwrap(), "/w");
        let when = at_day(day);
        let writer = place.store.create(&place.root, &new, at(&when)).unwrap();
        writer.append(Draft::user("said")).unwrap();
        writer.set_todos(&[Todo::pending("later")]).unwrap();
        writer.path()
    };
    let (gone, young, there) = (begin(1), begin(2), begin(3));
    let lock = |log: &Path| log.with_extension("jsonl.lock");
    let companion = |log: &Path| log.with_extension("annals");
    for log in [&gone, &young, &there] {
        assert!(companion(log).exists() && lock(log).exists());
    }
    let todos = gone.with_file_name("s1.todos.json");
    for path in [&lock(&gone), &companion(&gone), &todos] {
        touch(path, "2026-01-01T10:00:00Z");
    }
    for path in [&there, &lock(&there), &companion(&there)] {
        touch(path, "2026-01-03T10:00:00Z");
    }
    touch(&lock(&young), "2026-01-02T10:00:00Z");
    touch(&companion(&young), "2026-02-27T10:00:00Z");
    fs::remove_file(&gone).unwrap();
    fs::remove_file(&young).unwrap();
    let now = Now {
        time: time("2026-03-01T00:00:00Z"),
        zone: TimeZone::UTC,
    };
    let found = place.store.retention().leftovers(&policy("30d"), &now);
    let mut files: Vec<&Path> = found
        .iter()
        .flat_map(|it| &it.files)
        .map(AsRef::as_ref)
        .collect();
    files.sort_unstable();
    assert_eq!(files, [&companion(&gone), &lock(&gone), &todos]);
    let before = picture(&place.root.path);
    let moved: Vec<_> = found
        .iter()
        .map(|leftover| {
            place
                .store
                .retention()
                .clean_leftover(leftover, now.time)
                .unwrap()
        })
        .collect();
    assert!(!lock(&gone).exists() && !companion(&gone).exists() && !todos.exists());
    assert!(lock(&there).exists() && companion(&young).exists());
    for trashed in &moved {
        place.store.trash().restore(&trashed.id).unwrap();
    }
    assert_eq!(picture(&place.root.path), before);
    // The log exists again, or one of the files was changed.
    fs::write(&gone, "").unwrap();
    let is_log = |it: &&annals::retain::Leftover| it.gone.extension().is_some();
    let leftover = found.iter().find(is_log).unwrap();
    let error = place.store.retention().clean_leftover(leftover, now.time);
    assert!(
        matches!(error, Err(Error::File(FileError::Changed { .. }))),
        "{error:?}"
    );
    assert!(companion(&gone).exists() && lock(&gone).exists());
}

/// From an empty session to the trash and back, in every layout.
#[test]
fn every_layout_reaches_all_states() {
    for layout in writable_layouts() {
        let place = Place::new(layout.name());
        let id = SessionId::new("0000000a-0000-4000-8000-000000000000").unwrap();
        let new = NewSession::new(id, "/home/dev/w");
        let writer = place
            .store
            .create(&place.root, &new, at("2026-03-01T10:00:00Z"))
            .unwrap();
        let now = time("2026-03-01T10:01:00Z");
        let state = |now: Timestamp| place.info().state_at(now);
        let name = layout.name();
        assert_eq!(state(now), SessionState::Created, "{name}");
        writer.append(Draft::user("a question")).unwrap();
        assert_eq!(state(now), SessionState::Active, "{name}");
        drop(writer);
        let files = place.store.inventory().sessions.remove(0);
        let later = place
            .store
            .open_writer(&files, at("2026-03-01T18:00:00Z"))
            .unwrap();
        assert_eq!(later.state(), SessionState::Resumed, "{name}");
        later.append(Draft::user("another")).unwrap();
        assert_eq!(later.state(), SessionState::Active, "{name}");
        drop(later);
        assert_eq!(state(now), SessionState::Active, "{name}");
        let info = place.info();
        match layout.retention_days() {
            Some(days) => {
                let expires = info.expires.unwrap();
                let keep = SignedDuration::from_hours(24 * days as i64);
                let last = match layout.ages_by_file() {
                    true => expires - keep,
                    false => info.updated.unwrap(),
                };
                assert_eq!(info.state_at(last + keep), SessionState::Active, "{name}");
                assert_eq!(
                    info.state_at(last + keep + 1.second()),
                    SessionState::Expired,
                    "{name}"
                );
                let since = match layout.expires_by_mtime() {
                    false => info.updated.unwrap(),
                    true => {
                        let modified = fs::metadata(&info.file).unwrap().modified().unwrap();
                        modified.try_into().unwrap()
                    }
                };
                assert_eq!(
                    expires.duration_since(since).as_hours(),
                    days as i64 * 24,
                    "{name}"
                );
            }
            None => assert_eq!(info.expires, None, "{name}"),
        }
        let files = place.store.inventory().sessions.remove(0);
        let gone = place.store.trash().move_in(&files, now).unwrap();
        assert!(place.store.inventory().sessions.is_empty(), "{name}");
        let deleted = place.store.trash().sessions().unwrap();
        assert_eq!(deleted.len(), 1, "{name}");
        assert_eq!(deleted[0].state_at(now), SessionState::Deleted, "{name}");
        assert_eq!(deleted[0].messages, 2, "{name}");
        place.store.trash().restore(&gone.id).unwrap();
        assert_eq!(state(now), SessionState::Active, "{name}");
    }
}

#[test]
fn session_with_more_files_than_the_open_limit_is_cleaned() {
    let place = Place::new("claude-code");
    let writer = place.session(1, "/w", "2026-01-01T00:00:00Z");
    let agents = writer.path().with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    for number in 0..300 {
        let line = format!(
            "{{\"type\":\"user\",\"sessionId\":\"{}\",\"agentId\":\"a{number}\",\"isSidechain\":true}}\n",
            writer.session()
        );
        fs::write(agents.join(format!("agent-a{number}.jsonl")), line).unwrap();
    }
    drop(writer);
    let before = picture(&place.root.path);
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    // `threats/bombs.rs` of annals-cli does the same under `ulimit -n`, in a process of its own.
    let gone = place
        .store
        .retention()
        .clean(&plan.groups[0], true, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(gone.files.len(), 301);
    place.store.trash().restore(&gone.id).unwrap();
    assert_eq!(picture(&place.root.path), before);
    // If one of the last files changed, none is moved.
    let files = place.store.inventory().sessions.remove(0);
    let last = &files.agents[200].path;
    fs::write(last, "{\"type\":\"user\"}\n").unwrap();
    let before = picture(&place.root.path);
    assert!(
        place
            .store
            .trash()
            .move_in(&files, Timestamp::UNIX_EPOCH)
            .is_err()
    );
    assert_eq!(picture(&place.root.path), before);
}

#[test]
fn purge_removes_only_deleted_sessions() {
    let place = Place::new("claude-code");
    for number in 1..=3 {
        place.session(number, "/w", "2026-01-01T00:00:00Z");
    }
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    for (group, when) in plan
        .groups
        .iter()
        .zip(["2026-03-01T00:00:00Z", "2026-03-09T00:00:00Z"])
    {
        place
            .store
            .retention()
            .clean(group, true, time(when))
            .unwrap();
    }
    let root = picture(&place.root.path);
    let look = place.store.trash().contents().unwrap();
    assert!(look.errors.is_empty());
    let cutoff = time("2026-03-05T00:00:00Z");
    let old: Vec<_> = look
        .purgeable
        .iter()
        .filter(|item| item.is_older_than(cutoff))
        .collect();
    assert_eq!(old.len(), 1);
    assert_eq!(old[0].files, 1);
    place.store.trash().purge(old[0]).unwrap();
    assert!(place.store.trash().purge(old[0]).is_err(), "it is gone");
    assert_eq!(place.store.trash().items().unwrap().len(), 1);
    assert_eq!(picture(&place.root.path), root);
    // An item that was restored and deleted again is not the one inspected before.
    let look = place.store.trash().contents().unwrap();
    let again = place
        .store
        .trash()
        .restore(&look.purgeable[0].name)
        .unwrap();
    assert!(matches!(
        place.store.trash().purge(&look.purgeable[0]),
        Err(Error::File(FileError::Changed { .. }))
    ));
    assert_eq!(again.files.len(), 1);
    assert_eq!(place.store.inventory().sessions.len(), 2);
}

#[test]
fn interrupted_purge_is_finished_by_the_next() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2026-01-01T00:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    let gone = place
        .store
        .retention()
        .clean(&plan.groups[0], true, time("2026-03-01T00:00:00Z"))
        .unwrap();
    let trash = place.dir.path().join("state/undo");
    let condemned = trash.join(format!(".purging-{}", gone.id));
    fs::rename(trash.join(&gone.id), &condemned).unwrap();
    fs::remove_file(condemned.join("manifest.json")).unwrap();
    assert!(
        place.store.trash().items().unwrap().is_empty(),
        "it cannot come back in part"
    );
    assert!(place.store.trash().sessions().unwrap().is_empty());
    let look = place.store.trash().contents().unwrap();
    assert_eq!(look.purgeable.len(), 1);
    assert!(look.purgeable[0].is_older_than(Timestamp::MIN));
    place.store.trash().purge(&look.purgeable[0]).unwrap();
    assert!(picture(&trash).is_empty());
}

#[test]
fn trash_manifest_of_a_newer_version_is_left_alone() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2026-01-01T00:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    let gone = place
        .store
        .retention()
        .clean(&plan.groups[0], true, time("2026-03-01T00:00:00Z"))
        .unwrap();
    let trash = place.dir.path().join("state/undo");
    let manifest = trash.join(&gone.id).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let before = picture(&trash);
    let error = place
        .store
        .trash()
        .restore(&gone.session)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("manifest.json has version 2") && error.contains("version 1"),
        "{error}"
    );
    let look = place.store.trash().contents().unwrap();
    assert_eq!((look.purgeable.len(), look.errors.len()), (0, 1));
    // An empty or missing manifest is reported too.
    fs::write(&manifest, "").unwrap();
    assert_eq!(place.store.trash().contents().unwrap().errors.len(), 1);
    fs::remove_file(&manifest).unwrap();
    assert_eq!(place.store.trash().contents().unwrap().errors.len(), 1);
    fs::write(&manifest, text).unwrap();
    assert_eq!(picture(&trash).len(), before.len());
    place.store.trash().restore(&gone.session).unwrap();
}

#[test]
fn pins_of_a_newer_version_are_not_used_or_overwritten() {
    let place = Place::new("claude-code");
    place.session(1, "/w", "2026-01-01T00:00:00Z");
    let files = place.store.inventory().sessions.remove(0);
    let path = place.dir.path().join("state/pins.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for text in [
        "{\"version\": 2, \"pins\": {}}",
        "{\"pins\": []}",
        "",
        "{\"version\": 1}",
    ] {
        fs::write(&path, text).unwrap();
        let error = place.store.retention().pins().unwrap_err().to_string();
        assert!(error.contains("pins.json"), "{error}");
        assert!(
            place
                .store
                .retention()
                .pin(&[&files], Timestamp::UNIX_EPOCH)
                .is_err()
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let plan = || {
        fs::remove_file(&path).unwrap();
        let plan = place.plan("30d", "2026-03-01T00:00:00Z");
        fs::write(&path, "{\"version\": 2}").unwrap();
        plan
    };
    // If the pins cannot be read, nothing is moved.
    let plan = plan();
    assert!(
        place
            .store
            .retention()
            .clean(&plan.groups[0], true, Timestamp::UNIX_EPOCH)
            .is_err()
    );
    assert_eq!(place.store.inventory().sessions.len(), 1);
}

#[test]
fn concurrent_pins_are_all_stored() {
    let place = Place::new("claude-code");
    for number in 1..=8 {
        place.session(number, "/w", "2026-01-01T00:00:00Z");
    }
    let sessions = place.store.inventory().sessions;
    std::thread::scope(|scope| {
        for files in &sessions {
            let store = &place.store;
            scope.spawn(move || {
                store
                    .retention()
                    .pin(&[files], Timestamp::UNIX_EPOCH)
                    .unwrap()
            });
        }
    });
    assert_eq!(place.store.retention().pins().unwrap().iter().count(), 8);
}

/// An interrupted deletion has two manifests with directories; undelete restores both.
#[test]
fn interrupted_clean_is_finished_by_the_next() {
    let copy = case("2.1.325-s04-agent").copy();
    let before = picture(&copy.root.path);
    let place = Place {
        root: copy.root.clone(),
        store: copy.store(),
        dir: copy.dir,
    };
    let plan = place.plan("30d", "2100-01-01T00:00:00Z");
    let first = place
        .store
        .retention()
        .clean(&plan.groups[0], true, time("2026-03-01T10:00:00Z"))
        .unwrap();
    let main = &first.files[0].path;
    let from = place
        .dir
        .path()
        .join("state/undo")
        .join(&first.id)
        .join("files")
        .join(main);
    let to = place.root.path.join(main);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(from, &to).unwrap();
    let plan = place.plan("30d", "2100-01-01T00:00:00Z");
    assert_eq!(plan.groups.len(), 1);
    place
        .store
        .retention()
        .clean(&plan.groups[0], true, time("2026-03-01T10:00:05Z"))
        .unwrap();
    assert!(place.store.inventory().sessions.is_empty());
    place.store.trash().restore(&first.session).unwrap();
    assert_eq!(picture(&place.root.path), before);
}
