//! Whether what has the shape of a secret is one.
//!
//! Each check gets the candidate and what the pattern matched in front of it.

use std::collections::HashSet;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Not a name, a variable or a stand-in for what someone will fill in.
pub(super) fn is_literal(text: &str, before: &str) -> bool {
    const STAND_INS: [&str; 14] = [
        "example",
        "xxxx",
        "****",
        "....",
        "your_",
        "your-",
        "changeme",
        "change_me",
        "change-me",
        "placeholder",
        "dummy",
        "redacted",
        "process.env",
        "os.environ",
    ];
    let lower = text.to_ascii_lowercase();
    let opens = ['<', '{', '%', '[', '…'];
    let is_variable = text.starts_with('$') && !(before.ends_with('\'') && is_mixed_name(text));
    !is_variable
        && !text.starts_with(opens)
        && !text.contains("${")
        && !text.contains("$(")
        && !text.contains("{{")
        && !STAND_INS.iter().any(|word| lower.contains(word))
        && !text
            .bytes()
            .all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.' | b'-'))
}

/// A key of the documentation ends like this.
pub(super) fn is_not_example(text: &str, _: &str) -> bool {
    !text.ends_with("EXAMPLE")
}

/// A literal that no one would write as a word: a digit or a sign in it, or letters of both cases
/// without order, and enough entropy.
pub(super) fn looks_random(text: &str, _: &str) -> bool {
    /// Bits per character. Words of eight letters have about as much.
    const THRESHOLD: f64 = 2.7;
    let odd =
        |byte: u8| !byte.is_ascii_alphabetic() && !matches!(byte, b'_' | b'-' | b'.' | b'/' | b':');
    let is_odd = text.bytes().any(odd) || has_random_case(text);
    is_literal(text, "") && is_odd && entropy(text) >= THRESHOLD && !is_number(text)
}

/// Random, and neither made of words nor a path, an address or a call.
pub(super) fn looks_generated(text: &str, before: &str) -> bool {
    looks_random(text, before) && !is_joined_words(text) && !is_path_or_url(text)
}

/// What an assignment gives to a name that promises a secret.
pub(super) fn is_assigned(text: &str, before: &str) -> bool {
    names_secret(before) && looks_random(text, before) && !is_path_or_url(text)
}

/// The same, where text follows: words and identifiers are none, and behind a colon no types.
pub(super) fn is_assigned_in_text(text: &str, before: &str) -> bool {
    let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let is_strong = digits >= 2 && count(u8::is_ascii_lowercase) > 0 && text.len() >= 12;
    let is_typed = before.trim_end().ends_with(':');
    names_secret(before) && looks_generated(text, before) && (is_strong || !is_typed)
}

/// A password may be a word, if it stands where only a password can stand.
pub(super) fn is_password(text: &str, before: &str) -> bool {
    const NONE: [&str; 22] = [
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "yes",
        "no",
        "required",
        "optional",
        "string",
        "str",
        "prompt",
        "stdin",
        "password",
        "passwd",
        "secret",
        "token",
        "value",
        "pass",
        "env",
        "file",
    ];
    let lower = text.to_ascii_lowercase();
    is_literal(text, before) && !NONE.contains(&&*lower) && !is_path_or_url(text)
}

/// The same, given to a name.
pub(super) fn is_assigned_password(text: &str, before: &str) -> bool {
    names_secret(before) && is_password(text, before)
}

/// A password of a few letters and digits, and no name with a number: `hunter2`, but not `utf8`. It is
/// too short for its entropy to tell anything.
pub(super) fn is_short_password(text: &str, before: &str) -> bool {
    const NUMBERED: [&str; 13] = [
        "sha", "utf", "base", "arg", "args", "param", "value", "user", "bcrypt", "latin", "aes",
        "bool", "int",
    ];
    let lower = text.to_ascii_lowercase();
    let name = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let count = |is: fn(&u8) -> bool| lower.bytes().filter(is).count();
    let different: HashSet<u8> = lower.bytes().collect();
    (5..=11).contains(&text.len())
        && count(u8::is_ascii_lowercase) >= 3
        && count(u8::is_ascii_digit) >= 1
        && different.len() >= 4
        && !NUMBERED.contains(&name)
        && !is_joined_words(text)
        && is_password(name, before)
        && is_assigned_password(text, before)
}

/// A word that is a password because the name says so. Labels begin with a capital.
pub(super) fn is_password_word(text: &str, before: &str) -> bool {
    const ABOUT: [&str; 24] = [
        "text",
        "hidden",
        "invalid",
        "incorrect",
        "missing",
        "empty",
        "default",
        "disabled",
        "enabled",
        "encrypted",
        "plain",
        "plaintext",
        "unknown",
        "object",
        "number",
        "boolean",
        "bytes",
        "input",
        "random",
        "must",
        "should",
        "varchar",
        "username",
        "credentials",
    ];
    let is_word = text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    is_word && !ABOUT.contains(&text) && is_assigned_password(text, before)
}

/// What a sentence calls a password: long, with digits, and no word.
pub(super) fn is_told(text: &str, before: &str) -> bool {
    let text = text.trim_end_matches(['.', ',', '!', '?', ';', ':']);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= 2 && text.len() >= 10 && looks_generated(text, before)
}

/// A password of an address that has a slash. Digits in front of the first one are a port.
pub(super) fn is_url_password(text: &str, before: &str) -> bool {
    let front = text.split('/').next().unwrap_or_default();
    let is_port = front.bytes().all(|byte| byte.is_ascii_digit());
    front.len() < text.len() && !is_port && looks_random(text, before)
}

/// Base64 of `user:password`, as in Docker's `auth` and in a Basic header.
pub(super) fn is_pair_in_base64(text: &str, _: &str) -> bool {
    let Some(pair) = decode(text) else {
        return false;
    };
    let shown = |byte: &u8| matches!(byte, b' '..=b'~');
    pair.iter().all(shown)
        && pair
            .iter()
            .position(|byte| *byte == b':')
            .is_some_and(|at| at > 0)
}

/// Base64 of a private key, and not of a certificate.
pub(super) fn is_key_in_base64(text: &str, _: &str) -> bool {
    let start: String = text.chars().take(64).collect();
    let decoded = decode(&start).unwrap_or_default();
    String::from_utf8_lossy(&decoded).contains("PRIVATE KEY")
}

/// Where a private key ends whose first line was found: behind its last line, or, if it was cut off,
/// where its alphabet ends.
pub(super) fn private_key_end(rest: &str) -> usize {
    /// No key is longer.
    const LONGEST: usize = 32 << 10;
    let mut most = rest.len().min(LONGEST);
    while !rest.is_char_boundary(most) {
        most -= 1;
    }
    let window = rest.get(..most).unwrap_or(rest);
    // Behind the first line, which has the same words.
    let body = window
        .get(10..)
        .and_then(|text| text.find("-----"))
        .map_or(most, |at| at + 15);
    let after = window.get(body..).unwrap_or_default();
    if let Some(end) = after.find("-----END") {
        let line = after.get(end + 5..).unwrap_or_default();
        let close = line
            .find("-----")
            .filter(|at| *at < 60)
            .map_or(0, |at| at + 5);
        // Another key may begin before the end of one that was cut off.
        if !after.get(..end).unwrap_or_default().contains("-----BEGIN") {
            return body + end + 5 + close;
        }
    }
    let alphabet = |c: char| c.is_ascii_alphanumeric() || "+/=:, \t\r\n\"'→>|".contains(c);
    let key = after.find(|c| !alphabet(c)).unwrap_or(after.len());
    let key = after.get(..key).unwrap_or_default();
    let key = key.trim_end_matches([' ', '\t', '\r', '\n', '"', '\'', ',']);
    body + key.len().max(key_lines(after))
}

/// How much of a text the lines of a key take that was cut off, whatever each line begins with. A few
/// lines in front of them may be headers.
fn key_lines(text: &str) -> usize {
    /// Lines of keys are longer, but for the last.
    const FULL: usize = 40;
    /// The rest of the first line, `Proc-Type`, `DEK-Info`, a blank line.
    const HEADERS: usize = 5;
    let in_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let text = text.split("-----BEGIN").next().unwrap_or_default();
    let (mut start, mut end) = (0, 0);
    // What the last full line begins with, without numbers: those of lines and times change.
    let mut begins: Option<String> = None;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let shown = line.trim_end_matches(|c| !in_base64(c));
        let front = shown.trim_end_matches(in_base64);
        let is_full = shown.len() - front.len() >= FULL;
        let front: String = front.chars().filter(|c| !c.is_ascii_digit()).collect();
        if is_full {
            end = start + shown.len();
            begins = Some(front);
        } else if let Some(begins) = &begins {
            let is_last = !shown.is_empty() && front == *begins;
            if is_last {
                end = start + shown.len();
            }
            // A line without letters is the rest of one: a quote, a plus sign.
            if !shown.is_empty() {
                break;
            }
        } else if at >= HEADERS {
            break;
        }
        start += line.len();
    }
    end
}

/// Whether a name promises a secret, and not only its id, its file or its length. `before` is the
/// name with whatever stands between it and the value.
pub(super) fn names_secret(before: &str) -> bool {
    const ABOUT: [&str; 39] = [
        "id",
        "ids",
        "name",
        "names",
        "type",
        "types",
        "url",
        "uri",
        "file",
        "path",
        "dir",
        "count",
        "counts",
        "limit",
        "arn",
        "ref",
        "field",
        "endpoint",
        "izer",
        "izers",
        "length",
        "len",
        "size",
        "expires",
        "expiry",
        "ttl",
        "version",
        "regex",
        "pattern",
        "prefix",
        "suffix",
        "algorithm",
        "index",
        "budget",
        "usage",
        "manager",
        "provider",
        "policy",
        "format",
    ];
    let name = before.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let start = name.rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'));
    let name = name.get(start.map_or(0, |at| at + 1)..).unwrap_or(name);
    let name = name.to_ascii_lowercase();
    !ABOUT.iter().any(|word| name.ends_with(word))
}

/// `$` and what no variable is named: capitals, small letters and digits together.
fn is_mixed_name(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.bytes().any(|byte| test(&byte));
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

/// Letters of both cases without the runs that words have.
fn has_random_case(text: &str) -> bool {
    let bytes = text.as_bytes();
    let turns = bytes.windows(2).filter(|pair| match pair {
        [a, b] => a.is_ascii_uppercase() != b.is_ascii_uppercase(),
        _ => false,
    });
    let mut runs = text.split(|c: char| !c.is_ascii_lowercase());
    let (len, turns) = (text.len(), turns.count());
    let is_text = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    len >= 16 && is_text && turns * 3 >= len && runs.all(|run| run.len() < 5)
}

/// Digits and what separates them, or a number of a program: `0x1f`, `12u32`.
fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let typed = digits.strip_suffix(['i', 'u', 'f']).unwrap_or(text);
    let is_part =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_' | b'-' | b':' | b'%');
    let is_hex = |hex: &str| hex.len() <= 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.bytes().all(is_part)
        || typed.bytes().all(is_part)
        || text.strip_prefix("0x").is_some_and(is_hex)
}

/// Two words or more that are joined, each with few digits: `sha256_digest`, `my-token-2`.
fn is_joined_words(text: &str) -> bool {
    let is_word = |part: &str| {
        let letters = part.bytes().filter(u8::is_ascii_alphabetic).count();
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let first = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let grouped = first.bytes().all(|byte| byte.is_ascii_digit());
        letters + digits == part.len() && (grouped || letters == 0) && digits <= 4
    };
    let parts: Vec<&str> = text
        .split(['_', '-', '.', ':'])
        .filter(|part| !part.is_empty())
        .collect();
    parts.len() >= 2 && parts.iter().all(|part| is_word(part))
}

/// A path, an address, or a member of something.
fn is_path_or_url(text: &str) -> bool {
    const STARTS: [&str; 8] = [
        "./", "../", "~/", "http:", "https:", "file:", "arn:", "self.",
    ];
    // Base64 may begin with a slash, but has letters of both cases and digits soon.
    let has = |test: fn(&u8) -> bool| text.bytes().any(|byte| test(&byte));
    let is_random = has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let is_path = text.starts_with('/') && !is_random;
    let is_member = || {
        let mut parts = text.split('.');
        let is_name = |part: &str| {
            let mut bytes = part.bytes();
            bytes
                .next()
                .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        text.contains('.') && text.len() < 60 && parts.all(is_name)
    };
    let is_start = STARTS.iter().any(|start| text.starts_with(start));
    is_path || is_start || text.contains("://") || is_member()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let standard = text.replace('-', "+").replace('_', "/");
    GeneralPurpose::new(&alphabet::STANDARD, LENIENT)
        .decode(standard)
        .ok()
}

/// Shannon's entropy of a text's bytes, in bits per byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let all = text.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / all)
        .map(|share| -share * share.log2())
        .sum()
}
