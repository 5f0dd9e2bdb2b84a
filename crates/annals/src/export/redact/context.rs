//! Secrets that only their surroundings give away: names, options, headers, addresses.

use super::check::{
    is_assigned, is_assigned_in_text, is_assigned_password, is_literal, is_pair_in_base64,
    is_password, is_password_word, is_short_password, is_told, is_url_password, looks_generated,
    looks_random,
};
use super::rules::{Rule, checked, shape};

/// The names of secrets, for patterns and for members of JSON.
macro_rules! name {
    () => {
        r"(?i-u:passw(?:or)?d|passwd|passphrase|[_-]pass|pwd|secret|token|(?:api|app|access|secret|private|auth|account|encryption|signing|master|session|shared|license|service|deploy|webhook|jwt|hmac|storage|admin|server|client)[_.-]?key|credentials?)"
    };
}

/// The same in capitals, at the end of the name of a variable.
macro_rules! variable {
    () => {
        "(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|TOKEN|KEY|CREDENTIALS?)"
    };
}

/// Literals of which each name has one.
const NAMES_HINTS: &[&str] = &["pass", "pwd", "secret", "token", "key", "credential"];

/// The names of passwords, which may be words. `pwd` is also a directory.
macro_rules! password {
    () => {
        r"(?i-u:password|passwd|passphrase)"
    };
}

/// What begins the port in a line of .pgpass.
const PORTS_HINTS: &[&str] = &[":1", ":2", ":3", ":4", ":5", ":6", ":7", ":8", ":9", ":*:"];

/// A member whose name this matches holds a password.
pub(super) const PASSWORDS: &str = concat!(password!(), "$");

/// A member whose name this matches holds a secret.
pub(super) const NAMES: &str = concat!(name!(), r"[A-Za-z0-9_-]{0,20}$");

/// Members that are headers: what they hold is read as if it stood behind its name.
pub(super) const HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

/// Whole values, which come before the tokens that may stand in them.
#[rustfmt::skip]
pub(super) static VALUES: &[Rule] = &[
    checked("cookie", 0, &["cookie"], |text, _| text.split(';').any(|part| is_literal(part.trim_start(), "")),
        r#"(?:(?:[Cc]ookie|COOKIE)["']?[ \t]*:|--cookie[ \t=])[ \t]*\[?["']?[A-Za-z0-9_.%!~$-]{1,80}=([^\r\n"'\\]{6,})"#),
    // In quotes, where it may hold blanks.
    checked("curl-user", 0, &["curl"], is_literal,
        r#"\bcurl\b[^\r\n]*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',]*["']|--(?:proxy-)?user[ \t="',]*["'])[^ \t\r\n:"',\\]{0,100}:([^\r\n"'\\]{1,200})"#),
    checked("curl-user", 0, &["curl"], is_literal,
        r#"\bcurl\b[^\r\n]*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',]*|--(?:proxy-)?user[ \t="',]+)[^ \t\r\n:"',\\]{0,100}:([^ \t\r\n"'\\]{1,200})"#),
    checked("netrc-password", 0, &["password"], is_literal,
        r#"\b(?:machine[ \t\r\n]+[^ \t\r\n\\]+|default)[ \t\r\n]+login[ \t\r\n]+[^ \t\r\n\\]+[ \t\r\n]+password[ \t\r\n]+([^ \t\r\n"'\\]+)"#),
    // A line of .pgpass with another port than PostgreSQL's own.
    checked("pgpass", 0, PORTS_HINTS, looks_generated,
        r#"(?m:^|[\t→])[ \t>+-]{0,8}(?:\*|localhost|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+):(?:\*|[0-9]{4,5}):[A-Za-z0-9_.*-]+:[A-Za-z0-9_.*-]+:([^ \t\r\n:"'<>&;,]{6,})[ \t]*(?m:$|\r)"#),
    checked("pgpass", 0, &[":5432:"], is_password,
        r#"\b[A-Za-z0-9_.*-]{1,100}:5432:[A-Za-z0-9_.*-]{1,60}:[A-Za-z0-9_.*-]{1,60}:([^ \t\r\n:"'<>&;,]{3,100})"#),
    checked("npm-token", 0, &[":_auth", ":_password"], is_literal,
        r#":_(?:authToken|auth|password)[ \t]*=[ \t]*["']?([^ \t\r\n"']{8,})"#),
    // Docker's configuration.
    checked("docker-auth", 0, &["auth"], is_pair_in_base64, r#""auth"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z0-9+/_-]{6,}={0,2})""#),
];

/// What an issuer gave no shape.
#[rustfmt::skip]
pub(super) static CONTEXT: &[Rule] = &[
    checked("basic-auth-url", 0, &["://"], is_literal, r#"://[^ \t\r\n/:@"'<>\[]{0,100}:([^ \t\r\n/"'<>]{1,200})@[A-Za-z0-9\[]"#),
    // A password with a slash. Behind the names of hosts a slash begins a path.
    checked("basic-auth-url", 0, &["postgres", "sql://", "mariadb", "sqlserver", "mongodb", "redis", "amqp", "ftp://", "ldap", "smtp", "clickhouse://"], is_url_password,
        r#"\b(?:postgres|(?:postgre|my|ms)sql|mariadb|sqlserver|mongodb|rediss?|amqps?|s?ftps?|ldaps?|smtps?|clickhouse)(?:\+[a-z0-9]{1,12})?://[^ \t\r\n/:@"'<>\[]{0,100}:([^ \t\r\n"'<>?#]{1,200})@[A-Za-z0-9\[]"#),
    // A token in the place of the user.
    checked("basic-auth-url", 0, &["://"], looks_generated, r"://([A-Za-z0-9_-]{20,255})@[A-Za-z0-9\[]"),
    checked("authorization", 0, &["authorization"], is_literal,
        r#"(?i-u:\bauthorization)["']?[ \t]*[:=][ \t]*["']?(?i-u:bearer|basic|token|apikey|api-key|bot|key|digest|negotiate)[ \t]+([A-Za-z0-9._~+/=-]{8,})"#),
    checked("authorization", 0, &["authorization"], looks_random,
        r#"(?i-u:\bauthorization)["']?[ \t]*[:=][ \t]*["']?([A-Za-z0-9._~+/=-]{16,})"#),
    checked("authorization", 0, &["bearer"], looks_random, r"(?i-u:\bbearer)[ \t]+([A-Za-z0-9._~+/=-]{20,})"),
    // Options of commands that take a password.
    checked("command-password", 0, &["mysql", "mariadb"], is_literal,
        r#"\b(?:mysql|mariadb)[a-z-]{0,10}[ \t](?:[^\r\n|;&]*?[ \t])?-p["']?([^ \t\r\n"'|;&-][^ \t\r\n"'|;&]{0,100})"#),
    checked("command-password", 0, &["sshpass"], is_literal, r#"\bsshpass[ \t]+-p[ \t]*["']?([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["redis-cli"], is_literal, r#"\bredis-cli\b[^\r\n|;&]*?[ \t](?:-a|--pass)[ \t=]+["']?([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["login"], is_literal, r#"\blogin\b[^\r\n|;&]*?[ \t]-p[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,200})"#),
    checked("command-password", 0, &["mongo"], is_literal, r#"\bmongo(?:sh|dump|restore|export|import|stat|top)?[ \t](?:[^\r\n|;&]*?[ \t])?-p[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["ldap"], is_literal, r#"\bldap(?:search|modify|add|delete|whoami|passwd|compare)[ \t](?:[^\r\n|;&]*?[ \t])?-w[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["smbclient", "rpcclient"], is_literal, r#"\b(?:smb|rpc)client[ \t](?:[^\r\n|;&]*?[ \t])?-U[ \t]*["']?[^ \t\r\n"'%]{1,60}%([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["pass:"], is_literal, r#"-pass(?:in|out)?[ \t]+["']?pass:([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["zip"], is_literal, r#"\b(?:un)?zip[ \t](?:[^\r\n|;&]*?[ \t])?-P[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["--password-stdin", "sudo"], is_literal,
        r#"\becho[ \t]+(?:-n[ \t]+)?["']?([^ \t\r\n"'|]{3,200})["']?[ \t]*\|[^\r\n|;&]*(?:--password-stdin|\bsudo[ \t]+-S)"#),
    checked("command-password", 0, &["chpasswd"], is_literal, r#"\becho[ \t]+(?:-n[ \t]+)?["']?[A-Za-z0-9_.-]{1,40}:([^ \t\r\n"'|]{3,100})["']?[ \t]*\|[^\r\n|;&]*\bchpasswd"#),
    checked("command-password", 0, &["openssl"], is_literal, r#"\bopenssl[ \t]+enc\b[^\r\n|;&]*?[ \t]-k[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,})"#),
    checked("command-password", 0, &["secret set"], is_literal, r#"\bsecret[ \t]+set[ \t](?:[^\r\n|;&]*?[ \t])?(?:-b|--body)[ \t=]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,})"#),
    // A variable that a command sets, without an equals sign.
    checked("generic-secret", 0, &["set", "env"], is_password,
        concat!(r#"(?:\bset[ \t]+-[A-Za-z]{0,3}x[A-Za-z]{0,3}|\bsetx(?:[ \t]+/[A-Za-z]+)?|\bsetenv|(?m:^|[\t→])[ \t>+-]{0,8}(?:ENV|env))[ \t]+[A-Z0-9_]*"#, variable!(), r#"[ \t]+["']?([^ \t\r\n"'`;&|<>(){}=]{6,})"#)),
    checked("generic-secret", 0, &["printf"], is_literal,
        concat!(r#"\bprintf[ \t]+["'][^"'\r\n]{0,60}"#, name!(), r#"[=:][ ]?%s[^"'\r\n]{0,20}["'][ \t]+["']?([^ \t\r\n"'`;&|<>]{3,})"#)),
    // Words that only their owner knows.
    shape("seed-phrase", 0, &["mnemonic", "phrase"], r#"(?i-u:mnemonic|(?:seed|recovery)[ _-]?phrase)["']?[ \t]*[:=][ \t]*["']?((?:[a-z]{3,8}[ \t]+){11}(?:(?:[a-z]{3,8}[ \t]+){3}){0,4}[a-z]{3,8})(?:["']|[ \t]*(?:$|[\r\n]))"#),
    // Statements of databases.
    checked("sql-password", 0, &["identified", "password"], is_password, r#"(?i-u:\bidentified[ \t]+by|\bpassword)[ \t]+["']([^"'\r\n]{3,100})["']"#),
    // Settings in XML.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned, concat!("<[A-Za-z0-9_.:-]{0,40}", name!(), r"[A-Za-z0-9_-]{0,20}>[ \t\r\n]*([^ \t\r\n<>]{6,200})[ \t\r\n]*</")),
    checked("generic-secret", 0, NAMES_HINTS, is_assigned, concat!(name!(), r#"["'][ \t]+value[ \t]*=[ \t]*["']([^ \t\r\n"'<>]{6,200})["']"#)),
    // A value that stands apart from its name: in Kubernetes, in Terraform, in a call.
    checked("generic-secret", 0, &["value"], is_password,
        concat!(r#"\bname["']?[ \t]*[:=][ \t]*["']?[A-Za-z0-9_.-]*"#, name!(), r#"["']?[ \t]*,?[ \t]*(?:\r?\n[ \t>+|-]*)?["']?value["']?[ \t]*[:=][ \t]*["']?([^ \t\r\n"'`#,{}]{3,})"#)),
    checked("generic-secret", 0, &["variable"], is_password,
        concat!(r#"\bvariable[ \t]+"[A-Za-z0-9_-]*"#, name!(), r#""[ \t]*\{[^{}]*?\bdefault[ \t]*=[ \t]*"([^ \t\r\n"]{3,})""#)),
    checked("generic-secret", 0, &["define", "setenv", "setdefault", "setproperty", "environmentvariable"], is_password,
        concat!(r#"(?i-u:\bdefine|setenv|setdefault|setproperty|setenvironmentvariable)\([ \t]*["'][A-Za-z0-9_.-]*"#, name!(), r#"["'][ \t]*,[ \t]*["']([^ \t\r\n"']{3,})["']"#)),
    // A cell of a table, and what stands behind bold text.
    checked("generic-secret", 0, &["|"], looks_generated,
        concat!(r#"\|[ \t]*[`*]{0,3}[A-Za-z0-9_.-]*"#, name!(), r#"[`*]{0,3}[ \t]*\|[ \t]*`?([^ \t\r\n|`]{6,})`?[ \t]*\|"#)),
    checked("generic-secret", 0, &["**"], looks_generated,
        concat!(r#"\*\*[A-Za-z0-9_. -]*"#, name!(), r#"[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:)[ \t]*["'`]?([^ \t\r\n"'`*]{6,})"#)),
    // A sentence.
    checked("generic-secret", 0, &[" is ", " was "], is_told,
        r#"(?i-u:\b(?:password|passphrase|token|secret|api[ -]?key)[ \t]+(?:is|was)(?:[ \t]+now)?:?)[ \t]+["'`]?([^ \t\r\n"'`<>(){}]{8,})"#),
    // A part of a connection string.
    checked("generic-secret", 0, &["password=", "pwd="], looks_random, r#"(?i-u:password|pwd)=([^ \t\r\n"'`\\;(){}]{6,});"#),
    // A parameter of an address.
    checked("generic-secret", 0, NAMES_HINTS, looks_random,
        r#"[?&](?i-u:(?:[a-z]{1,12}[_-])?token|api_?key|password|passwd|pwd|(?:[a-z]{1,12}[_-])?secret|code_verifier)=([^ \t\r\n"'`\\&#<>()]{8,})"#),
    // An option of a command.
    checked("generic-secret", 0, &["--"], |text, before| looks_random(text, before) || (before.ends_with("word=") && is_password(text, before)),
        r#"--(?:[a-z0-9]{1,20}-){0,4}(?:token|password|passwd|passphrase|secret|(?:api|access|secret|private|auth|license|account)-?key|credentials?)(?:[ \t]+|=)["']?([^ \t\r\n"'`\\;()<>]{6,})"#),
    // An assignment of a quoted text.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned,
        concat!(name!(), r#"[A-Za-z0-9_-]{0,20}["'`\]]{0,2}[ \t]*(?:=>|:=|==?|:)[ \t]*["'`]([^ \t\r\n"'`\\]{6,})["'`]"#)),
    // A word, in JSON and in what is written like it.
    checked("generic-secret", 0, &["pass"], is_password_word,
        concat!(password!(), r#"["'][ \t]*:[ \t]*["']([a-z]{6,40})["']"#)),
    // A password that is shorter than other secrets, in quotes and at the end of a line.
    checked("generic-secret", 0, &["pass"], is_short_password,
        concat!(password!(), r#"["'`\]]{0,2}[ \t]*(?:=>|:=|==?|:)[ \t]*["'`]([^ \t\r\n"'`\\:/]{5,11})["'`]"#)),
    checked("generic-secret", 0, &["pass"], is_short_password,
        concat!(password!(), r##"(?:=|:[ \t]{1,4})([^ \t\r\n"'`\\#(){}\[\];,<>$:/]{5,11})[ \t]*(?:$|[\r\n])"##)),
    // A variable that holds a password, whatever stands behind it.
    checked("generic-secret", 0, &["pass", "pwd"], is_assigned_password,
        r#"\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD)=["']?([^ \t\r\n"'`\\;,&|<>(){}$]{3,200})"#),
    // A variable, or a line of an .env file, of YAML or of an INI file, or a quoted header, to its end.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned,
        concat!(name!(), r##"[A-Za-z0-9_]{0,20}[ \t]*(?:=|:[ \t])[ \t]*([^ \t\r\n"'`\\#(){}\[\];,<>$]{8,})(?:$|[ \t]*[\r\n#]|["'])"##)),
    checked("generic-secret", 0, NAMES_HINTS, is_assigned_in_text,
        concat!(name!(), r##"[A-Za-z0-9_]{0,20}(?:=|:=|[ \t]=[ \t]|:[ \t]{1,4})([^ \t\r\n"'`\\#(){}\[\];,<>$&|]{8,})(?:[ \t;,&|<>)\]}])"##)),
];
