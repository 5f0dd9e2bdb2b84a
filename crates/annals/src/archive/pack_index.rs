//! Index of a pack: its files and where their content is stored.

use std::collections::HashSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use annals_jsonl::FileId;
use annals_jsonl::removal_name::original_path;
use annals_layouts::layout;
use annals_layouts::model::ArtifactKind;

/// Format version of packs that this program writes.
pub const VERSION: u32 = 1;

/// Maximum content of a frame, so that any byte of a file can be reached by reading one frame.
pub(super) const FRAME: usize = 1 << 20;

/// Maximum compressed length of a frame.
const FRAME_BYTES: u64 = FRAME as u64 + (64 << 10);

/// Maximum ratio of content to pack length, unless the content is less than [`SURELY`]. Logs do not
/// compress that well; a pack that exceeds it is made to fill a disk.
const RATIO: u64 = 1_000;
const SURELY: u64 = 1 << 30;

/// Maximum number of files in a pack.
pub(super) const MEMBERS: usize = 1 << 20;

/// A SHA-256, displayed as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 32]);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("a checksum is 64 hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut sum = [0; 32];
        for (at, byte) in sum.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Checksum(sum))
    }
}

/// Index of a pack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackIndex {
    /// Format version of the pack.
    pub version: u32,
    /// The layout's name.
    pub layout: String,
    /// The root of the files.
    pub root: PathBuf,
    /// The pack holds a log outside any tree; `root` is its directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lone: bool,
    /// The sessions: one, or several that share log files.
    pub sessions: Vec<PackedSession>,
    /// Number of times the pack was written to.
    pub generation: u64,
    /// Time of the last write.
    pub archived: Timestamp,
    /// The files, the main log first.
    pub members: Vec<Member>,
    /// Earlier versions of files that were replaced or cut, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Member>,
    /// The directories of the files, outer ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<ArchivedDir>,
    /// Rows of session lists about the logs, verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<PackedListRow>,
    /// Digest of the session-list rows when this was written, to detect changes.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub list_digest: Option<Checksum>,
    /// The index is stored twice, one copy directly after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twice: bool,
    /// The index was written while the pack was created and lists only the files complete by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// The frames that hold the content.
    pub frames: Vec<Frame>,
}

/// A session of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedSession {
    /// Its id.
    pub id: String,
    /// The folder that its project's sessions share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// Row of a session list about a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedListRow {
    /// The log's path within the root.
    pub path: PathBuf,
    /// The row, verbatim.
    pub text: String,
}

/// A file of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its path within the root.
    pub path: PathBuf,
    /// Its length.
    pub len: u64,
    /// SHA-256 of the whole file.
    pub sha256: Checksum,
    /// State of that SHA-256 after the last complete block of 64 bytes, for resuming.
    pub state: Checksum,
    /// Its permissions.
    pub mode: u32,
    /// Its owner; absent in packs of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Its extended attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<ExtendedAttribute>,
    /// Modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Time of the last change of the inode (ctime), in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Its device.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// Ranges of frames that hold its content, in order.
    pub parts: Vec<FrameRange>,
    /// For an earlier version: when it was found to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Member {
    /// Returns the identity of the file when it was archived.
    pub fn id(&self) -> FileId {
        FileId {
            dev: self.dev,
            ino: self.ino,
            len: self.len,
            mtime_ns: self.mtime_ns,
            ctime_ns: self.ctime_ns,
        }
    }
}

/// A range of a frame's content, serialised as `[frame, at, len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32)", into = "(u32, u32, u32)")]
pub struct FrameRange {
    /// The frame's index in the list of frames.
    pub frame: u32,
    /// Offset in the frame's content.
    pub at: u32,
    /// Length of the range.
    pub len: u32,
}

impl From<(u32, u32, u32)> for FrameRange {
    fn from((frame, at, len): (u32, u32, u32)) -> Self {
        FrameRange { frame, at, len }
    }
}

impl From<FrameRange> for (u32, u32, u32) {
    fn from(part: FrameRange) -> Self {
        (part.frame, part.at, part.len)
    }
}

/// A compressed frame, serialised as `[at, bytes, len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32)", into = "(u64, u32, u32)")]
pub struct Frame {
    /// Offset in the pack.
    pub at: u64,
    /// Compressed length.
    pub bytes: u32,
    /// Length of its content.
    pub len: u32,
}

impl From<(u64, u32, u32)> for Frame {
    fn from((at, bytes, len): (u64, u32, u32)) -> Self {
        Frame { at, bytes, len }
    }
}

impl From<Frame> for (u64, u32, u32) {
    fn from(frame: Frame) -> Self {
        (frame.at, frame.bytes, frame.len)
    }
}

impl Frame {
    /// Returns the offset of its end in the pack.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.into())
    }
}

impl PackIndex {
    /// Returns all files, including earlier versions.
    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.earlier)
    }

    /// Returns the log of the first session, or the first file if there is none. The log may follow
    /// other files if the pack was updated while the log was missing from the root.
    pub fn main_log(&self) -> Option<&Member> {
        let mut logs = self.members.iter();
        let main = logs.find(|member| self.is_session_log(&member.path));
        main.or(self.members.first())
    }

    /// Returns whether a path is that of a session log.
    pub(super) fn is_session_log(&self, path: &Path) -> bool {
        let layout = layout::by_name(&self.layout).filter(|_| !self.lone);
        let artifact = layout.and_then(|layout| layout.classify(path));
        artifact.is_some_and(|artifact| artifact.kind == ArtifactKind::SessionLog)
    }

    /// Returns whether the pack holds files that belong to no session.
    pub(crate) fn has_no_session(&self) -> bool {
        self.sessions.is_empty() && !self.lone
    }

    /// Returns why the index is invalid for a pack whose frames are in the given range, if it is.
    pub(super) fn fault(&self, frames: std::ops::Range<u64>) -> Option<String> {
        if self.members.len() + self.earlier.len() > MEMBERS {
            return Some(format!("it lists more than {MEMBERS} files"));
        }
        if let Some(fault) = self.fault_of_frames(frames) {
            return Some(fault);
        }
        let mut paths = HashSet::new();
        if let Some(twice) = self.members.iter().find(|it| !paths.insert(&it.path)) {
            return Some(format!("it lists {} twice", twice.path.display()));
        }
        if let Some(member) = self.all().find(|member| !self.is_place(&member.path)) {
            let path = member.path.display();
            return Some(format!("{path} is not a valid path in its layout"));
        }
        let above = self.all().flat_map(|it| it.path.ancestors().skip(1));
        let above: HashSet<&Path> = above.filter(|dir| !dir.as_os_str().is_empty()).collect();
        if let Some(dir) = self.dirs.iter().find(|dir| !above.contains(&*dir.path)) {
            let path = dir.path.display();
            return Some(format!("no file is in the directory {path}"));
        }
        self.fault_of_parts()
    }

    fn fault_of_frames(&self, within: std::ops::Range<u64>) -> Option<String> {
        let mut order: Vec<&Frame> = self.frames.iter().collect();
        order.sort_unstable();
        let mut end = within.start;
        for frame in order {
            let at = frame.at;
            if at < end {
                return Some(format!("the frame at {at} overlaps another"));
            }
            end = frame.end();
            if end > within.end || frame.bytes == 0 {
                return Some(format!(
                    "the frame at {at} extends past the end of the pack"
                ));
            }
            let len = frame.len as usize;
            if len > FRAME || len == 0 || u64::from(frame.bytes) > FRAME_BYTES {
                return Some(format!("the frame at {at} claims to hold {len} bytes"));
            }
        }
        let total: u64 = self.frames.iter().map(|frame| u64::from(frame.len)).sum();
        let most = RATIO.saturating_mul(within.end).max(SURELY);
        (total > most).then(|| {
            format!("it claims to hold {total} bytes, more than {RATIO} times its own length")
        })
    }

    /// Checks that every byte of a file has one place, and no place is used twice.
    fn fault_of_parts(&self) -> Option<String> {
        let mut used: Vec<FrameRange> = Vec::new();
        for member in self.all() {
            let mut len = 0u64;
            for part in &member.parts {
                len += u64::from(part.len);
                let frame = self.frames.get(part.frame as usize);
                let end = u64::from(part.at) + u64::from(part.len);
                if part.len == 0 || frame.is_none_or(|frame| end > frame.len.into()) {
                    let path = member.path.display();
                    return Some(format!(
                        "{path} extends past the end of frame {}",
                        part.frame
                    ));
                }
            }
            if len != member.len {
                let (path, claimed) = (member.path.display(), member.len);
                return Some(format!("{path} has {len} bytes but claims {claimed}"));
            }
            used.extend(&member.parts);
        }
        used.sort_unstable();
        let overlap = used.windows(2).find_map(|pair| match pair {
            [one, next] => {
                let end = u64::from(one.at) + u64::from(one.len);
                (one.frame == next.frame && end > next.at.into()).then_some(one.frame)
            }
            _ => None,
        });
        overlap.map(|frame| format!("files overlap in frame {frame}"))
    }

    /// Returns whether a file may be restored to this path: inside the root, and a path of the
    /// layout.
    fn is_place(&self, path: &Path) -> bool {
        let down = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(down) {
            return false;
        }
        if self.lone {
            let is_log = path.extension().is_some_and(|ending| ending == "jsonl");
            return is_log && path.components().count() == 1;
        }
        // An earlier version also archived files that were being removed.
        let original = original_path(path);
        layout::by_name(&self.layout).is_some_and(|layout| {
            let original = original.is_some_and(|path| layout.classify(&path).is_some());
            original || layout.classify(path).is_some()
        })
    }

    /// Drops unused frames and renumbers the rest.
    pub(super) fn drop_unused_frames(&mut self) {
        let mut used = vec![false; self.frames.len()];
        for part in self.all().flat_map(|member| &member.parts) {
            if let Some(used) = used.get_mut(part.frame as usize) {
                *used = true;
            }
        }
        let mut number = 0;
        let mut numbers = Vec::with_capacity(used.len());
        for &used in &used {
            numbers.push(number);
            number += u32::from(used);
        }
        let mut is_used = used.iter();
        self.frames.retain(|_| is_used.next() == Some(&true));
        let members = self.members.iter_mut().chain(&mut self.earlier);
        for part in members.flat_map(|member| &mut member.parts) {
            if let Some(&number) = numbers.get(part.frame as usize) {
                part.frame = number;
            }
        }
    }
}
