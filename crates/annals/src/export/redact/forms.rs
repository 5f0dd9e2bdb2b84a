//! A second corpus: secrets in forms from practice, listed by someone who had not seen the rules.
//! Each row has a form, the rule that masks it, and its text.
//!
//! Nothing here is a secret: `{a36}` and the like are generated from a seed (see `corpus.rs`).

use super::corpus::{Random, Sample};

/// A form, the rule that masks it, and its text.
type Row = (&'static str, &'static str, String);

/// Returns all samples of a seed: every form, `rounds` times, as text and as a JSON member.
pub(crate) fn samples(seed: u64, rounds: usize) -> Vec<Sample> {
    let keys = KEYS.iter();
    let keys = keys.map(|(form, write)| (*form, "private-key", write(KEY)));
    let forms = FORMS.iter();
    let forms = forms.map(|(form, rule, shape)| (*form, *rule, (*shape).to_owned()));
    draw(forms.chain(keys), seed, rounds)
}

/// Same, for forms that were listed after the rules were written. No rule was changed for them.
pub(crate) fn held_out(seed: u64, rounds: usize) -> Vec<Sample> {
    let forms = HELD_OUT.iter();
    let forms = forms.map(|(form, shape)| (*form, "any", (*shape).to_owned()));
    draw(forms, seed, rounds)
}

fn draw(rows: impl Iterator<Item = Row>, seed: u64, rounds: usize) -> Vec<Sample> {
    let mut random = Random(seed | 1);
    let mut samples = Vec::new();
    for (form, rule, shape) in rows {
        for _ in 0..rounds {
            let (text, parts) = random.fill(&shape);
            let text = format!("look:\n{text}");
            let json = serde_json::json!({"command": text}).to_string();
            for (json, text) in [(false, text), (true, json)] {
                samples.push(Sample {
                    rule,
                    structured: false,
                    form,
                    json,
                    text,
                    parts: parts.clone(),
                });
            }
        }
    }
    samples
}

/// A private key of eight lines.
const KEY: &str = "-----BEGIN RSA {x}PRIVATE KEY-----\n{a64}\n{a64}\n{a64}\n{a64}\n{a64}\n{a64}\n{a64}\n{a64}\n-----END RSA {x}PRIVATE KEY-----";

/// A form of a private key: its name and its writer.
type KeyForm = (&'static str, fn(&str) -> String);

#[rustfmt::skip]
const KEYS: &[KeyForm] = &[
    ("key in quotes", |key| format!("key: \"{key}\" end")),
    ("key in JSON", |key| format!("key: \"{}\" end", escaped(key, 1))),
    ("key in JSON, twice", |key| format!("key: \"{}\" end", escaped(key, 2))),
    ("key in JSON, three times", |key| format!("key: \"{}\" end", escaped(key, 3))),
    ("key in JSON, four times", |key| format!("key: \"{}\" end", escaped(key, 4))),
    ("key, quoted", |key| lines(key, |_, line| format!("> {line}"))),
    ("key in a diff", |key| lines(key, |_, line| format!("+{line}"))),
    ("key in JavaScript", |key| lines(key, |_, line| format!("\"{line}\\n\" +"))),
    ("key, indented", |key| lines(key, |_, line| format!("        {line}"))),
    ("key without its first lines", |key| key.split('\n').skip(3).collect::<Vec<_>>().join("\n")),
    ("key, numbered", |key| lines(key, |at, line| format!("{at:>6}\t{line}"))),
    ("key in a table", |key| lines(key, |_, line| format!("| {line} |"))),
    ("key from grep", |key| lines(key, |at, line| format!("id_rsa:{at}:{line}"))),
    ("key from grep, with its path", |key| lines(key, |at, line| format!("conf/keys-dev.d/id_rsa:{at}:{line}"))),
    ("key in a log", |key| lines(key, |_, line| format!("web_1  | 2026-01-01T00:00:00Z {line}"))),
    ("key in a log, cut", |key| lines(cut(key), |_, line| format!("web_1  | [app] {line}"))),
    ("PGP key", |key| pgp(key)),
    ("PGP key, cut", |key| cut(&pgp(key)).to_owned()),
    ("encrypted key, cut", |key| cut(key).replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{u32}\n\n", 1)),
];

fn lines(key: &str, write: fn(usize, &str) -> String) -> String {
    let lines: Vec<String> = key
        .split('\n')
        .enumerate()
        .map(|(at, line)| write(at + 1, line))
        .collect();
    lines.join("\n")
}

fn escaped(key: &str, times: usize) -> String {
    key.replace('\n', &format!("{}n", "\\".repeat((1 << times) - 1)))
}

/// Returns a key without its last line.
fn cut(key: &str) -> &str {
    key.rsplit_once('\n').map_or(key, |(front, _)| front)
}

fn pgp(key: &str) -> String {
    let key = key.replace("RSA {x}PRIVATE KEY", "PGP {x}PRIVATE KEY BLOCK");
    key.replacen('\n', "\nVersion: GnuPG v2\n\n", 1)
}

#[rustfmt::skip]
const FORMS: &[(&str, &str, &str)] = &[
    ("C1 control sequence", "github-token", "\u{9b}31mghp_{a36}\u{9b}0m"),
    ("colour without ESC", "github-token", "[31mghp_{a36}[0m"),
    ("colour", "github-token", "\x1b[1;32mghp_{a36}\x1b[0m"),
    ("character set", "github-token", "\x1b(Bghp_{a36}\x1b[m"),
    ("colour with colons", "github-token", "\x1b[38:2::1:2:3mghp_{a36}"),
    ("link", "github-token", "\x1b]8;;https://x\x07ghp_{a36}\x1b]8;;\x07"),
    ("title", "github-token", "\x1b]0;t\x07ghp_{a36}"),
    ("link that ends with ST", "github-token", "\x1b]8;;https://x/a\x1b\\ghp_{a36}\x1b]8;;\x1b\\"),
    ("picture of ESC", "github-token", "\u{241b}[31mghp_{a36}\u{241b}[0m"),
    ("caret notation", "github-token", "^[[31mghp_{a36}"),
    ("behind an underscore", "github-token", "x_ghp_{a36}"),
    ("behind a spelled newline", "github-token", "\\nghp_{a36}"),
    ("colour within", "github-token", "ghp_{a6}\x1b[31m{a30}"),
    ("zero-width space", "github-token", "\u{200b}ghp_{a36}"),
    ("HTML", "github-token", "<span>ghp_{a36}</span>"),
    ("percent escape", "github-token", "token%3Dghp_{a36}"),
    ("PGPASSWORD", "generic-secret", "PGPASSWORD={a12} psql -h db"),
    ("PGPASSWORD, a word", "generic-secret", "PGPASSWORD={W6} psql -h db"),
    ("docker -e", "generic-secret", "docker run -e DB_PASSWORD={a12} img"),
    ("docker --env", "generic-secret", "docker run --env 'DB_PASSWORD={a12}' img"),
    ("mysql -p", "command-password", "mysql -u root -p{W6}{d1} db"),
    ("mysqldump -p", "command-password", "mysqldump -uroot -p{W6}{d1} db"),
    ("mysql -p, a dollar", "command-password", "mysql -u root -p'${P}' db"),
    ("mysql --password", "generic-secret", "mysql --password={W6}{d1} db"),
    ("property", "generic-secret", "db.password={W6}{d1}\nx=1"),
    ("YAML, short", "generic-secret", "password: {W6}{d1}\n"),
    ("YAML", "generic-secret", "password: {W6}{d2}\n"),
    ("TOML", "generic-secret", "password = \"{W6}{d1}\"\n"),
    ("JSON", "generic-secret", "{\"password\":\"{W6}{d1}\"}"),
    ("JSON, a word", "generic-secret", "{\"password\":\"{W8}\"}"),
    ("variable, a word", "generic-secret", "DB_PASS={W8}\n"),
    ("Django", "generic-secret", "SECRET_KEY = 'django-insecure-{a3}!x#m9$p@q2w^v&y*z(a)b-c_d=e+{a20}'"),
    ("variable, then text", "generic-secret", "SECRET={a40} then run it"),
    ("variable, then a command", "generic-secret", "export API_KEY={h32} && make"),
    ("address", "basic-auth-url", "postgres://u:{a20}@db/x"),
    ("address, a slash", "basic-auth-url", "postgres://u:{a4}/{a3}-W{d2}@db.example.com/x"),
    ("address, a word", "basic-auth-url", "redis://:{W8}@db:6379"),
    ("address, an at sign", "basic-auth-url", "mysql://u:{a3}@{a3}!W{d3}@db/x"),
    ("Square", "square-token", "EAAA{a60}"),
    ("Docker configuration", "docker-auth", "{\"auths\":{\"x\":{\"auth\":\"{pair}\"}}}"),
    ("Docker configuration, escaped", "docker-auth", "\"{\\\"auths\\\":{\\\"x\\\":{\\\"auth\\\":\\\"{pair}\\\"}}}\""),
    ("client-key-data", "private-key", "    client-key-data: {key64}"),
    ("client-key-data without PEM", "private-key", "    client-key-data: {b400}"),
    ("AWS, INI", "generic-secret", "aws_secret_access_key = {a40}"),
    ("AWS, JSON", "generic-secret", "{\"SecretAccessKey\": \"{a40}\"}"),
    ("AWS, Kubernetes", "generic-secret", "- name: AWS_SECRET_ACCESS_KEY\n  value: {a40}"),
    ("Kubernetes", "generic-secret", "- name: DB_PASSWORD\n  value: \"{a40}\""),
    ("table", "generic-secret", "\u{7c} DB_PASSWORD \u{7c} {a40} \u{7c}"),
    ("Terraform", "generic-secret", "variable \"db_password\" {\n default = \"{a24}\"\n}"),
    ("X-Api-Key", "generic-secret", "curl -H \"X-Api-Key: {a24}\" https://x"),
    ("bearer", "authorization", "Authorization: Bearer {a24}"),
    ("basic", "authorization", "Authorization: Basic {pair}"),
    ("cookie", "cookie", "Cookie: session={a24}"),
    ("set-cookie", "cookie", "Set-Cookie: sid={a24}; Path=/"),
    ("pip", "basic-auth-url", "--extra-index-url https://__token__:{a24}@pypi.x/simple"),
    ("sed", "generic-secret", "sed -i \"s/PASSWORD=.*/PASSWORD={a24}/\" .env"),
    ("printf", "generic-secret", "printf \"PASSWORD=%s\" {a24}"),
    ("PowerShell", "generic-secret", "$env:API_TOKEN = \"{a24}\""),
    ("set", "generic-secret", "set API_TOKEN={a24}"),
    ("setx", "generic-secret", "setx API_TOKEN {a24}"),
    ("fish", "generic-secret", "set -x API_TOKEN {a24}"),
    ("heroku", "generic-secret", "heroku config:set API_TOKEN={a24} -a app"),
    ("gh secret", "command-password", "gh secret set API_TOKEN --body {a24}"),
    ("Dockerfile", "generic-secret", "ENV API_TOKEN {a24}"),
    ("PHP", "generic-secret", "define('DB_PASSWORD', '{a24}');"),
    ("XML", "generic-secret", "<add key=\"ApiToken\" value=\"{a24}\"/>"),
    ("Python, argument", "generic-secret", "connect(password='{a24}')"),
    ("Python, dictionary", "generic-secret", "{'password': '{a24}'}"),
    ("Go", "generic-secret", "Password:  \"{a24}\","),
    ("property, escaped", "generic-secret", "spring.datasource.password\\={a24}"),
    ("camel case", "generic-secret", "clientSecret: {a24}"),
    ("bold", "generic-secret", "**Password:** {a24}"),
    ("code", "generic-secret", "Password: `{a24}`"),
    ("sentence", "generic-secret", "my password is {a24}"),
    ("German", "generic-secret", "Passwort: {a24}"),
    ("Anthropic", "anthropic-key", "sk-ant-api03-{a93}AA"),
    ("Anthropic, session", "anthropic-key", "sk-ant-sid01-{a86}"),
    ("AWS id", "aws-access-key", "AKIA{216}"),
    ("Slack", "slack-token", "xoxb-{d12}-{d12}-{a24}"),
    ("GitLab", "gitlab-token", "glpat-{a20}"),
    ("Google", "google-api-key", "AIza{a35}"),
    ("Slack webhook", "slack-webhook", "https://hooks.slack.com/services/T{a8}/B{a10}/{a24}"),
    ("Datadog", "generic-secret", "DD_API_KEY={h32}"),
    ("PASETO", "paseto", "v2.local.{a80}"),
    ("Atlassian", "atlassian-token", "ATATT3xFfGF0{a180}"),
    ("Stripe", "stripe-key", "sk_live_{a24}"),
    ("Stripe webhook", "stripe-key", "whsec_{a32}"),
    ("Shopify", "shopify-token", "shpat_{h32}"),
    ("Azure", "azure-key", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={a86}=="),
    ("GitHub address", "github-token", "https://x-access-token:ghs_{a36}@github.com/a/b"),
    ("GitHub", "github-token", "ghp_{a36}"),
    ("JWT", "jwt", "eyJhbGciOiJIUzI1NiJ9.eyJ{a40}.{a43}"),
    ("Ethereum", "generic-secret", "PRIVATE_KEY=0x{h64}"),
    ("age", "age-key", "AGE-SECRET-KEY-1{u58}"),
    ("seed phrase", "seed-phrase", "MNEMONIC=\"{W7} {W4} {W5} {W6} {W7} {W4} {W5} {W6} {W7} {W4} {W5} {W6}\""),
    ("WireGuard", "generic-secret", "PrivateKey = {a43}="),
    ("netrc", "netrc-password", "machine api.x login me password {a22}"),
    ("pgpass", "pgpass", "db.x:5432:app:me:{a22}"),
    ("pgpass, another port", "pgpass", "db.x:6543:app:me:{a22}"),
    ("htpasswd", "password-hash", "me:$apr1${a8}${a22}"),
    ("shadow", "password-hash", "root:$6${a16}${a86}:19000:0:99999:7:::"),
    ("Ansible", "generic-secret", "ansible_become_pass={a16}"),
    ("sshpass -e", "generic-secret", "SSHPASS={a16} sshpass -e ssh x"),
    ("curl -u", "curl-user", "curl -u me:{a16} https://x"),
    ("wget", "generic-secret", "wget --user=me --password={a16} https://x"),
    ("redis-cli -a", "command-password", "redis-cli -a {a16} ping"),
    ("openssl -k", "command-password", "openssl enc -k {a16} -in x"),
    ("vault", "generic-secret", "vault kv put secret/x password={a16}"),
    ("kubectl", "generic-secret", "kubectl create secret generic x --from-literal=password={a16}"),
    ("Kubernetes secret", "generic-secret", "kind: Secret\ndata:\n  password: {a22}=="),
    ("JDBC", "generic-secret", "jdbc:mysql://h/db?user=me&password={a16}"),
    ("ODBC", "generic-secret", "Server=x;Uid=me;Pwd={a16};"),
    ("ODBC, at the end", "generic-secret", "Server=x;Uid=me;Password={a16}"),
    ("SMTP", "basic-auth-url", "smtp://me:{a16}@mail:587"),
    ("MySQL user", "sql-password", "CREATE USER x IDENTIFIED BY '{a16}'"),
    ("PostgreSQL user", "sql-password", "ALTER USER x WITH PASSWORD '{a16}'"),
];

#[rustfmt::skip]
const HELD_OUT: &[(&str, &str)] = &[
    ("ECS", "{\"name\": \"DB_PASSWORD\", \"value\": \"{a20}\"}"),
    ("compose, map", "environment:\n  MYSQL_ROOT_PASSWORD: {a20}\n"),
    ("compose, list", "environment:\n  - POSTGRES_PASSWORD={W6}{d1}\n"),
    ("helm --set", "helm install x --set auth.rootPassword={a24} y"),
    ("Ruby, index", "config[:api_token] => \"{a24}\""),
    ("Ruby, symbol", ":password => \"{a24}\","),
    ("C#", "Environment.SetEnvironmentVariable(\"API_TOKEN\", \"{a24}\");"),
    ("Java", "props.put(\"db.password\", \"{a24}\");"),
    ("tfvars", "db_password = \"{a24}\""),
    ("Terraform, heredoc", "db_password = <<EOT\n{a24}\nEOT"),
    ("Nix", "services.x.password = \"{a24}\";"),
    ("Elixir", "secret_key_base: \"{a24}\""),
    ("npm config", "npm config set //r.org/:_authToken {a24}"),
    ("csh", "setenv API_TOKEN {a24}"),
    ("PowerShell, method", "[Environment]::SetEnvironmentVariable(\"X_TOKEN\",\"{a24}\",\"User\")"),
    ("az", "az keyvault secret set --name x --value {a24}"),
    ("aws ssm", "aws ssm put-parameter --name /db/password --value {a24} --type SecureString"),
    ("aws secretsmanager", "aws secretsmanager create-secret --name x --secret-string {a24}"),
    ("gcloud", "echo -n \"{a24}\" | gcloud secrets create x --data-file=-"),
    ("wrangler", "echo \"{a24}\" | wrangler secret put API_TOKEN"),
    ("fly", "fly secrets set API_TOKEN={a24}"),
    ("git remote", "git remote add o https://me:{a24}@git.x/y.git"),
    ("query", "postgresql://h/db?user=u&password={a24}"),
    ("libpq", "host=x dbname=y user=me password={a24} sslmode=require"),
    ("keytool", "keytool -storepass {a12} -keystore k"),
    ("gpg", "gpg --batch --passphrase {a12} -d x"),
    ("net use", "net use z: \\\\h\\s /user:me {a12}"),
    ("expect", "send \"{a12}\\r\"  # password"),
    ("sudo", "sudo -S ls <<< \"{a12}\""),
    ("7z", "7z x -p{a12} a.7z"),
    ("HTML input", "<input type=\"password\" name=\"password\" value=\"{a24}\">"),
    ("GraphQL", "{\"variables\":{\"input\":{\"password\":\"{a24}\"}}}"),
    ("form", "username=me&password={a24}&go=1"),
    ("TOML", "[auth]\ntoken = '{a24}'"),
    ("bullet", "- Password: {a24}"),
    ("table of three", "| prod | API_TOKEN | {a24} |"),
    ("italic", "*Token*: {a24}"),
    ("chat", "here is the api key: {a24} thanks"),
    ("two colours", "\x1b[0m\x1b[38;5;10mghp_{a36}\x1b[39m"),
    ("AWS id, colour without ESC", "[1;33mAKIA{216}[0m"),
    ("Stripe behind an underscore", "key_sk_live_{a24}"),
    ("Hugging Face, C1", "\u{9b}1mhf_{a34}\u{9b}m"),
    ("bcrypt in SQL", "INSERT INTO u VALUES (1, '$2b$12${a53}')"),
    ("key in syslog, cut", "host app[12]: -----BEGIN OPENSSH {x}PRIVATE KEY-----\nhost app[12]: {a64}\nhost app[12]: {a64}\nhost app[12]: {a64}"),
];
