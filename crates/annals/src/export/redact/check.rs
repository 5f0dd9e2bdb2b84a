//! Checks whether a text with the shape of a secret is one.
//!
//! Each check takes the candidate and the text that the pattern matched before it.

use std::collections::HashSet;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Returns whether the text is not a name, a variable or a placeholder.
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

/// Returns whether the key is not an example from the documentation.
pub(super) fn is_not_example(text: &str, _: &str) -> bool {
    !text.ends_with("EXAMPLE")
}

/// Returns whether the text is a literal and not a word: enough entropy, and a digit, a sign or
/// irregular letter case.
pub(super) fn looks_random(text: &str, _: &str) -> bool {
    /// Bits per character. Words of eight letters have about as much.
    const THRESHOLD: f64 = 2.7;
    let odd =
        |byte: u8| !byte.is_ascii_alphabetic() && !matches!(byte, b'_' | b'-' | b'.' | b'/' | b':');
    let is_odd = text.bytes().any(odd) || has_random_case(text);
    is_literal(text, "") && is_odd && entropy(text) >= THRESHOLD && !is_number(text)
}

/// Returns whether the text looks random and is not joined words, a path, a URL or a member access.
pub(super) fn looks_generated(text: &str, before: &str) -> bool {
    looks_random(text, before) && !is_joined_words(text) && !is_path_or_url(text)
}

/// Returns whether the text looks generated and has letters and digits. Addresses, ports and
/// numbers are other arguments of the same options.
pub(super) fn is_argument(text: &str, before: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    let is_mixed = has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit);
    is_mixed && looks_generated(text, before)
}

/// Returns whether the text is a secret in a call, and not the name or address by which the call
/// finds it, or a text that it reads.
pub(super) fn is_wrapped(text: &str, before: &str) -> bool {
    #[rustfmt::skip]
    const LOOKUPS: [&str; 24] = [
        "get", "env", "var", "find", "load", "read", "open", "lookup", "fetch", "require",
        "resolve", "query", "compile", "match", "regex", "regexp", "replace", "split", "path",
        "join", "prompt", "input", "select", "item",
    ];
    let call = before.trim_end_matches(['"', '\'', '`']);
    let call = call.rsplit_once('(').map_or(call, |(call, _)| call);
    let call = call.to_ascii_lowercase();
    !LOOKUPS.iter().any(|word| call.ends_with(word)) && is_argument(text, before)
}

/// Returns whether the text is a secret assigned to a name that denotes a secret.
pub(super) fn is_assigned(text: &str, before: &str) -> bool {
    names_secret(before) && looks_random(text, before) && !is_path_or_url(text)
}

/// Same as [`is_assigned`], where text follows. Excludes words and identifiers, and types after a
/// colon.
pub(super) fn is_assigned_in_text(text: &str, before: &str) -> bool {
    let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let is_numbered = digits >= 2 && count(u8::is_ascii_lowercase) > 0 && text.len() >= 12;
    let is_strong = is_numbered || has_random_case(text);
    let is_typed = before.trim_end().ends_with(':');
    names_secret(before) && looks_generated(text, before) && (is_strong || !is_typed)
}

/// Returns whether the text is a password, where only a password can be. It may be a word.
pub(super) fn is_password(text: &str, before: &str) -> bool {
    const NONE: [&str; 25] = [
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
        "passphrase",
        "passwort",
        "kennwort",
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

/// Same as [`is_password`], for a value assigned to a name.
pub(super) fn is_assigned_password(text: &str, before: &str) -> bool {
    names_secret(before) && is_password(text, before)
}

/// Returns whether the text is the password or secret of a variable: not a type, a count or a
/// description.
pub(super) fn is_named_password(text: &str, before: &str) -> bool {
    let name = before.trim_end_matches([' ', '\t', '"', '\'']);
    let is_label = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_alphabetic() || c == ' ');
    let is_count = is_number(text) && !before.contains("PASSW");
    let is_other = is_count || (is_label && name.ends_with(':'));
    let describes = || describes_password(&text.to_ascii_lowercase());
    !is_other && !describes() && is_assigned_password(text, before)
}

/// Same as [`is_named_password`], in quotes. Excludes sentences about a password.
pub(super) fn is_quoted_password(text: &str, before: &str) -> bool {
    let mentions = text.to_ascii_lowercase().contains("pass");
    let is_sentence = text.contains(' ') && (mentions || text.ends_with(['.', ':', '?']));
    !is_sentence && is_named_password(text, before)
}

/// Returns whether the text is the value of an option for a secret. After a space, a word in prose
/// may follow the option.
pub(super) fn is_option_value(text: &str, before: &str) -> bool {
    let option = before.trim_end_matches(['"', '\'']);
    let is_joined = option.ends_with("word=");
    let is_separate = option.trim_end().ends_with("word");
    looks_random(text, before)
        || is_joined && is_password(text, before)
        || is_separate && is_password_word(text, before)
}

/// Returns whether several words are a passphrase, and not a sentence about one.
pub(super) fn is_passphrase(text: &str, before: &str) -> bool {
    #[rustfmt::skip]
    const PROSE: [&str; 45] = [
        "all", "and", "any", "are", "but", "can", "characters", "decrypt", "default", "empty",
        "encrypt", "enter", "file", "for", "from", "get", "has", "have", "its", "key", "least",
        "letters", "long", "must", "need", "needs", "not", "only", "optional", "password",
        "passphrase", "protected", "required", "set", "should", "than", "that", "the", "this",
        "used", "when", "will", "with", "words", "your",
    ];
    let mut words = text.split([' ', '\t']);
    words.all(|word| !PROSE.contains(&word)) && is_literal(text, before)
}

/// Returns whether the text is a short password of letters and digits: `hunter2`, but not `utf8`.
/// Such a text is too short to judge by its entropy.
pub(super) fn is_short_password(text: &str, before: &str) -> bool {
    (5..=11).contains(&text.len()) && is_numbered_password(text, before)
}

/// Returns whether the text is a password of letters and digits, where a sentence may follow.
pub(super) fn is_password_in_text(text: &str, before: &str) -> bool {
    let text = text.trim_end_matches(['.', '!', '?']);
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let describes = describes_password(&name.to_ascii_lowercase());
    text.len() >= 5 && !describes && is_numbered_password(text, before)
}

/// Returns whether the text is a password of letters and digits, and not a name with a number.
fn is_numbered_password(text: &str, before: &str) -> bool {
    #[rustfmt::skip]
    const NUMBERED: [&str; 18] = [
        "sha", "utf", "base", "arg", "args", "param", "value", "user", "bcrypt", "latin", "aes",
        "bool", "int", "argon", "argon2id", "scrypt", "pbkdf", "oauth",
    ];
    let lower = text.to_ascii_lowercase();
    let name = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let count = |is: fn(&u8) -> bool| lower.bytes().filter(is).count();
    let different: HashSet<u8> = lower.bytes().collect();
    count(u8::is_ascii_lowercase) >= 3
        && count(u8::is_ascii_digit) >= 1
        && different.len() >= 4
        && !NUMBERED.contains(&name)
        && !is_joined_words(text)
        && is_password(name, before)
        && is_assigned_password(text, before)
}

/// Returns whether a word is a password, judged by the name. Labels begin with a capital.
pub(super) fn is_password_word(text: &str, before: &str) -> bool {
    let is_word = text.len() >= 3 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    is_word && !describes_password(text) && is_assigned_password(text, before)
}

/// Returns whether letters in both cases are a password, and not a label or an identifier.
pub(super) fn is_mixed_case_password(text: &str, before: &str) -> bool {
    irregular_capitals(text) >= 2 && is_assigned_password(text, before)
}

/// Returns whether the text looks random, or is letters in both cases and not an identifier.
pub(super) fn looks_typed(text: &str, before: &str) -> bool {
    let is_mixed = irregular_capitals(text) >= 2 && is_literal(text, before);
    is_mixed || looks_generated(text, before)
}

/// Returns whether a word in small letters describes a password, or is an identifier that code
/// assigns to one.
fn describes_password(text: &str) -> bool {
    #[rustfmt::skip]
    const ABOUT: [&str; 106] = [
        "accepted", "any", "argument", "auth", "auto", "automatic", "because", "before", "blank",
        "body", "bool", "boolean", "bytes", "changed", "char", "config", "confirm", "correct",
        "credentials", "data", "default", "deleted", "denied", "disabled", "empty", "enabled",
        "encrypted", "error", "expired", "failed", "field", "flag", "form", "format", "generated",
        "hash", "hashed", "here", "hidden", "incorrect", "inherit", "input", "instead", "int",
        "invalid", "keyring", "later", "manual", "masked", "missing", "must", "needed", "new",
        "not", "nothing", "number", "object", "omitted", "option", "options", "parameter", "params",
        "plain", "plaintext", "protected", "random", "raw", "read", "rejected", "removed",
        "request", "reset", "result", "row", "same", "saved", "see", "self", "set", "settings",
        "should", "shown", "stored", "strong", "success", "switch", "test", "text", "this", "type",
        "unchanged", "unknown", "unset", "updated", "use", "used", "user", "username", "valid",
        "validated", "varchar", "verified", "weak", "without", "wrong", "your",
    ];
    ABOUT.contains(&text)
}

/// Returns whether the text is a secret stated in a sentence: long, with digits, and not a word. A
/// password may be shorter.
pub(super) fn is_stated(text: &str, before: &str) -> bool {
    let text = text.trim_end_matches(['.', ',', '!', '?', ';', ':']);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let name = before.to_ascii_lowercase();
    let is_password = name.contains("pass") || name.contains("kennwort");
    digits >= 2 && text.len() >= 10 && looks_generated(text, before)
        || is_password && text.len() >= 6 && is_numbered_password(text, before)
}

/// Returns whether the text is a URL password with a slash. Digits before the first slash are a
/// port.
pub(super) fn is_url_password(text: &str, before: &str) -> bool {
    let front = text.split('/').next().unwrap_or_default();
    let is_port = front.bytes().all(|byte| byte.is_ascii_digit());
    front.len() < text.len() && !is_port && looks_random(text, before)
}

/// Returns whether the text is base64 of `user:password`, as in Docker's `auth` or a Basic header.
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

/// Returns whether the text is base64 of a private key, not of a certificate.
pub(super) fn is_key_in_base64(text: &str, _: &str) -> bool {
    let start: String = text.chars().take(64).collect();
    let decoded = decode(&start).unwrap_or_default();
    String::from_utf8_lossy(&decoded).contains("PRIVATE KEY")
}

/// Returns the end of a private key that begins `rest`: after its last line or, if it is truncated,
/// where its alphabet ends.
pub(super) fn private_key_end(rest: &str) -> usize {
    /// Maximum length of a key.
    const LONGEST: usize = 32 << 10;
    let mut most = rest.len().min(LONGEST);
    while !rest.is_char_boundary(most) {
        most -= 1;
    }
    let window = rest.get(..most).unwrap_or(rest);
    // Skip the first line, which ends with dashes too.
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
        // Another key may begin before the end of a truncated one.
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

/// Returns the length of the lines of a truncated key, with any prefix on each line. A few header
/// lines may come first.
fn key_lines(text: &str) -> usize {
    /// Lines of keys are longer, except the last.
    const FULL: usize = 40;
    /// The rest of the first line, `Proc-Type`, `DEK-Info`, a blank line.
    const HEADERS: usize = 5;
    let in_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let text = text.split("-----BEGIN").next().unwrap_or_default();
    let (mut start, mut end) = (0, 0);
    // Prefix of the last full line, without digits: line numbers and times change.
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
            // A line without letters is the rest of another line: a quote, a plus sign.
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

/// Returns whether a name denotes a secret, and not its id, file or length. `before` is the name
/// with everything between it and the value.
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

/// Returns whether the text has capitals, small letters and digits, as no variable name has.
fn is_mixed_name(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.bytes().any(|byte| test(&byte));
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

/// Returns whether the text is letters whose case is more irregular than in identifiers, of which some
/// contain an abbreviation in capitals.
fn has_random_case(text: &str) -> bool {
    text.len() >= 16 && irregular_capitals(text) * 4 >= text.len()
}

/// Returns the number of capitals that do not begin a word of three letters with a vowel. Returns 0
/// unless the text is letters of both cases.
fn irregular_capitals(text: &str) -> usize {
    let small = text.bytes().filter(u8::is_ascii_lowercase).count();
    if small < 2 || !text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return 0;
    }
    let capitals = text.match_indices(|c: char| c.is_ascii_uppercase());
    let is_irregular = |rest: &str| {
        let end = rest.find(|c: char| c.is_ascii_uppercase());
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        word.len() < 2 || !word.contains(['a', 'e', 'i', 'o', 'u', 'y'])
    };
    let after = capitals.filter_map(|(at, _)| text.get(at + 1..));
    after.filter(|rest| is_irregular(rest)).count()
}

/// Returns whether the text is a number: digits and separators, or a literal such as `0x1f` or
/// `12u32`.
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

/// Returns whether the text is two or more joined words, each with few digits: `sha256_digest`,
/// `my-token-2`.
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

/// Returns whether the text is a path, a URL or a member access.
fn is_path_or_url(text: &str) -> bool {
    const STARTS: [&str; 8] = [
        "./", "../", "~/", "http:", "https:", "file:", "arn:", "self.",
    ];
    // Base64 may begin with a slash, but soon has letters of both cases and digits.
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

/// Returns the Shannon entropy of the bytes, in bits per byte.
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
