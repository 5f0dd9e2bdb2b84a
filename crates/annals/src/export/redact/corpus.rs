//! Corpus of made-up secrets and of texts that look like one, in the forms found in logs.
//!
//! Nothing here is a secret: every sample is generated from a seed. The tests of this module use
//! the corpus, and so does `cargo run -p annals --example redaction`, which includes this file.

/// A text and the secret in it.
pub(crate) struct Sample {
    /// The rule that masks it; empty if nothing may be masked.
    pub(crate) rule: &'static str,
    /// The secret has a shape or a format of its own.
    pub(crate) structured: bool,
    /// Name of the form in which it is written.
    pub(crate) form: &'static str,
    /// The text is JSON and is masked as JSON.
    pub(crate) json: bool,
    pub(crate) text: String,
    /// The random parts of the secret.
    pub(crate) parts: Vec<String>,
}

impl Sample {
    /// Returns whether a masked text still contains a part of the secret.
    pub(crate) fn leaks(&self, masked: &str) -> bool {
        let shows = |part: &str| part.len() >= 3 && masked.contains(part);
        self.parts.iter().any(|part| {
            let words = part.split(|c: char| !c.is_ascii_alphanumeric());
            words.into_iter().any(|word| {
                let len = word.len().min(6);
                shows(&word[..len]) || shows(&word[word.len() - len..])
            })
        })
    }
}

/// Returns all samples of a seed: every kind in every form, `rounds` times.
pub(crate) fn samples(seed: u64, rounds: usize) -> Vec<Sample> {
    let mut random = Random(seed | 1);
    let mut samples = Vec::new();
    let kinds = SHAPES.iter().map(|(rule, shape)| (*rule, *shape, true));
    let context = CONTEXT.iter().map(|(rule, shape)| (*rule, *shape, false));
    let others = OTHERS.iter().map(|shape| ("", *shape, false));
    for (rule, shape, structured) in kinds.chain(context).chain(others) {
        for (form, json, write) in FORMS {
            for _ in 0..rounds {
                let (text, parts) = random.fill(shape);
                samples.push(Sample {
                    rule,
                    structured,
                    form,
                    json: *json,
                    text: write(&text),
                    parts,
                });
            }
        }
    }
    samples
}

/// A form: its name, whether it is masked as JSON, and its writer.
type Form = (&'static str, bool, fn(&str) -> String);

/// The forms of secrets in logs.
pub(crate) const FORMS: &[Form] = &[
    ("sentence", false, |s| {
        format!("Please use {s} for this call.")
    }),
    ("JSON", true, |s| {
        serde_json::json!({"n": 1, "note": s, "list": [s]}).to_string()
    }),
    ("JSON in JSON", true, |s| {
        let inner = serde_json::json!({"n": 1, "note": s}).to_string();
        serde_json::json!({"output": inner}).to_string()
    }),
    ("escaped twice", false, |s| {
        let inner = serde_json::json!({"note": s}).to_string();
        let outer = serde_json::json!({"output": inner}).to_string();
        format!("cat log: {outer}")
    }),
    ("colour", false, |s| {
        format!("found:\x1b[1;31m{s}\x1b[0m in a.txt")
    }),
    ("colour, spelled", false, |s| {
        format!(r"found:\u001b[31m{}\u001b[39m in a.txt", line(s))
    }),
    ("KEY=value text", false, |s| {
        format!("THING={} ./run.sh --now", line(s))
    }),
    ("query", false, |s| {
        format!("GET https://a.org/cb?x=1&v={}&y=2 200", percent(s))
    }),
    ("command", false, |s| {
        format!("bash -c \"{}\" && echo ok", line(s).replace('"', "\\\""))
    }),
    ("env file", false, |s| {
        format!("A=1\nTHING={}\nB=2\n", line(s))
    }),
    ("YAML", false, |s| {
        format!("a: 1\nthing: {}\nb: 2\n", line(s))
    }),
    ("header", false, |s| {
        format!("Host: a.org\r\nX-Thing: {}\r\nAccept: */*\r\n", line(s))
    }),
    ("diff", false, |s| {
        let lines: Vec<String> = s.lines().map(|line| format!("-{line}\n")).collect();
        format!("@@ -1,3 +1,3 @@\n a\n{} b\n", lines.concat())
    }),
    ("code fence", false, |s| {
        format!("Here it is:\n```\n{s}\n```\nDone.")
    }),
    ("numbered lines", false, |s| {
        let lines = s.lines().enumerate();
        lines
            .map(|(at, line)| format!("{:>6}→{line}\n", at + 1))
            .collect()
    }),
    ("HTML", false, |s| {
        let text = s
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;");
        format!("<td class=\"a\">{text}</td>")
    }),
];

/// Returns the text on one line, with line breaks as `\n`.
fn line(text: &str) -> String {
    text.replace('\n', "\\n")
}

fn percent(text: &str) -> String {
    let spell = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(spell).collect()
}

/// Secrets with a shape or a format, by rule. `{a36}` stands for 36 random characters of class `a`;
/// see [`Random::fill`].
#[rustfmt::skip]
const SHAPES: &[(&str, &str)] = &[
    ("private-key", "-----BEGIN RSA {x}PRIVATE KEY-----\n{b64}\n{b64}\n{b30}\n-----END RSA PRIVATE KEY-----"),
    ("private-key", "-----BEGIN OPENSSH {x}PRIVATE KEY-----\n{b70}\n{b70}\n-----END OPENSSH PRIVATE KEY-----"),
    ("private-key", "-----BEGIN EC {x}PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{h32}\n\n{b64}\n{b20}==\n-----END EC PRIVATE KEY-----"),
    ("private-key", "-----BEGIN PGP {x}PRIVATE KEY BLOCK-----\nVersion: 1\n\n{b64}\n{b64}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----"),
    ("private-key", "client-key-data: {key64}"),
    ("aws-access-key", "AKIA{216}"),
    ("aws-access-key", "ASIA{216}"),
    ("aws-secret-key", "AKIA{216},{b40}"),
    ("aws-bedrock-key", "ABSK{b130}="),
    ("alibaba-key", "LTAI{a20}"),
    ("azure-key", "AccountKey={b86}==;EndpointSuffix=core.windows.net"),
    ("azure-key", "SharedAccessKey={b43}=;EntityPath=x"),
    ("azure-key", "https://a.blob.core.windows.net/c?sv=2024-01-01&sig={a43}%3D"),
    ("azure-key", "{a3}8Q~{a34}"),
    ("azure-devops-token", "{a76}AZDO{a4}"),
    ("google-api-key", "AIza{w35}"),
    ("google-oauth", "ya29.{w80}"),
    ("google-oauth", "GOCSPX-{w28}"),
    ("google-oauth", "1//0{w60}"),
    ("firebase-key", "AAAA{w7}:APA91b{w134}"),
    ("digitalocean-token", "dop_v1_{h64}"),
    ("cloudflare-key", "v1.0-{h24}-{h146}"),
    ("heroku-key", "HRKU-AA{w58}"),
    ("fly-token", "FlyV1 fm2_{b120}"),
    ("vercel-token", "vcp_{a56}"),
    ("netlify-token", "nfp_{a36}"),
    ("render-key", "rnd_{a28}"),
    ("scalingo-token", "tk-us-{w48}"),
    ("yandex-key", "AQVN{w36}"),
    ("openshift-token", "sha256~{w43}"),
    ("github-token", "ghp_{a36}"),
    ("github-token", "ghs_{a36}"),
    ("github-token", "github_pat_{a22}_{a59}"),
    ("gitlab-token", "glpat-{w20}"),
    ("gitlab-token", "glpat-{w27}.01.0w1234567"),
    ("gitlab-token", "GR1348941{w20}"),
    ("bitbucket-token", "ATBB{a32}"),
    ("npm-token", "npm_{a36}"),
    ("npm-token", "//registry.npmjs.org/:_authToken={uuid}"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc{w70}"),
    ("rubygems-key", "rubygems_{h48}"),
    ("crates-token", "cio{a32}"),
    ("nuget-key", "oy2{l43}"),
    ("clojars-token", "CLOJARS_{h60}"),
    ("docker-token", "dckr_pat_{w27}"),
    ("docker-auth", r#"{"auths":{"https://index.docker.io/v1/":{"auth":"{pair}"}}}"#),
    ("artifactory-key", "AKCp{a69}"),
    ("terraform-token", "{a14}.atlasv1.{w67}"),
    ("circleci-token", "CCIPAT_{a22}_{h40}"),
    ("buildkite-token", "bkua_{h40}"),
    ("sonar-token", "squ_{h40}"),
    ("snyk-token", "snyk_uat.{h8}.{w80}"),
    ("sourcegraph-token", "sgp_{h16}_{h40}"),
    ("octopus-key", "API-{u26}"),
    ("harness-key", "pat.{w22}.{h24}.{a20}"),
    ("postman-key", "PMAK-{h24}-{h34}"),
    ("readme-key", "rdme_{l70}"),
    ("anthropic-key", "sk-ant-api03-{w93}AA"),
    ("anthropic-key", "sk-ant-oat01-{w93}AA"),
    ("openai-key", "sk-proj-{w74}T3BlbkFJ{w74}"),
    ("openai-key", "sk-{a48}"),
    ("openrouter-key", "sk-or-v1-{h64}"),
    ("langfuse-key", "sk-lf-{uuid}"),
    ("groq-key", "gsk_{a52}"),
    ("xai-key", "xai-{a80}"),
    ("perplexity-key", "pplx-{a48}"),
    ("replicate-token", "r8_{a37}"),
    ("huggingface-token", "hf_{a34}"),
    ("nvidia-key", "nvapi-{w64}"),
    ("cerebras-key", "csk-{l48}"),
    ("fireworks-key", "fw_{a24}"),
    ("langsmith-key", "lsv2_pt_{h32}_{h10}"),
    ("elevenlabs-key", "sk_{h48}"),
    ("pinecone-key", "pcsk_{a6}_{a62}"),
    ("tavily-key", "tvly-dev-{a32}"),
    ("firecrawl-key", "fc-{h32}"),
    ("apify-token", "apify_api_{a36}"),
    ("e2b-key", "e2b_{h40}"),
    ("slack-token", "xoxb-{d12}-{d12}-{a24}"),
    ("slack-token", "xoxp-{d12}-{d12}-{d12}-{h32}"),
    ("slack-token", "xapp-1-A{u10}-{d13}-{h64}"),
    ("slack-webhook", "https://hooks.slack.com/services/T{u8}/B{u8}/{a24}"),
    ("teams-webhook", "https://a.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}"),
    ("telegram-token", "123456789:AA{w33}"),
    ("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/{w68}"),
    ("discord-token", "discord bot MT{a22}.{w6}.{w38}"),
    ("sendgrid-key", "SG.{w22}.{w43}"),
    ("twilio-key", "SK{h32}"),
    ("mailgun-key", "key-{h32}"),
    ("mailchimp-key", "{h32}-us12"),
    ("brevo-key", "xkeysib-{h64}-{a16}"),
    ("stripe-key", "sk_live_{a24}"),
    ("stripe-key", "rk_test_{a24}"),
    ("stripe-key", "whsec_{a32}"),
    ("square-token", "EAAA{w60}"),
    ("square-token", "sq0atp-{w22}"),
    ("shopify-token", "shpat_{h32}"),
    ("paypal-token", "access_token$production${l16}${h32}"),
    ("plaid-token", "access-production-{uuid}"),
    ("flutterwave-key", "FLWSECK_TEST-{h32}-X"),
    ("duffel-token", "duffel_live_{w43}"),
    ("easypost-key", "EZAK{a54}"),
    ("shippo-token", "shippo_live_{h40}"),
    ("atlassian-token", "ATATT3xFfGF0{w170}={h8}"),
    ("linear-key", "lin_api_{a40}"),
    ("notion-token", "ntn_{d11}{a35}"),
    ("notion-token", "secret_{a43}"),
    ("airtable-token", "pat{a14}.{h64}"),
    ("asana-token", "1/1{d15}:{h32}"),
    ("clickup-token", "pk_{d8}_{u32}"),
    ("contentful-token", "CFPAT-{w43}"),
    ("figma-token", "figd_{w40}"),
    ("hubspot-token", "pat-na1-{uuid}"),
    ("typeform-token", "tfp_{w44}"),
    ("frameio-token", "fio-u-{w64}"),
    ("dropbox-token", "sl.{w135}"),
    ("facebook-token", "EAAM{a120}"),
    ("mapbox-token", "sk.eyJ{w60}.{w22}"),
    ("adobe-secret", "p8e-{w32}"),
    ("databricks-token", "dapi{h32}"),
    ("planetscale-token", "pscale_tkn_{w43}"),
    ("supabase-token", "sbp_{h40}"),
    ("neon-key", "napi_{l64}"),
    ("mongodb-key", "mdb_sa_sk_{w40}"),
    ("clickhouse-key", "4b1d{a38}"),
    ("maxmind-key", "{a6}_{a29}_mmk"),
    ("sentry-token", "sntryu_{h64}"),
    ("grafana-token", "glsa_{a32}_{h8}"),
    ("newrelic-key", "NRAK-{u27}"),
    ("dynatrace-token", "dt0c01.{u24}.{u64}"),
    ("honeycomb-key", "hcaik_{l58}"),
    ("posthog-key", "phx_{a43}"),
    ("launchdarkly-key", "sdk-{uuid}"),
    ("prefect-key", "pnu_{a36}"),
    ("infracost-key", "ico-{a32}"),
    ("wakatime-key", "waka_{uuid}"),
    ("pulumi-token", "pul-{h40}"),
    ("tailscale-key", "tskey-auth-{a16}-{a32}"),
    ("defined-key", "dnkey-{w26}-{w52}"),
    ("age-key", "AGE-SECRET-KEY-1{u58}"),
    ("vault-token", "hvs.{w90}"),
    ("doppler-token", "dp.pt.{a43}"),
    ("onepassword-key", "A3-{u6}-{u11}-{u5}-{u5}-{u5}"),
    ("authress-key", "sc_{a20}.{a5}.acc_{a20}.{w60}"),
    ("intra42-secret", "s-s4t2ud-{h64}"),
    ("settlemint-token", "sm_pat_{a16}"),
    ("aws-session-token", "IQoJb3JpZ2lu{b200}"),
    ("tencent-key", "AKID{a32}"),
    ("context7-key", "ctx7sk-{uuid}"),
    ("jina-key", "jina_{h32}{a28}"),
    ("wandb-key", "wandb_v1_{a77}"),
    ("runpod-key", "rpa_{u43}"),
    ("together-key", "tgp_v1_{w43}"),
    ("discord-token", "MTI3MDM4NTk0MTYwMjc1MjUx.{w6}.{w38}"),
    ("resend-key", "re_{a8}_{a24}"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAAA{a30}%3D{a50}"),
    ("datadog-key", "ddapp_{a34}"),
    ("datadog-key", "ddpat_{a22}_{a40}"),
    ("rootly-key", "rootly_{h64}"),
    ("adafruit-key", "aio_{a28}"),
    ("swarm-token", "SWMTKN-1-{l49}-{l25}"),
    ("paseto", "v4.local.{w120}"),
    ("paseto", "v2.public.{w120}.{w20}"),
    ("password-hash", "mira:$apr1${a8}${a22}"),
    ("password-hash", "root:$6${a16}${a86}:19000:0:99999:7:::"),
    ("password-hash", "root:$y$j9T${a22}${a43}:19000::::::"),
    ("password-hash", "$2y$10${a53}"),
    ("password-hash", "$argon2id$v=19$m=65536,t=3,p=4${a22}${a43}"),
    ("seed-phrase", "MNEMONIC=\"{W7} {W5} {W6} {W4} {W7} {W5} {W6} {W4} {W7} {W5} {W6} {W4}\""),
    ("jwt", "eyJ{w33}.eyJ{w80}.{w43}"),
    ("jwt", "ZXlK{b120}"),
    ("basic-auth-url", "postgres://admin:{a16}@db.internal:5432/app"),
    ("basic-auth-url", "https://{a40}@git.internal/app.git"),
    ("authorization", "Authorization: Bearer {w40}"),
    ("authorization", r#"curl -H "Authorization: Basic {pair}" https://a.org"#),
    ("netrc-password", "machine a.org login mira password {a12}"),
    ("cookie", "Cookie: sid={h32}; theme=dark"),
    ("pgpass", "db.internal:5432:app:mira:{a12}"),
];

/// Secrets that are recognized only by a name or a command.
#[rustfmt::skip]
const CONTEXT: &[(&str, &str)] = &[
    ("generic-secret", "PGPASSWORD={P} psql -h db -U app"),
    ("generic-secret", "docker run -e DB_PASSWORD={P} -p 5432:5432 postgres"),
    ("generic-secret", "docker run -e MYSQL_ROOT_PASSWORD={W} mysql:8"),
    ("generic-secret", "API_KEY={a32} npm run build"),
    ("generic-secret", "AWS_SECRET_ACCESS_KEY={b40} aws s3 ls"),
    ("generic-secret", "export CLOUDFLARE_API_TOKEN={w40}"),
    ("generic-secret", "SNYK_TOKEN={uuid} snyk test"),
    ("generic-secret", r#"{"client_secret": "{a32}"}"#),
    ("generic-secret", r#"const apiKey = "{a24}";"#),
    ("generic-secret", r#"config['password'] = '{P}'"#),
    ("generic-secret", "  password: {P}\n  user: app"),
    ("generic-secret", "password: {M12}"),
    ("generic-secret", "stringData:\n  password: {M16}"),
    ("generic-secret", "spring.datasource.password={M20}"),
    ("generic-secret", r#"{"user": "app", "password": "{M14}"}"#),
    ("generic-secret", "api_key: {M32}"),
    ("generic-secret", "the token: {a32} expires soon"),
    ("generic-secret", "deploy --token {a24} --prod"),
    ("generic-secret", "app --db-password={W} --verbose"),
    ("generic-secret", "https://a.org/x?access_token={a32}&y=1"),
    ("generic-secret", "Server=db;User=sa;Password={P};Database=x"),
    ("generic-secret", "<password>{P}</password>"),
    ("generic-secret", r#"<add key="ClearTextPassword" value="{P}" />"#),
    ("generic-secret", "X-Api-Key: {a32}"),
    ("generic-secret", "aws_secret_access_key = {b40}"),
    ("generic-secret", "PrivateKey = {b43}="),
    ("command-password", "mysql -u root -p{P} app"),
    ("command-password", "mysqldump -h db -uroot -p'{P}' app > a.sql"),
    ("command-password", "sshpass -p {P} ssh a@b"),
    ("command-password", "redis-cli -h cache -a {P} ping"),
    ("command-password", "docker login -u mira -p {P} registry.org"),
    ("command-password", "mongosh -u root -p {P} db.internal"),
    ("command-password", "ldapsearch -x -D cn=admin -w {P} -b dc=a"),
    ("command-password", "openssl rsa -in k.pem -passin pass:{P}"),
    ("command-password", "zip -r -P {P} a.zip a"),
    ("command-password", "echo {P} | sudo -S ls"),
    ("command-password", "htpasswd -nbB admin {P}"),
    ("command-password", "nmcli device wifi connect office password {P}"),
    ("sql-password", "CREATE USER app WITH PASSWORD '{P}'"),
    ("curl-user", "curl -u admin:{P} https://a.org"),
];

/// Texts that look like secrets but are not.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "{uuid}",
    "session {uuid}",
    r#"{"sessionId":"{uuid}","uuid":"{uuid}","parentUuid":"{uuid}"}"#,
    "commit {h40}",
    "{h64}  target/app.tar.gz",
    "sha256:{h64}",
    "toolu_01{a22}",
    "msg_01{a22}",
    "req_011{a21}",
    r#"{"type":"tool_use","id":"toolu_01{a22}","name":"Read"}"#,
    r#"{"type":"thinking","thinking":"","signature":"E{b400}=="}"#,
    r#""integrity": "sha512-{b86}==""#,
    r#"checksum = "{h64}""#,
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} mira@host",
    "-----BEGIN CERTIFICATE-----\n{b64}\n{b30}\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n{b64}\n-----END PUBLIC KEY-----",
    "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSU{b60}",
    "data:image/png;base64,iVBORw0KGgo{b200}=",
    "pk_live_{a24}",
    "phc_{a43}",
    "arn:aws:iam::123456789012:role/app",
    "write to mira@a.org or to a.b+c@d.org",
    "registry.a.org/team/app@sha256:{h64}",
    "https://a.org:8443/x/{uuid}?page={d8}",
    "https://user@a.org/path and http://a.org:8080/x@y",
    "max_tokens: {d8}, input_tokens={d9} cache_read_input_tokens={d10}",
    "tokens: 1,234,567 of 200000",
    "let token = self.next_token(12345);",
    "fn token(&self) -> Option<Token2>",
    r#"tokenizer = "cl100k_base""#,
    r#"token_type="bearer2_token" secretName: app-tls-2"#,
    "password = getpass.getpass()",
    r#"password: SecretStr = newPassword, "password": "PasswordField""#,
    "passwordEncoder: BCryptPasswordEncoder, token: XMLHttpRequestToken",
    "password: process.env.DB_PASSWORD_1",
    "PASSWORD=$DB_PASSWORD_1 psql",
    "DB_PASSWORD=${DB_PASSWORD:-} API_TOKEN=<your-token-1234>",
    "POSTGRES_PASSWORD_FILE=/run/secrets/db_password_1",
    "Authorization: Bearer $TOKEN",
    "curl -u $USER:$PASSWORD https://a.org",
    "postgres://user:${PASSWORD}@a.org/db",
    "mysql -u root -p app",
    "mysql --protocol=tcp --port 3306",
    "docker run -p 8080:80 --user 1000:1000 app",
    "mkdir -p build/deep && login -f root",
    "AKIAIOSFODNN7EXAMPLE",
    "the prefixes ghp_, sk-ant-, AKIA and xoxb- are public",
    "password must have 12-16 characters and a token",
    "annals-0.1.0-x86_64-unknown-linux-gnu.tar.gz",
    "2026-11-16T19:22:37.123Z",
    "etag: W/\"{h32}\"",
    "key: {uuid} cache_key={h40} partition_key={h16}",
    "public_key = \"{b43}=\"",
    "C:\\new\\tokens\\readme.txt",
    "color: #{h6}; --token-size: 12px",
    "npm_config_registry hf_hub_download pypi-server sk-learn-style-name",
    "glpat-short AKIA1234 xoxb- eyJhbGciOiJIUzI1NiJ9",
    "base64 of text: VGhpcyBpcyBqdXN0IGEgc2VudGVuY2UgdGhhdCB3YXMgZW5jb2RlZC4=",
];

/// Seeded random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn pick(&mut self, alphabet: &str) -> char {
        let at = self.next() as usize % alphabet.len();
        char::from(alphabet.as_bytes()[at])
    }

    fn word(&mut self, alphabet: &str, len: usize) -> String {
        (0..len).map(|_| self.pick(alphabet)).collect()
    }

    /// Fills a shape. Returns the text and its random parts. Classes: `a` letters and digits, `l`
    /// and `u` the same in one case, `W` small letters, `h` hexadecimal, `d` digits, `w` letters,
    /// digits, `_` and `-`, `b` base64, `2` base32.
    pub(crate) fn fill(&mut self, shape: &str) -> (String, Vec<String>) {
        const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
        const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const DIGITS: &str = "0123456789";
        let mut text = String::new();
        let mut parts = Vec::new();
        let mut rest = shape;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let hole = after.split_once('}').filter(|(hole, _)| is_hole(hole));
            let Some((hole, after)) = hole else {
                text.push('{');
                rest = after;
                continue;
            };
            let len = hole.get(1..).and_then(|len| len.parse().ok()).unwrap_or(0);
            let part = match hole {
                // Keeps secret scanners from reporting this file.
                "x" => String::new(),
                "uuid" => {
                    let hex = self.word("0123456789abcdef", 30);
                    let (a, b, c, d) = (&hex[..8], &hex[8..12], &hex[12..15], &hex[15..18]);
                    format!("{a}-{b}-4{c}-9{d}-{}", &hex[18..])
                }
                // Passwords chosen by people, and words.
                "P" => {
                    let word = self.word(LOWER, 5) + &self.word(UPPER, 2);
                    format!("{word}{}{}", self.word(DIGITS, 2), self.word("!+@.-", 1))
                }
                "W" => self.word(LOWER, 9),
                "pair" => base64(&format!(
                    "mira:{}",
                    self.word(LOWER, 12) + &self.word(DIGITS, 2)
                )),
                "key64" => {
                    let key = self.word(LOWER, 60);
                    base64(&format!("-----BEGIN RSA {}-----\n{key}\n", "PRIVATE KEY"))
                }
                _ => {
                    let alphabet = match &hole[..1] {
                        "a" => format!("{LOWER}{UPPER}{DIGITS}"),
                        "l" => format!("{LOWER}{DIGITS}"),
                        "W" => LOWER.to_owned(),
                        "M" => format!("{LOWER}{UPPER}"),
                        "u" => format!("{UPPER}{DIGITS}"),
                        "h" => format!("{DIGITS}abcdef"),
                        "d" => DIGITS.to_owned(),
                        "w" => format!("{LOWER}{UPPER}{DIGITS}_-"),
                        "b" => format!("{LOWER}{UPPER}{DIGITS}+/"),
                        _ => format!("{UPPER}234567"),
                    };
                    self.word(&alphabet, len)
                }
            };
            text.push_str(&part);
            parts.push(part);
            rest = after;
        }
        text.push_str(rest);
        (text, parts)
    }
}

fn is_hole(hole: &str) -> bool {
    let counted = |hole: &str| {
        let class = hole.starts_with(['a', 'l', 'W', 'M', 'u', 'h', 'd', 'w', 'b', '2']);
        class && hole.len() > 1 && hole[1..].bytes().all(|byte| byte.is_ascii_digit())
    };
    ["x", "uuid", "P", "W", "pair", "key64"].contains(&hole) || counted(hole)
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}
