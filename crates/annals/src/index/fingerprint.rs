//! Fingerprints of files and checksums of stored data.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::store::{RootFile, SessionFiles};
use annals_jsonl::FileId;

/// 128-bit hash of everything that a session's rows depend on: its files and their last changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// Fingerprint of a session as listed.
    pub(super) fn from_session(files: &SessionFiles) -> Self {
        let mut mixer = FingerprintHasher::default();
        mixer.word(u64::from(files.shared));
        let unwritten = files.unwritten.as_deref();
        for file in files.files().chain(unwritten) {
            mixer.file(&files.root.path, file);
        }
        // Few layouts have session lists, and their rows are short.
        for about in &files.list_rows {
            mixer.bytes(format!("{about:?}").as_bytes());
        }
        Fingerprint(mixer.0)
    }

    /// Fingerprint of some files of a root as listed.
    pub(super) fn from_files<'a>(root: &Path, files: impl Iterator<Item = &'a RootFile>) -> Self {
        let mut mixer = FingerprintHasher::default();
        files.for_each(|file| mixer.file(root, file));
        Fingerprint(mixer.0)
    }

    /// Checksum salt for the row called `name`.
    pub(super) fn from_bytes(name: &[u8]) -> Self {
        let mut mixer = FingerprintHasher::default();
        mixer.bytes(name);
        Fingerprint(mixer.0)
    }

    /// Checksum salt for a block.
    pub(super) fn from_block(id: i64) -> Self {
        let mut mixer = FingerprintHasher::default();
        mixer.word(id as u64);
        Fingerprint(mixer.0)
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        let [one, other] = self.0.map(u128::from);
        (one << 64 | other).to_le_bytes()
    }
}

/// Appends a checksum. The salt also detects data stored under the wrong key.
pub(super) fn add_checksum(stamp: Fingerprint, mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = sum(stamp, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the data without its checksum, if the checksum is correct.
pub(super) fn verify_checksum(stamp: Fingerprint, sealed: &[u8]) -> Option<&[u8]> {
    let (bytes, stored) = sealed.split_last_chunk()?;
    (u64::from_le_bytes(*stored) == sum(stamp, bytes)).then_some(bytes)
}

fn sum(stamp: Fingerprint, bytes: &[u8]) -> u64 {
    let mut mixer = FingerprintHasher(stamp.0);
    mixer.bytes(bytes);
    let [one, other] = mixer.0;
    one ^ other
}

/// Fast hash, not cryptographic. Collisions between the states of a history must be unlikely;
/// nobody can choose times and inodes to provoke one.
struct FingerprintHasher([u64; 2]);

impl Default for FingerprintHasher {
    fn default() -> Self {
        FingerprintHasher([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344])
    }
}

impl FingerprintHasher {
    fn word(&mut self, word: u64) {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        let [one, other] = self.0;
        self.0 = [
            fold(one ^ word, 0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ other,
            (other ^ word)
                .wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
                .rotate_left(31),
        ];
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    fn file(&mut self, root: &Path, file: &RootFile) {
        for volume in file.volumes() {
            let path = volume.path.as_os_str().as_bytes();
            let within = path.strip_prefix(root.as_os_str().as_bytes());
            self.bytes(within.unwrap_or(path));
            self.id(&volume.id);
            // The companion file is part of the log's records.
            if let Some(companion) = volume.companion_id() {
                self.id(&companion);
            }
            let Some(share) = &volume.slice else { continue };
            self.bytes(share.name.as_str().as_bytes());
            self.word(share.known_end);
            self.word(share.lines);
            for part in share.ranges.iter() {
                for word in [part.bytes.start, part.bytes.end, part.line] {
                    self.word(word);
                }
            }
        }
        // Separates one log from the next.
        self.word(file.earlier.len() as u64);
    }

    fn id(&mut self, id: &FileId) {
        // Nanoseconds since 1970 fit in 64 bits for centuries.
        let (mtime, ctime) = (id.mtime_ns as u64, id.ctime_ns as u64);
        for word in [id.dev, id.ino, id.len, mtime, ctime] {
            self.word(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_fails_the_checksum() {
        let stamp = Fingerprint([1, 2]);
        let sealed = add_checksum(stamp, b"what was read of a session".to_vec());
        assert_eq!(
            verify_checksum(stamp, &sealed),
            Some(&b"what was read of a session"[..])
        );
        assert_eq!(verify_checksum(Fingerprint([1, 3]), &sealed), None);
        for at in 0..sealed.len() {
            assert_eq!(verify_checksum(stamp, &sealed[..at]), None, "cut at {at}");
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(verify_checksum(stamp, &changed), None, "changed at {at}");
        }
    }
}
