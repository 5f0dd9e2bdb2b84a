//! Restoring metadata of files and directories.

use std::fs::File;
use std::os::unix::fs::chown;
use std::sync::Arc;

use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use rustix::process::geteuid;

use super::super::attributes::{apply, read, read_upto};
use super::*;

/// A root whose directories and files have their own modes, attributes and, if permitted, owners.
fn desk() -> Fixture {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    for (path, mode) in [
        ("projects", 0o755),
        ("projects/-app", 0o2750),
        ("todos", 0o555),
    ] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(desk.root.join(path), permissions).unwrap();
    }
    desk
}

fn mode(desk: &Fixture, path: &str) -> u32 {
    fs::metadata(desk.root.join(path)).unwrap().mode() & 0o7777
}

/// Sets an attribute. Returns `false` if the file system has none.
fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    Some(value[..len].to_vec())
}

/// Removes all files and their directories.
fn clear(desk: &Fixture) {
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(desk.root.join("todos"), permissions).unwrap();
    fs::remove_dir_all(&desk.root).unwrap();
}

#[test]
fn restore_recreates_directories_with_their_modes() {
    let desk = desk();
    desk.store();
    clear(&desk);
    let restored = Pack::open(&desk.pack).unwrap().restore(None).unwrap();
    let dirs: Vec<&Path> = restored.dirs.iter().map(|dir| &*dir.path).collect();
    assert_eq!(dirs, ["projects", "projects/-app", "todos"].map(Path::new));
    assert!(restored.dirs.iter().all(|dir| dir.not_restored.is_empty()));
    assert_eq!(mode(&desk, "projects"), 0o755);
    assert_eq!(mode(&desk, "projects/-app"), 0o2750);
    assert_eq!(mode(&desk, "todos"), 0o555);
    // An existing directory is not changed.
    fs::remove_file(desk.root.join(LOG)).unwrap();
    let permissions = fs::Permissions::from_mode(0o700);
    fs::set_permissions(desk.root.join("projects/-app"), permissions).unwrap();
    let restored = Pack::open(&desk.pack).unwrap().restore(None).unwrap();
    assert!(restored.dirs.is_empty());
    assert_eq!(mode(&desk, "projects/-app"), 0o700);
}

#[test]
fn restore_sets_owners_and_attributes_where_permitted() {
    let desk = desk();
    let (log, dir) = (desk.root.join(LOG), desk.root.join("projects/-app"));
    let has_attributes = set(&log, "user.tag", b"a\0b") && set(&dir, "user.dir", b"");
    let may_own = geteuid().is_root();
    if may_own {
        chown(&log, Some(12345), Some(23456)).unwrap();
        chown(&dir, Some(12345), Some(23456)).unwrap();
    }
    desk.store();
    clear(&desk);
    let pack = Pack::open(&desk.pack).unwrap();
    let plan = pack.plan_restore(None).unwrap();
    let restored = pack.restore(None).unwrap();
    for report in [plan, restored] {
        assert!(report.files.iter().all(|file| file.not_restored.is_empty()));
        assert!(report.dirs.iter().all(|dir| dir.not_restored.is_empty()));
    }
    if may_own {
        for path in [&log, &dir] {
            let metadata = fs::metadata(path).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (12345, 23456));
        }
    }
    if has_attributes {
        assert_eq!(value(&log, "user.tag").unwrap(), b"a\0b");
        assert_eq!(value(&dir, "user.dir").unwrap(), b"");
    }
    assert_eq!(mode(&desk, "projects/-app"), 0o2750);
}

#[test]
fn changed_attribute_or_mode_is_archived_once() {
    let desk = desk();
    desk.store();
    assert!(desk.store().unchanged);
    if set(&desk.root.join(LOG), "user.tag", b"1") {
        let pack = desk.store().pack;
        let member = pack.member(Path::new(LOG)).unwrap();
        assert_eq!(member.attributes[0].name, "user.tag");
    }
    let permissions = fs::Permissions::from_mode(0o711);
    fs::set_permissions(desk.root.join("projects"), permissions).unwrap();
    assert!(!desk.store().unchanged);
    assert!(desk.store().unchanged);
}

/// Opens the pack with a modified index.
fn lying(desk: &Fixture, lie: impl FnOnce(&mut PackIndex)) -> Pack {
    let mut pack = Pack::open(&desk.pack).unwrap();
    lie(Arc::make_mut(&mut pack.index));
    pack
}

#[test]
fn restore_lists_attributes_it_cannot_set() {
    let desk = desk();
    desk.store();
    clear(&desk);
    let pack = lying(&desk, |index| {
        for (name, value) in [
            ("system.posix_acl_access", None),
            ("trusted.evil", Some("AAAA")),
            ("user.broken", Some("no Base64")),
        ] {
            let (name, value) = (name.to_owned(), value.map(str::to_owned));
            index.members[0]
                .attributes
                .push(ExtendedAttribute { name, value });
        }
    });
    let wanted = ["system.posix_acl_access", "trusted.evil", "user.broken"];
    let wanted = wanted.map(|name| format!("attribute {name}"));
    assert_eq!(
        pack.plan_restore(None).unwrap().files[0].not_restored,
        wanted
    );
    assert_eq!(pack.restore(None).unwrap().files[0].not_restored, wanted);
    assert!(value(&desk.root.join(LOG), "trusted.evil").is_none());
}

#[test]
fn foreign_pack_restores_no_directory_modes_or_attributes() {
    let desk = desk();
    let tagged = set(&desk.root.join(LOG), "user.tag", b"1");
    desk.store();
    let elsewhere = Archive::open(&desk.root);
    let pack = elsewhere.mark_foreign(Pack::open(&desk.pack).unwrap());
    let to = desk.dir.path().join("to");
    let restored = pack.restore(Some(&to)).unwrap();
    assert!(restored.dirs.is_empty());
    let metadata = fs::metadata(to.join("projects/-app")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o700);
    assert!(!tagged || value(&to.join(LOG), "user.tag").is_none());
}

#[test]
fn attribute_values_beyond_the_limit_are_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    if !set(&path, "user.long", &[7; 100]) || !set(&path, "user.z", b"1") {
        return;
    }
    let all = read(&path).unwrap();
    assert!(all.iter().all(|it| it.value.is_some()) && all.len() == 2);
    let some = read_upto(&path, 100).unwrap();
    assert_eq!(
        (some[0].name.as_str(), &some[0].value),
        ("user.long", &None)
    );
    assert_eq!(some[1].value.as_deref(), Some("MQ=="));
    let empty = File::create(dir.path().join("other")).unwrap();
    assert_eq!(apply(&empty, None, &some), ["attribute user.long"]);
    drop(file);
}

#[test]
fn index_without_dirs_and_owners_is_read() {
    let desk = desk();
    let pack = desk.store().pack;
    let mut json = serde_json::to_value(&*pack.index).unwrap();
    json.as_object_mut().unwrap().remove("dirs").unwrap();
    let member = json["members"][0].as_object_mut().unwrap();
    member.remove("owner").unwrap();
    let index: PackIndex = serde_json::from_value(json).unwrap();
    assert!(index.fault(0..u64::MAX).is_none());
    assert!(index.dirs.is_empty() && index.members[0].owner.is_none());
    clear(&desk);
    let restored = lying(&desk, |old| *old = index).restore(None).unwrap();
    assert!(restored.dirs.is_empty());
    assert_eq!(mode(&desk, "projects"), 0o700);
}

#[test]
fn index_with_directory_without_files_is_invalid() {
    let desk = desk();
    let pack = desk.store().pack;
    for path in ["", "..", "/etc", "projects/-other", LOG] {
        let mut index = PackIndex::clone(&pack.index);
        index.dirs[0].path = path.into();
        let fault = index.fault(0..u64::MAX).unwrap();
        assert!(fault.contains("no file is in the directory"), "{fault}");
    }
}
