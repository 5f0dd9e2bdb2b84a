//! Owner and extended attributes of files and directories.
//!
//! User attributes (`user.*`) are archived with their values, up to [`MOST`] bytes per file. Access
//! control lists and attributes that are too long are listed by name only, so that a restore can
//! report what is missing.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Maximum size of the archived attributes of a file, names and values together.
const MOST: usize = 64 << 10;

/// Name prefix of user attributes.
const USER: &str = "user.";

/// Owner of a file, serialised as `[uid, gid]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub(crate) struct Owner {
    /// The user id.
    pub(crate) uid: u32,
    /// The group id.
    pub(crate) gid: u32,
}

impl From<(u32, u32)> for Owner {
    fn from((uid, gid): (u32, u32)) -> Self {
        Owner { uid, gid }
    }
}

impl From<Owner> for (u32, u32) {
    fn from(owner: Owner) -> Self {
        (owner.uid, owner.gid)
    }
}

impl From<&Metadata> for Owner {
    fn from(metadata: &Metadata) -> Self {
        Owner {
            uid: metadata.uid(),
            gid: metadata.gid(),
        }
    }
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExtendedAttribute {
    /// Its name.
    pub(crate) name: String,
    /// Its value in Base64; absent if it was not archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
}

impl ExtendedAttribute {
    /// Returns the value, if it was archived and may be set.
    fn bytes(&self) -> Option<Vec<u8>> {
        let value = self.value.as_ref().filter(|_| self.name.starts_with(USER));
        value.and_then(|value| BASE64_STANDARD.decode(value).ok())
    }
}

/// A directory of archived files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedDir {
    /// Its path within the root.
    pub(crate) path: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Its owner.
    pub(crate) owner: Owner,
    /// Its extended attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<ExtendedAttribute>,
}

impl ArchivedDir {
    /// Reads a directory's metadata; `None` if the path is not a directory.
    pub(crate) fn read(root: &Path, within: &Path) -> Result<Option<Self>> {
        let path = root.join(within);
        let metadata = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => metadata,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("stat", &path, error)),
        };
        Ok(Some(ArchivedDir {
            path: within.to_owned(),
            mode: metadata.mode() & 0o7777,
            owner: Owner::from(&metadata),
            attributes: read(&path)?,
        }))
    }

    /// Applies owner, attributes and mode to a new directory and returns what could not be
    /// restored. The mode still lets its owner enter and write.
    pub(crate) fn apply_open(&self, path: &Path) -> Result<Vec<String>> {
        let failed = |error| Error::io("create", path, error);
        let dir = File::open(path).map_err(failed)?;
        let left = apply(&dir, Some(self.owner), &self.attributes);
        self.set_mode(&dir, 0o700).map_err(failed)?;
        Ok(left)
    }

    /// Sets the exact archived mode, once nothing more is written to the directory.
    pub(crate) fn close(&self, path: &Path) -> Result<()> {
        if self.mode & 0o700 == 0o700 {
            return Ok(());
        }
        let set = File::open(path).and_then(|dir| self.set_mode(&dir, 0));
        set.map_err(|error| Error::io("create", path, error))
    }

    fn set_mode(&self, dir: &File, also: u32) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        dir.set_permissions(std::fs::Permissions::from_mode(self.mode & 0o3777 | also))
    }
}

/// Reads the attributes of a file or a directory that are archived.
pub(crate) fn read(path: &Path) -> Result<Vec<ExtendedAttribute>> {
    read_upto(path, MOST)
}

/// Like [`read`], with at most `room` bytes of names and values.
pub(crate) fn read_upto(path: &Path, mut room: usize) -> Result<Vec<ExtendedAttribute>> {
    /// Limit of the system.
    const NAMES: usize = 64 << 10;
    let failed = |errno: Errno| Error::io("read the attributes of", path, errno.into());
    let mut names = vec![0; NAMES];
    let len = match llistxattr(path, &mut names[..]) {
        Ok(len) => len,
        // The file system has no extended attributes.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let names = names
        .get(..len)
        .unwrap_or_default()
        .split(|byte| *byte == 0);
    let mut found = Vec::new();
    for name in names {
        let is_user = name.starts_with(USER.as_bytes());
        if !is_user && !name.starts_with(b"system.posix_acl_") {
            continue;
        }
        room = room.saturating_sub(name.len());
        let mut value = vec![0; room];
        let value = match lgetxattr(path, name, &mut value[..]) {
            Ok(len) if is_user => {
                room = room.saturating_sub(len);
                value.get(..len).map(|value| BASE64_STANDARD.encode(value))
            }
            // Too long, or an access control list.
            Ok(_) | Err(Errno::RANGE) => None,
            // Removed by another process meanwhile.
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(failed(error)),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        found.push(ExtendedAttribute { name, value });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Sets owner and attributes of a file as far as permitted; returns what could not be restored.
pub(crate) fn apply(
    file: &File,
    owner: Option<Owner>,
    attributes: &[ExtendedAttribute],
) -> Vec<String> {
    let mut left = Vec::new();
    let now = file.metadata().ok().map(|metadata| Owner::from(&metadata));
    if let Some(owner) = owner.filter(|_| owner != now) {
        let (uid, gid) = (Some(owner.uid), Some(owner.gid));
        // The group first: only the file's owner may set it, and only to a group that they are in.
        let is_group_lost = now.map(|now| now.gid) != gid && fchown(file, None, gid).is_err();
        if now.map(|now| now.uid) != uid && fchown(file, uid, None).is_err() {
            left.push(Lack::Owner(owner.uid).to_string());
        }
        if is_group_lost {
            left.push(Lack::Group(owner.gid).to_string());
        }
    }
    let is_set = |attribute: &ExtendedAttribute| {
        let value = attribute.bytes();
        let set = |value: Vec<u8>| fsetxattr(file, &attribute.name, &value, XattrFlags::empty());
        value.is_some_and(|value| set(value).is_ok())
    };
    let lost = attributes.iter().filter(|attribute| !is_set(attribute));
    left.extend(lost.map(|attribute| Lack::Attribute(&attribute.name).to_string()));
    left
}

/// Returns what is known in advance not to be restorable.
pub(crate) fn not_restorable(
    owner: Option<Owner>,
    attributes: &[ExtendedAttribute],
) -> Vec<String> {
    let mut left = Vec::new();
    if let Some(owner) = owner.filter(|_| !geteuid().is_root()) {
        if geteuid().as_raw() != owner.uid {
            left.push(Lack::Owner(owner.uid).to_string());
        }
        let groups = getgroups().unwrap_or_default().into_iter();
        if !groups
            .chain([getegid()])
            .any(|own| own.as_raw() == owner.gid)
        {
            left.push(Lack::Group(owner.gid).to_string());
        }
    }
    let lost = attributes.iter().filter(|it| it.bytes().is_none());
    left.extend(lost.map(|attribute| Lack::Attribute(&attribute.name).to_string()));
    left
}

/// A property that a restored file lacks.
enum Lack<'a> {
    Owner(u32),
    Group(u32),
    Attribute(&'a str),
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Owner(uid) => write!(f, "owner {uid}"),
            Lack::Group(gid) => write!(f, "group {gid}"),
            Lack::Attribute(name) => write!(f, "attribute {name}"),
        }
    }
}
