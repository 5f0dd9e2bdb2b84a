//! Primitives of the row encoding: varints, byte strings, times, keys.

use jiff::Timestamp;

use annals_layouts::model::EntryKey;

/// Row being encoded.
#[derive(Default)]
pub(super) struct RowWriter(pub(super) Vec<u8>);

impl RowWriter {
    /// Creates a writer with room for most rows; they are encoded by the hundred thousand.
    pub(super) fn with_capacity() -> Self {
        RowWriter(Vec::with_capacity(256))
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends a varint: seven bits per byte, lowest first; the high bit means that more follow.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn time(&mut self, time: Timestamp) {
        self.raw(&time.as_second().to_le_bytes());
        self.raw(&time.subsec_nanosecond().to_le_bytes());
    }

    pub(super) fn keys(&mut self, keys: &[EntryKey]) {
        self.count(keys.len());
        keys.iter().for_each(|key| self.raw(&key.to_bytes()));
    }
}

/// Row being decoded. Every method returns `None` at the end of the data.
#[derive(Clone, Copy)]
pub(super) struct RowReader<'a>(pub(super) &'a [u8]);

impl<'a> RowReader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// Reads the length of a list whose items take at least `least` bytes each; `None` if it
    /// exceeds the remaining data.
    pub(super) fn list(&mut self, least: usize) -> Option<usize> {
        let count = self.count()?;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }

    pub(super) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.raw(len)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn time(&mut self) -> Option<Timestamp> {
        let second = i64::from_le_bytes(self.array()?);
        let nanosecond = i32::from_le_bytes(self.array()?);
        Timestamp::new(second, nanosecond).ok()
    }

    pub(super) fn keys(&mut self) -> Option<Vec<EntryKey>> {
        let count = self.list(16)?;
        let (keys, _) = self.raw(count * 16)?.as_chunks();
        Some(keys.iter().map(|key| EntryKey::from_bytes(*key)).collect())
    }

    /// Skips numbers.
    pub(super) fn skip_numbers(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            let end = self.0.iter().position(|byte| *byte < 0x80)?;
            self.raw(end + 1)?;
        }
        Some(())
    }

    /// Skips a list of texts.
    pub(super) fn skip_texts(&mut self) -> Option<()> {
        for _ in 0..self.list(1)? {
            self.bytes()?;
        }
        Some(())
    }

    /// Decodes a field if `is`; the outer `None` means damage.
    pub(super) fn optional<T>(
        &mut self,
        is: bool,
        take: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match is {
            true => take(self).map(Some),
            false => Some(None),
        }
    }
}
