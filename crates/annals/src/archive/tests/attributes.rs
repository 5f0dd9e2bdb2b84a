//! Restoring metadata of files and directories.

use std::fs::File;
use std::os::unix::fs::chown;

use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use rustix::process::geteuid;

use super::*;
use crate::archive_format::attributes::{ExtendedAttribute, apply, read, read_upto};

/// A root whose directories and files have their own modes, attributes and, if permitted, owners.
fn desk() -> Fixture {
    let desk = Fixture::new();
    for (path, mode) in [
        ("projects", 0o755),
        ("projects/-app", 0o2750),
        ("todos", 0o555),
    ] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(desk.root.path.join(path), permissions).unwrap();
    }
    desk
}

fn mode(desk: &Fixture, path: &str) -> u32 {
    fs::metadata(desk.root.path.join(path)).unwrap().mode() & 0o7777
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
    fs::set_permissions(desk.root.path.join("todos"), permissions).unwrap();
    fs::remove_dir_all(&desk.root.path).unwrap();
}

#[test]
fn restore_recreates_directories_with_their_modes() {
    let desk = desk();
    desk.store();
    clear(&desk);
    let restored = desk.session().restore(None).unwrap();
    let dirs: Vec<&Path> = restored.dirs.iter().map(|dir| &*dir.path).collect();
    assert_eq!(dirs, ["projects", "projects/-app", "todos"].map(Path::new));
    assert!(restored.dirs.iter().all(|dir| dir.not_restored.is_empty()));
    assert_eq!(mode(&desk, "projects"), 0o755);
    assert_eq!(mode(&desk, "projects/-app"), 0o2750);
    assert_eq!(mode(&desk, "todos"), 0o555);
    // An existing directory is not changed.
    fs::remove_file(desk.root.path.join(LOG)).unwrap();
    let permissions = fs::Permissions::from_mode(0o700);
    fs::set_permissions(desk.root.path.join("projects/-app"), permissions).unwrap();
    let restored = desk.session().restore(None).unwrap();
    assert!(restored.dirs.is_empty());
    assert_eq!(mode(&desk, "projects/-app"), 0o700);
}

#[test]
fn restore_sets_owners_and_attributes_where_permitted() {
    let desk = desk();
    let (log, dir) = (
        desk.root.path.join(LOG),
        desk.root.path.join("projects/-app"),
    );
    let has_attributes = set(&log, "user.tag", b"a\0b") && set(&dir, "user.dir", b"");
    let may_own = geteuid().is_root();
    if may_own {
        chown(&log, Some(12345), Some(23456)).unwrap();
        chown(&dir, Some(12345), Some(23456)).unwrap();
    }
    desk.store();
    clear(&desk);
    let session = desk.session();
    let plan = session.plan_restore(None).unwrap();
    let restored = session.restore(None).unwrap();
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
    assert!(!desk.store().is_changed);
    if set(&desk.root.path.join(LOG), "user.tag", b"1") {
        desk.store();
        let session = desk.session();
        let member = session.member(Path::new(LOG)).unwrap();
        assert_eq!(member.attributes[0].name, "user.tag");
    }
    let permissions = fs::Permissions::from_mode(0o711);
    fs::set_permissions(desk.root.path.join("projects"), permissions).unwrap();
    assert!(desk.store().is_changed);
    assert!(!desk.store().is_changed);
}

#[test]
fn restore_lists_attributes_it_cannot_set() {
    let desk = desk();
    desk.store();
    clear(&desk);
    let mut session = desk.session();
    for (name, value) in [
        ("system.posix_acl_access", None),
        ("trusted.evil", Some("AAAA")),
        ("user.broken", Some("no Base64")),
    ] {
        let (name, value) = (name.to_owned(), value.map(str::to_owned));
        let attributes = &mut session.members[0].attributes;
        attributes.push(ExtendedAttribute { name, value });
    }
    let wanted = ["system.posix_acl_access", "trusted.evil", "user.broken"];
    let wanted = wanted.map(|name| format!("attribute {name}"));
    assert_eq!(
        session.plan_restore(None).unwrap().files[0].not_restored,
        wanted
    );
    assert_eq!(session.restore(None).unwrap().files[0].not_restored, wanted);
    assert!(value(&desk.root.path.join(LOG), "trusted.evil").is_none());
}

#[test]
fn foreign_archive_restores_no_directory_modes_or_attributes() {
    let desk = desk();
    let tagged = set(&desk.root.path.join(LOG), "user.tag", b"1");
    desk.store();
    let elsewhere = Archive::open(&desk.root.path);
    let session = elsewhere.mark_foreign(desk.session());
    let to = desk.dir.path().join("to");
    let restored = session.restore(Some(&to)).unwrap();
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
