//! A second corpus: secrets in forms from practice. Two thirds were listed by someone who had not seen the rules.
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

/// Same, for forms that were listed after the first rules. Later rules mask their kinds.
pub(crate) fn held_out(seed: u64, rounds: usize) -> Vec<Sample> {
    draw_any(HELD_OUT, seed, rounds)
}

/// Same, for a later list.
pub(crate) fn unseen(seed: u64, rounds: usize) -> Vec<Sample> {
    draw_any(UNSEEN, seed, rounds)
}

/// Draws samples that any rule may mask.
fn draw_any(forms: &[(&'static str, &str)], seed: u64, rounds: usize) -> Vec<Sample> {
    let forms = forms.iter();
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
    // The forms above are from someone who had not seen the rules; those below from authors of rules.
    ("token, Markdown escape", "github-token", "ghp\\_{a36}"),
    ("token in CSV", "github-token", "name,token,since\nbuild,ghp_{a36},2026\n"),
    ("token, code point", "github-token", "\"ghp\\u005f{a36}\""),
    ("token, entity", "github-token", "ghp&#95;{a36}"),
    ("token, quoted-printable", "github-token", "key=3Dghp_{a36}"),
    ("token, percent twice", "github-token", "token%253Dghp_{a36}"),
    ("token, Rust", "stripe-key", "Some(\"sk_live_{a24}\")"),
    ("token, Python bytes", "gitlab-token", "b'glpat-{a20}'"),
    ("token in a Slack link", "gitlab-token", "<https://x.y/|glpat-{a20}>"),
    ("token, soft hyphen", "github-token", "ghp_{a18}\u{ad}{a18}"),
    ("token, git credential", "github-token", "protocol=https\nhost=github.com\npassword=ghp_{a36}\n"),
    ("token, URL path", "slack-token", "https://x.y/hook/xoxb-{d12}-{d12}-{a24}/send"),
    ("sqlcmd -P", "command-password", "sqlcmd -S h -U sa -P {a12} -Q x"),
    ("rclone", "generic-secret", "rclone config create r s3 access_key_id key1 secret_access_key {a40}"),
    ("restic", "generic-secret", "RESTIC_PASSWORD={a12} restic snapshots"),
    ("cryptsetup", "command-password", "echo -n {a16} | cryptsetup luksOpen /dev/sda x -"),
    ("kinit", "command-password", "echo {a12} | kinit me@X.ORG"),
    ("openssl passwd", "command-password", "openssl passwd -6 {a12}"),
    ("terraform -var", "generic-secret", "terraform apply -var=\"db_password={a16}\""),
    ("ansible -e", "generic-secret", "ansible-playbook x.yml -e \"db_pass={a16}\""),
    ("java -D", "generic-secret", "java -Dspring.datasource.password={a16} -jar x.jar"),
    ("gradle -P", "generic-secret", "gradle publish -PsigningPassword={a16}"),
    ("SecureString", "command-password", "ConvertTo-SecureString \"{a16}\" -AsPlainText -Force"),
    ("HTTPie", "command-password", "http --auth me:{a16} GET https://x.y"),
    ("wget, HTTP", "generic-secret", "wget --http-password={a16} https://x.y"),
    ("requests", "generic-secret", "requests.get(url, auth=(\"me\", \"{a16}\"))"),
    ("Node", "generic-secret", "nodemailer({ user: 'me', pass: '{a16}' })"),
    ("os.environ", "generic-secret", "os.environ[\"DB_PASSWORD\"] = \"{a16}\""),
    ("setter", "generic-secret", "factory.setPassword(\"{a16}\");"),
    ("AWS SDK", "aws-secret-key", "new BasicAWSCredentials(\"AKIA{216}\", \"{a40}\")"),
    ("SQL function", "generic-secret", "SET PASSWORD FOR 'x'@'%' = PASSWORD('{a12}');"),
    ("SQLCipher", "generic-secret", "PRAGMA key = '{a16}';"),
    ("sqlplus", "command-password", "sqlplus me/{a12}@//db:1521/x"),
    ("lftp", "command-password", "lftp -u me,{a12} sftp://x.y"),
    ("wpa_supplicant", "generic-secret", "network={\n  ssid=\"home\"\n  psk=\"{a12}\"\n}"),
    ("YAML block", "generic-secret", "password: |\n  {a16}\n"),
    ("ssh-keygen -N", "command-password", "ssh-keygen -t ed25519 -N {a12} -f key"),
    ("French, a space", "generic-secret", "mot de passe : {a12}"),
    ("user and password", "generic-secret", "creds: admin / {a12}"),
    ("pw", "generic-secret", "pw: {a12}"),
    ("minio", "command-password", "mc alias set m https://x.y key1 {a40}"),
    ("kubectl docker", "generic-secret", "kubectl create secret docker-registry r --docker-password={a16}"),
    ("ECS", "generic-secret", "{\"name\": \"DB_PASSWORD\", \"value\": \"{a20}\"}"),
    ("compose, map", "generic-secret", "environment:\n  MYSQL_ROOT_PASSWORD: {a20}\n"),
    ("compose, list", "generic-secret", "environment:\n  - POSTGRES_PASSWORD={W6}{d1}\n"),
    ("helm --set", "generic-secret", "helm install x --set auth.rootPassword={a24} y"),
    ("Ruby, index", "generic-secret", "config[:api_token] => \"{a24}\""),
    ("Ruby, symbol", "generic-secret", ":password => \"{a24}\","),
    ("C#", "generic-secret", "Environment.SetEnvironmentVariable(\"API_TOKEN\", \"{a24}\");"),
    ("Java", "generic-secret", "props.put(\"db.password\", \"{a24}\");"),
    ("tfvars", "generic-secret", "db_password = \"{a24}\""),
    ("Terraform, heredoc", "generic-secret", "db_password = <<EOT\n{a24}\nEOT"),
    ("Nix", "generic-secret", "services.x.password = \"{a24}\";"),
    ("Elixir", "generic-secret", "secret_key_base: \"{a24}\""),
    ("npm config", "generic-secret", "npm config set //r.org/:_authToken {a24}"),
    ("csh", "generic-secret", "setenv API_TOKEN {a24}"),
    ("PowerShell, method", "generic-secret", "[Environment]::SetEnvironmentVariable(\"X_TOKEN\",\"{a24}\",\"User\")"),
    ("az", "command-password", "az keyvault secret set --name x --value {a24}"),
    ("aws ssm", "command-password", "aws ssm put-parameter --name /db/password --value {a24} --type SecureString"),
    ("aws secretsmanager", "command-password", "aws secretsmanager create-secret --name x --secret-string {a24}"),
    ("gcloud", "command-password", "echo -n \"{a24}\" | gcloud secrets create x --data-file=-"),
    ("wrangler", "command-password", "echo \"{a24}\" | wrangler secret put API_TOKEN"),
    ("fly", "generic-secret", "fly secrets set API_TOKEN={a24}"),
    ("git remote", "basic-auth-url", "git remote add o https://me:{a24}@git.x/y.git"),
    ("query", "generic-secret", "postgresql://h/db?user=u&password={a24}"),
    ("libpq", "generic-secret", "host=x dbname=y user=me password={a24} sslmode=require"),
    ("keytool", "generic-secret", "keytool -storepass {a12} -keystore k"),
    ("gpg", "generic-secret", "gpg --batch --passphrase {a12} -d x"),
    ("net use", "command-password", "net use z: \\\\h\\s /user:me {a12}"),
    ("expect", "command-password", "send \"{a12}\\r\"  # password"),
    ("sudo", "command-password", "sudo -S ls <<< \"{a12}\""),
    ("7z", "command-password", "7z x -p{a12} a.7z"),
    ("HTML input", "generic-secret", "<input type=\"password\" name=\"password\" value=\"{a24}\">"),
    ("GraphQL", "generic-secret", "{\"variables\":{\"input\":{\"password\":\"{a24}\"}}}"),
    ("form", "generic-secret", "username=me&password={a24}&go=1"),
    ("TOML, table", "generic-secret", "[auth]\ntoken = '{a24}'"),
    ("bullet", "generic-secret", "- Password: {a24}"),
    ("table of three", "generic-secret", "| prod | API_TOKEN | {a24} |"),
    ("italic", "generic-secret", "*Token*: {a24}"),
    ("chat", "generic-secret", "here is the api key: {a24} thanks"),
    ("two colours", "github-token", "\x1b[0m\x1b[38;5;10mghp_{a36}\x1b[39m"),
    ("AWS id, colour without ESC", "aws-access-key", "[1;33mAKIA{216}[0m"),
    ("Stripe behind an underscore", "stripe-key", "key_sk_live_{a24}"),
    ("Hugging Face, C1", "huggingface-token", "\u{9b}1mhf_{a34}\u{9b}m"),
    ("bcrypt in SQL", "password-hash", "INSERT INTO u VALUES (1, '$2b$12${a53}')"),
    ("key in syslog, cut", "private-key", "host app[12]: -----BEGIN OPENSSH {x}PRIVATE KEY-----\nhost app[12]: {a64}\nhost app[12]: {a64}\nhost app[12]: {a64}"),
    ("Rust", "generic-secret", "const API_KEY: &str = \"{a32}\";"),
    ("Swift", "generic-secret", "let secretKey: String = \"{a32}\""),
    ("C", "generic-secret", "#define API_KEY \"{a32}\""),
    ("CMake", "generic-secret", "set(API_KEY \"{a32}\")"),
    ("Makefile", "generic-secret", "API_KEY := {a32}\n"),
];

#[rustfmt::skip]
const HELD_OUT: &[(&str, &str)] = &[
    ("Vault header", "curl --header \"X-Vault-Token: {a24}\" https://x.y/v1"),
    ("kubeconfig", "users:\n- name: me\n  user:\n    token: {a64}\n"),
    ("compose, quoted", "environment:\n  - \"API_KEY={a24}\"\n"),
    ("Actions", "with:\n  token: ghp_{a36}\n"),
    ("git clone", "git clone https://oauth2:glpat-{a20}@x.y/z.git"),
    ("Ruby, member", "Slack.configure { |c| c.token = 'xoxb-{d12}-{d12}-{a24}' }"),
    ("Go, member", "cfg := Config{APIKey: \"{a32}\"}"),
    ("Kotlin", "val apiKey = \"{a32}\""),
    ("Clojure", "{:user \"me\" :password \"{a16}\"}"),
    ("Lua", "password = [[{a16}]]"),
    ("Perl", "my $password = q({a16});"),
    ("sbt", "Credentials(\"realm\", \"x.y\", \"me\", \"{a16}\")"),
    ("Maven", "<server><id>r</id><password>{a16}</password></server>"),
    ("SQL Server", "Data Source=x;User ID=sa;Password={a16};Encrypt=yes"),
    ("MongoDB", "mongodb+srv://me:{a16}@c.x.net/db"),
    ("Kafka", "sasl.jaas.config=org.x.PlainLoginModule required username=\"me\" password=\"{a16}\";"),
    ("Rails", "production:\n  secret_key_base: {h128}\n"),
    ("WordPress", "define('AUTH_KEY', '{a64}');"),
    ("Laravel", "APP_KEY=base64:{b43}=\n"),
    ("OAuth", "{\"access_token\":\"{a40}\",\"token_type\":\"Bearer\"}"),
    ("PowerShell, table", "@{ User = 'me'; Password = '{a16}' }"),
    ("batch", "set \"DB_PASSWORD={a16}\""),
    ("curl, form", "curl --data-urlencode \"password={a16}\" https://x.y"),
    ("rsync", "RSYNC_PASSWORD={a16} rsync -a x y"),
    ("svn", "svn co --username me --password {a16} https://x.y"),
    ("mount", "mount -t cifs //h/s /m -o username=me,password={a16}"),
    ("ipmitool", "ipmitool -H h -U admin -P {a16} power status"),
    ("snmp", "snmpwalk -v3 -u me -A {a16} h"),
    ("rdp", "xfreerdp /u:me /p:{a16} /v:h"),
    ("vncpasswd", "echo {a12} | vncpasswd -f"),
    ("history of zsh", ": 1700000000:0;export OPENAI_API_KEY=sk-proj-{a48}"),
    ("log line", "INFO login user=me password={a16} ip=10.0.0.1"),
    ("pydantic", "Settings(api_key=SecretStr('{a24}'))"),
    ("dotnet", "dotnet user-secrets set \"Db:Password\" \"{a16}\""),
    ("sentence, a place", "the new token for staging is {a24}, use it"),
    ("mail", "Your temporary password is: {a12}\n"),
    ("bot", "https://api.telegram.org/bot1234567890:AA{w33}/getMe"),
];

/// Forms listed after the rules for all lists above, and before these rules were tried on them. Rules
/// for the kinds of the five that were missed came later.
#[rustfmt::skip]
const UNSEEN: &[(&str, &str)] = &[
    ("gh secret", "gh secret set DEPLOY_KEY --body \"{a32}\" --repo me/x"),
    ("kubectl, literal", "kubectl create secret generic db --from-literal=password={a16}"),
    ("kubectl, registry", "kubectl create secret docker-registry r --docker-username=me --docker-password={a16}"),
    ("helm", "helm upgrade x ./chart --set auth.rootPassword={a16} --set replicas=2"),
    ("terraform, variable", "terraform apply -var \"db_password={a16}\" -auto-approve"),
    ("ansible, extra", "ansible-playbook site.yml -e \"ansible_ssh_pass={a16} region=eu\""),
    ("fly", "fly secrets set DATABASE_URL=postgres://me:{a16}@db.x.y:5432/app"),
    ("read from a pipe", "echo \"{a40}\" | wrangler secret put CF_TOKEN"),
    ("redis-cli", "redis-cli -h r.x.y -a {a16} ping"),
    ("mongosh", "mongosh \"mongodb://db.x.y/app\" -u me -p {a16}"),
    ("ldapsearch", "ldapsearch -x -D cn=admin,dc=x -w {a16} -b dc=x"),
    ("smbclient", "smbclient //h/share -U me%{a12} -c ls"),
    ("openssl, pass", "openssl pkcs12 -in x.p12 -passin pass:{a12} -nodes"),
    ("7z", "7z x backup.7z -p{a12} -o/tmp/out"),
    ("zip", "zip -r -P {a12} x.zip dir"),
    ("htpasswd", "htpasswd -bc .htpasswd me {a12}"),
    ("keytool", "keytool -list -keystore k.jks -storepass {a12}"),
    ("conninfo", "psql \"host=db.x.y dbname=app user=me password={a16} sslmode=require\""),
    ("Rust, basic_auth", "client.get(url).basic_auth(\"me\", Some(\"{a16}\")).send()"),
    ("requests, auth", "requests.get(url, auth=(\"me\", \"{a16}\"), timeout=5)"),
    ("fetch headers", "fetch(url, { headers: { \"x-api-key\": \"{a32}\" } })"),
    ("session cookie", "Set-Cookie: connect.sid=s%3A{a32}.{a40}; Path=/; HttpOnly"),
    ("cookie of curl", "curl -b \"sessionid={l32}; theme=dark\" https://x.y"),
    ("npmrc of a company", "//npm.x.y/:_authToken={a36}\nalways-auth=true"),
    ("pip index", "pip install --index-url https://me:{a16}@pypi.x.y/simple x"),
    ("netrc", "machine x.y login me password {a16}"),
    ("pgpass", "db.x.y:5432:app:me:{a16}\n"),
    ("Azure SAS", "https://a.blob.core.windows.net/c/b.zip?sv=2022-11-02&sp=r&sig={a43}%3D"),
    ("sentence, set to", "I set the admin password to {P} for now."),
    ("SQL, alter", "ALTER USER app WITH ENCRYPTED PASSWORD '{a16}';"),
    ("SQL, identified", "CREATE USER 'app'@'%' IDENTIFIED BY '{a16}';"),
    ("nmcli", "nmcli dev wifi connect home password {a12}"),
    ("WireGuard", "[Interface]\nPrivateKey = {b43}=\nAddress = 10.0.0.2/32"),
    ("keychain", "security add-generic-password -a me -s svc -w {a16}"),
    ("Java property", "java -Djavax.net.ssl.keyStorePassword={a12} -jar x.jar"),
    ("rabbitmqctl", "rabbitmqctl add_user me {a16}"),
    ("mc alias", "mc alias set store https://s3.x.y {u20} {a40}"),
    ("chpasswd", "echo \"me:{a12}\" | chpasswd"),
    ("name and value", "[{\"name\": \"API_KEY\", \"value\": \"{a32}\"}]"),
    ("add key", "<add key=\"ApiKey\" value=\"{a32}\" />"),
];
