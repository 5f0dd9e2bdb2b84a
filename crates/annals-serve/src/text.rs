//! Parts of addresses.

use std::fmt::Write as _;

/// Encodes text for a part of an address: everything but letters, digits and `-._~`.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

/// Builds the address of a page with parameters, without empty ones.
pub(crate) fn address(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    let mut sign = '?';
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        _ = write!(out, "{sign}{name}={}", percent_encode(value));
        sign = '&';
    }
    out
}

/// Returns the name of a message as an anchor: letters, digits and `-_.` only.
pub(crate) fn anchor(id: &str) -> String {
    let mut out = String::from("m-");
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' => out.push(char::from(byte)),
            _ => _ = write!(out, "_{byte:02x}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_addresses_cannot_end_an_attribute_or_a_parameter() {
        let hostile = "a b&c=d#e?\"'<>/é%";
        assert_eq!(
            percent_encode(hostile),
            "a%20b%26c%3Dd%23e%3F%22%27%3C%3E%2F%C3%A9%25"
        );
        assert_eq!(
            address("/x", &[("a", "1"), ("b", ""), ("c", "&")]),
            "/x?a=1&c=%26"
        );
        assert_eq!(anchor("8c-1_\""), "m-8c-1_5f_22");
    }
}
