//! Tests every rule with texts that it must mask and texts that it must leave unchanged.
//!
//! Nothing here is a secret. Tokens are assembled from parts, so that secret scanners do not report
//! this file.

use super::corpus::{self, Sample};
use super::find::rules;
use super::forms;
use super::*;

fn redactor() -> Redactor {
    Redactor::new().unwrap()
}

/// Returns `len` letters and digits that look random.
fn random(len: usize) -> String {
    let alphabet = "q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeU";
    alphabet.chars().cycle().take(len).collect()
}

fn hex(len: usize) -> String {
    "9f86d081884c7d65".chars().cycle().take(len).collect()
}

/// Texts that each rule must mask. The secret is between two bars.
fn positives() -> Vec<(&'static str, String)> {
    let aws = "Q7XBLMZ2KTFRWYHN";
    let key = format!(
        "-----BEGIN RSA {}-----\n{}\n{}\n-----END RSA {}-----",
        "PRIVATE KEY",
        random(64),
        random(30),
        "PRIVATE KEY"
    );
    let cut = format!("-----BEGIN {}-----\n{}", "PRIVATE KEY", random(64));
    let escaped = key.replace('\n', "\\n");
    vec![
        (
            "generic-secret",
            "Log in with password: |hunter2| please".into(),
        ),
        (
            "generic-secret",
            "bob / password: |tr0ub4dor&3| on prod".into(),
        ),
        ("generic-secret", "PASSWORD: |Sommer2024!| bitte".into()),
        ("generic-secret", "pwd: |hunter2|".into()),
        ("private-key", format!("see |{key}| end")),
        ("private-key", format!("see |{escaped}| end")),
        ("private-key", format!("|{cut}|")),
        ("aws-access-key", format!("id |AKIA{aws}| end")),
        ("aws-access-key", format!("id=|ASIA{aws}|;")),
        ("github-token", format!("use |ghp_{}| now", random(36))),
        ("github-token", format!("|github_pat_{}|", random(40))),
        ("gitlab-token", format!("|glpat-{}|", random(20))),
        ("slack-token", format!("|xoxb-1234567890-{}|", random(24))),
        ("slack-token", format!("|xapp-1-A0{}|", random(20))),
        (
            "slack-webhook",
            format!("https://hooks.slack.com/services/|T0/B0/{}|", random(24)),
        ),
        ("stripe-key", format!("|sk_live_{}|", random(24))),
        ("stripe-key", format!("|whsec_{}|", random(32))),
        ("google-api-key", format!("|AIza{}|", random(35))),
        ("google-oauth", format!("|ya29.{}|", random(40))),
        ("google-oauth", format!("|GOCSPX-{}|", random(28))),
        ("anthropic-key", format!("|sk-ant-api03-{}|", random(80))),
        ("openai-key", format!("|sk-proj-{}|", random(60))),
        ("openai-key", format!("|sk-{}|", random(48))),
        ("npm-token", format!("|npm_{}|", random(36))),
        (
            "npm-token",
            format!("//registry.npmjs.org/:_authToken=|{}|", random(20)),
        ),
        ("pypi-token", format!("|pypi-AgEI{}|", random(60))),
        ("huggingface-token", format!("|hf_{}|", random(34))),
        (
            "sendgrid-key",
            format!("|SG.{}.{}|", random(22), random(43)),
        ),
        ("twilio-key", format!("|SK{}|", hex(32))),
        ("digitalocean-token", format!("|dop_v1_{}|", hex(64))),
        ("azure-key", format!("AccountKey=|{}==|;", random(86))),
        ("azure-key", format!("?sv=1&sig=|{}%3D|", random(43))),
        ("azure-key", format!("|abc8Q~{}|", random(34))),
        (
            "jwt",
            format!("|eyJ{}.eyJ{}.{}|", random(20), random(40), random(43)),
        ),
        (
            "basic-auth-url",
            "postgres://admin:|hunter2|@db.internal/app".to_owned(),
        ),
        (
            "authorization",
            format!("Authorization: Bearer |{}|", random(24)),
        ),
        (
            "authorization",
            format!("\\\"authorization\\\":\\\"Basic |{}|\\\"", random(24)),
        ),
        ("authorization", format!("curl -H bearer |{}|", random(24))),
        (
            "private-key",
            format!("|{}|", key.replace("RSA", "OPENSSH")),
        ),
        (
            "private-key",
            format!(
                "|{}|",
                key.replace("RSA", "PGP").replace("KEY-", "KEY BLOCK-")
            ),
        ),
        (
            "private-key",
            format!("{{\"private_key\": \"|{escaped}|\\n\"}}"),
        ),
        (
            "private-key",
            format!("Private-Lines: 2\n|{}\n{}|", random(64), random(32)),
        ),
        (
            "curl-user",
            "curl -u admin:|Sup3rS3cret| https://x.example".to_owned(),
        ),
        (
            "curl-user",
            "curl -sS \\\n  --user 'a:|b|' https://x".to_owned(),
        ),
        ("curl-user", "curl -fsSLu admin:|pw|".to_owned()),
        (
            "curl-user",
            "curl -u \"admin:|two words|\" https://x".to_owned(),
        ),
        (
            "curl-user",
            r#"["curl","-u","admin:|hunter2|","https://x"]"#.to_owned(),
        ),
        (
            "netrc-password",
            "machine api.host login mira password |correct horse".replace("correct", "correct|"),
        ),
        (
            "netrc-password",
            "default\n  login mira\n  password |correct|\n".to_owned(),
        ),
        (
            "cookie",
            format!("Cookie: sid=|{}; theme=dark|\r\n", random(20)),
        ),
        (
            "cookie",
            format!("set-cookie: sid=|{}; Domain=.example.org|\n", random(20)),
        ),
        (
            "cookie",
            format!("{{\"Cookie\": \"sid=|eyJ{0}.eyJ{0}.{0}|\"}}", random(20)),
        ),
        ("cookie", "curl --cookie 'sid=|a1b2c3d4|' x".to_owned()),
        (
            "telegram-token",
            format!(
                "https://api.telegram.org/bot123456789:|AA{}|/getMe",
                random(33)
            ),
        ),
        (
            "discord-webhook",
            format!(
                "https://discord.com/api/webhooks/123456789012345678/|{}|",
                random(68)
            ),
        ),
        (
            "age-key",
            format!("|AGE-SECRET-KEY-1{}|", random(58).to_uppercase()),
        ),
        ("vault-token", format!("|hvs.{}|", random(90))),
        ("vault-token", format!("|hvb.{}|", random(90))),
        ("shopify-token", format!("|shpat_{}|", hex(32))),
        ("shopify-token", format!("|shpss_{}|", hex(32))),
        ("mailgun-key", format!("api:|key-{}|", hex(32))),
        ("linear-key", format!("|lin_api_{}|", random(40))),
        ("groq-key", format!("|gsk_{}|", random(52))),
        ("xai-key", format!("|xai-{}|", random(80))),
        ("perplexity-key", format!("|pplx-{}|", random(48))),
        ("replicate-token", format!("|r8_{}|", random(37))),
        ("openrouter-key", format!("|sk-or-v1-{}|", hex(64))),
        ("fly-token", format!("FlyV1 |fm2_{0},fm2_{0}|", random(60))),
        ("doppler-token", format!("|dp.pt.{}|", random(43))),
        ("doppler-token", format!("|dp.st.prd.{}|", random(43))),
        ("atlassian-token", format!("|ATATT3xFfGF0{}|", random(180))),
        ("databricks-token", format!("|dapi{}|", hex(32))),
        ("postman-key", format!("|PMAK-{}-{}|", hex(24), hex(34))),
        ("sentry-token", format!("|sntrys_{}|", random(100))),
        ("sentry-token", format!("|sntryu_{}|", hex(64))),
        ("grafana-token", format!("|glsa_{}_{}|", random(32), hex(8))),
        ("grafana-token", format!("|glc_{}|", random(60))),
        ("notion-token", format!("|secret_{}|", random(43))),
        ("notion-token", format!("|ntn_{}|", random(46))),
        ("square-token", format!("|sq0atp-{}|", random(22))),
        ("planetscale-token", format!("|pscale_tkn_{}|", random(43))),
        ("pulumi-token", format!("|pul-{}|", hex(40))),
        ("supabase-token", format!("|sbp_{}|", hex(40))),
        ("vercel-token", format!("|vcp_{}|", random(56))),
        ("cloudflare-key", format!("|v1.0-{}-{}|", hex(24), hex(146))),
        (
            "generic-secret",
            format!("CLOUDFLARE_API_TOKEN=|{}|\n", random(40)),
        ),
        (
            "generic-secret",
            format!("curl -H 'X-Auth-Key: |{}|' x", hex(37)),
        ),
        (
            "generic-secret",
            format!("vercel deploy --token |{}| --prod", random(24)),
        ),
        (
            "generic-secret",
            format!("GET /x?access_token=|{}|&y=1", random(24)),
        ),
        (
            "generic-secret",
            "Server=db;User=sa;Password=|hunter2!|;Database=x".to_owned(),
        ),
        (
            "azure-key",
            format!("SharedAccessKey=|{}=|;EntityPath=x", random(43)),
        ),
        (
            "basic-auth-url",
            "redis://:|p@ss|@cache.internal:6379/0".to_owned(),
        ),
        (
            "authorization",
            format!("authorization: bearer |{}|\r\n", random(24)),
        ),
        (
            "authorization",
            format!(r#"{{"authorization": "bearer |{}|"}}"#, random(24)),
        ),
        (
            "generic-secret",
            r#"password = "|hunter2!secret|""#.to_owned(),
        ),
        (
            "generic-secret",
            format!(r#""api_key": "|{}|","#, random(20)),
        ),
        (
            "generic-secret",
            format!(r#"\"clientSecret\": \"|{}|\","#, random(20)),
        ),
        ("generic-secret", format!("DB_PASSWORD=|{}|\n", random(12))),
        (
            "generic-secret",
            format!("export APP_TOKEN=|{}|", random(12)),
        ),
        (
            "generic-secret",
            format!("a\\nAPP_SECRET=|{}|\\nB=1", random(12)),
        ),
        ("generic-secret", format!("  password: |{}|\n", random(12))),
    ]
}

/// Passwords and their kind as people write them. The secret is between two bars.
#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    // Words.
    "password: |letmein|", "password: |correcthorse|", "password=|abc|", "passwd = |xyz|",
    "db.password = |letmein|", "user=admin password=|admin|", "password=|letmein| sslmode=require",
    "- Password: |swordfish|\n", "user: admin, password: |swordfish|", "     3→password: |letmein|\n",
    "-password: |letmein|\n+password: ${DB_PASSWORD}\n", "\x1b[31mpassword: |letmein|\x1b[0m",
    // Letters in both cases.
    "password: |kXqTzJmWnbPa|", "  password: |KLPsPhaoYEJVkH|\n", "password=|kXqTzJmWnbPa|",
    "db.password=|kXqTzJmWnbPa|", "stringData:\n  password: |kXqTzJmWnbPa|\n",
    "\"password\": \"|kXqTzJmWnbPa|\"", "db_password: \"|kXqTzJmWnbPa|\"",
    "password: |kXqTzJmWnbPa| # rotated", "api_key: |kXqTzJmWnbPaRtYv|",
    // Variables.
    "DB_PASSWORD=|letmein|", "DB_PASSWORD=|postgres|", "export DB_PASSWORD=|swordfish|",
    "MYSQL_ROOT_PASSWORD=|rootpw|", "REDIS_PASS=|qwerty|", "DB_PASSWORD=|p4ss&w0rd12|",
    "DB_PASSWORD=\"|two words|\"", "DB_PASSWORD='|two words|'", "PGPASSWORD='|pg pw|' psql",
    "export DB_PASSWORD=\"|two words|\" && make", r#"\"DB_PASSWORD=\\\"|two words|\\\"\""#,
    "MYSQL_ROOT_PASSWORD: |rootpw|", "SMTP_PASS: |mailpass|", "DB_PASSWORD: |hunter2|",
    "MYSQL_ROOT_PASSWORD: \"|two words|\"", "    POSTGRES_PASSWORD: |123456| # for tests\n",
    "SECRET_KEY=|insecure|", "JWT_SECRET=|my-jwt-secret|", "API_SECRET=|topsecret|",
    "JWT_SECRET: |my-jwt-secret|\n", "AUTH_TOKEN=|abc| ./run", "ACCESS_TOKEN: |tok123|",
    "client_secret=|abc-def-ghi|", "SECRET_KEY_BASE=|a1b2c3d4|", "pwd=|abc123xyz|",
    // With a digit.
    "password: |hunter2|", "Password: |Sommer2024|", "passwd: |xyz123|",
    // Sentences and phrases.
    "my password is |hunter2|", "my password is |hunter2| and it works", "The password is: |swordfish|",
    "the password was now: `|swordfish|`", "passphrase: |correct horse battery|",
    "passphrase = \"|correct horse battery staple|\"",
    // Options.
    "mysql --password=|swordfish| app", "mysql --password |swordfish| app", "app --db-password |swordfish|",
    // Other languages.
    "passwort: |geheim12|", "Kennwort: |geheim|", "Das Passwort ist |geheim12|", "contraseña: |secreto1|",
    "contrasena: |secreto|", "mot de passe : |bonjour1|", "senha: |segredo|",
];

/// Texts that look similar but contain no secret.
const NEGATIVES: &[(&str, &str)] = &[
    (
        "private-key",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    ),
    (
        "private-key",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ),
    ("aws-access-key", "AKIAIOSFODNN7EXAMPLE"),
    ("aws-access-key", "XAKIAQ7XBLMZ2KTFRWYHNQQ"),
    ("github-token", "ghp_short"),
    ("github-token", "the prefix ghp_ is public"),
    ("gitlab-token", "glpat-short"),
    ("slack-token", "xoxb-"),
    ("slack-webhook", "https://hooks.slack.com/services/"),
    ("stripe-key", "pk_live_q7Xb2LmZ9kTf4RwY6hNc8VdJ"),
    ("google-api-key", "AIzaShort"),
    ("google-oauth", "ya29."),
    ("anthropic-key", "sk-ant-api03-short"),
    ("openai-key", "sk-proj-short and a task-force-of-people"),
    ("npm-token", "npm_config_registry"),
    ("npm-token", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}"),
    ("pypi-token", "pypi-server is a package"),
    ("huggingface-token", "hf_hub_download"),
    ("sendgrid-key", "SG.short.short"),
    ("twilio-key", "SKILLS"),
    ("digitalocean-token", "dop_v1_short"),
    ("azure-key", "AccountKey=short=="),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9 alone"),
    (
        "basic-auth-url",
        "https://user@host/path and http://host:8080/x@y",
    ),
    ("basic-auth-url", "postgres://user:${PASSWORD}@host/db"),
    ("basic-auth-url", "https://user:<password>@host"),
    ("authorization", "Authorization: Bearer $TOKEN"),
    ("authorization", "Authorization: Bearer <token>"),
    ("authorization", "the bearer of this long-standing-message"),
    ("private-key", "Private-Lines: 2\nand so on"),
    ("curl-user", "curl -u $USER:$PASSWORD https://x"),
    ("curl-user", "curl -u admin https://host:8080/x"),
    ("curl-user", "curl --user-agent 'annals: 1' https://x"),
    ("curl-user", "docker run --user 1000:1000 image"),
    (
        "netrc-password",
        "machine learning, a login and a password prompt",
    ),
    (
        "netrc-password",
        "machine host login mira password <password>",
    ),
    ("cookie", "Cookie: a small cake"),
    ("cookie", "Cookie: sid=$SESSION"),
    ("cookie", "cookie: Option<Cookie<'a>>,"),
    ("telegram-token", "123456789:AAshort"),
    (
        "discord-token",
        "MTime.format.of_the_messages_in_a_channel_x",
    ),
    (
        "resend-key",
        "re_compiled_expressions_of_the_rules are in re_exports",
    ),
    (
        "runpod-key",
        "rpa_reads_all_pages_of_the_archive_in_their_order",
    ),
    (
        "jina-key",
        "jina_embeddings_of_all_documents_in_the_index_are_computed_once",
    ),
    ("adafruit-key", "aio_read and aio_write"),
    ("datadog-key", "ddpat_name_of_the_token"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="),
    (
        "discord-webhook",
        "https://discord.com/api/webhooks/ID/TOKEN",
    ),
    ("age-key", "AGE-SECRET-KEY-1SHORT"),
    ("vault-token", "hvs.read_all_sessions_of_a_root()"),
    ("shopify-token", "shpat_token_of_the_shop"),
    ("mailgun-key", "key-value and key-9f86d081"),
    ("linear-key", "lin_api_key"),
    ("groq-key", "gsk_..."),
    ("xai-key", "xai-sdk-python"),
    ("perplexity-key", "pplx-api"),
    ("replicate-token", "r8_short"),
    (
        "openrouter-key",
        "sk-or-v1-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    ("fly-token", "FlyV1 fm2_short"),
    ("doppler-token", "dp.pt.short"),
    ("atlassian-token", "ATATT3xFfGF0"),
    ("databricks-token", "dapi9f86d081"),
    ("postman-key", "PMAK-9f86d081"),
    ("sentry-token", "sntrys_short"),
    ("grafana-token", "glsa_short_9f86d081"),
    (
        "notion-token",
        "secret_name_of_the_project_in_the_vault_of_keys",
    ),
    ("square-token", "sq0atp-short"),
    ("planetscale-token", "pscale_tkn_short"),
    ("pulumi-token", "pul-9f86d081"),
    ("supabase-token", "sbp_9f86d081"),
    ("vercel-token", "vcp_short"),
    ("cloudflare-key", "v1.0-9f86d081"),
    ("generic-secret", "deploy --token $VERCEL_TOKEN --prod"),
    ("generic-secret", "/x?token=<token>&page=12345678"),
    ("generic-secret", "Password=${DB_PASSWORD_1};"),
    ("generic-secret", r#"password = "correct""#),
    ("generic-secret", r#"token = "EXAMPLE_TOKEN_123""#),
    ("generic-secret", r#"secret: "xxxxxxxxxxxx1""#),
    ("generic-secret", r#"api_key = "<your-key-1234>""#),
    ("generic-secret", r#"api_key = "${API_KEY_2}""#),
    ("generic-secret", r#"password = "aaaaaaaa1111""#),
    ("generic-secret", "let token = self.next_token(12345);"),
    ("generic-secret", "token: String,"),
    ("generic-secret", "API_TOKEN=$OTHER_TOKEN_1"),
    ("generic-secret", "password: must be long"),
    ("generic-secret", "the password is required"),
    ("generic-secret", "the token is in /run/secrets/db_token_1"),
    (
        "generic-secret",
        "token: string\npassword: null\npassword: true",
    ),
    ("generic-secret", "password: undefined\npassword: ${VAR}"),
    (
        "generic-secret",
        "password: <placeholder>\npassword: utf8\n",
    ),
    (
        "generic-secret",
        "password = get_password()\npassword=arg1\n",
    ),
    ("generic-secret", "| Password | required |\n|---|---|"),
    (
        "generic-secret",
        "| token | `string` |\n| secret | my-secret-2 |",
    ),
    (
        "generic-secret",
        "**Password:** must be long **Token**: none",
    ),
    (
        "generic-secret",
        r#"{"password":"string"} {"type":"password"}"#,
    ),
    ("generic-secret", r#"{"password":"Passwort"}"#),
    (
        "generic-secret",
        "password: SecretStr\npassword = newPassword\npassword: CharField\n",
    ),
    ("generic-secret", "password: getPasswordFromVault"),
    ("generic-secret", "token: XMLHttpRequestToken"),
    ("command-password", "htpasswd -c passwords mira"),
    ("command-password", "nmcli device wifi list"),
    ("generic-secret", r#"{"password":"required"}"#),
    (
        "generic-secret",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db",
    ),
    ("generic-secret", "- name: TOKEN\n  value: ${{ secrets.X }}"),
    ("generic-secret", "- name: secretName\n  value: app-tls"),
    (
        "generic-secret",
        "variable \"db_password\" {\n  type = string\n}",
    ),
    ("generic-secret", "define('DB_PASSWORD', getenv('A1'));"),
    ("generic-secret", "ENV API_TOKEN ${TOKEN}\nset -x TOKEN $A"),
    ("generic-secret", "printf \"PASSWORD=%s\" \"$PASSWORD\""),
    ("command-password", "mysql -p'$PASSWORD' db"),
    ("command-password", "mysql -p'$db_pass' db"),
    ("command-password", "gh secret set API_TOKEN --body \"$T\""),
    (
        "basic-auth-url",
        "redis://host:6379/0@x postgres://host:5432/a@b",
    ),
    (
        "pgpass",
        "src/main.rs:1200:5:error:foo2bar\n12:30:45:00:abc123",
    ),
    ("pgpass", "a.org:8443:app:me:1234567"),
    ("private-key", "client-key-data: DATA+OMITTED"),
    ("password-hash", "awk '{print $1$2$3}' and $6$x$y$"),
    ("paseto", "v1.local.host and v2.public.api"),
    (
        "seed-phrase",
        "mnemonic: a short word that helps to remember long things",
    ),
    ("generic-secret", "max_tokens: 4096"),
    ("generic-secret", "tokens: 1,234,567 of 200000"),
    (
        "generic-secret",
        "password: ${DB_PASSWORD}\npassword: required",
    ),
    ("generic-secret", "if password == expected"),
    ("generic-secret", "password: hashed\npassword = data\n"),
    ("generic-secret", "username, password = user.split"),
    (
        "generic-secret",
        "what you need to know about the password: nothing",
    ),
    (
        "generic-secret",
        "PASS: test_upload\n--- PASS: TestUpload (0.00s)\n",
    ),
    (
        "generic-secret",
        "DB_PASSWORD: string;\nDB_PASSWORD: SecretStr\n",
    ),
    (
        "generic-secret",
        "PASSWORD: must be long\nTESTS_PASS: 1234\n",
    ),
    ("generic-secret", "LABEL_PASSWORD: \"Mot de passe\"\n"),
    ("generic-secret", "PWD=/home/mira/app OLDPWD=/tmp/x"),
    ("generic-secret", "MAX_TOKEN=4096 EOS_TOKEN=</s>"),
    ("generic-secret", "the password is sha256 encoded"),
    ("generic-secret", "the password is base64-encoded"),
    ("generic-secret", "the password is argon2id with salt"),
    ("generic-secret", "The password is: required"),
    (
        "generic-secret",
        "use the --password option or --password without",
    ),
    ("generic-secret", "passphrase: used for the private key"),
    ("generic-secret", "client_secret=client_secret"),
    (
        "generic-secret",
        "getenv(\"API_KEY\", \"default\") t('password', 'Password')",
    ),
    (
        "generic-secret",
        "expect_token(\"identifier\") hash_password(\"password\")",
    ),
    (
        "generic-secret",
        "auth=(\"user\", \"password\") auth: [\"basic\", \"bearer\"]",
    ),
    (
        "generic-secret",
        "password: |\n  must be long\ntoken: >\n  see below\n",
    ),
    (
        "generic-secret",
        "pass: true, pw: null, psk: ${PSK}\npass: TestUploadHandler\n",
    ),
    (
        "generic-secret",
        "credentials: user/password, login: https://x.org/a1",
    ),
    (
        "generic-secret",
        "git config user.key value; configure the token first",
    ),
    (
        "generic-secret",
        "token: &str = \"identifier\"; let key: String = \"name\"; API_KEY := $(KEY)\n#define TOKEN 12\nset(KEY \"name\")",
    ),
    ("generic-secret", "*Token*: string, _password_: required"),
    ("generic-secret", "the private key: see docs/keys.md"),
    (
        "command-password",
        "echo done | kubectl create secret generic x",
    ),
    (
        "command-password",
        "echo \"$PASSWORD\" | sudo -S ls; sudo -S ls <<< \"$PASSWORD\"",
    ),
    (
        "command-password",
        "aws ssm put-parameter --value file://value.txt --name x",
    ),
    ("command-password", "keytool -storepass $PASS -keystore x"),
    ("command-password", "net use z: \\\\host\\share * /user:me"),
    (
        "command-password",
        "sqlplus / as sysdba; sqlplus me@//db:1521/x",
    ),
    (
        "command-password",
        "7z x a.7z -o/tmp/out && ssh-keygen -N '' -f key",
    ),
    (
        "command-password",
        "http GET https://x.org/a:b and https --auth $USER:$PASS x.org",
    ),
    (
        "command-password",
        "send \"yes\\r\"; send \"configure terminal\\r\"",
    ),
    // Short options that are no passwords, next to one for the user.
    (
        "command-password",
        "docker run -u 1000 -p 127.0.0.1:8080:80 x; docker run -u me -p 8080 -w /srv/app1 x",
    ),
    (
        "command-password",
        "git push -u origin -p; ssh -l me -p 22022 h; psql -U me -p 5432 -w db; mkdir -p v1alpha1",
    ),
    (
        "command-password",
        "msbuild x.sln /p:Configuration=Release /p:Platform=x64 /p:OutDir=bin2",
    ),
    (
        "command-password",
        "net user me * /add; rabbitmqctl add_user me",
    ),
    // Calls that look a secret up, or check it.
    (
        "generic-secret",
        "token = os.environ.get('GH_TOKEN_2024X'); secret = load(\"k8s9secret7name\")",
    ),
    (
        "generic-secret",
        "TOKEN_RE = re.compile(r'ab12cd34ef56'); password = prompt('Passw0rd2again')",
    ),
    (
        "generic-secret",
        "const secret = vault.fetch('db-main-v2x9')",
    ),
    (
        "generic-secret",
        "password = [[]]; my $password = q(); token = r''",
    ),
    // Sentences about secrets.
    (
        "generic-secret",
        "the token changes to v1.2.3; the secret moved to us-east-1-backup-2; rename the token to AUTH_TOKEN_2",
    ),
    (
        "generic-secret",
        "the password was changed to argon2id, the API key is read as base64 and the token is 32 characters",
    ),
    (
        "generic-secret",
        "Credentials('realm', 'host', 'me', $1); auth(\"user\", \"pass\", Some(\"password\"))",
    ),
    // Common placeholders.
    (
        "generic-secret",
        "DB_PASSWORD=changeme\nDB_PASSWORD=example",
    ),
];

#[test]
fn every_rule_masks_its_positives() {
    let passwords = PASSWORDS.iter();
    let passwords = passwords.map(|marked| ("generic-secret", (*marked).to_owned()));
    for (rule, marked) in positives().into_iter().chain(passwords) {
        let mut parts = marked.split('|');
        let (before, secret, after) = (
            parts.next().unwrap(),
            parts.next().unwrap(),
            parts.next().unwrap(),
        );
        let text = format!("{before}{secret}{after}");
        let mut redactor = redactor();
        let masked = redactor.mask_text(&text).into_owned();
        let mask = format!("[redacted:{rule}]");
        assert!(masked.contains(&mask), "{text:?} became {masked:?}");
        assert!(masked.starts_with(before), "{masked:?}");
        assert!(masked.ends_with(after), "{masked:?}");
        let kept = masked.len() - before.len() - after.len() - mask.len();
        assert!(kept <= 4, "{masked:?} shows too much");
        assert_eq!(redactor.masked().total(), 1, "{masked:?}");
        // A mask is not masked again.
        assert_eq!(redactor.mask_text(&masked), masked);
    }
}

#[test]
fn negatives_are_not_masked() {
    for (rule, text) in NEGATIVES {
        assert_eq!(redactor().mask_text(text), *text, "{rule}");
    }
}

/// Masks a sample. Returns whether its secret is hidden or, without a rule, whether anything was
/// masked.
fn is_hidden(sample: &Sample) -> bool {
    let mut redactor = redactor();
    let masked = match sample.json {
        true => redactor.mask_json(&sample.text),
        false => redactor.mask_text(&sample.text),
    };
    match sample.rule {
        "" => redactor.masked().places > 0,
        _ => !sample.leaks(&masked),
    }
}

#[test]
fn corpus_recall_and_precision_meet_their_limits() {
    let samples = corpus::samples(1, 2);
    let missed = |of: fn(&Sample) -> bool| -> (usize, Vec<&Sample>) {
        let all: Vec<&Sample> = samples.iter().filter(|sample| of(sample)).collect();
        let missed = all.iter().copied().filter(|sample| !is_hidden(sample));
        (all.len(), missed.collect())
    };
    let tell = |missed: &[&Sample]| -> Vec<String> {
        let line =
            |sample: &&Sample| format!("{} in {}: {}", sample.rule, sample.form, sample.text);
        missed.iter().map(line).collect()
    };
    let (all, shaped) = missed(|sample| sample.structured);
    assert!(all > 80 * 12, "{all} samples");
    assert!(shaped.len() * 100 < all, "{:#?}", tell(&shaped));
    let (all, context) = missed(|sample| !sample.structured && !sample.rule.is_empty());
    assert!(context.len() * 50 < all, "{:#?}", tell(&context));
    let (all, left) = missed(|sample| sample.rule.is_empty());
    assert!(
        all > 500 && left.len() == all,
        "one of {all} without a secret was masked"
    );
}

#[test]
fn recall_on_every_form_of_the_second_corpus_holds() {
    const ROUNDS: usize = 8;
    let mut recall: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missed = Vec::new();
    let samples = forms::samples(1, ROUNDS);
    for sample in &samples {
        let mut redactor = redactor();
        let masked = match sample.json {
            true => redactor.mask_json(&sample.text),
            false => redactor.mask_text(&sample.text),
        };
        let is_named = masked.contains(&format!("[redacted:{}]", sample.rule));
        let is_masked = is_named && !sample.leaks(&masked);
        *recall.entry(sample.form).or_default() += usize::from(is_masked);
        if !is_masked {
            missed.push(format!("{}: {} became {masked}", sample.form, sample.text));
        }
    }
    assert_eq!(recall.len(), 226);
    // Random letters sometimes form a word, and a random text may have no digit.
    let report: Vec<String> = recall
        .iter()
        .filter(|(_, masked)| **masked * 8 < 2 * ROUNDS * 7)
        .map(|(form, masked)| format!("{form}: {masked} of {}", 2 * ROUNDS))
        .collect();
    assert!(report.is_empty(), "{report:#?}\n{missed:#?}");
    assert!(missed.len() * 100 <= samples.len(), "{missed:#?}");
}

/// Forms that were listed before the rules for their kinds.
#[test]
fn recall_on_forms_listed_before_their_rules_holds() {
    for samples in [forms::held_out(1, 4), forms::unseen(1, 4)] {
        let missed: Vec<_> = samples.iter().filter(|sample| !is_hidden(sample)).collect();
        let forms: Vec<&str> = missed.iter().map(|sample| sample.form).collect();
        assert!(missed.len() * 20 <= samples.len(), "{forms:?}");
    }
}

#[test]
fn corpus_has_a_masked_sample_of_every_rule() {
    let samples = corpus::samples(1, 1);
    for rule in rules() {
        let sampled = samples.iter().any(|sample| sample.rule == rule.name);
        assert!(sampled, "the corpus has no {}", rule.name);
    }
    for sample in samples.iter().filter(|sample| sample.form == "sentence") {
        let masked = redactor().mask_text(&sample.text).into_owned();
        let mask = format!("[redacted:{}]", sample.rule);
        assert!(
            sample.rule.is_empty() || masked.contains(&mask),
            "{} became {masked}",
            sample.text
        );
    }
}

#[test]
fn masked_text_is_not_masked_again() {
    let samples = corpus::samples(2, 1).into_iter();
    for sample in samples.chain(forms::samples(2, 1)) {
        let masked = redactor().mask_text(&sample.text).into_owned();
        assert_eq!(redactor().mask_text(&masked), masked, "{}", sample.text);
    }
}

/// Secrets that two audits found unmasked.
#[test]
fn secrets_are_masked_between_escapes_and_in_commands() {
    let token = format!("ghp_{}", random(36));
    let square = format!("EAAA{}", random(60));
    let pem = format!(
        "-----BEGIN {0}-----\nabcdef0123456789\n-----END {0}-----",
        "PRIVATE KEY"
    );
    let twice =
        serde_json::to_string(&serde_json::to_string(&pem.replace("\\n", "\n")).unwrap()).unwrap();
    for (text, secret) in [
        (format!("\x1b[32m{token}\x1b[0m"), &*token),
        (
            format!("found\x1b[01;31m\x1b[K{token}\x1b[m\x1b[K."),
            "q7Xb2L",
        ),
        (format!(r"\u001b[32m{token}\u001b[0m"), &token),
        (
            "API_KEY=q7Xb2LmZ9kTf4RwY and more text".to_owned(),
            "q7Xb2LmZ9kTf4RwY",
        ),
        ("PGPASSWORD=hunter2 psql -h db".to_owned(), "hunter2"),
        (
            "docker run -e DB_PASSWORD=postgres -d db".to_owned(),
            "=postgres",
        ),
        ("mysql -uroot -phunter2 app".to_owned(), "hunter2"),
        (
            r#"{"auths":{"a.org":{"auth":"bWlyYTpodW50ZXIy"}}}"#.to_owned(),
            "bWlyYTpodW50ZXIy",
        ),
        (
            format!(
                "client-key-data: {}",
                "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0M="
            ),
            "KRVktLS0tLQ",
        ),
        (square.clone(), &square[8..]),
        (twice, "abcdef"),
    ] {
        let masked = redactor().mask_text(&text).into_owned();
        assert!(
            masked.contains("[redacted:") && !masked.contains(secret),
            "{text} became {masked}"
        );
        let json = serde_json::json!({"command": text}).to_string();
        let masked = redactor().mask_json(&json).into_owned();
        assert!(
            masked.contains("[redacted:") && !masked.contains(secret),
            "{json} became {masked}"
        );
    }
}

#[test]
fn private_keys_are_masked_to_their_end() {
    let begin = format!("-----BEGIN {}-----", "PRIVATE KEY");
    let end = format!("-----END {}-----", "PRIVATE KEY");
    let line = random(64);
    for (text, masked) in [
        (
            format!("a {begin}\n{line}\n{end} b"),
            "a [redacted:private-key] b".to_owned(),
        ),
        (
            format!("{begin}\n{line}\n\nThis! is text"),
            "[redacted:private-key]! is text".to_owned(),
        ),
        (
            format!("-{begin}\n-{line}\n-{end}\n b"),
            "-[redacted:private-key]\n b".to_owned(),
        ),
        (
            format!("{begin}\n{line} {begin}\n{line}\n{end}"),
            "[redacted:private-key] [redacted:private-key]".to_owned(),
        ),
        (
            format!("const A = \"{begin}\\n\" +\n  \"{line}\\n\" +\n \"{end}\";"),
            "const A = \"[redacted:private-key]\";".to_owned(),
        ),
    ] {
        assert_eq!(redactor().mask_text(&text), masked);
    }
    // A truncated key ends with its last line.
    let headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n";
    for (text, masked) in [
        (
            format!("{begin}\n{headers}\n{line}\n{line}\nab==\nNot this one."),
            "[redacted:private-key]\nNot this one.",
        ),
        (
            format!("w | [a] {begin}\nw | [a] {line}\nw | [a] q7X\nw | [a] GET /x 200"),
            "w | [a] [redacted:private-key]\nw | [a] GET /x 200",
        ),
        (
            format!("{line}\n{line}\nab==\n{end}\nb"),
            "[redacted:private-key]\nb",
        ),
    ] {
        assert_eq!(redactor().mask_text(&text), masked);
    }
    // Many starts without an end must not take quadratic time.
    let hostile = begin.repeat(20_000);
    let before = std::time::Instant::now();
    redactor().mask_text(&hostile);
    assert!(before.elapsed().as_secs() < 20);
}

#[test]
fn secrets_at_the_end_of_a_cut_text_are_masked() {
    let key = format!("sk-ant-api03-{}", random(20));
    for (text, masked) in [
        ("Use ghp_q7Xb2L…", "Use ghp_[redacted:github-token]…"),
        ("Use ghp_q7Xb2L...", "Use ghp_[redacted:github-token]..."),
        (&format!("{}…", &key[..18]), "sk-[redacted:anthropic-key]…"),
        (
            "set PASSWORD=hun…",
            "set PASSWORD=[redacted:generic-secret]…",
        ),
        (
            "open postgres://admin:hun…",
            "open postgres://admin:[redacted:generic-secret]…",
        ),
        ("Fix the token bucket…", "Fix the token bucket…"),
        ("Use ghp_q7Xb2L", "Use ghp_q7Xb2L"),
        (
            "Explain the password prompt, please…",
            "Explain the password prompt, please…",
        ),
    ] {
        assert_eq!(redactor().mask_text(text), masked);
    }
}

#[test]
fn mail_addresses_ids_and_words_are_not_masked() {
    for text in [
        "write to mira@example.org",
        "8c549c46-16ca-47dd-b731-f4c264becc53",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "toolu_01A09q90qw90lq917835lq9",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "The token budget is large; the password was changed.",
    ] {
        assert_eq!(redactor().mask_text(text), text);
    }
}

#[test]
fn mask_json_finds_secrets_behind_any_escape() {
    let key = format!(
        "-----BEGIN {0}-----\nabcd\n-----END {0}-----",
        "PRIVATE KEY"
    );
    let token = format!("ghp_{}", random(36));
    let input = serde_json::json!({
        "content": format!("one\n\"{key}\"\n"),
        "list": [token, 1.5],
        "password": "hunter2!secret",
        "n": 7,
    })
    .to_string();
    let mut redactor = redactor();
    let masked = redactor.mask_json(&input).into_owned();
    let value: serde_json::Value = serde_json::from_str(&masked).unwrap();
    assert_eq!(value["content"], "one\n\"[redacted:private-key]\"\n");
    assert_eq!(value["list"][0], "ghp_[redacted:github-token]");
    assert_eq!(value["password"], "[redacted:generic-secret]");
    assert_eq!(value["n"], 7);
    assert_eq!(redactor.masked().total(), 3);
}

#[test]
fn the_name_of_a_member_decides_about_its_value() {
    for (input, masked) in [
        (
            r#"[{"name":"DB_PASSWORD","value":"sunshine"},{"Key":"API_TOKEN","Value":"q7Xb2LmZ9k"}]"#,
            r#"[{"name":"DB_PASSWORD","value":"[redacted:generic-secret]"},{"Key":"API_TOKEN","Value":"[redacted:generic-secret]"}]"#,
        ),
        (
            r#"[{"name":"token_url","value":"q7Xb2LmZ9k"},{"name":"token","n":"x","value":"q7Xb2LmZ9k"}]"#,
            r#"[{"name":"token_url","value":"q7Xb2LmZ9k"},{"name":"token","n":"x","value":"q7Xb2LmZ9k"}]"#,
        ),
    ] {
        assert_eq!(redactor().mask_json(input), masked);
    }
}

#[test]
fn mask_json_treats_header_members_as_headers() {
    for (input, masked) in [
        (
            r#"{"headers":{"authorization":"basic YWRtaW46cHc="}}"#,
            r#"{"headers":{"authorization":"basic [redacted:authorization]"}}"#,
        ),
        (
            r#"{"Cookie" : "sid=a1b2c3; theme=dark", "n": 1}"#,
            r#"{"Cookie" : "sid=[redacted:cookie]", "n": 1}"#,
        ),
        (
            r#"{"Cookie": "a small cake"}"#,
            r#"{"Cookie": "a small cake"}"#,
        ),
    ] {
        assert_eq!(redactor().mask_json(input), masked);
    }
}

#[test]
fn mask_json_keeps_text_without_secrets_unchanged() {
    for input in [
        r#"{"a" : "\u00e9\/", "b":1e5,"a":null}"#,
        r#"{"password": "${PASSWORD}", "max_tokens": 12345678}"#,
        r#"{"token": ["not", "a", "member"]}"#,
        "{broken",
        "",
    ] {
        assert!(
            matches!(redactor().mask_json(input), Cow::Borrowed(_)),
            "{input}"
        );
    }
}

#[test]
fn repeated_secret_counts_once_with_two_places() {
    let text = format!("ghp_{0} and again ghp_{0}", random(36));
    let mut redactor = redactor();
    redactor.mask_text(&text);
    assert_eq!(redactor.masked().places, 2);
    assert_eq!(redactor.masked().secrets["github-token"], 1);
}
