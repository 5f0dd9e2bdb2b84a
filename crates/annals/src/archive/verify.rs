//! Verifies packs by reading them back.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::pack::{Cache, Pack, describe_ignored};
use super::pack_index::Member;
use super::resumable_sha256::ResumableSha256;
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;

/// Damage in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The pack.
    pub pack: PathBuf,
    /// The damaged file in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<PathBuf>,
    /// Offset of the unreadable frame in the pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Description of the damage.
    pub detail: String,
    /// The read failed with an I/O error, so it is unknown whether the data is damaged.
    #[serde(skip)]
    pub is_unread: bool,
}

impl Damage {
    /// Reports a pack that cannot be opened.
    pub fn unreadable_pack(path: &Path, error: &Error) -> Self {
        Damage {
            pack: path.to_owned(),
            member: None,
            frame: None,
            detail: error.to_string(),
            is_unread: matches!(error, Error::File(FileError::Io { .. })),
        }
    }
}

impl Damage {
    /// Reports the missing end of a truncated or damaged pack, with the files stored there.
    pub fn lost_end(pack: &Pack) -> Option<Self> {
        Some(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: None,
            detail: pack.describe_lost_end()?,
            is_unread: false,
        })
    }

    /// Reports a pack that could not be opened and was set aside for a new one.
    pub fn set_aside(path: &Path) -> Self {
        let shown = path.display().to_string();
        Damage {
            pack: path.to_owned(),
            member: None,
            frame: None,
            detail: format!(
                "could not be opened and was set aside; {} recovers what is left of it, {} removes it",
                annals_layouts::text::quoted_command("annals restore", &shown, "--salvage"),
                annals_layouts::text::quoted_command("annals archive --forget", &shown, "--apply")
            ),
            is_unread: false,
        }
    }
}

/// Result of reading packs back.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Number of packs read.
    pub packs: usize,
    /// Number of files in them.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
    /// Damage found.
    pub damaged: Vec<Damage>,
}

impl VerifyReport {
    /// Reads a whole pack back.
    pub fn verify_pack(&mut self, path: &Path) {
        self.packs += 1;
        match Pack::open(path) {
            Ok(pack) => {
                self.files += pack.index.all().count();
                self.bytes += pack.index.all().map(|member| member.len).sum::<u64>();
                self.damaged.extend(verify(&pack));
            }
            Err(error) => self.damaged.push(Damage::unreadable_pack(path, &error)),
        }
    }

    pub(super) fn add(&mut self, other: VerifyReport) {
        self.packs += other.packs;
        self.files += other.files;
        self.bytes += other.bytes;
        self.damaged.extend(other.damaged);
    }
}

/// Reads all files of a pack, including earlier versions, and compares their checksums.
pub fn verify(pack: &Pack) -> Vec<Damage> {
    let all = pack.index.all();
    let mut damaged: Vec<Damage> = all.flat_map(|member| verify_member(pack, member)).collect();
    if let Some(lost) = Damage::lost_end(pack) {
        damaged.push(lost);
    } else if pack.torn > 0 {
        let (torn, generation) = (describe_ignored(pack.torn), pack.index.generation);
        damaged.push(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: None,
            detail: format!(
                "{torn}: the writer was killed, or the end is damaged; everything up to generation {generation} is intact"
            ),
            is_unread: false,
        });
    }
    match pack.has_intact_first_index() {
        Ok(true) => {}
        Err(error) => {
            let error = Error::io("read", &pack.path, error);
            damaged.push(Damage::unreadable_pack(&pack.path, &error));
        }
        Ok(false) => damaged.push(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: None,
            detail: "one of the two copies of its index is damaged; the other is intact".to_owned(),
            is_unread: false,
        }),
    }
    damaged
}

fn verify_member(pack: &Pack, member: &Member) -> Vec<Damage> {
    // The callback cannot fail.
    unpack(pack, member, |_| Ok(())).unwrap_or_default()
}

/// Unpacks a file and passes its content to `give` frame by frame, before the checksum of the whole
/// file is verified. Returns the damage; content before and after a damaged frame is passed too.
pub(super) fn unpack(
    pack: &Pack,
    member: &Member,
    mut give: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Vec<Damage>> {
    let mut damaged = Vec::new();
    let mut sum = ResumableSha256::new();
    for part in &member.parts {
        let given = pack.with_part(part, |bytes| {
            sum.update(bytes);
            give(bytes)
        });
        match given {
            Ok(given) => given?,
            Err(error) => {
                let frame = pack.index.frames.get(part.frame as usize);
                damaged.push(Damage {
                    pack: pack.path.clone(),
                    member: Some(member.path.clone()),
                    frame: frame.map(|frame| frame.at),
                    detail: error.to_string(),
                    is_unread: error.kind() != io::ErrorKind::InvalidData,
                });
            }
        }
    }
    let sum = sum.sum();
    if damaged.is_empty() && sum != member.sha256 {
        damaged.push(Damage {
            pack: pack.path.clone(),
            member: Some(member.path.clone()),
            frame: None,
            detail: format!("its checksum is {sum}, not {}", member.sha256),
            is_unread: false,
        });
    }
    Ok(damaged)
}

/// Reads back the frames of a pack from offset `since`.
pub(super) fn verify_since(pack: &Pack, since: u64) -> Vec<Damage> {
    let mut cache = Cache::default();
    let frames = pack.index.frames.iter().filter(|frame| frame.at >= since);
    let damaged = frames.filter_map(|frame| {
        let error = pack.try_frame(frame, &mut cache).err()?;
        Some(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: Some(frame.at),
            is_unread: error.kind() != io::ErrorKind::InvalidData,
            detail: error.to_string(),
        })
    });
    damaged.collect()
}
