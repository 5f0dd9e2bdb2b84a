//! The index of a pack: what is in it, and where.

use std::collections::HashSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use crate::jsonl::FileId;
use crate::layout;
use crate::model::ArtifactKind;

/// The form of packs that this program writes.
pub const VERSION: u32 = 1;

/// No frame has more than this in it, so that any place of a file is reached by reading one.
pub(super) const FRAME: usize = 1 << 20;

/// Nor is it longer than this, whatever is in it.
const FRAME_BYTES: u64 = FRAME as u64 + (64 << 10);

/// No pack has more in it than this times its length, unless it is less than [`SURELY`]. Logs do not
/// get so small; what claims to is made to fill a disk.
const RATIO: u64 = 1_000;
const SURELY: u64 = 1 << 30;

/// No pack has more files than this.
pub(super) const MEMBERS: usize = 1 << 20;

/// A SHA-256, spelled in hexadecimal digits.
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

/// What a pack holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackIndex {
    /// The form of the pack.
    pub version: u32,
    /// The layout's name.
    pub layout: String,
    /// The root that the files lay in.
    pub root: PathBuf,
    /// It is a log outside of any tree, and `root` is the directory it lay in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lone: bool,
    /// The sessions: one, or those whose logs are the same files.
    pub sessions: Vec<PackedSession>,
    /// How often the pack was written to.
    pub generation: u64,
    /// When it was written to last.
    pub archived: Timestamp,
    /// The files, the main log first.
    pub members: Vec<Member>,
    /// Earlier versions of files that were replaced or cut, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Member>,
    /// The directories that the files lay in, the outer ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<ArchivedDir>,
    /// What registers said about the logs, in the register's own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<PackedListRow>,
    /// A digest of what registers told when this was written, which tells that they tell something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Checksum>,
    /// It stands in the pack twice, one right behind the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twice: bool,
    /// It was written while the pack was made, and tells of the files that were whole by then: more was to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// Where the content lies.
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

/// What a register said about a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedListRow {
    /// The log's path within the root.
    pub path: PathBuf,
    /// The row.
    pub text: String,
}

/// A file of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its path within the root.
    pub path: PathBuf,
    /// Its length.
    pub len: u64,
    /// The SHA-256 of all of it.
    pub sha256: Checksum,
    /// The inner state of that sum behind the last whole block of 64 bytes, to go on from.
    pub state: Checksum,
    /// Its permissions.
    pub mode: u32,
    /// Who owned it; nothing if nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Its extended attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<ExtendedAttribute>,
    /// When it was last changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When anything about it was last changed.
    pub ctime_ns: i64,
    /// The device it lay on.
    pub dev: u64,
    /// Its inode there.
    pub ino: u64,
    /// Where its content lies, in order.
    pub parts: Vec<FrameRange>,
    /// When it was found to be replaced by another version, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Member {
    /// What the file was when it was archived.
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

/// A stretch of a frame: spelled as `[frame, at, len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32)", into = "(u32, u32, u32)")]
pub struct FrameRange {
    /// The frame's place in the list of frames.
    pub frame: u32,
    /// Where in the frame's content it begins.
    pub at: u32,
    /// How long it is.
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

/// Where some content lies: spelled as `[at, bytes, len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32)", into = "(u64, u32, u32)")]
pub struct Frame {
    /// Where in the pack it begins.
    pub at: u64,
    /// How long it is there.
    pub bytes: u32,
    /// How long its content is.
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
    /// Where in the pack it ends.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.into())
    }
}

impl PackIndex {
    /// All files, earlier versions too.
    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.earlier)
    }

    /// The log of its session, or of the first of several; the first of its files if there is none. A pack
    /// that was added to while its log was gone may have that behind other files.
    pub fn main_log(&self) -> Option<&Member> {
        let mut logs = self.members.iter();
        let main = logs.find(|member| self.is_session_log(&member.path));
        main.or(self.members.first())
    }

    /// Whether a file of it is the log of a session.
    pub(super) fn is_session_log(&self, path: &Path) -> bool {
        let layout = layout::by_name(&self.layout).filter(|_| !self.lone);
        let artifact = layout.and_then(|layout| layout.classify(path));
        artifact.is_some_and(|artifact| artifact.kind == ArtifactKind::SessionLog)
    }

    /// It tells of what belongs to no session.
    pub(crate) fn has_no_session(&self) -> bool {
        self.sessions.is_empty() && !self.lone
    }

    /// Says why this cannot be the index of a pack whose frames lie in the given part of it.
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
            return Some(format!("{path} is no place for a file of its layout"));
        }
        let above = self.all().flat_map(|it| it.path.ancestors().skip(1));
        let above: HashSet<&Path> = above.filter(|dir| !dir.as_os_str().is_empty()).collect();
        if let Some(dir) = self.dirs.iter().find(|dir| !above.contains(&*dir.path)) {
            let path = dir.path.display();
            return Some(format!("no file of it lies in the directory {path}"));
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
                return Some(format!("the frame at {at} leads out of the pack"));
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

    /// Every byte of a file has one place, and no place is given to two.
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
                    return Some(format!("{path} leads out of frame {}", part.frame));
                }
            }
            if len != member.len {
                let (path, told) = (member.path.display(), member.len);
                return Some(format!("{path} has {len} bytes and claims to have {told}"));
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
        overlap.map(|frame| format!("two files lie at one place of frame {frame}"))
    }

    /// Whether such a file can lie in the root.
    fn is_place(&self, path: &Path) -> bool {
        let down = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(down) {
            return false;
        }
        if self.lone {
            let is_log = path.extension().is_some_and(|ending| ending == "jsonl");
            return is_log && path.components().count() == 1;
        }
        layout::by_name(&self.layout).is_some_and(|layout| layout.classify(path).is_some())
    }

    /// Drops frames that no file lies in any more, and numbers the others anew.
    pub(super) fn tidy(&mut self) {
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
