//! Reading packs back, to tell whether everything is still there.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::pack::{Cache, Pack};
use super::pack_index::Member;
use super::resumable_sha256::ResumableSha256;
use crate::error::{Error, Result};

/// Something in an archive that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The pack.
    pub pack: PathBuf,
    /// The file in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<PathBuf>,
    /// Where in the pack the frame begins that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// What is wrong.
    pub detail: String,
    /// The system did not let annals read it, so nobody can tell whether it is as it was written.
    #[serde(skip)]
    pub is_unread: bool,
}

impl Damage {
    /// A pack that cannot be opened.
    pub fn unreadable_pack(path: &Path, error: &Error) -> Self {
        Damage {
            pack: path.to_owned(),
            member: None,
            frame: None,
            detail: error.to_string(),
            is_unread: matches!(error, Error::Io { .. }),
        }
    }
}

impl Damage {
    /// The end of a pack that was cut or damaged, and files that stood there.
    pub fn lost_end(pack: &Pack) -> Option<Self> {
        Some(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: None,
            detail: pack.describe_lost_end()?,
            is_unread: false,
        })
    }

    /// A pack that could not be opened, and was set aside for a new one.
    pub fn set_aside(path: &Path) -> Self {
        let shown = path.display().to_string();
        Damage {
            pack: path.to_owned(),
            member: None,
            frame: None,
            detail: format!(
                "it could not be opened and was set aside; {} reads what is left of it, {} removes it",
                crate::text::quoted_command("annals restore", &shown, "--salvage"),
                crate::text::quoted_command("annals archive --forget", &shown, "--apply")
            ),
            is_unread: false,
        }
    }
}

/// What reading packs back came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// How many packs were read.
    pub packs: usize,
    /// How many files are in them.
    pub files: usize,
    /// How many bytes those have.
    pub bytes: u64,
    /// What is not as it was written.
    pub damaged: Vec<Damage>,
}

impl VerifyReport {
    /// Reads a pack back, all of it.
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

/// Reads all files of a pack, earlier versions too, and compares their checksums.
pub fn verify(pack: &Pack) -> Vec<Damage> {
    let all = pack.index.all();
    let mut damaged: Vec<Damage> = all.flat_map(|member| verify_member(pack, member)).collect();
    if let Some(lost) = Damage::lost_end(pack) {
        damaged.push(lost);
    } else if pack.torn > 0 {
        let (torn, generation) = (pack.torn, pack.index.generation);
        damaged.push(Damage {
            pack: pack.path.clone(),
            member: None,
            frame: None,
            detail: format!(
                "its last {torn} bytes count for nothing: whoever wrote them was killed, or the end is damaged; all up to generation {generation} is there"
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
            detail: "one of the two copies of its index is damaged; the other tells all".to_owned(),
            is_unread: false,
        }),
    }
    damaged
}

fn verify_member(pack: &Pack, member: &Member) -> Vec<Damage> {
    // Whoever takes nothing cannot fail to.
    unpack(pack, member, |_| Ok(())).unwrap_or_default()
}

/// Unpacks a file and hands over its content as it comes, before all of it is known to be sound. Gives
/// back what is not; what stands before a damaged frame and behind it was handed over.
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

/// Reads back what was written to a pack from some place on.
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
