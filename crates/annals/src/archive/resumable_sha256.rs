//! Resumable SHA-256.
//!
//! The checksum of an archived log is that of the whole file, so that other programs can verify it.
//! Resuming the stored state means that only appended bytes must be hashed.

use std::io::{self, BufReader, Read, Write};

use sha2::compress256;
use sha2::digest::consts::U64;
use sha2::digest::generic_array::GenericArray;

use super::pack_index::Checksum;

const BLOCK: usize = 64;
/// Number of blocks compressed in one call.
const RUN: usize = 64;

/// A checksum in progress.
#[derive(Clone, Debug)]
pub(super) struct ResumableSha256 {
    state: [u32; 8],
    len: u64,
    /// Bytes that do not fill a block yet.
    rest: Vec<u8>,
    blocks: Vec<GenericArray<u8, U64>>,
}

impl ResumableSha256 {
    pub(super) fn new() -> Self {
        ResumableSha256 {
            state: [
                0x6a09_e667,
                0xbb67_ae85,
                0x3c6e_f372,
                0xa54f_f53a,
                0x510e_527f,
                0x9b05_688c,
                0x1f83_d9ab,
                0x5be0_cd19,
            ],
            len: 0,
            rest: Vec::with_capacity(BLOCK),
            blocks: Vec::with_capacity(RUN),
        }
    }

    /// Resumes from `state`; `rest` is the partial block at the end of the first `len` bytes.
    pub(super) fn resume(state: &Checksum, len: u64, rest: &[u8]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(state.0.chunks_exact(4)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        ResumableSha256 {
            state: words,
            len,
            rest: rest.to_vec(),
            ..ResumableSha256::new()
        }
    }

    /// Returns the number of bytes after the last complete block.
    pub(super) fn partial_block_len(len: u64) -> u64 {
        len % BLOCK as u64
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let lacking = BLOCK.saturating_sub(self.rest.len());
            let (first, others) = bytes.split_at(lacking.min(bytes.len()));
            self.rest.extend_from_slice(first);
            bytes = others;
            if self.rest.len() < BLOCK {
                return;
            }
            let block = *GenericArray::from_slice(&self.rest);
            compress256(&mut self.state, &[block]);
            self.rest.clear();
        }
        let mut whole = bytes.chunks_exact(BLOCK);
        self.rest.extend_from_slice(whole.remainder());
        loop {
            self.blocks.clear();
            let some = whole.by_ref().take(RUN);
            self.blocks
                .extend(some.map(|block| *GenericArray::from_slice(block)));
            if self.blocks.is_empty() {
                return;
            }
            compress256(&mut self.state, &self.blocks);
        }
    }

    /// Returns the checksum of everything that `reader` returns.
    pub(super) fn digest_reader(reader: impl Read) -> io::Result<Checksum> {
        let mut sum = ResumableSha256::new();
        io::copy(&mut BufReader::with_capacity(256 << 10, reader), &mut sum)?;
        Ok(sum.sum())
    }

    /// Returns the state for [`resume`](Self::resume).
    pub(super) fn state(&self) -> Checksum {
        let mut bytes = [0; 32];
        let words = self.state.iter().flat_map(|word| word.to_be_bytes());
        for (to, from) in bytes.iter_mut().zip(words) {
            *to = from;
        }
        Checksum(bytes)
    }

    /// Returns the checksum of all bytes so far.
    pub(super) fn sum(&self) -> Checksum {
        let mut last = self.clone();
        let bits = self.len.wrapping_mul(8);
        let mut end = vec![0x80];
        let after = self.rest.len() + 1;
        let room = BLOCK - 8;
        let padding = (BLOCK + room - after % BLOCK) % BLOCK;
        end.resize(1 + padding, 0);
        end.extend_from_slice(&bits.to_be_bytes());
        last.update(&end);
        last.state()
    }
}

impl Write for ResumableSha256 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn resumed_sha256_equals_sha256_for_any_length() {
        let bytes: Vec<u8> = (0..9_000u32).map(|n| (n * 7 % 251) as u8).collect();
        for len in (0..300).chain([4_095, 4_096, 4_097, 8_191, 9_000]) {
            let all = &bytes[..len];
            let wanted = Checksum(Sha256::digest(all).into());
            let mut whole = ResumableSha256::new();
            whole.update(all);
            assert_eq!(whole.sum(), wanted, "{len}");
            assert_eq!(
                ResumableSha256::digest_reader(all).unwrap(),
                wanted,
                "{len}"
            );
            for cut in [0, 1, 63, 64, 65, len / 2, len] {
                let cut = cut.min(len);
                let mut first = ResumableSha256::new();
                first.update(&all[..cut]);
                let rest = ResumableSha256::partial_block_len(cut as u64) as usize;
                let state = first.state();
                let mut then = ResumableSha256::resume(&state, cut as u64, &all[cut - rest..cut]);
                then.update(&all[cut..]);
                assert_eq!(then.sum(), wanted, "{len} cut at {cut}");
            }
        }
    }
}
