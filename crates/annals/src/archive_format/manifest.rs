//! The manifest of a root's archive: one line of JSON per archived file, appended and never changed.
//! The last line of a path counts.
//!
//! | line begins with | meaning |
//! |---|---|
//! | `{"path":` | a file ([`Member`]); with `version`, an earlier version of it |
//! | `{"dir":` | a directory of archived files ([`ArchivedDir`]) |
//! | `{"gone":` | the file, or with `version` that version of it, was removed from the archive |
//!
//! Each line ends with `"sum"`, a checksum of what precedes it. A line that does not match it is
//! damaged and ignored. Its file is still in the tree, and is found there. A last line without an
//! end was never acknowledged; the next writer cuts it off.
//!
//! A version of the same generation as the current line says where that content is from then on: a
//! writer copies a file to its version before it replaces the file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use super::checksum::Checksum;
use crate::error::{Error, Result};
use annals_jsonl::removal_name::original_path;
use annals_jsonl::{self as jsonl, FileId};
use annals_layouts::layout::Layout;
use annals_layouts::model::{Artifact, Framing};

/// File name of the manifest.
pub(crate) const NAME: &str = "manifest.jsonl";

/// A session, as its files name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// Its id.
    pub id: String,
    /// Its folder, as the layout names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// An archived file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its path within the root.
    pub path: PathBuf,
    /// The number of an earlier version; `None` for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u32>,
    /// Its length.
    pub len: u64,
    /// Length of the compressed file.
    pub(crate) packed: u64,
    /// Checksum of the whole file; unknown if its line is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<Checksum>,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
    /// Its extended attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<ExtendedAttribute>,
    /// Modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Time of the last change of the inode (ctime), in nanoseconds since 1970.
    pub(crate) ctime_ns: i64,
    /// Its device.
    pub(crate) dev: u64,
    /// Its inode.
    pub(crate) ino: u64,
    /// The ctime of the compressed file when it was written. If it differs, someone changed it.
    #[serde(default)]
    pub(crate) packed_ctime_ns: i64,
    /// When it was archived.
    pub(crate) archived: Timestamp,
    /// Number of times it was archived.
    pub(crate) generation: u64,
    /// The sessions that it belongs to. The main log of sessions that share logs has all of them,
    /// other files the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sessions: Vec<SessionKey>,
    /// Rows of session lists about the log, verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) list_rows: Vec<String>,
    /// Digest of the session-list rows of all sessions, to detect changes; only on the main log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) list_digest: Option<Checksum>,
    /// Its former path, if its folder was renamed. Until the compressed file is renamed too, it is
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<PathBuf>,
    /// For an earlier version: when it was found to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The version that holds its content while the compressed file is being replaced.
    #[serde(skip)]
    pub(crate) moved_to: Option<u32>,
    /// It has no line in the manifest; only its path and content are known.
    #[serde(skip)]
    pub(crate) is_unlisted: bool,
}

impl Member {
    /// Returns the identity of the file when it was archived.
    pub(crate) fn id(&self) -> FileId {
        FileId {
            dev: self.dev,
            ino: self.ino,
            len: self.len,
            mtime_ns: self.mtime_ns,
            ctime_ns: self.ctime_ns,
        }
    }

    /// Returns the path of the compressed file in the archive directory of its root.
    pub(crate) fn location(&self, dir: &Path) -> PathBuf {
        let location = self.location_for(dir, &self.path);
        match &self.was {
            Some(was) if matches!(jsonl::exists(&location), Ok(false)) => {
                self.location_for(dir, was)
            }
            _ => location,
        }
    }

    pub(crate) fn location_for(&self, dir: &Path, path: &Path) -> PathBuf {
        match self.version.or(self.moved_to) {
            Some(version) => version_path(dir, path, version),
            None => file_path(dir, path),
        }
    }

    fn is_valid(&self, layout: &'static dyn Layout, lone: bool) -> bool {
        let was = self.was.as_ref();
        is_place(&self.path, layout, lone) && was.is_none_or(|was| is_place(was, layout, lone))
    }
}

/// Returns the path of the compressed newest version of a file.
pub(crate) fn file_path(dir: &Path, path: &Path) -> PathBuf {
    let mut name = dir.join("files").join(path).into_os_string();
    name.push(".zst");
    name.into()
}

/// Returns the path under which a compressed file is written.
pub(crate) fn temporary_path(file: &Path) -> PathBuf {
    file.with_extension("zst.new")
}

/// Returns the directory of the earlier versions of a file.
pub(crate) fn versions_dir(dir: &Path, path: &Path) -> PathBuf {
    dir.join("versions").join(path)
}

/// Returns the path of a compressed earlier version of a file.
pub(crate) fn version_path(dir: &Path, path: &Path, version: u32) -> PathBuf {
    versions_dir(dir, path).join(format!("{version}.zst"))
}

/// Returns whether a file may be restored to this path: inside the root, and a path of the layout.
fn is_place(path: &Path, layout: &'static dyn Layout, lone: bool) -> bool {
    if !is_inside(path) {
        return false;
    }
    if lone {
        let is_log = path.extension().is_some_and(|ending| ending == "jsonl");
        return is_log && path.components().count() == 1;
    }
    // The path of a session in a database is not that of a file.
    let is_file = |artifact: Artifact| !matches!(artifact.framing, Framing::Rows(_));
    let has_place = |path: &Path| layout.classify(path).is_some_and(is_file);
    // A file that was being removed is archived too.
    original_path(path).is_some_and(|path| has_place(&path)) || has_place(path)
}

fn is_inside(path: &Path) -> bool {
    let down = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.as_os_str().is_empty() && path.components().all(down)
}

/// What a line says.
#[derive(Debug)]
pub(crate) enum Line {
    File(Box<Member>),
    Dir(ArchivedDir),
    Gone(PathBuf, Option<u32>),
}

#[derive(Serialize, Deserialize)]
struct DirLine {
    dir: PathBuf,
    mode: u32,
    owner: Owner,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<ExtendedAttribute>,
}

#[derive(Serialize, Deserialize)]
struct GoneLine {
    gone: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
}

const SUM: &str = ",\"sum\":\"";

impl Line {
    /// Encodes the line, with its checksum and without a newline.
    pub(crate) fn encode(&self) -> Result<String> {
        let json = match self {
            Line::File(member) => serde_json::to_string(member),
            Line::Dir(dir) => serde_json::to_string(&DirLine {
                dir: dir.path.clone(),
                mode: dir.mode,
                owner: dir.owner,
                attributes: dir.attributes.clone(),
            }),
            Line::Gone(path, version) => serde_json::to_string(&GoneLine {
                gone: path.clone(),
                version: *version,
            }),
        };
        let json = json.map_err(|error| Error::refused(format!("cannot be archived: {error}")))?;
        Ok(with_sum(&json))
    }

    /// Decodes a line; `None` if it is damaged.
    fn decode(line: &[u8]) -> Option<Self> {
        let text = checked_text(line)?;
        if text.starts_with("{\"path\":") {
            return serde_json::from_str(text).ok().map(Line::File);
        }
        if text.starts_with("{\"dir\":") {
            let dir: DirLine = serde_json::from_str(text).ok()?;
            return Some(Line::Dir(ArchivedDir {
                path: dir.dir,
                mode: dir.mode,
                owner: dir.owner,
                attributes: dir.attributes,
            }));
        }
        let gone: GoneLine = serde_json::from_str(text).ok()?;
        Some(Line::Gone(gone.gone, gone.version))
    }
}

/// Adds a checksum to a JSON object, as its last member.
pub(crate) fn with_sum(json: &str) -> String {
    let json = json.strip_suffix('}').unwrap_or(json);
    format!("{json}{SUM}{}\"}}", sum(json.as_bytes()))
}

/// Returns a JSON object with a checksum as text; `None` if it does not match.
pub(crate) fn checked_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (json, rest) = text.rsplit_once(SUM)?;
    (rest.strip_suffix("\"}")? == sum(json.as_bytes())).then_some(text)
}

fn sum(bytes: &[u8]) -> String {
    let mut digits = Checksum::compute(bytes).to_string();
    digits.truncate(16);
    digits
}

/// The contents of a manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifest {
    /// The newest version of each file, by path.
    pub(crate) files: BTreeMap<PathBuf, Member>,
    /// Earlier versions, by path and number.
    pub(crate) versions: BTreeMap<(PathBuf, u32), Member>,
    /// Directories of the files, by path.
    pub(crate) dirs: BTreeMap<PathBuf, ArchivedDir>,
    /// Files that were removed from the archive.
    pub(crate) gone: BTreeSet<PathBuf>,
    /// Number of lines.
    pub(crate) lines: usize,
    /// Number of lines that cannot be read.
    pub(crate) damaged: usize,
    /// Where its whole lines end.
    pub(crate) end: u64,
    /// Whether the last line is incomplete: its writer was killed, or the manifest is cut.
    pub(crate) is_torn: bool,
    /// Whether files that it does not list are from an interrupted writer.
    pub(crate) is_interrupted: bool,
    /// Whether the tree was searched for files that it does not list.
    pub(crate) is_scanned: bool,
    /// Whether the manifest exists.
    pub(crate) exists: bool,
    /// Its identity when it was read.
    pub(crate) id: FileId,
}

impl Manifest {
    /// Reads the manifest of a directory. Skips files for which `skip` returns true.
    pub(crate) fn read(
        dir: &Path,
        layout: &'static dyn Layout,
        lone: bool,
        skip: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let path = dir.join(NAME);
        let failed = |error| Error::io("read", &path, error);
        let file = match jsonl::open_to_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Manifest::default()),
            Err(error) => return Err(failed(error)),
        };
        let id = FileId::from(&file.metadata().map_err(failed)?);
        let mut bytes = Vec::with_capacity(id.len as usize);
        io::Read::read_to_end(&mut &file, &mut bytes).map_err(failed)?;
        let mut manifest = Manifest {
            exists: true,
            id,
            ..Manifest::default()
        };
        let mut from = 0;
        for end in memchr_iter(b'\n', &bytes) {
            let line = bytes.get(from..end).unwrap_or_default();
            from = end + 1;
            manifest.lines += 1;
            if plain_path(line).is_some_and(skip) {
                continue;
            }
            match Line::decode(line) {
                Some(Line::File(member)) if !member.is_valid(layout, lone) => manifest.damaged += 1,
                Some(line) => manifest.apply(line),
                // A writer ends a torn line before it appends.
                None if line.is_empty() => {}
                None => manifest.damaged += 1,
            }
        }
        manifest.end = from as u64;
        manifest.is_torn = from < bytes.len();
        Ok(manifest)
    }

    pub(crate) fn apply(&mut self, line: Line) {
        match line {
            Line::File(member) => match member.version {
                None => {
                    self.gone.remove(&member.path);
                    self.files.insert(member.path.clone(), *member);
                }
                Some(version) => {
                    let current = self.files.get_mut(&member.path);
                    let current = current.filter(|it| it.generation == member.generation);
                    if let Some(current) = current {
                        current.moved_to = Some(version);
                    }
                    self.versions
                        .insert((member.path.clone(), version), *member);
                }
            },
            Line::Dir(dir) if is_inside(&dir.path) => {
                self.dirs.insert(dir.path.clone(), dir);
            }
            Line::Dir(_) => self.damaged += 1,
            Line::Gone(path, Some(version)) => {
                self.versions.remove(&(path, version));
            }
            Line::Gone(path, None) => {
                self.files.remove(&path);
                self.versions.retain(|(of, _), _| *of != path);
                self.gone.insert(path);
            }
        }
    }

    /// Returns why the manifest may lack lines, if it does.
    pub(crate) fn damage(&self) -> Option<String> {
        match (self.exists, self.damaged) {
            (false, _) => Some("is missing".to_owned()),
            (true, 0) => None,
            (true, 1) => Some("has a damaged line".to_owned()),
            (true, lines) => Some(format!("has {lines} damaged lines")),
        }
    }

    /// Returns the lines that count, for a manifest without the others.
    pub(crate) fn live_lines(&self) -> Result<Vec<String>> {
        let dirs = self.dirs.values().cloned().map(Line::Dir);
        let is_used = |line: &Line| match line {
            Line::Dir(dir) => {
                let mut after = self.files.range(dir.path.clone()..);
                after
                    .next()
                    .is_some_and(|(path, _)| path.starts_with(&dir.path))
            }
            _ => true,
        };
        let file = |member: &Member| Line::File(Box::new(member.clone()));
        let lines = dirs.filter(is_used).chain(self.files.values().map(file));
        let lines = lines.chain(self.versions.values().map(file));
        lines.map(|line| line.encode()).collect()
    }

    /// Returns the highest generation of the versions of a file.
    pub(crate) fn last_generation(&self, path: &Path) -> u64 {
        let range = (path.to_owned(), 0)..=(path.to_owned(), u32::MAX);
        let versions = self.versions.range(range);
        versions.map(|(_, it)| it.generation).max().unwrap_or(0)
    }

    /// Returns the numbers of the versions of a file, the oldest first.
    pub(crate) fn versions_of(&self, path: &Path) -> impl Iterator<Item = u32> {
        let range = (path.to_owned(), 0)..=(path.to_owned(), u32::MAX);
        self.versions.range(range).map(|((_, version), _)| *version)
    }
}

/// Returns the path in a line of a file, if it is spelled without escapes.
fn plain_path(line: &[u8]) -> Option<&Path> {
    let rest = line.strip_prefix(b"{\"path\":\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    let path = std::str::from_utf8(rest.get(..end)?).ok()?;
    (rest.get(end) == Some(&b'"')).then_some(Path::new(path))
}

#[cfg(test)]
mod tests;
