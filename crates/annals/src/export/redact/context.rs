//! Rules for secrets that are recognized by their context: names, options, headers, addresses.

use super::check::{
    is_argument, is_assigned, is_assigned_in_text, is_assigned_password, is_literal,
    is_mixed_case_password, is_named_password, is_option_value, is_pair_in_base64, is_passphrase,
    is_password, is_password_in_text, is_password_word, is_quoted_password, is_short_password,
    is_stated, is_url_password, is_wrapped, looks_generated, looks_random, looks_typed,
};
use super::rules::{Rule, checked, shape};

/// Words for a password in other languages.
macro_rules! translation {
    () => {
        "passwort|kennwort|contrase(?:ñ|n)a|mot de passe|senha"
    };
}

/// Names of secrets, for patterns and for JSON members.
macro_rules! name {
    () => {
        concat!(r"(?i-u:", translation!(), r"|passw(?:or)?d|passwd|passphrase|[_-]pass|pwd|secret|token|(?:api|app|access|secret|private|auth|account|encryption|signing|master|session|shared|license|service|deploy|webhook|jwt|hmac|storage|admin|server|client)[_.-]?key|credentials?)")
    };
}

/// The same in capitals, at the end of a variable name.
macro_rules! variable {
    () => {
        "(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|TOKEN|KEY|CREDENTIALS?)"
    };
}

/// Literals, one of which occurs in each name.
#[rustfmt::skip]
const NAMES_HINTS: &[&str] = &["pass", "pwd", "secret", "token", "key", "credential", "kennwort", "contrase", "senha"];

/// Names of passwords, whose values may be words. `pwd` is not one: it also means a directory.
macro_rules! password {
    () => {
        concat!(r"(?i-u:password|passwd|passphrase|", translation!(), ")")
    };
}

/// Literals, one of which occurs in each name of a password.
const PASSWORD_HINTS: &[&str] = &["pass", "kennwort", "contrase", "senha"];

/// Commands that read a secret from their input.
macro_rules! reader {
    () => {
        r"(?:--(?:password|passphrase|token|secret|key)-(?:stdin|fd)|--with-token|--stdin|--data-file=-|\bsudo[ \t]+(?:-[A-Za-z]+[ \t]+)*-[A-Za-z]*S|\bsecrets?[ \t]+(?:put|set|create|add|versions)|\bcryptsetup|\bkinit|\b(?:vnc|smb|mk)passwd|\bpass[ \t]+insert)"
    };
}

/// Words between a password and its value in a sentence.
macro_rules! is_or_was {
    () => {
        r"[ \t]+(?:is|was|ist|war|lautet)(?:[ \t]+(?:now|jetzt))?"
    };
}

/// Literals that begin the port in a line of .pgpass.
const PORTS_HINTS: &[&str] = &[":1", ":2", ":3", ":4", ":5", ":6", ":7", ":8", ":9", ":*:"];

/// Matches the names of members that hold a password.
pub(super) const PASSWORDS: &str = concat!(password!(), "$");

/// Matches the names of members that hold a secret.
pub(super) const NAMES: &str = concat!(name!(), r"[A-Za-z0-9_-]{0,20}$");

/// Members that are headers. Their values are matched together with the name.
pub(super) const HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

/// Whole values. They take precedence over the tokens inside them.
#[rustfmt::skip]
pub(super) static VALUES: &[Rule] = &[
    checked("cookie", 0, &["cookie", "curl"], |text, _| text.split(';').any(|part| is_literal(part.trim_start(), "")),
        r#"(?:(?:[Cc]ookie|COOKIE)["']?[ \t]*:|--cookie[ \t=]|\bcurl\b[^\r\n]*?[ \t]-b[ \t]*)[ \t]*\[?["']?[A-Za-z0-9_.%!~$-]{1,80}=([^\r\n"'\\]{6,})"#),
    // In quotes, where it may contain blanks.
    checked("curl-user", 0, &["curl"], is_literal,
        r#"\bcurl\b[^\r\n]*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',]*["']|--(?:proxy-)?user[ \t="',]*["'])[^ \t\r\n:"',\\]{0,100}:([^\r\n"'\\]{1,200})"#),
    checked("curl-user", 0, &["curl"], is_literal,
        r#"\bcurl\b[^\r\n]*?[ \t"',](?:-[A-Za-z]{0,6}[uU][ \t="',]*|--(?:proxy-)?user[ \t="',]+)[^ \t\r\n:"',\\]{0,100}:([^ \t\r\n"'\\]{1,200})"#),
    checked("netrc-password", 0, &["password"], is_literal,
        r#"\b(?:machine[ \t\r\n]+[^ \t\r\n\\]+|default)[ \t\r\n]+login[ \t\r\n]+[^ \t\r\n\\]+[ \t\r\n]+password[ \t\r\n]+([^ \t\r\n"'\\]+)"#),
    // A line of .pgpass with a port other than PostgreSQL's default.
    checked("pgpass", 0, PORTS_HINTS, looks_generated,
        r#"(?m:^|[\t→])[ \t>+-]{0,8}(?:\*|localhost|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+):(?:\*|[0-9]{4,5}):[A-Za-z0-9_.*-]+:[A-Za-z0-9_.*-]+:([^ \t\r\n:"'<>&;,]{6,})[ \t]*(?m:$|\r)"#),
    checked("pgpass", 0, &[":5432:"], is_password,
        r#"\b[A-Za-z0-9_.*-]{1,100}:5432:[A-Za-z0-9_.*-]{1,60}:[A-Za-z0-9_.*-]{1,60}:([^ \t\r\n:"'<>&;,]{3,100})"#),
    checked("npm-token", 0, &[":_auth", ":_password"], is_literal,
        r#":_(?:authToken|auth|password)[ \t]*=[ \t]*["']?([^ \t\r\n"']{8,})"#),
    // Docker's configuration.
    checked("docker-auth", 0, &["auth"], is_pair_in_base64, r#""auth"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z0-9+/_-]{6,}={0,2})""#),
];

/// Secrets to which the issuer gave no shape.
#[rustfmt::skip]
pub(super) static CONTEXT: &[Rule] = &[
    checked("basic-auth-url", 0, &["://"], is_literal, r#"://[^ \t\r\n/:@"'<>\[]{0,100}:([^ \t\r\n/"'<>]{1,200})@[A-Za-z0-9\[]"#),
    // A password with a slash. After a host name, a slash begins a path.
    checked("basic-auth-url", 0, &["postgres", "sql://", "mariadb", "sqlserver", "mongodb", "redis", "amqp", "ftp://", "ldap", "smtp", "clickhouse://"], is_url_password,
        r#"\b(?:postgres|(?:postgre|my|ms)sql|mariadb|sqlserver|mongodb|rediss?|amqps?|s?ftps?|ldaps?|smtps?|clickhouse)(?:\+[a-z0-9]{1,12})?://[^ \t\r\n/:@"'<>\[]{0,100}:([^ \t\r\n"'<>?#]{1,200})@[A-Za-z0-9\[]"#),
    // A token in place of the user.
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
    checked("command-password", 0, &["zip", "sqlcmd", "bcp", "osql", "isql"], is_literal,
        r#"\b(?:(?:un)?zip|sqlcmd|bcp|[io]sql)[ \t](?:[^\r\n|;&]*?[ \t])?-P[ \t]*["']?([^ \t\r\n"'-][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["7z", "rar"], is_literal, r#"\b(?:7z[ar]?|7zz|(?:un)?rar)[ \t](?:[^\r\n|;&]*?[ \t])?-h?p["']?([^ \t\r\n"'|;&-][^ \t\r\n"'|;&]{0,100})"#),
    checked("command-password", 0, &["ssh-keygen"], is_literal, r#"\bssh-keygen[ \t](?:[^\r\n|;&]*?[ \t])?-[NP][ \t]*["']?([^ \t\r\n"'-][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["add-generic-password", "add-internet-password"], is_literal, r#"\badd-(?:generic|internet)-password[ \t](?:[^\r\n|;&]*?[ \t])?-w[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,200})"#),
    checked("command-password", 0, &["pass:"], is_literal, r#"-pass(?:in|out)?[ \t]+["']?pass:([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["openssl"], is_literal, r#"\bopenssl[ \t]+enc\b[^\r\n|;&]*?[ \t]-k[ \t]+["']?([^ \t\r\n"'-][^ \t\r\n"']{2,})"#),
    // An argument of its own.
    checked("command-password", 0, &["openssl"], is_password, r#"\bopenssl[ \t]+passwd[ \t](?:-[^ \t\r\n]+[ \t]+(?:[^ \t\r\n-][^ \t\r\n]*[ \t]+)??)*["']?([^ \t\r\n"'|;&-][^ \t\r\n"'|;&]{5,100})"#),
    checked("command-password", 0, &["wpa_passphrase"], is_literal, r#"\bwpa_passphrase[ \t]+(?:"[^"\r\n]*"|'[^'\r\n]*'|[^ \t\r\n]+)[ \t]+["']?([^ \t\r\n"'|;&<>][^ \t\r\n"'|;&]{4,100})"#),
    checked("command-password", 0, &["net use", "net.exe use"], is_literal, r#"(?i-u:\bnet(?:\.exe)?[ \t]+use)[ \t][^\r\n|;&]*?/(?i-u:user):[^ \t\r\n]+[ \t]+["']?([^ \t\r\n"'*/][^ \t\r\n"']{2,100})"#),
    checked("command-password", 0, &["net use", "net.exe use"], is_literal, r#"(?i-u:\bnet(?:\.exe)?[ \t]+use)[ \t][^\r\n|;&]*?\\[^ \t\r\n]+[ \t]+["']?([^ \t\r\n"'*/][^ \t\r\n"']{2,100})["']?[ \t]+/(?i-u:user):"#),
    checked("command-password", 0, &["alias set", "config host add"], is_literal, r#"\bmc[ \t]+(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+[^ \t\r\n]+[ \t]+["']?https?://[^ \t\r\n]+[ \t]+[^ \t\r\n]+[ \t]+["']?([^ \t\r\n"'<>$-][^ \t\r\n"']{5,200})"#),
    // The access key before it.
    checked("command-password", 0, &["alias set", "config host add"], looks_generated, r#"\bmc[ \t]+(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+[^ \t\r\n]+[ \t]+["']?https?://[^ \t\r\n]+[ \t]+["']?([A-Za-z0-9_-]{12,128})["']?[ \t]"#),
    // An argument after the name of the user.
    checked("command-password", 0, &["rabbitmqctl", "mosquitto_passwd", "ejabberdctl", "net user", "net.exe user"], is_literal,
        r#"(?:\brabbitmqctl[ \t](?:[^\r\n|;&]*?[ \t])?(?:add_user|change_password)[ \t]+[^ \t\r\n]+|\bmosquitto_passwd[ \t]+(?:-[a-zA-Z]+[ \t]+)*-[a-zA-Z]*b[ \t]+[^ \t\r\n]+[ \t]+[^ \t\r\n]+|\bejabberdctl[ \t]+(?:register|change_password)[ \t]+[^ \t\r\n]+[ \t]+[^ \t\r\n]+|(?i-u:\bnet(?:\.exe)?[ \t]+user)[ \t]+[^ \t\r\n/]+)[ \t]+["']?([^ \t\r\n"'|;&<>*/-][^ \t\r\n"'|;&<>]{2,100})"#),
    // A short option, after that of the user.
    checked("command-password", 0, &[" -u", " -l"], is_argument,
        r#"[ \t]-[uUlL][ \t]+["']?[A-Za-z][^ \t\r\n"'|;&]{0,60}["']?[ \t]+(?:[^\r\n|;&]{0,80}?[ \t])?-(?:[pPAXw]|pw)[ \t]+["']?([^ \t\r\n"'`|;&<>(){}:,/-][^ \t\r\n"'`|;&<>(){}:,/]{5,100})["']?(?:[ \t\r\n|;&]|$)"#),
    checked("command-password", 0, &["/p"], is_argument,
        r#"[ \t]/(?i-u:p|pw|pass|password):["']?([^ \t\r\n"'`|;&<>(){}:,/=]{6,100})["']?(?:[ \t\r\n|;&]|$)"#),
    checked("command-password", 0, &["nmcli"], is_literal, r#"\bnmcli[ \t](?:[^\r\n|;&]*?[ \t])?(?:password|[a-z0-9.-]*psk)[ \t]+["']?([^ \t\r\n"']{3,100})"#),
    checked("command-password", 0, &["securestring"], is_literal, r#"(?i-u:\bConvertTo-SecureString)[ \t]+(?:(?i-u:-(?:String|AsPlainText|Force))[ \t]+)*["']([^\r\n"']{3,200})["']"#),
    // With `-n` there is no file before the user.
    checked("command-password", 0, &["htpasswd"], is_literal,
        r#"\bhtpasswd[ \t]+(?:-[A-Za-z]+[ \t]+(?:[0-9]+[ \t]+)?)*-[A-Za-z]*(?:n[A-Za-z]*b|b[A-Za-z]*n)[A-Za-z]*[ \t]+(?:-[A-Za-z]+[ \t]+(?:[0-9]+[ \t]+)?)*[^ \t\r\n-][^ \t\r\n]*[ \t]+["']?([^ \t\r\n"'|;&>][^ \t\r\n"'|;&>]{2,100})"#),
    checked("command-password", 0, &["htpasswd"], is_literal,
        r#"\bhtpasswd[ \t]+(?:-[A-Za-z]+[ \t]+(?:[0-9]+[ \t]+)?)*-[A-Zac-mo-z]*b[A-Za-mo-z]*[ \t]+(?:-[A-Za-z]+[ \t]+(?:[0-9]+[ \t]+)?)*(?:[^ \t\r\n-][^ \t\r\n]*[ \t]+){2}["']?([^ \t\r\n"'|;&>][^ \t\r\n"'|;&>]{2,100})"#),
    // A password joined to its user.
    checked("command-password", 0, &["smbclient", "rpcclient"], is_literal, r#"\b(?:smb|rpc)client[ \t](?:[^\r\n|;&]*?[ \t])?-U[ \t]*["']?[^ \t\r\n"'%]{1,60}%([^ \t\r\n"']{1,100})"#),
    checked("command-password", 0, &["http"], is_literal, r#"\bhttps?[ \t](?:[^\r\n|;&]*?[ \t])?(?:-a|--auth)[ \t=]+["']?[^ \t\r\n"':]{1,100}:([^ \t\r\n"']{1,200})"#),
    checked("command-password", 0, &["lftp"], is_literal, r#"\blftp[ \t](?:[^\r\n|;&]*?[ \t])?-u[ \t]*["']?[^ \t\r\n"',]{1,100},([^ \t\r\n"']{1,200})"#),
    checked("command-password", 0, &["sqlplus", "impdp", "expdp", "sqlldr", "rman"], is_literal, r#"\b(?:sqlplus|impdp|expdp|sqlldr|rman)[ \t](?:[^\r\n|;&]*?[ \t])?["']?[A-Za-z][A-Za-z0-9_$#]{0,60}/["']?([^ \t\r\n"'/@]{3,100})["']?@"#),
    // The value that a command stores.
    checked("command-password", 0, &["secret", "ssm", "keyvault"], is_password,
        r#"\b(?:secrets?|ssm|secretsmanager|keyvault)[ \t](?:[^\r\n|;&]*?[ \t])?(?:-b|--(?:body|value|secret-string|secret-value|string-value|plaintext))[ \t=]+["']?([^ \t\r\n"'@-][^ \t\r\n"']{2,})"#),
    checked("generic-secret", 0, &["secret"], is_password,
        concat!(r#"\bsecrets?[ \t]+set[ \t]+(?:-[^\r\n|;&]*?[ \t])?["']?[A-Za-z0-9_.:-]*"#, name!(), r#"["']?[ \t]+["']?([^ \t\r\n"'`;&|<>(){}=-][^ \t\r\n"'`;&|<>(){}=]{2,})"#)),
    // Its name before it, and no sign between.
    checked("generic-secret", 0, &["config"], looks_generated,
        concat!(r#"\bconfig(?:ure)?[ \t](?:[^\r\n|;&]*?[ \t])?[A-Za-z0-9_./:@-]*"#, name!(), r#"[ \t]+["']?([^ \t\r\n"'`;&|<>(){}=]{6,})"#)),
    // Text that a command reads.
    checked("command-password", 0, &["echo", "printf"], is_password,
        concat!(r#"\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+)?(?:["']%s(?:\\n|\n)?["'][ \t]+)?["']?([^ \t\r\n"'|]{3,200})["']?[ \t]*\|[^\r\n|;&]*"#, reader!())),
    checked("command-password", 0, &["chpasswd"], is_literal, r#"\becho[ \t]+(?:-n[ \t]+)?["']?[A-Za-z0-9_.-]{1,40}:([^ \t\r\n"'|]{3,100})["']?[ \t]*\|[^\r\n|;&]*\bchpasswd"#),
    checked("command-password", 0, &["<<<"], is_password, concat!(reader!(), r#"[^\r\n|;&]*<<<[ \t]*["']?([^ \t\r\n"'|]{3,200})"#)),
    checked("command-password", 0, &["send"], looks_typed, r#"\bsend[ \t]+(?:--[ \t]+)?["']([^ \t\r\n"']{6,100})[\r\n]+["']"#),
    // A variable set by a command, without an equals sign.
    checked("generic-secret", 0, &["set", "env"], is_password,
        concat!(r#"(?:\bset[ \t]+-[A-Za-z]{0,3}x[A-Za-z]{0,3}|\bsetx(?:[ \t]+/[A-Za-z]+)?|\bsetenv|(?m:^|[\t→])[ \t>+-]{0,8}(?:ENV|env))[ \t]+[A-Z0-9_]*"#, variable!(), r#"[ \t]+["']?([^ \t\r\n"'`;&|<>(){}=]{6,})"#)),
    checked("generic-secret", 0, &["printf"], is_literal,
        concat!(r#"\bprintf[ \t]+["'][^"'\r\n]{0,60}"#, name!(), r#"[=:][ ]?%s[^"'\r\n]{0,20}["'][ \t]+["']?([^ \t\r\n"'`;&|<>]{3,})"#)),
    // Seed phrases of 12 to 24 words.
    shape("seed-phrase", 0, &["mnemonic", "phrase"], r#"(?i-u:mnemonic|(?:seed|recovery)[ _-]?phrase)["']?[ \t]*[:=][ \t]*["']?((?:[a-z]{3,8}[ \t]+){11}(?:(?:[a-z]{3,8}[ \t]+){3}){0,4}[a-z]{3,8})(?:["']|[ \t]*(?:$|[\r\n]))"#),
    // SQL statements.
    checked("sql-password", 0, &["identified", "password"], is_password, r#"(?i-u:\bidentified[ \t]+by|\bpassword)[ \t]+["']([^"'\r\n]{3,100})["']"#),
    // Settings in XML.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned, concat!("<[A-Za-z0-9_.:-]{0,40}", name!(), r"[A-Za-z0-9_-]{0,20}>[ \t\r\n]*([^ \t\r\n<>]{6,200})[ \t\r\n]*</")),
    checked("generic-secret", 0, NAMES_HINTS, is_assigned, concat!(name!(), r#"["'][ \t]+value[ \t]*=[ \t]*["']([^ \t\r\n"'<>]{6,200})["']"#)),
    // A value separate from its name: in Kubernetes, in Terraform, in a call.
    checked("generic-secret", 0, &["value"], is_password,
        concat!(r#"\bname["']?[ \t]*[:=][ \t]*["']?[A-Za-z0-9_.-]*"#, name!(), r#"["']?[ \t]*,?[ \t]*(?:\r?\n[ \t>+|-]*)?["']?value["']?[ \t]*[:=][ \t]*["']?([^ \t\r\n"'`#,{}]{3,})"#)),
    checked("generic-secret", 0, &["variable"], is_password,
        concat!(r#"\bvariable[ \t]+"[A-Za-z0-9_-]*"#, name!(), r#""[ \t]*\{[^{}]*?\bdefault[ \t]*=[ \t]*"([^ \t\r\n"]{3,})""#)),
    checked("generic-secret", 0, &["define", "setenv", "setdefault", "setproperty", "environmentvariable"], is_password,
        concat!(r#"(?i-u:\bdefine|setenv|setdefault|setproperty|setenvironmentvariable)\([ \t]*["'][A-Za-z0-9_.-]*"#, name!(), r#"["'][ \t]*,[ \t]*["']([^ \t\r\n"']{3,})["']"#)),
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(r#"\b[A-Za-z_][A-Za-z0-9_.]{0,60}\([ \t]*["'][A-Za-z0-9_.-]*"#, name!(), r#"["'][ \t]*,[ \t]*["']([^ \t\r\n"']{6,})["']"#)),
    // A declaration with a type, a definition without a sign, a variable of a Makefile.
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(name!(), r#"[ \t]*:[ \t]*&?(?:'static[ \t]+)?[A-Za-z][A-Za-z0-9_<>?.]{0,30}[ \t]*=[ \t]*["'`]([^ \t\r\n"'`]{6,})["'`]"#)),
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(r#"(?:#[ \t]*define[ \t]+|\bset[ \t]*\([ \t]*)[A-Za-z0-9_]*"#, name!(), r#"[ \t]+["']([^ \t\r\n"'()]{6,})["']"#)),
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(name!(), r#"[ \t]*[:?]:?=[ \t]*([^ \t\r\n"'`\\#(){}\[\];,<>$]{8,})[ \t]*(?:$|[\r\n#])"#)),
    // The only argument of a call: `setPassword("…")`, `PASSWORD('…')`.
    checked("generic-secret", 0, NAMES_HINTS, looks_typed,
        concat!(name!(), r#"\([ \t]*["']([^ \t\r\n"']{6,})["'][ \t]*\)"#)),
    // The value as the argument of another call, which does not look it up.
    checked("generic-secret", 0, NAMES_HINTS, is_wrapped,
        concat!(name!(), r#"[A-Za-z0-9_-]{0,20}["'`\]]{0,2}[ \t]*(?:=>|:=|=|:)[ \t]*(?:new[ \t]+)?[A-Za-z_][A-Za-z0-9_.:]{0,40}\([ \t]*[A-Za-z]?["'`]([A-Za-z0-9+/=_.~!@%^&*-]{8,})["'`]"#)),
    // Quotes of Lua, Perl and Ruby, and letters before those of C#, Python and Rust.
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(name!(), r#"[A-Za-z0-9_-]{0,20}["'`\]]{0,2}[ \t]*(?:=>|:=|=|:)[ \t]*(?:\[=*\[|q[qw]?[ \t]?[({<\[|!/]|%[qQ]?[({<\[|!]|(?:[A-Za-z]{1,2}|[@$]{1,2})#{0,2}["']\(?)([^ \t\r\n"'`\\(){}<>\[\]|]{6,})["'\](){}<>|!/]"#)),
    // The last of several texts: user and password.
    checked("generic-secret", 0, &["auth", "credential"], looks_generated,
        r#"(?i-u:auth|credentials?)[A-Za-z]{0,12}["']?[ \t]*[:=]?[ \t]*[(\[][ \t]*(?:["'][^"'\r\n]{0,100}["'][ \t]*,[ \t]*){1,3}(?:[A-Za-z_][A-Za-z0-9_.:]{0,40}\([ \t]*)?["']([^ \t\r\n"']{6,200})["']"#),
    // A text of several lines: a heredoc or a block of YAML with one line.
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(name!(), r#"["']?[ \t]*[:=][ \t]*(?:<<[-~]?["']?[A-Za-z_]{1,20}["']?|[|>][-+]?)[ \t]*\r?\n[ \t>+-]*([^ \t\r\n"'`\\]{6,})[ \t]*(?:$|[\r\n])"#)),
    // A name too short for other rules, as a member of its own.
    checked("generic-secret", 0, &["pass", "psk", "pw", "pragma"], looks_typed,
        r#"(?:(?i-u:\b(?:pass|w?psk|pw)["']?[ \t]*(?:=>|[:=])|\bpragma[ \t]+(?:re|hex)?key[ \t]*=))[ \t]*["']?([^ \t\r\n"'`\\#(){}\[\];,<>$]{6,})(?:["';,]|[ \t]*(?:$|[\r\n#]))"#),
    checked("generic-secret", 0, &["creds", "credentials", "login"], looks_generated,
        r#"(?i-u:\b(?:creds|credentials|logins?))[ \t]*[:=][ \t]*["'`]?[A-Za-z0-9_.@-]{1,60}["'`]?[ \t]*[/:,|][ \t]*["'`]?([^ \t\r\n"'`<>(){}/:,]{6,100})"#),
    // A table cell, and the text after bold text.
    checked("generic-secret", 0, &["|"], looks_generated,
        concat!(r#"\|[ \t]*[`*]{0,3}[A-Za-z0-9_.-]*"#, name!(), r#"[`*]{0,3}[ \t]*\|[ \t]*`?([^ \t\r\n|`]{6,})`?[ \t]*\|"#)),
    checked("generic-secret", 0, &["**"], looks_generated,
        concat!(r#"\*\*[A-Za-z0-9_. -]*"#, name!(), r#"[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:)[ \t]*["'`]?([^ \t\r\n"'`*]{6,})"#)),
    checked("generic-secret", 0, NAMES_HINTS, looks_generated,
        concat!(r#"[*_][A-Za-z0-9_. -]*"#, name!(), r#"[ \t]*(?::[ \t]*[*_]|[*_][ \t]*:)[ \t]*["'`]?([^ \t\r\n"'`*,;]{6,})"#)),
    // A sentence.
    checked("generic-secret", 0, NAMES_HINTS, is_stated,
        concat!(r"(?i-u:\b(?:password|passphrase|passwort|kennwort|token|secret|api[ -]?key)", is_or_was!(), r#":?)[ \t]+["'`]?([^ \t\r\n"'`<>(){}]{6,})"#)),
    // With words before the verb, which may be that of an order.
    checked("generic-secret", 0, NAMES_HINTS, is_stated,
        r#"(?i-u:\b(?:password|passphrase|passwort|kennwort|token|secret|api[ -]?key)(?:[ \t]+[a-z]{2,12}){0,3}[ \t]+(?:is|was|to|as|ist|war|auf|lautet):?)[ \t]+["'`]?([^ \t\r\n"'`<>(){}]{6,})"#),
    checked("generic-secret", 0, &[" key"], is_stated,
        r#"(?i-u:\b(?:api|access|secret|auth|private|license|encryption|signing|master) key)["'`*_]{0,3}[ \t]*[:=][ \t]*["'`*_]{0,3}([^ \t\r\n"'`<>(){}]{6,})"#),
    checked("generic-secret", 0, PASSWORD_HINTS, is_password_word,
        concat!(r"(?i-u:\b(?:password|passphrase|passwort|kennwort)", is_or_was!(), r#":)[ \t]+["'`]?([a-z]{4,40})["'`.]?[ \t]*(?:$|[\r\n])"#)),
    // A passphrase of three to ten words.
    checked("generic-secret", 0, &["phrase"], is_passphrase,
        r#"(?i-u:\bpass[ _-]?phrase)["']?[ \t]*[:=][ \t]*["']?((?:[a-z]{3,12}[ \t]+){2,9}[a-z]{3,12})(?:["']|[ \t]*(?:$|[\r\n]))"#),
    // Part of a connection string.
    checked("generic-secret", 0, &["password=", "pwd="], looks_random, r#"(?i-u:password|pwd)=([^ \t\r\n"'`\\;(){}]{6,});"#),
    // URL parameters.
    checked("generic-secret", 0, NAMES_HINTS, looks_random,
        r#"[?&](?i-u:(?:[a-z]{1,12}[_-])?token|api_?key|password|passwd|pwd|(?:[a-z]{1,12}[_-])?secret|code_verifier)=([^ \t\r\n"'`\\&#<>()]{8,})"#),
    // Command options.
    checked("generic-secret", 0, &["--"], is_option_value,
        r#"--(?:[a-z0-9]{1,20}-){0,4}(?:token|password|passwd|passphrase|secret|(?:api|access|secret|private|auth|license|account)-?key|credentials?)(?:[ \t]+|=)["']?([^ \t\r\n"'`\\;()<>]{6,})"#),
    checked("generic-secret", 0, &["-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-password", "-passphrase"], looks_typed,
        r#"(?:^|[ \t"'])-(?:[a-z]{0,10}storepass(?:wd)?|[a-z]{0,10}keypass|password|passphrase)(?:[ \t]+|=)["']?([^ \t\r\n"'`\\;()<>]{6,})"#),
    // Assignments of quoted text.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned,
        concat!(name!(), r#"[A-Za-z0-9_-]{0,20}["'`\]]{0,2}[ \t]*(?:=>|:=|==?|:)[ \t]*["'`]([^ \t\r\n"'`\\]{6,})["'`]"#)),
    // A word, in JSON and similar notations.
    checked("generic-secret", 0, PASSWORD_HINTS, is_password_word,
        concat!(password!(), r#"["'][ \t]*:[ \t]*["']([a-z]{6,40})["']"#)),
    // A word, up to the end of the line: after a name that begins a line or a clause, and after an
    // equals sign without spaces.
    checked("generic-secret", 0, PASSWORD_HINTS, is_password_word,
        concat!(r#"(?m:^|[\t→,;/|({])[ \t>+*-]{0,8}["']?[A-Za-z0-9_.-]{0,40}"#, password!(), r"[ \t]{0,2}(?:=|:[ \t])[ \t]{0,3}([a-z]{3,40})[ \t]*(?:$|[\r\n])")),
    checked("generic-secret", 0, PASSWORD_HINTS, is_password_word,
        concat!(password!(), r"=([a-z]{3,40})(?:$|[\r\n]|[ \t]+[A-Za-z_]{1,30}=)")),
    // Letters in both cases, where words and identifiers may be too.
    checked("generic-secret", 0, PASSWORD_HINTS, is_mixed_case_password,
        concat!(password!(), r#"["'`\]]{0,2}[ \t]{0,3}(?:=>|:=|==?|:)[ \t]*["'`]?([A-Za-z]{8,64})(?:["'`;,#<&]|[ \t\r\n]|$)"#)),
    // A password shorter than other secrets, in quotes and at the end of a line.
    checked("generic-secret", 0, PASSWORD_HINTS, is_short_password,
        concat!(password!(), r#"["'`\]]{0,2}[ \t]*(?:=>|:=|==?|:)[ \t]*["'`]([^ \t\r\n"'`\\:/]{5,11})["'`]"#)),
    checked("generic-secret", 0, PASSWORD_HINTS, is_short_password,
        concat!(password!(), r##"[ \t]{0,2}(?:=[ \t]{0,2}|:[ \t]{1,4})([^ \t\r\n"'`\\#(){}\[\];,<>$:/]{5,11})[ \t]*(?:$|[\r\n])"##)),
    // A password of letters and digits in a sentence, whatever follows it.
    checked("generic-secret", 0, &["pass", "kennwort", "contrase", "senha", "pwd", "secret"], is_password_in_text,
        concat!(r"\b(?:[A-Z0-9_]{0,60}|[a-z]{1,20}[_-])(?:", password!(), r"|(?i-u:pwd|secret))[ \t]{0,2}(?:=[ \t]{0,2}|:[ \t]{1,4})", r##"([^ \t\r\n"'`\\#(){}\[\];,<>$:/]{5,40})(?:[ \t;,]|$|[\r\n])"##)),
    // A variable that holds a password, in quotes: it may contain spaces.
    checked("generic-secret", 0, &["pass", "pwd"], is_quoted_password,
        r#"\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD)(?:=|:[ \t]{1,4})"([^"\r\n]{3,200})""#),
    checked("generic-secret", 0, &["pass", "pwd"], is_quoted_password,
        r"\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD)(?:=|:[ \t]{1,4})'([^'\r\n]{3,200})'"),
    // The same in YAML, up to the end of the line. A lone `PASS: name` is the result of a test.
    checked("generic-secret", 0, &["pass", "_pwd", "_secret", "_token"], is_named_password,
        r#"\b(?:[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE)|[A-Z0-9_]{1,60}_(?:PASS|PWD|SECRET|TOKEN|SECRET_KEY)):[ \t]{1,4}([^ \t\r\n"'`\\;,&|<>(){}$*!#@%\[][^ \t\r\n"'`\\;,&|<>(){}$]{2,200})[ \t]*(?:$|[\r\n#])"#),
    // A variable, a line of an .env, YAML or INI file, or a quoted header, up to the end.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned,
        concat!(name!(), r##"[A-Za-z0-9_]{0,20}[ \t]*(?:=|:[ \t])[ \t]*([^ \t\r\n"'`\\#(){}\[\];,<>$]{8,})(?:$|[ \t]*[\r\n#]|["'])"##)),
    // A variable that holds a password, whatever follows it.
    checked("generic-secret", 0, &["pass", "pwd"], is_assigned_password,
        r#"\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD)=["']?([^ \t\r\n"'`\\;,&|<>(){}$]{3,200})"#),
    // A variable that holds another secret, which may be a word.
    checked("generic-secret", 0, &["secret=", "token=", "secret_key="], is_named_password,
        r#"\b[A-Z0-9_]{0,60}(?:SECRET|TOKEN|SECRET_KEY)=["']?([^ \t\r\n"'`\\;,&|<>(){}$]{3,200})"#),
    // Words joined by hyphens, as no identifier is.
    checked("generic-secret", 0, &["_secret="], is_assigned_password,
        r"\b(?:client|consumer|api|app|jwt|oauth|webhook|signing)_secret=([A-Za-z0-9]+(?:-[A-Za-z0-9]+){1,8})"),
    // An assignment that text follows.
    checked("generic-secret", 0, NAMES_HINTS, is_assigned_in_text,
        concat!(name!(), r##"[A-Za-z0-9_]{0,20}(?:=|:=|[ \t]=[ \t]|:[ \t]{1,4})([^ \t\r\n"'`\\#(){}\[\];,<>$&|]{8,})(?:[ \t;,&|<>)\]}])"##)),
];
