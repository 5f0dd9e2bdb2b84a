//! Rules for issued secrets: keys and tokens with a shape of their own.
//!
//! The shapes are the ones that issuers document and that secret scanners agree on. Secrets that
//! are recognized by their context are in `context.rs`. Patterns are matched against text without
//! escapes (`unescape.rs`), so no pattern contains them.

use super::check::{is_key_in_base64, is_literal, is_not_example, looks_random, private_key_end};

/// Rule for one kind of secret.
#[derive(Debug)]
pub(super) struct Rule {
    /// Name in masks and summaries.
    pub(super) name: &'static str,
    /// Number of leading characters that are public and stay readable.
    pub(super) keep: usize,
    /// Literals in lower case. A text without any of them is not searched.
    pub(super) hints: &'static [&'static str],
    /// Regular expression; its first group is the secret. `\b` is the ASCII word boundary; at the
    /// start, an underscore counts too. A prefix that no word ends with needs none: `ghp_`,
    /// `glpat-`.
    pub(super) pattern: &'static str,
    /// Returns whether a match is a secret. Takes the secret and the matched text before it.
    pub(super) holds: fn(secret: &str, before: &str) -> bool,
    /// Finds the end of the secret, if the pattern matches only its start. Takes the text from
    /// there on.
    pub(super) end: Option<fn(rest: &str) -> usize>,
}

/// Returns a rule whose shape is sufficient.
pub(super) const fn shape(
    name: &'static str,
    keep: usize,
    hints: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    checked(name, keep, hints, |_, _| true, pattern)
}

/// Returns a rule with a check, because words and identifiers may have the same shape.
pub(super) const fn checked(
    name: &'static str,
    keep: usize,
    hints: &'static [&'static str],
    holds: fn(&str, &str) -> bool,
    pattern: &'static str,
) -> Rule {
    Rule {
        name,
        keep,
        hints,
        pattern,
        holds,
        end: None,
    }
}

/// Keys in blocks of lines. They take precedence over everything inside such a block.
#[rustfmt::skip]
pub(super) static BLOCKS: &[Rule] = &[
    Rule {
        name: "private-key", keep: 0, hints: &["private key"], holds: |_, _| true, end: Some(private_key_end),
        pattern: r"(-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----)",
    },
    shape("private-key", 0, &["private-lines:"], r"Private-Lines: [0-9]{1,4}\r?\n((?:[A-Za-z0-9+/=]{16,}(?:\r?\n)?)+)"),
    // The end of a key whose start is missing.
    shape("private-key", 0, &["private key"], r"(?:^|[^A-Za-z0-9+/=])((?:[A-Za-z0-9+/]{48,76}[ \t]*\r?\n[ \t>+|-]{0,12}){1,}[A-Za-z0-9+/=]{1,76}[ \t]*\r?\n[ \t>+|-]{0,12}-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----)"),
    // As stored in Kubernetes.
    checked("private-key", 0, &["ls0tls1crudjti"], is_key_in_base64, r"(LS0tLS1CRUdJTi[A-Za-z0-9+/_-]{24,}={0,2})"),
    checked("private-key", 0, &["client-key-data", "tls.key", "ssh-privatekey"], is_literal, r#"(?:client-key-data|tls\.key|ssh-privatekey)["']?[ \t]*:[ \t]*["']?([A-Za-z0-9+/_-]{40,}={0,2})"#),
];

/// Tokens. A new one needs a row in this table, in the table of its tests and in the corpus.
#[rustfmt::skip]
pub(super) static TOKENS: &[Rule] = &[
    // Clouds.
    checked("aws-access-key", 4, &["akia", "asia", "abia", "acca"], is_not_example, r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
    checked("aws-secret-key", 0, &["akia", "asia"], looks_random, r#"\bA[KS]IA[A-Z2-7]{16}["']?[ \t]*[,:;|\t ][ \t]*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#),
    shape("aws-bedrock-key", 4, &["absk", "bedrock-api-key-"], r"\b(ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/_-]{20,}={0,2})"),
    shape("alibaba-key", 4, &["ltai"], r"\b(LTAI[A-Za-z0-9]{16,26})\b"),
    shape("aws-session-token", 4, &["fwogzxivyxdz", "iqojb3jpz2lu"], r"\b((?:FwoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/]{100,}={0,2})"),
    shape("tencent-key", 4, &["akid"], r"\b(AKID[A-Za-z0-9]{32})\b"),
    shape("azure-key", 0, &["accountkey="], r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    shape("azure-key", 0, &["sharedaccesskey="], r"SharedAccessKey=([A-Za-z0-9+/]{43}=)"),
    shape("azure-key", 0, &["sig="], r"[?&]sig=([A-Za-z0-9%+/]{40,80}(?:%3[Dd]|=))"),
    shape("azure-key", 0, &["q~"], r"\b([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})"),
    shape("azure-devops-token", 0, &["azdo"], r"\b([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b"),
    shape("google-api-key", 4, &["aiza"], r"\b(AIza[A-Za-z0-9_-]{35})"),
    shape("google-oauth", 4, &["ya29.", "gocspx-"], r"\b(ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28})"),
    shape("google-oauth", 3, &["1//0"], r"(?:^|[^A-Za-z0-9/])(1//0[A-Za-z0-9_-]{40,})"),
    shape("firebase-key", 4, &[":apa91b"], r"\b(AAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{100,})"),
    shape("digitalocean-token", 4, &["doo_v1_", "dop_v1_", "dor_v1_"], r"(do[opr]_v1_[a-f0-9]{64})\b"),
    shape("cloudflare-key", 4, &["v1.0-"], r"\b(v1\.0-[0-9a-f]{24}-[0-9a-f]{100,})"),
    shape("heroku-key", 4, &["hrku-"], r"\b(HRKU-[A-Za-z0-9_-]{36,})"),
    shape("fly-token", 4, &["fm1", "fm2_", "fo1_"], r"\b(fm[12][ar]?_[A-Za-z0-9+/=_,-]{40,}|fo1_[A-Za-z0-9_-]{40,})"),
    shape("vercel-token", 4, &["vcp_", "vck_", "vci_", "vca_", "vcr_", "vercel_blob_rw_"], r"\b(vc[pkiar]_[A-Za-z0-9]{24,}|vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,})"),
    shape("netlify-token", 4, &["nfp_", "nfc_", "nfo_"], r"\b(nf[pco]_[A-Za-z0-9_]{36,})"),
    shape("render-key", 4, &["rnd_"], r"\b(rnd_[A-Za-z0-9]{28,})\b"),
    shape("scalingo-token", 4, &["tk-us-"], r"\b(tk-us-[A-Za-z0-9_-]{48})"),
    shape("yandex-key", 4, &["aqvn", "t1."], r"\b(AQVN[A-Za-z0-9_-]{35,38}|t1\.[A-Za-z0-9_-]{20,}={0,2}\.[A-Za-z0-9_-]{86}={0,2})"),
    shape("openshift-token", 4, &["sha256~"], r"\b(sha256~[A-Za-z0-9_-]{43})"),
    // Code hosts and registries.
    shape("github-token", 4, &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], r"(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})\b"),
    shape("gitlab-token", 4, &["glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-", "gloas-", "glcbt-", "glffct-", "gr1348941"],
        r"((?:glpat|gldt|glrt|glptt|glft|glimt|glagent|glsoat|gloas|glcbt|glffct)-[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}[0-9a-z]{7})?|GR1348941[A-Za-z0-9_-]{20})"),
    shape("bitbucket-token", 4, &["atbb", "bbdc-"], r"\b(ATBB[A-Za-z0-9]{28,}|BBDC-[A-Za-z0-9+/@_-]{40,})"),
    shape("npm-token", 4, &["npm_"], r"(npm_[A-Za-z0-9]{36})\b"),
    shape("pypi-token", 4, &["pypi-"], r"(pypi-[A-Za-z0-9_-]{50,})"),
    shape("rubygems-key", 4, &["rubygems_"], r"(rubygems_[a-f0-9]{48})\b"),
    checked("crates-token", 3, &["cio"], looks_random, r"\b(cio[A-Za-z0-9]{32})\b"),
    checked("nuget-key", 3, &["oy2"], looks_random, r"\b(oy2[a-z0-9]{43})\b"),
    shape("clojars-token", 4, &["clojars_"], r"(CLOJARS_[A-Za-z0-9]{60})\b"),
    shape("docker-token", 4, &["dckr_"], r"(dckr_[po]at_[A-Za-z0-9_-]{20,})"),
    checked("artifactory-key", 4, &["akcp", "cmvmd"], looks_random, r"\b(AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})\b"),
    shape("terraform-token", 0, &[".atlasv1."], r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})"),
    shape("circleci-token", 4, &["ccipat_", "cciprj_"], r"(CCIP(?:AT|RJ)_[A-Za-z0-9]{10,}_[0-9a-f]{40})"),
    shape("buildkite-token", 4, &["bkua_", "bkaj_", "bkct_"], r"\b(bk(?:ua|aj|ct)_[A-Za-z0-9_-]{40,})"),
    shape("sonar-token", 4, &["squ_", "sqp_", "sqa_"], r"\b(sq[upa]_[0-9a-f]{40})\b"),
    shape("snyk-token", 4, &["snyk_"], r"\b(snyk_[a-z]{2,4}\.[A-Za-z0-9._-]{30,})"),
    shape("sourcegraph-token", 4, &["sgp_"], r"\b(sgp_(?:(?:[a-f0-9]{16}|local)_)?[a-f0-9]{40})\b"),
    shape("octopus-key", 4, &["api-"], r"\b(API-[A-Z0-9]{26})\b"),
    shape("harness-key", 4, &["pat.", "sat."], r"\b([ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20})\b"),
    shape("postman-key", 4, &["pmak-"], r"\b(PMAK-[0-9a-fA-F]{24}-[0-9a-fA-F]{34})\b"),
    shape("readme-key", 4, &["rdme_"], r"\b(rdme_[a-z0-9]{70})\b"),
    // Models.
    shape("anthropic-key", 3, &["sk-ant-"], r"(sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{20,})"),
    shape("openai-key", 3, &["sk-"], r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,})"),
    checked("openrouter-key", 3, &["sk-or-"], looks_random, r"\b(sk-or-(?:v1-)?[A-Za-z0-9]{32,})"),
    shape("langfuse-key", 3, &["sk-lf-"], r"\b(sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
    shape("groq-key", 4, &["gsk_"], r"(gsk_[A-Za-z0-9]{40,})"),
    shape("xai-key", 4, &["xai-"], r"\b(xai-[A-Za-z0-9]{40,})"),
    shape("perplexity-key", 4, &["pplx-"], r"(pplx-[A-Za-z0-9]{40,})"),
    shape("replicate-token", 3, &["r8_"], r"\b(r8_[A-Za-z0-9]{37,40})\b"),
    shape("huggingface-token", 3, &["hf_", "api_org_"], r"\b(hf_[A-Za-z0-9]{30,40}|api_org_[A-Za-z]{34})\b"),
    shape("nvidia-key", 4, &["nvapi-"], r"(nvapi-[A-Za-z0-9_-]{60,})"),
    shape("cerebras-key", 4, &["csk-"], r"\b(csk-[a-z0-9]{40,})\b"),
    shape("fireworks-key", 3, &["fw_"], r"\b(fw_[A-Za-z0-9]{22,24})\b"),
    shape("langsmith-key", 4, &["lsv2_"], r"(lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10})\b"),
    shape("elevenlabs-key", 3, &["sk_"], r"\b(sk_[0-9a-f]{48})\b"),
    shape("pinecone-key", 4, &["pcsk_"], r"\b(pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,})"),
    shape("tavily-key", 4, &["tvly-"], r"\b(tvly-(?:dev-|prod-)?[A-Za-z0-9]{30,})\b"),
    shape("firecrawl-key", 3, &["fc-"], r"\b(fc-[0-9a-f]{32})\b"),
    shape("context7-key", 4, &["ctx7sk-"], r"(ctx7sk-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
    checked("jina-key", 4, &["jina_"], looks_random, r"\b(jina_[A-Za-z0-9_-]{50,})"),
    shape("wandb-key", 4, &["wandb_v1_"], r"(wandb_v1_[A-Za-z0-9_]{60,})"),
    checked("runpod-key", 4, &["rpa_"], looks_random, r"\b(rpa_[A-Za-z0-9]{40,})\b"),
    shape("together-key", 4, &["tgp_v1_"], r"(tgp_v1_[A-Za-z0-9_-]{40,})"),
    shape("apify-token", 4, &["apify_api_"], r"(apify_api_[A-Za-z0-9]{34,40})\b"),
    shape("e2b-key", 4, &["e2b_"], r"\b(e2b_[0-9a-f]{40})\b"),
    // Messages and mail.
    shape("slack-token", 4, &["xox", "xapp-"], r"\b(xoxe\.xox[bp]-[0-9]-[A-Za-z0-9]{20,}|xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})"),
    shape("slack-webhook", 0, &["hooks.slack.com"], r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,})"),
    shape("teams-webhook", 0, &["webhook.office.com"], r"webhook\.office\.com/webhookb2/([0-9a-f@-]{36,73}/IncomingWebhook/[0-9a-zA-Z]{32}/[0-9a-f-]{36})"),
    // The number before it is the bot's public id.
    shape("telegram-token", 0, &[":aa"], r"[0-9]:(AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)"),
    shape("discord-webhook", 0, &["/webhooks/"], r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{50,})"),
    checked("discord-token", 0, &["discord"], looks_random, r"\b([MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})(?:[^A-Za-z0-9_.-]|$)"),
    // The first part is a number in base64, and such numbers begin with 1 today.
    shape("discord-token", 0, &["mt"], r"\b(MT[AEIMQUYcgk][0-5w-z](?:[MNO][DTjz][AEIMQUYcgk][0-5w-z]){5}[A-Za-z0-9]{0,2}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})(?:[^A-Za-z0-9_.-]|$)"),
    checked("resend-key", 3, &["re_"], looks_random, r"\b(re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24})\b"),
    shape("twitter-token", 4, &["aaaaaaaaaaaaaaaaaaaaa"], r"\b(A{21}[A-Za-z0-9%]{25,}%3D[A-Za-z0-9%]{40,})"),
    shape("sendgrid-key", 3, &["sg."], r"\b(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})"),
    shape("twilio-key", 2, &["sk"], r"\b(SK[0-9a-f]{32})\b"),
    shape("mailgun-key", 4, &["key-"], r"\b(key-[0-9a-f]{32})\b"),
    shape("mailchimp-key", 0, &["-us"], r"\b([0-9a-f]{32}-us[0-9]{1,2})\b"),
    shape("brevo-key", 4, &["xkeysib-", "xsmtpsib-"], r"(x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16})\b"),
    // Money and shops.
    shape("stripe-key", 4, &["sk_", "rk_", "whsec_"], r"\b((?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{32,})"),
    shape("square-token", 4, &["sq0"], r"\b(sq0[a-z]{3}-[A-Za-z0-9_-]{22,})"),
    shape("square-token", 4, &["eaaa"], r"(?:^|[^A-Za-z0-9_+/-]|[\r\n][+-])(EAAA[A-Za-z0-9_-]{60})(?:[^A-Za-z0-9_+/=-]|$)"),
    shape("shopify-token", 4, &["shpat_", "shpca_", "shppa_", "shpss_", "shpua_"], r"(shp(?:at|ca|pa|ss|ua)_[A-Fa-f0-9]{32})\b"),
    shape("paypal-token", 0, &["access_token$"], r"\b(access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32})\b"),
    shape("plaid-token", 0, &["access-sandbox-", "access-development-", "access-production-"], r"\b(access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
    shape("flutterwave-key", 4, &["flwseck"], r"\b(FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,32}(?:-X)?)\b"),
    shape("duffel-token", 4, &["duffel_"], r"\b(duffel_(?:test|live)_[A-Za-z0-9_=-]{43})"),
    shape("easypost-key", 4, &["ezak", "eztk"], r"\b(EZ[AT]K[A-Za-z0-9]{54})\b"),
    shape("shippo-token", 4, &["shippo_"], r"\b(shippo_(?:live|test)_[a-fA-F0-9]{40})\b"),
    // Teams and content.
    shape("atlassian-token", 4, &["atatt3x", "atctt3x"], r"(AT(?:ATT|CTT)3x[A-Za-z0-9_=-]{50,})"),
    shape("linear-key", 4, &["lin_"], r"(lin_(?:api|oauth)_[A-Za-z0-9]{32,})"),
    shape("notion-token", 4, &["secret_", "ntn_"], r"\b(secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,})\b"),
    shape("airtable-token", 3, &["pat"], r"\b(pat[A-Za-z0-9]{14}\.[a-f0-9]{64})\b"),
    shape("asana-token", 0, &["/1"], r"\b([0-2]/1[0-9]{15}(?:/[0-9]{16})?:[0-9a-f]{32})\b"),
    shape("clickup-token", 3, &["pk_"], r"\b(pk_[0-9]{6,10}_[A-Z0-9]{32})\b"),
    shape("contentful-token", 4, &["cfpat-"], r"\b(CFPAT-[A-Za-z0-9_-]{43})"),
    shape("figma-token", 4, &["figd_", "figo_"], r"\b(fig[do]_[A-Za-z0-9_-]{36,})"),
    shape("hubspot-token", 4, &["pat-na", "pat-eu"], r"\b(pat-(?:na|eu)[0-9]-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\b"),
    shape("typeform-token", 4, &["tfp_"], r"\b(tfp_[A-Za-z0-9_.=-]{40,60})"),
    shape("frameio-token", 4, &["fio-u-"], r"\b(fio-u-[A-Za-z0-9_=-]{64})"),
    shape("dropbox-token", 3, &["sl."], r"\b(sl\.(?:u\.)?[A-Za-z0-9_=-]{130,})"),
    shape("facebook-token", 4, &["eaa"], r"\b(EAA[A-Z][A-Za-z0-9]{100,})\b"),
    shape("mapbox-token", 3, &["sk.ey"], r"\b(sk\.ey[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,})"),
    shape("adobe-secret", 4, &["p8e-"], r"\b(p8e-[A-Za-z0-9_-]{32})"),
    // Data and operations.
    shape("databricks-token", 4, &["dapi"], r"\b(dapi[0-9a-f]{32}(?:-[0-9])?)\b"),
    shape("planetscale-token", 4, &["pscale_"], r"(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,})"),
    shape("supabase-token", 3, &["sbp_", "sb_secret_"], r"(sbp_(?:v0_)?[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    shape("neon-key", 4, &["napi_"], r"\b(napi_[a-z0-9]{40,})\b"),
    shape("mongodb-key", 4, &["mdb_sa_sk_"], r"(mdb_sa_sk_[A-Za-z0-9_-]{30,})"),
    checked("clickhouse-key", 4, &["4b1d"], |text, _| text.bytes().any(|byte| byte.is_ascii_uppercase()), r"\b(4b1d[A-Za-z0-9]{38})\b"),
    shape("maxmind-key", 0, &["_mmk"], r"\b([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)\b"),
    shape("sentry-token", 4, &["sntrys_", "sntryu_"], r"(sntry[su]_[A-Za-z0-9+/=_-]{40,})"),
    shape("grafana-token", 4, &["glsa_", "glc_", "eyjrijoi"], r"\b(glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,}|eyJrIjoi[A-Za-z0-9]{60,}={0,2})"),
    shape("newrelic-key", 4, &["nrak-", "nrii-", "nrjs-"], r"\b(NR(?:AK-[A-Z0-9]{27}|II-[A-Za-z0-9_-]{32}|JS-[a-f0-9]{19}))\b"),
    shape("dynatrace-token", 4, &["dt0"], r"\b(dt0[a-z][0-9]{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64})\b"),
    shape("datadog-key", 4, &["ddapp_", "ddpat_", "ddsat_"], r"\b(ddapp_[A-Za-z0-9]{34}|dd[ps]at_[A-Za-z0-9]{8,}_[A-Za-z0-9]{16,})\b"),
    shape("rootly-key", 4, &["rootly_"], r"\b(rootly_[0-9a-f]{64})\b"),
    shape("adafruit-key", 4, &["aio_"], r"\b(aio_[A-Za-z0-9]{28})\b"),
    shape("swarm-token", 4, &["swmtkn-1-"], r"(SWMTKN-1-[a-z0-9]{49,50}-[a-z0-9]{24,25})\b"),
    shape("honeycomb-key", 4, &["hcaik_", "hcbik_", "hcxik_"], r"\b(hc[abx]ik_[a-z0-9]{58})\b"),
    shape("posthog-key", 4, &["phx_", "phs_"], r"\b(ph[xs]_[A-Za-z0-9]{40,})\b"),
    shape("launchdarkly-key", 4, &["sdk-", "mob-", "api-"], r"\b((?:sdk|mob|api)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})\b"),
    shape("prefect-key", 4, &["pnu_", "pnb_"], r"\b(pn[ub]_[A-Za-z0-9]{36})\b"),
    shape("infracost-key", 4, &["ico-"], r"\b(ico-[A-Za-z0-9]{32})\b"),
    shape("wakatime-key", 4, &["waka_"], r"\b(waka_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
    shape("pulumi-token", 4, &["pul-"], r"\b(pul-[0-9a-f]{40})\b"),
    shape("tailscale-key", 4, &["tskey-"], r"(tskey-[a-z]{3,8}-[A-Za-z0-9]{8,}(?:-[A-Za-z0-9]{8,})?)"),
    shape("defined-key", 4, &["dnkey-"], r"\b(dnkey-[A-Za-z0-9_=-]{26}-[A-Za-z0-9_=-]{52})"),
    // Vaults and identities.
    shape("age-key", 4, &["age-secret-key-1"], r"(AGE-SECRET-KEY-1[A-Z0-9]{50,})"),
    checked("vault-token", 4, &["hvs.", "hvb.", "hvr."], looks_random, r"\b(hv[sbr]\.[A-Za-z0-9_-]{20,})"),
    shape("doppler-token", 3, &["dp."], r"\b(dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,})"),
    shape("onepassword-key", 3, &["a3-", "ops_ey"], r"\b(A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}|ops_ey[A-Za-z0-9+/]{200,}={0,2})"),
    shape("authress-key", 3, &[".acc_", ".acc-"], r"\b((?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120})"),
    shape("intra42-secret", 4, &["s-s4t2"], r"\b(s-s4t2(?:ud|af)-[0-9a-f]{64})\b"),
    shape("settlemint-token", 4, &["sm_aat_", "sm_pat_", "sm_sat_"], r"\b(sm_[aps]at_[A-Za-z0-9]{16})\b"),
    shape("jwt", 3, &["ey"], r"\b(ey[A-Za-z0-9_-]{15,}\.ey[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,})"),
    shape("paseto", 3, &[".local.", ".public."], r"\b(v[1-4]\.(?:local|public)\.[A-Za-z0-9_-]{40,}(?:\.[A-Za-z0-9_-]+)?)"),
    // Password hashes, as in /etc/shadow and htpasswd files.
    shape("password-hash", 0, &["$1$", "$apr1$"], r"(\$(?:1|apr1)\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22})"),
    shape("password-hash", 0, &["$5$", "$6$"], r"(\$[56]\$(?:rounds=[0-9]{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43,86})"),
    shape("password-hash", 0, &["$y$", "$gy$", "$7$"], r"(\$(?:g?y|7)\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43})"),
    shape("password-hash", 0, &["$2a$", "$2b$", "$2x$", "$2y$"], r"(\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53})"),
    shape("password-hash", 0, &["$argon2"], r"(\$argon2(?:id|i|d)\$(?:v=[0-9]{1,3}\$)?m=[0-9]{1,9},t=[0-9]{1,6},p=[0-9]{1,4}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,})"),
    // A token inside base64, as in `.dockerconfigjson`.
    checked("jwt", 3, &["zxlk"], is_literal, r"\b(ZXlK[A-Za-z0-9+/]{80,}={0,2})"),
];
