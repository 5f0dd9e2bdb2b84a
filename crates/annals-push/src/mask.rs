//! What is masked before it leaves the machine.

use std::borrow::Cow;

use annals::export::Redactor;
use annals_segments::MaskedLine;

use crate::error::Result;

/// Selects what a push masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskPolicy {
    /// Nothing: the hub has the logs byte for byte.
    None,
    /// Keys, tokens and passwords that the library recognises.
    #[default]
    Secrets,
}

/// Masks lines and documents.
#[derive(Debug)]
pub(crate) struct Mask(Option<Redactor>);

impl Mask {
    pub(crate) fn new(policy: MaskPolicy) -> Result<Self> {
        Ok(Mask(match policy {
            MaskPolicy::None => None,
            MaskPolicy::Secrets => Some(Redactor::new()?),
        }))
    }

    /// Number of places that were masked.
    pub(crate) fn places(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |redactor| redactor.masked().places)
    }

    /// Masks a text. Bytes that are not UTF-8 are replaced only if something in them is masked.
    fn text<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(redactor) = &mut self.0 else {
            return Cow::Borrowed(bytes);
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => match redactor.mask_json(text) {
                Cow::Borrowed(_) => Cow::Borrowed(bytes),
                Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
            },
            Err(_) => {
                let text = String::from_utf8_lossy(bytes);
                match redactor.mask_json(&text) {
                    Cow::Borrowed(_) => Cow::Borrowed(bytes),
                    Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
                }
            }
        }
    }

    /// Masks a document.
    pub(crate) fn document<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.text(bytes)
    }

    /// Masks whole lines. Returns the lines whose length changed, too.
    pub(crate) fn lines<'a>(&mut self, lines: &'a [u8]) -> (Cow<'a, [u8]>, Vec<MaskedLine>) {
        if self.0.is_none() {
            return (Cow::Borrowed(lines), Vec::new());
        }
        let (mut out, mut masked, mut changed) =
            (Vec::with_capacity(lines.len()), Vec::new(), false);
        for (index, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let result = self.text(text);
            changed |= matches!(result, Cow::Owned(_));
            let before = out.len();
            // A line stays a line, whatever masking puts into it.
            out.extend(
                result
                    .iter()
                    .map(|byte| if *byte == b'\n' { b' ' } else { *byte }),
            );
            out.push(b'\n');
            if out.len() - before != line.len() {
                masked.push(MaskedLine(index as u32, line.len() as u32));
            }
        }
        match changed {
            true => (Cow::Owned(out), masked),
            false => (Cow::Borrowed(lines), Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

    #[test]
    fn secrets_are_masked_and_other_lines_keep_their_bytes() {
        let lines = format!("{{\"a\":1}}\n{{\"t\":\"{KEY}\"}}\n\n{{\"b\": 2}}\r\n");
        let mut mask = Mask::new(MaskPolicy::Secrets).unwrap();
        let (out, masked) = mask.lines(lines.as_bytes());
        let out = String::from_utf8(out.into_owned()).unwrap();
        assert!(!out.contains(&KEY[4..]), "{out}");
        assert_eq!(out.lines().count(), 4);
        assert!(
            out.starts_with("{\"a\":1}\n") && out.ends_with("\n\n{\"b\": 2}\r\n"),
            "{out}"
        );
        assert_eq!(masked, [MaskedLine(1, 8 + KEY.len() as u32 + 1)]);
        assert_eq!(mask.places(), 1);
        let (same, _) = Mask::new(MaskPolicy::None).unwrap().lines(lines.as_bytes());
        assert_eq!(same, lines.as_bytes());
    }

    #[test]
    fn bytes_that_are_not_text_change_only_with_a_secret() {
        let mut mask = Mask::new(MaskPolicy::Secrets).unwrap();
        let plain = b"\xff\xfe words\n";
        assert_eq!(mask.lines(plain).0.as_ref(), plain);
        let secret = [b"\xff ".as_slice(), KEY.as_bytes(), b"\n"].concat();
        let (out, _) = mask.lines(&secret);
        assert!(!String::from_utf8_lossy(&out).contains(&KEY[4..]));
    }
}
