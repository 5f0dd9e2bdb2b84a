//! What a secret looks like, rule by rule.
//!
//! The shapes are those that the issuers document and that secret scanners agree on. A pattern's
//! first group is the secret. Rules stand in the order of their precedence: where two find the same
//! text, the first names it. Patterns know ASCII classes only, because the engine is built without
//! tables of Unicode: `\b` is the word boundary of ASCII, and blanks are spelled out. A pattern begins
//! with what is rare, because the engine skips to that.

/// How one kind of secret is found.
pub(super) struct Rule {
    /// Its name in masks and summaries.
    pub(super) name: &'static str,
    /// Its shape; the first group is the secret.
    pub(super) pattern: &'static str,
    /// How many characters of it are public and stay readable.
    pub(super) keep: usize,
    /// Whether what has the shape is a secret indeed.
    pub(super) holds: fn(&str) -> bool,
}

const fn rule(name: &'static str, keep: usize, pattern: &'static str) -> Rule {
    Rule {
        name,
        pattern,
        keep,
        holds: |_| true,
    }
}

const fn checked(
    name: &'static str,
    keep: usize,
    holds: fn(&str) -> bool,
    pattern: &'static str,
) -> Rule {
    Rule {
        name,
        pattern,
        keep,
        holds,
    }
}

/// Every rule. Adding one touches this list and the table of its tests.
pub(super) static RULES: &[Rule] = &[
    // A key that was cut off ends where its alphabet ends.
    rule(
        "private-key",
        0,
        r"(-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-[^-])*?-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=: \t\r\n,]|\\[nrt])+))",
    ),
    rule(
        "private-key",
        0,
        r"Private-Lines: [0-9]{1,4}(?:\r?\n|\\n)((?:[A-Za-z0-9+/=]{16,}(?:\r?\n|\\n)?)+)",
    ),
    // Whole header values come before the tokens that may stand in them.
    checked(
        "cookie",
        0,
        |text| text.split(';').any(|part| is_literal(part.trim_start())),
        r#"(?:(?:[Cc]ookie|COOKIE)\\{0,3}["']?[ \t]*:|--cookie[ \t=])[ \t]*\[?\\{0,3}["']?[A-Za-z0-9_.%!~$-]{1,80}=([^\r\n"'\\]{6,})"#,
    ),
    // In quotes, where it may hold blanks.
    checked(
        "curl-user",
        0,
        is_literal,
        r#"\bcurl\b(?:[^\r\n\\]|\\[^\r\n]|\\\r?\n)*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',\\]*["']|--(?:proxy-)?user[ \t="',\\]*["'])[^ \t\r\n:"',\\]{0,100}:([^\r\n"'\\]{1,200})"#,
    ),
    checked(
        "curl-user",
        0,
        is_literal,
        r#"\bcurl\b(?:[^\r\n\\]|\\[^\r\n]|\\\r?\n)*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',\\]*|--(?:proxy-)?user[ \t="',\\]+)[^ \t\r\n:"',\\]{0,100}:([^ \t\r\n"'\\]{1,200})"#,
    ),
    checked(
        "netrc-password",
        0,
        is_literal,
        r#"\b(?:machine(?:[ \t\r\n]|\\[nrt])+[^ \t\r\n\\]+|default)(?:[ \t\r\n]|\\[nrt])+login(?:[ \t\r\n]|\\[nrt])+[^ \t\r\n\\]+(?:[ \t\r\n]|\\[nrt])+password(?:[ \t\r\n]|\\[nrt])+([^ \t\r\n"'\\]+)"#,
    ),
    checked(
        "aws-access-key",
        4,
        |text| !text.ends_with("EXAMPLE"),
        r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
    ),
    rule(
        "github-token",
        4,
        r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})\b",
    ),
    rule(
        "gitlab-token",
        4,
        r"\b((?:glpat|gldt|glrt|glptt|glft|glimt|glagent|glsoat|gloas|glcbt)-[A-Za-z0-9_-]{20,})",
    ),
    rule(
        "slack-token",
        4,
        r"\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    ),
    rule(
        "slack-webhook",
        0,
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,})",
    ),
    rule(
        "stripe-key",
        4,
        r"\b((?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{32,})",
    ),
    rule("google-api-key", 4, r"\b(AIza[A-Za-z0-9_-]{35})"),
    rule(
        "google-oauth",
        4,
        r"\b(ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28})",
    ),
    rule(
        "anthropic-key",
        3,
        r"\b(sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{20,})",
    ),
    rule(
        "openai-key",
        3,
        r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,})",
    ),
    checked(
        "openrouter-key",
        3,
        looks_random,
        r"\b(sk-or-(?:v1-)?[A-Za-z0-9]{32,})",
    ),
    rule("groq-key", 4, r"\b(gsk_[A-Za-z0-9]{40,})"),
    rule("xai-key", 4, r"\b(xai-[A-Za-z0-9]{40,})"),
    rule("perplexity-key", 4, r"\b(pplx-[A-Za-z0-9]{40,})"),
    rule("replicate-token", 3, r"\b(r8_[A-Za-z0-9]{37,40})\b"),
    // The number in front is the bot's public id.
    rule(
        "telegram-token",
        0,
        r"[0-9]:(AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)",
    ),
    rule(
        "discord-webhook",
        0,
        r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{50,})",
    ),
    rule("age-key", 4, r"\b(AGE-SECRET-KEY-1[A-Z0-9]{50,})"),
    checked(
        "vault-token",
        4,
        looks_random,
        r"\b(hv[sbr]\.[A-Za-z0-9_-]{20,})",
    ),
    rule(
        "shopify-token",
        4,
        r"\b(shp(?:at|ca|pa|ss|ua)_[A-Fa-f0-9]{32})\b",
    ),
    rule("mailgun-key", 4, r"\b(key-[0-9a-f]{32})\b"),
    rule("linear-key", 4, r"\b(lin_(?:api|oauth)_[A-Za-z0-9]{32,})"),
    rule(
        "fly-token",
        4,
        r"\b(fm[12][ar]?_[A-Za-z0-9+/=_,-]{40,}|fo1_[A-Za-z0-9_-]{40,})",
    ),
    rule(
        "doppler-token",
        3,
        r"\b(dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,})",
    ),
    rule(
        "atlassian-token",
        4,
        r"\b(AT(?:ATT|CTT)3x[A-Za-z0-9_=-]{50,})",
    ),
    rule("databricks-token", 4, r"\b(dapi[0-9a-f]{32}(?:-[0-9])?)\b"),
    rule(
        "postman-key",
        4,
        r"\b(PMAK-[0-9a-fA-F]{24}-[0-9a-fA-F]{34})\b",
    ),
    rule("sentry-token", 4, r"\b(sntry[su]_[A-Za-z0-9+/=_-]{40,})"),
    rule(
        "grafana-token",
        4,
        r"\b(glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,})",
    ),
    rule(
        "notion-token",
        4,
        r"\b(secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,})\b",
    ),
    rule("square-token", 4, r"\b(sq0[a-z]{3}-[A-Za-z0-9_-]{22,})"),
    rule(
        "planetscale-token",
        4,
        r"\b(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,})",
    ),
    rule("pulumi-token", 4, r"\b(pul-[0-9a-f]{40})\b"),
    rule(
        "supabase-token",
        3,
        r"\b(sbp_(?:v0_)?[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})",
    ),
    rule(
        "vercel-token",
        4,
        r"\b(vc[pkiar]_[A-Za-z0-9]{24,}|vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,})",
    ),
    rule(
        "cloudflare-key",
        4,
        r"\b(v1\.0-[0-9a-f]{24}-[0-9a-f]{100,})",
    ),
    rule("npm-token", 4, r"\b(npm_[A-Za-z0-9]{36})\b"),
    checked(
        "npm-token",
        0,
        is_literal,
        r#":_(?:authToken|auth|password)[ \t]*=[ \t]*["']?([^ \t\r\n"']{8,})"#,
    ),
    rule("pypi-token", 4, r"\b(pypi-[A-Za-z0-9_-]{50,})"),
    rule("huggingface-token", 3, r"\b(hf_[A-Za-z0-9]{30,40})\b"),
    rule(
        "sendgrid-key",
        3,
        r"\b(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})",
    ),
    rule("twilio-key", 2, r"\b(SK[0-9a-f]{32})\b"),
    rule("digitalocean-token", 4, r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    rule("azure-key", 0, r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    rule("azure-key", 0, r"SharedAccessKey=([A-Za-z0-9+/]{43}=)"),
    rule(
        "azure-key",
        0,
        r"[?&]sig=([A-Za-z0-9%+/]{40,80}(?:%3[Dd]|=))",
    ),
    rule(
        "azure-key",
        0,
        r"\b([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
    ),
    rule(
        "jwt",
        3,
        r"\b(ey[A-Za-z0-9_-]{15,}\.ey[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,})",
    ),
    checked(
        "basic-auth-url",
        0,
        is_literal,
        r#"://[^ \t\r\n/:@"'<>]{0,100}:([^ \t\r\n/"'<>]{1,200})@[A-Za-z0-9\[]"#,
    ),
    checked(
        "authorization",
        0,
        is_literal,
        r#"(?i-u:\bauthorization)\\{0,3}["']?[ \t]*[:=][ \t]*\\{0,3}["']?(?i-u:bearer|basic|token)[ \t]+([A-Za-z0-9._~+/=-]{8,})"#,
    ),
    checked(
        "authorization",
        0,
        looks_random,
        r"(?i-u:\bbearer)[ \t]+([A-Za-z0-9._~+/=-]{20,})",
    ),
    // A part of a connection string.
    checked(
        "generic-secret",
        0,
        looks_random,
        r#"(?i-u:password|pwd)=([^ \t\r\n"'`\\;(){}]{6,});"#,
    ),
    // A parameter of an address.
    checked(
        "generic-secret",
        0,
        looks_random,
        r#"[?&](?i-u:access_token|auth_token|token|api_?key|password|client_secret|secret)=([^ \t\r\n"'`\\&#<>()]{8,})"#,
    ),
    // An option of a command.
    checked(
        "generic-secret",
        0,
        looks_random,
        r#"--(?:(?:access-|auth-|api-)?token|password|api-?key|(?:client-)?secret)(?:[ \t]+|=)["']?([^ \t\r\n"'`\\;()<>]{8,})"#,
    ),
    // An assignment of a quoted text, at any depth of escapes.
    checked(
        "generic-secret",
        0,
        looks_random,
        r#"(?i-u:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|account[_-]?key|credentials?)[A-Za-z0-9_-]{0,20}\\{0,3}["']?[ \t]*(?:=>|:=|==?|:)[ \t]*\\{0,3}["'`]([^ \t\r\n"'`\\]{8,})\\{0,3}["'`]"#,
    ),
    // A line of an .env file, of YAML or of an INI file, or a quoted header, to its end.
    checked(
        "generic-secret",
        0,
        looks_random,
        r#"(?i-u:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|account[_-]?key|credentials?)[A-Za-z0-9_]{0,20}[ \t]*(?:=|:[ \t])[ \t]*([^ \t\r\n"'`\\#(){}\[\];,<>$]{8,})(?:$|[ \t]*(?:\r|\n|\\n|\\r|#)|\\{0,3}["'])"#,
    ),
];

/// Members that are headers: what they hold is read as if it stood behind its name.
pub(super) const HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

/// The names of members and variables whose text is a secret.
pub(super) const NAMES: &str = r"(?i-u:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|account[_-]?key|private[_-]?key|credentials?)[A-Za-z0-9_-]{0,20}$";

/// Not a name, a variable or a stand-in for what someone will fill in.
pub(super) fn is_literal(text: &str) -> bool {
    const STAND_INS: [&str; 12] = [
        "example",
        "xxxx",
        "****",
        "....",
        "your_",
        "your-",
        "changeme",
        "change_me",
        "placeholder",
        "dummy",
        "redacted",
        "process.env",
    ];
    let lower = text.to_ascii_lowercase();
    let opens = ['<', '$', '{', '%', '['];
    !text.starts_with(opens)
        && !text.contains("${")
        && !text.contains("{{")
        && !STAND_INS.iter().any(|word| lower.contains(word))
        && !text
            .bytes()
            .all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.' | b'-'))
}

/// A literal that no one would write as a word: a digit or a sign in it, and enough entropy.
pub(super) fn looks_random(text: &str) -> bool {
    /// Bits per character. Words of eight letters have about as much, so a digit or a sign must be
    /// there too.
    const THRESHOLD: f64 = 2.7;
    let odd =
        |byte: u8| !byte.is_ascii_alphabetic() && !matches!(byte, b'_' | b'-' | b'.' | b'/' | b':');
    is_literal(text) && text.bytes().any(odd) && entropy(text) >= THRESHOLD
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
