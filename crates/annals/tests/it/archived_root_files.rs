//! Files of a root outside of sessions are archived too, and restored where no file exists.

use std::fs;
use std::path::{Path, PathBuf};

use annals::archive::{ArchiveAllOptions, ArchiveAllReport, ROOT_ID, RestoreOutcome};
use annals::model::ArtifactKind;
use annals::store::{Root, Store};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::case;

struct Desk {
    dir: TempDir,
    store: Store,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path().join("root"));
        let store = Store::new(vec![root]).with_state(dir.path().join("state"));
        let desk = Desk { dir, store };
        desk.put("history.jsonl", "{\"display\":\"first\",\"timestamp\":1}\n");
        desk.put("plans/one.md", "# One\n");
        desk.put("plans/two.md", "# Two\n");
        desk.put("settings.json", "{}");
        desk.put("projects/sessions-index.json", "{}");
        desk
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join("root").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn keep(&self) -> ArchiveAllReport {
        let inventory = self.store.inventory_without_archive();
        let options = ArchiveAllOptions::default();
        let kept = self
            .store
            .archive_all(&inventory, options, Timestamp::now(), &|_, _| {});
        let kept = kept.unwrap();
        assert!(kept.is_ok(), "{kept:?}");
        kept
    }

    /// Returns the names of plans and history, and whether each is only archived.
    fn reported(&self) -> Vec<(String, bool)> {
        let inventory = self.store.inventory();
        assert!(inventory.errors.is_empty());
        let kinds = [ArtifactKind::History, ArtifactKind::Plan];
        let reported = kinds.into_iter().flat_map(|kind| {
            let files = inventory.others_of_kind(kind).collect::<Vec<_>>();
            files.into_iter().map(|(_, file)| {
                let name = file.path.file_name().unwrap().to_string_lossy();
                (name.into_owned(), file.is_archived())
            })
        });
        reported.collect()
    }
}

#[test]
fn plans_and_history_are_archived_and_restored() {
    let desk = Desk::new();
    let kept = desk.keep();
    assert_eq!(kept.archived.len(), 1);
    assert_eq!((kept.sessions, kept.unchanged), (0, 0));
    // Derived files are not archived.
    assert_eq!(kept.archived[0].files, 4);
    assert!(desk.keep().archived.is_empty());
    // A history that grows adds only the new bytes.
    let more = "{\"display\":\"second\",\"timestamp\":2}\n";
    let before = fs::read_to_string(desk.at("history.jsonl")).unwrap();
    fs::write(desk.at("history.jsonl"), format!("{before}{more}")).unwrap();
    assert_eq!(desk.keep().added, more.len() as u64);

    fs::remove_file(desk.at("plans/one.md")).unwrap();
    fs::remove_file(desk.at("history.jsonl")).unwrap();
    fs::write(desk.at("plans/two.md"), "# Two, again\n").unwrap();
    let reported = desk.reported();
    let named = |name: &str, kept: bool| (name.to_owned(), kept);
    assert_eq!(
        reported,
        [
            named("history.jsonl", true),
            named("one.md", true),
            named("two.md", false)
        ]
    );
    let inventory = desk.store.inventory();
    let (root, history) = inventory
        .others_of_kind(ArtifactKind::History)
        .next()
        .unwrap();
    assert_eq!(root.entries(history).unwrap().len(), 2);

    let found = desk.store.archive().unwrap().find(ROOT_ID).unwrap();
    let restored = found.restore(None).unwrap();
    let fate = |name: &str| {
        let mut files = restored.files.iter();
        files.find(|file| file.path.ends_with(name)).unwrap().fate
    };
    assert_eq!(fate("one.md"), RestoreOutcome::New);
    assert_eq!(fate("history.jsonl"), RestoreOutcome::New);
    assert_eq!(fate("settings.json"), RestoreOutcome::Same);
    // Existing files are left unchanged and do not block the restore.
    assert_eq!(fate("two.md"), RestoreOutcome::Left);
    assert_eq!(
        fs::read(desk.at("plans/two.md")).unwrap(),
        b"# Two, again\n"
    );
    assert_eq!(fs::read(desk.at("plans/one.md")).unwrap(), b"# One\n");
    let history = fs::read_to_string(desk.at("history.jsonl")).unwrap();
    assert_eq!(history, format!("{before}{more}"));
    assert!(desk.reported().iter().all(|(_, kept)| !kept));
    // Into another directory, everything is restored.
    let elsewhere = desk.dir.path().join("elsewhere");
    found.restore(Some(&elsewhere)).unwrap();
    assert_eq!(
        fs::read(elsewhere.join("plans/two.md")).unwrap(),
        b"# Two\n"
    );
}

/// The root's other files are not a session, although a session may have their id.
#[test]
fn root_archive_is_not_a_session() {
    let desk = Desk::new();
    desk.keep();
    fs::remove_dir_all(desk.at("")).unwrap();
    let inventory = desk.store.inventory();
    assert!(inventory.sessions.is_empty());
    assert_eq!(desk.reported().len(), 3);
}

/// In Chorus, only the configuration names the directory of a folder.
#[test]
fn session_lists_and_configuration_are_archived_and_read() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let projects = || {
        let inventory = store.inventory();
        let rows = store.sessions(&inventory).read(&|_, _| ());
        let rows = rows.into_iter().map(Result::unwrap);
        let rows = rows.map(|row| (row.id.to_string(), row.project));
        rows.collect::<Vec<_>>()
    };
    let before = projects();
    assert_eq!(before.len(), 3);
    let config = fs::read(copy.root.path.join("config.json")).unwrap();
    let options = ArchiveAllOptions::default();
    let found = store.inventory_without_archive();
    let kept = store.archive_all(&found, options, Timestamp::now(), &|_, _| {});
    assert!(kept.unwrap().is_ok());

    fs::remove_dir_all(&copy.root.path).unwrap();
    assert_eq!(projects(), before);
    let archive = store.archive().unwrap();
    for (id, _) in &before {
        archive.find(id).unwrap().restore(None).unwrap();
    }
    assert_eq!(projects(), before);
    // The configuration is restored only if it is named.
    let found = archive.find(ROOT_ID).unwrap();
    assert_eq!(
        found.restore(None).unwrap().files[0].fate,
        RestoreOutcome::Held
    );
    assert!(!copy.root.path.join("config.json").exists());
    let found = found.restore_also(&["config.json".into()]).unwrap();
    let restored = found.restore(None).unwrap();
    let paths = restored.files.iter().map(|file| file.path.as_path());
    // Session lists of folders were restored with their logs.
    assert_eq!(paths.collect::<Vec<_>>(), [Path::new("config.json")]);
    assert_eq!(
        fs::read(copy.root.path.join("config.json")).unwrap(),
        config
    );
    assert_eq!(projects(), before);
}

#[test]
fn each_root_archives_its_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let roots = ["one", "other"].map(|name| Root::claude_code(dir.path().join(name)));
    for (root, text) in roots.iter().zip(["# One\n", "# Another\n"]) {
        fs::create_dir_all(root.path.join("plans")).unwrap();
        fs::write(root.path.join("plans/plan.md"), text).unwrap();
    }
    let store = Store::new(roots.to_vec()).with_state(dir.path().join("state"));
    let keep = || {
        let inventory = store.inventory_without_archive();
        let options = ArchiveAllOptions::default();
        let kept = store.archive_all(&inventory, options, Timestamp::now(), &|_, _| {});
        let archived = kept.unwrap().archived.into_iter();
        archived
            .map(|it| (it.root, it.files, it.bytes))
            .collect::<Vec<_>>()
    };
    let [one, other] = roots.each_ref().map(|root| root.path.clone());
    assert_eq!(keep(), [(one, 1, 6), (other, 1, 10)]);
    assert_eq!(keep(), []);
}

#[test]
fn damaged_file_of_a_root_is_repaired_from_the_root() {
    let desk = Desk::new();
    desk.keep();
    let archive = desk.store.archive().unwrap();
    let found = archive.find(ROOT_ID).unwrap();
    let plan = found.member(Path::new("plans/one.md")).unwrap();
    let stored = found.location(plan);
    let mut bytes = fs::read(&stored).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&stored, bytes).unwrap();
    let damaged = annals::archive::verify(&archive.find(ROOT_ID).unwrap());
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    archive
        .record_damaged(&[found], &damaged, Timestamp::now())
        .unwrap();
    let note = desk.dir.path().join("state/archive/keep.json");
    assert!(fs::read_to_string(&note).unwrap().contains("one.md.zst"));
    desk.keep();
    assert_eq!(annals::archive::verify(&archive.find(ROOT_ID).unwrap()), []);
}
