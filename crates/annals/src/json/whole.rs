//! Tells JSON from what is not, however deep it goes.
//!
//! The parser that reads records gives up at a depth that other programs read without trouble. What
//! they can read is not damage, so this one keeps its own stack and has no limit.

/// Whether the bytes are one JSON value. Texts need not be UTF-8.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    let mut walk = Walk { bytes, at: 0 };
    walk.value().is_some() && walk.peek().is_none()
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        // For each container that is open, whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            match self.peek()? {
                first @ (b'{' | b'[') => {
                    self.at += 1;
                    let object = first == b'{';
                    let close = if object { b'}' } else { b']' };
                    if self.peek()? == close {
                        self.at += 1;
                    } else {
                        open.push(object);
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return None,
            }
            // A value has ended; so may have what holds it.
            loop {
                let Some(object) = open.last().copied() else {
                    return Some(());
                };
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    _ => return None,
                }
                self.at += 1;
                open.pop();
            }
        }
    }

    fn key(&mut self) -> Option<()> {
        self.peek()?;
        self.string()?;
        self.take(b':')
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                b'\\' => {
                    let escape = *self.bytes.get(self.at)?;
                    self.at += 1;
                    match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.bytes.get(self.at..self.at + 4)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 4;
                        }
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => {}
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        let mut next = |fits: &dyn Fn(u8) -> bool| {
            let byte = self.bytes.get(self.at).copied().filter(|byte| fits(*byte));
            self.at += usize::from(byte.is_some());
            byte
        };
        let digit = |byte: u8| byte.is_ascii_digit();
        next(&|byte| byte == b'-');
        if next(&digit)? != b'0' {
            while next(&digit).is_some() {}
        }
        if next(&|byte| byte == b'.').is_some() {
            next(&digit)?;
            while next(&digit).is_some() {}
        }
        if next(&|byte| matches!(byte, b'e' | b'E')).is_some() {
            next(&|byte| matches!(byte, b'+' | b'-'));
            next(&digit)?;
            while next(&digit).is_some() {}
        }
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        rest.starts_with(word).then(|| self.at += word.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_parser_that_has_a_limit() {
        let texts = [
            "{}",
            "[]",
            "{\"a\":[1,-0.5e+3,{\"b\":null}],\"c\":\"\\u00e9\\n\"}",
            " 1 ",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "tru",
            "true false",
            "{\"a\"}",
            "{\"a\":1,}",
            "[1,]",
            "[,1]",
            "{,}",
            "[1 2]",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "{\"a\":1]",
            "[1}",
            "",
            " ",
            "\"\u{1}\"",
            "{\"a\":1}{\"b\":2}",
            "{1:2}",
            "[[]",
            "]",
        ];
        for text in texts {
            let told = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            assert_eq!(is_json(text.as_bytes()), told, "{text}");
        }
    }

    #[test]
    fn depth_is_no_damage() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(is_json(deep.as_bytes()));
        assert!(!is_json(&deep.as_bytes()[..300_000]));
        assert!(is_json(b"\"\xff\""));
    }
}
