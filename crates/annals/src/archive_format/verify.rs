//! Verifies archived files by reading them back.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::archived_session::ArchivedSession;
use super::checksum::Checksum;
use super::manifest::{self, Manifest, Member};
use super::root_archive::RootArchive;
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_layouts::text::pluralize;

/// Damage in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The compressed file, or the manifest.
    pub pack: PathBuf,
    /// The path within the root of the damaged file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<PathBuf>,
    /// Offset of the unreadable frame in the compressed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Description of the damage.
    pub detail: String,
    /// The read failed with an I/O error, so it is unknown whether the data is damaged.
    #[serde(skip)]
    pub is_unread: bool,
    /// The archive cannot be read by this program.
    #[serde(skip)]
    pub(crate) is_refused: bool,
}

impl Damage {
    pub(crate) fn new(pack: &Path, member: Option<&Member>, detail: String) -> Self {
        Damage {
            pack: pack.to_owned(),
            member: member.map(|member| member.path.clone()),
            frame: None,
            detail,
            is_unread: false,
            is_refused: false,
        }
    }

    /// Reports the archive of a root that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &Error) -> Self {
        Damage {
            is_unread: matches!(error, Error::File(FileError::Io { .. })),
            is_refused: matches!(error, Error::Refused(_)),
            ..Damage::new(path, None, error.to_string())
        }
    }

    /// Reports a file that names the root and cannot be used; its copy is.
    pub(crate) fn name(path: &Path, error: &Error) -> Self {
        Damage {
            is_unread: matches!(error, Error::File(FileError::Io { .. })),
            ..Damage::new(
                path,
                None,
                format!(
                    "{error}; its copy is used, and `annals keep` of that root writes it again"
                ),
            )
        }
    }

    /// Reports a manifest that does not list all files.
    pub(crate) fn manifest(archive: &RootArchive, manifest: &Manifest) -> Option<Self> {
        let unlisted = manifest.files.values().filter(|it| it.is_unlisted).count();
        let lost = unlisted > 0 && !manifest.is_interrupted;
        let wrong = manifest
            .damage()
            .filter(|_| manifest.exists || unlisted > 0);
        let found = lost.then(|| {
            let files = pluralize(unlisted as u64, "file");
            format!("does not list {files} that it archived")
        });
        let wrong: Vec<String> = wrong.into_iter().chain(found).collect();
        let path = archive.dir.join(manifest::NAME);
        let detail = format!(
            "{}; nothing is lost that is in `files`, and `annals keep` lists it again",
            wrong.join(" and ")
        );
        (!wrong.is_empty()).then(|| Damage::new(&path, None, detail))
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        let pack = damage.pack.display().to_string();
        Error::refused(match damage.detail.contains(&pack) {
            true => damage.detail,
            false => format!("{pack}: {}", damage.detail),
        })
    }
}

/// Result of reading archived sessions back.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Number of archived sessions read; sessions that share logs count once, and so do the files of
    /// a root that belong to no session.
    pub packs: usize,
    /// Number of files in them.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
    /// Damage found.
    pub damaged: Vec<Damage>,
}

impl VerifyReport {
    /// Reads an archived session back.
    pub fn verify(&mut self, session: &ArchivedSession) {
        self.packs += 1;
        self.files += session.all().count();
        self.bytes += session.all().map(|member| member.len).sum::<u64>();
        self.damaged.extend(verify(session));
    }

    pub(crate) fn add(&mut self, other: VerifyReport) {
        self.packs += other.packs;
        self.files += other.files;
        self.bytes += other.bytes;
        self.damaged.extend(other.damaged);
    }
}

/// Reads all files of an archived session, including earlier versions, and compares their checksums.
pub fn verify(session: &ArchivedSession) -> Vec<Damage> {
    let mut damaged = Vec::new();
    // An error means that a line may be lost.
    let is_interrupted = || matches!(session.archive.is_interrupted(), Ok(true));
    for member in session.all() {
        let found = verify_member(session, member);
        let stored = session.location(member);
        let is_whole = found.is_empty();
        damaged.extend(found);
        let there = match stored.symlink_metadata() {
            Ok(there) => there.len(),
            Err(error) => {
                if is_whole {
                    damaged.push(Damage {
                        is_unread: true,
                        ..Damage::new(&stored, Some(member), error.to_string())
                    });
                }
                continue;
            }
        };
        let rest = there.saturating_sub(member.packed);
        if is_whole && rest > 0 && !is_interrupted() {
            let detail = format!(
                "{rest} bytes at its end are not in the manifest: their line is lost; --salvage reads them"
            );
            damaged.push(Damage::new(&stored, Some(member), detail));
        }
    }
    damaged
}

impl ArchivedSession {
    /// Returns the files whose compressed file is missing or cut. Reads no content.
    pub fn missing_data(&self) -> Vec<Damage> {
        let damage = |member: &Member| {
            let stored = self.location(member);
            let mut is_unread = false;
            let detail = match stored.symlink_metadata() {
                Ok(there) if there.is_file() && there.len() >= member.packed => return None,
                Ok(there) if there.is_file() => format!(
                    "its end is missing: it has {} of {} bytes (try `annals restore --salvage`)",
                    there.len(),
                    member.packed
                ),
                Ok(_) => "it is not a regular file".to_owned(),
                Err(error) => {
                    is_unread = !is_damage(&error);
                    error.to_string()
                }
            };
            Some(Damage {
                is_unread,
                ..Damage::new(&stored, Some(member), detail)
            })
        };
        self.all().filter_map(damage).collect()
    }
}

/// Returns whether an error means a missing or a wrong file, which is damage. Other errors may pass.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Other
    )
}

pub(crate) fn verify_member(session: &ArchivedSession, member: &Member) -> Vec<Damage> {
    // The callback cannot fail.
    unpack(session, member, |_| Ok(())).unwrap_or_default()
}

/// Decompresses a file and passes its content to `give` frame by frame, before the checksum of the
/// whole file is verified. Returns the damage; content before and after a damaged frame is passed
/// too.
pub(crate) fn unpack(
    session: &ArchivedSession,
    member: &Member,
    mut give: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Vec<Damage>> {
    let stored = session.location(member);
    let content = match session.file(member) {
        Ok(content) => content,
        Err(error) => {
            let mut damage = Damage::new(&stored, Some(member), error.to_string());
            damage.is_unread = match &error {
                Error::File(FileError::Io { source, .. }) => !is_damage(source),
                _ => false,
            };
            return Ok(vec![damage]);
        }
    };
    let mut damaged = Vec::new();
    let mut sum = Sha256::new();
    content.each_frame(0, |frame, bytes| match bytes {
        Ok(bytes) => {
            sum.update(bytes);
            give(bytes)
        }
        Err(error) => {
            damaged.push(Damage {
                frame: Some(frame.at),
                is_unread: error.kind() != io::ErrorKind::InvalidData,
                ..Damage::new(&stored, Some(member), error.to_string())
            });
            Ok(())
        }
    })?;
    let sum = Checksum::from(sum);
    if let Some(sha256) = member.sha256.filter(|sha256| *sha256 != sum)
        && damaged.is_empty()
    {
        let detail = format!("its checksum is {sum}, not {sha256}");
        damaged.push(Damage::new(&stored, Some(member), detail));
    }
    Ok(damaged)
}

/// Reads back the frames of files from an offset on, and refuses damaged ones.
pub(crate) fn verify_written(
    archive: &RootArchive,
    manifest: &Manifest,
    written: &[(PathBuf, u64)],
) -> Result<()> {
    for (path, since) in written {
        let Some(member) = manifest.files.get(path) else {
            continue;
        };
        let stored = member.location(&archive.dir);
        let failed = |error: io::Error| {
            Error::refused(format!(
                "the archived data in {} cannot be read back: {error}",
                stored.display()
            ))
        };
        let content = super::CompressedFile::open(&stored, member.packed, member.id());
        let content = content.map_err(failed)?;
        content.each_frame(*since, |_, bytes| bytes.map(drop).map_err(failed))?;
    }
    Ok(())
}
