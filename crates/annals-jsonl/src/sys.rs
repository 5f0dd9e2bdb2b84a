//! What the write path asks of the operating system beyond std: flags and modes of new files, kinds of
//! errors that std does not name, renames that replace nothing, positioned reads, the identity of files.
//!
//! The rest of the crate is written against this module and std, whose `sync_all` is `fsync` on Linux
//! and `F_FULLFSYNC` on macOS, and whose file locks are `flock` on both. Two questions have an answer only on
//! Linux, in modules of their own with a fallback: who holds a file open (`open_files`), and whether
//! anyone has it open for writing (`lease`).

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    fchown,
};
use std::path::Path;

use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;

/// Refuses symbolic links, does not wait for the other end of a pipe, and does not make a terminal the
/// controlling one.
pub(crate) fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed())
}

/// Creates files that only their owner can read and write.
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// The permissions of files that only their owner can read and write.
pub(crate) fn owner_only_permissions() -> Permissions {
    Permissions::from_mode(0o600)
}

/// Creates a directory that only its owner can use.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Whether an open failed because [`no_follow`] refused a symbolic link.
pub(crate) fn is_link_refused(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Whether an open failed because the path is a socket, or a device that does not exist.
pub(crate) fn is_no_device(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NXIO)
}

/// Renames a file or a directory to a name that nothing has; fails with `AlreadyExists` otherwise.
/// See [`is_rename_unsupported`].
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
}

/// Whether [`rename_new`] failed because the file system knows no such rename.
pub(crate) fn is_rename_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::NOSYS)
    )
}

/// Reads at an offset, without moving the position of the file.
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

/// The device and the inode.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Seconds and nanoseconds of the last change of the content, and of the inode.
pub(crate) fn change_times(metadata: &Metadata) -> [(i64, i64); 2] {
    [
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    ]
}

/// Copies the mode of the old file, and its owner if permitted.
pub(crate) fn copy_mode_and_owner(file: &File, old: &Metadata) -> io::Result<()> {
    // Only root may change the owner; for others the owner is the writing user.
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    set_mode(file, old.mode())
}

/// Sets the permission bits of a file.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode & 0o777))
}

/// Whether a file or directory is on a network file system.
#[cfg(target_os = "linux")]
pub fn is_remote(file: &File) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    // The magic numbers are 32 bits wide in a field whose width depends on the platform.
    let kind = kind as u32;
    Ok(matches!(
        kind,
        0x6969 // NFS
            | 0x517b // SMB
            | 0xff53_4d42 // CIFS
            | 0xfe53_4d42 // SMB2
            | 0x0102_1997 // 9P
            | 0x5346_414f // AFS
            | 0x00c3_6400 // Ceph
            | 0x7375_7245 // Coda
    ))
}

/// Whether a file or directory is on a network file system, which only Linux tells.
#[cfg(not(target_os = "linux"))]
pub fn is_remote(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rename_to_an_existing_name_fails_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        let error = rename_new(&at("a"), &at("b")).unwrap_err();
        if !is_rename_unsupported(&error) {
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(at("a")).unwrap(), b"a");
        assert_eq!(fs::read(at("b")).unwrap(), b"b");
    }

    #[test]
    fn link_is_refused_and_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let open = |name: &str| no_follow(File::options().read(true)).open(at(name));
        assert!(is_link_refused(&open("link").unwrap_err()));
        assert!(!is_link_refused(&open("none").unwrap_err()));
        open("file").unwrap();
    }

    #[test]
    fn new_files_and_directories_belong_to_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o777;
        let mut options = File::options();
        owner_only(options.write(true).create_new(true))
            .open(at("file"))
            .unwrap();
        create_dir(&at("dir")).unwrap();
        assert_eq!((mode("file"), mode("dir")), (0o600, 0o700));
    }

    #[test]
    fn copy_has_the_identity_and_times_of_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::hard_link(at("a"), at("same")).unwrap();
        fs::copy(at("a"), at("copy")).unwrap();
        let metadata = |name: &str| fs::metadata(at(name)).unwrap();
        assert_eq!(identity(&metadata("a")), identity(&metadata("same")));
        assert_ne!(identity(&metadata("a")), identity(&metadata("copy")));
        assert_eq!(
            change_times(&metadata("a")),
            change_times(&metadata("same"))
        );
    }
}
