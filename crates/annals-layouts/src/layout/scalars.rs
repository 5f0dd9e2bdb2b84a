//! YAML documents with one scalar per line, such as the state of a session.
//!
//! Only lines at the margin are read: `name: value`. Everything else is kept as it is.

/// Sets members of a document; `None` is a new one, which also gets `defaults`. Values are YAML.
pub fn set_scalars(
    old: Option<&[u8]>,
    members: &[(String, String)],
    defaults: &[(String, String)],
) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let split = old
        .unwrap_or_default()
        .split_inclusive(|byte| *byte == b'\n');
    lines.extend(split.map(<[u8]>::to_vec));
    let defaults = defaults.iter().filter(|_| old.is_none());
    for (name, value) in defaults.chain(members) {
        let line = format!("{name}: {value}\n").into_bytes();
        let begins = |line: &Vec<u8>| {
            let rest = line.strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b":"))
        };
        let Some(at) = lines.iter().position(begins) else {
            if let Some(last) = lines.last_mut().filter(|last| !last.ends_with(b"\n")) {
                last.push(b'\n');
            }
            lines.push(line);
            continue;
        };
        // The rest of a value of several lines is indented.
        let rest = lines.iter().skip(at + 1);
        let is_rest = |line: &&Vec<u8>| line.first().is_some_and(u8::is_ascii_whitespace);
        let end = at + 1 + rest.take_while(is_rest).count();
        lines.splice(at..end, [line]);
    }
    lines.concat()
}

/// Returns the JSON or plain text of a value; `None` if there is none.
pub(crate) fn scalar<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = document.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn set_scalars_keeps_other_lines() {
        let cases: &[(&str, &str)] = &[
            ("id: a\nname: old\nx: 1\n", "id: a\nname: \"n\"\nx: 1\n"),
            ("name: |\n  two\n\n  lines\nx: 1", "name: \"n\"\nx: 1"),
            ("names: 1", "names: 1\nname: \"n\"\n"),
            ("", "name: \"n\"\n"),
            ("# c\r\nname: a\r\nz: \r\n", "# c\r\nname: \"n\"\nz: \r\n"),
        ];
        for (old, new) in cases {
            let set = set_scalars(
                Some(old.as_bytes()),
                &pairs(&[("name", "\"n\"")]),
                &pairs(&[("id", "b")]),
            );
            assert_eq!(String::from_utf8(set).unwrap(), *new, "{old:?}");
        }
        let made = set_scalars(None, &pairs(&[("name", "n")]), &pairs(&[("id", "b")]));
        assert_eq!(made, b"id: b\nname: n\n");
    }
}
