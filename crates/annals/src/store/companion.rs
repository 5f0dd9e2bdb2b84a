//! Companion files: data of annals about the records of a log, in a separate file.
//!
//! Some agent programs reject unknown members. Members that such a layout does not have are stored in
//! the companion of the log, one line per record:
//!
//! ```text
//! {"offset":123,"sum":"0011223344556677","inode":42,"record":{…}}
//! ```
//!
//! `record` has members that replace or extend those of the line at `offset`. `sum` is a prefix of the
//! SHA-256 of that line. An entry without `sum` is a standalone record of a type that the log cannot
//! hold. A blank line of the log marks its position, and `after` is the sum of the last non-blank line
//! before it. `begin` marks the standalone record that begins the log's own session. It comes before
//! all lines and has no blank line.
//!
//! `Writer::split_record` splits a record into a line and a companion entry, and `Root::decoder` merges
//! them again, so layouts read and write complete records. A log of such a layout must not be read with
//! `Layout::decoder` alone. Data derived from a log is valid only if its companion is unchanged too
//! (`RootFile::is_companion_unchanged`).
//!
//! An entry applies to the line at `offset` only if the sum matches. A log that was rewritten, by its
//! program or by a repair, has its lines at other offsets. Then each entry is bound to the nearest line
//! with its sum. A standalone record is bound to the blank line after its previous line, or to the
//! previous line itself if the blank line does not exist. If no entry matches any line, the companion
//! belongs to another log and is ignored.
//!
//! The companion is written before the log, so that readers of the log find the entry. An append that
//! is interrupted in between leaves entries past the end of the log, and the next append removes them.
//! Entries of a log that was rewritten and became shorter are distinguished from these by `inode`, the
//! inode of the log: a rewrite replaces the file.
//!
//! If another program appends or replaces the log in between, the lines of the append get other
//! offsets. Their entries are then written again with these offsets, and the first ones are overwritten
//! with spaces.
//!
//! Only as much of the companion is read as the requested lines need: the end of a log needs the end
//! of its companion. A reader compares the sum of each line that it reads. If the entry at its offset
//! has another sum, or its own entry has another offset, the log was rewritten. Then the whole
//! companion is read, and all entries are bound again.

mod decoder;
mod entries;
mod new_entries;
mod unmatched;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use annals_jsonl::FileId;
use annals_layouts::model::ArtifactKind;

pub(crate) use new_entries::{SplitRecords, WrittenEntries};

use super::inventory::{RootFile, SessionFiles};

/// One line of a companion.
#[derive(Deserialize, Serialize)]
struct Line<'a> {
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    sum: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    after: Option<&'a str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// Prefix of a line's SHA-256.
type Sum = [u8; 8];

fn line_sum(line: &[u8]) -> Sum {
    let digest = Sha256::digest(line);
    let mut sum = [0; 8];
    sum.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    sum
}

fn format_checksum(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_sum(text: &str) -> Option<Sum> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (text.len() == 16).then(|| number.to_be_bytes())
}

/// Assigns companions to their logs.
pub(super) fn attach_companions(logs: &mut [RootFile], companions: &[RootFile]) {
    for log in logs {
        let mut found = companions.iter();
        let found = found.find(|file| {
            file.artifact.folder == log.artifact.folder
                && file.artifact.session == log.artifact.session
        });
        log.companion = found.cloned().map(Box::new);
    }
}

/// Adds a companion to the attachments of the sessions that own its log, so that it is moved and
/// archived with the log. Returns `false` if there are none.
pub(super) fn assign_companion(sessions: &mut [SessionFiles], companion: &RootFile) -> bool {
    let belongs = |volume: &RootFile| {
        volume.artifact.folder == companion.artifact.folder
            && volume.artifact.session == companion.artifact.session
    };
    let mut given = false;
    for files in sessions {
        let is_its = files.logs().flat_map(RootFile::volumes).any(belongs);
        if is_its {
            files.attachments.push(companion.clone());
            given = true;
        }
    }
    given
}

impl RootFile {
    /// Returns the identity of the log's companion, if it has one.
    pub(crate) fn companion_id(&self) -> Option<FileId> {
        self.companion.as_ref().map(|companion| companion.id)
    }

    /// Returns whether companion data read when the log was `log` is still valid: the companion is
    /// unchanged, or both have grown.
    pub(crate) fn is_companion_unchanged(&self, companion: Option<&FileId>, log: &FileId) -> bool {
        match (companion, self.companion_id()) {
            (None, None) => true,
            (Some(before), Some(now)) => {
                let grew = self.id.len > log.len && now.len > before.len;
                before.untouched(&now) || (grew && before.same_file(&now))
            }
            _ => false,
        }
    }
}

/// Returns whether a file is the companion of a log.
pub(super) fn is_companion(file: &RootFile) -> bool {
    file.artifact.kind == ArtifactKind::Companion
}

#[cfg(test)]
mod tests;
