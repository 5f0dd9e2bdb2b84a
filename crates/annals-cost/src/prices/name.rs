//! Simplification of model names.
//!
//! Resellers add prefixes to a model's name; clouds and clients add versions, dates and modes as
//! suffixes. Parts that do not affect the price are removed one by one until the list has the name.
//! Nothing is guessed: a similar name is another model.

/// Removes parts of a name step by step.
#[derive(Clone, Debug)]
pub(super) struct NameSimplifier {
    name: String,
    /// True if a date was removed; the suffix `-preview` before it may be removed too.
    dated: bool,
    reordered: bool,
    /// Number of steps left.
    left: usize,
}

/// Maximum length of a model name in bytes, including all prefixes and suffixes.
///
/// Logs may contain anything as a model name, and each step reads the rest of it.
pub(super) const MAX_NAME_LEN: usize = 200;

/// Maximum number of steps.
const STEPS: usize = 16;

/// Suffix by which clients select the window of a million tokens.
pub(super) const LONG_CONTEXT_SUFFIX: &str = "[1m]";

/// Programs, resellers and vendors whose names precede a slash. Prices are the vendor's own;
/// resellers with their own prices are not listed.
const PATHS: &[&str] = &[
    "openrouter",
    "litellm_proxy",
    "litellm",
    "vercel_ai_gateway",
    "vercel",
    "bedrock_converse",
    "bedrock",
    "converse",
    "amazon-bedrock",
    "vertex_ai",
    "vertex",
    "google-vertex",
    "google-vertex-anthropic",
    "azure_ai",
    "azure",
    "github_copilot",
    "github-copilot",
    "models",
    "anthropic",
    "openai",
    "google",
    "gemini",
    "x-ai",
    "xai",
    "deepseek",
    "mistralai",
    "mistral",
    "moonshotai",
    "moonshot",
    "z-ai",
    "zai",
    "zai-org",
    "minimax",
    "cohere",
    "perplexity",
    "meta-llama",
    "meta",
    "qwen",
    "alibaba",
    "amazon",
    "nvidia",
    "microsoft",
    "xiaomi",
    "tencent",
    "stepfun",
    "bytedance-seed",
    "inception",
];

/// Vendors whose names precede a dot in a cloud's model names.
const DOTTED: &[&str] = &[
    "anthropic.",
    "amazon.",
    "openai.",
    "meta.",
    "mistral.",
    "cohere.",
    "deepseek.",
    "qwen.",
    "moonshot.",
    "minimax.",
    "zai.",
    "google.",
    "nvidia.",
];

/// Regions of a cloud.
const REGIONS: &[&str] = &[
    "us.", "eu.", "apac.", "global.", "us-gov.", "jp.", "au.", "ca.", "sa.", "me.", "af.",
];

/// Modes that do not change the price of a token. A `:free` model is a different model.
const MODES: &[&str] = &[LONG_CONTEXT_SUFFIX, ":thinking", ":beta"];

impl NameSimplifier {
    /// Returns `None` if the name is too long for a model.
    pub(super) fn new(asked: &str) -> Option<Self> {
        (asked.len() <= MAX_NAME_LEN).then(|| NameSimplifier {
            name: asked.trim().to_ascii_lowercase(),
            dated: false,
            reordered: false,
            left: STEPS,
        })
    }

    /// Returns the current name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Simplifies the name by one step and describes it; `None` if no step is left.
    pub(super) fn step(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let name = self.name.as_str();
        if let Some(rest) = without_front(name) {
            let front = name.strip_suffix(rest).unwrap_or_default();
            let step = format!("prefix `{front}` removed");
            self.name = rest.to_owned();
            return Some(step);
        }
        if let Some(rest) = without_end(name, self.dated) {
            let end = name.strip_prefix(rest).unwrap_or_default();
            let step = format!("suffix `{end}` removed");
            self.dated = end.len() > 3 && end.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            self.name = rest.to_owned();
            return Some(step);
        }
        if !self.reordered
            && let Some(turned) = reordered(name)
        {
            let step = format!("words reordered: `{turned}`");
            self.reordered = true;
            self.name = turned;
            return Some(step);
        }
        None
    }
}

/// Returns the name without a path, region or vendor prefix.
fn without_front(name: &str) -> Option<&str> {
    // `publishers/google/models/NAME`, with the project before it or not.
    if name.starts_with("publishers/") || name.starts_with("projects/") {
        return name.rsplit_once("/models/").map(|(_, rest)| rest);
    }
    if name.starts_with("arn:aws") && name.contains(":bedrock:") {
        return name.rsplit_once('/').map(|(_, rest)| rest);
    }
    let path = PATHS.iter().find_map(|path| {
        let rest = name.strip_prefix(path)?;
        rest.strip_prefix('/')
    });
    let dotted = |name: &&str| DOTTED.iter().any(|vendor| name.starts_with(vendor));
    let region = REGIONS.iter().find_map(|region| name.strip_prefix(region));
    let vendor = DOTTED.iter().find_map(|vendor| name.strip_prefix(vendor));
    let rest = path.or(region.filter(dotted)).or(vendor)?;
    Some(rest).filter(|rest| !rest.is_empty())
}

/// Returns the name without a mode, version or date suffix.
fn without_end(name: &str, dated: bool) -> Option<&str> {
    let mode = MODES.iter().find_map(|mode| name.strip_suffix(mode));
    let rest = mode
        .or_else(|| without_at(name))
        .or_else(|| without_version(name))
        .or_else(|| name.strip_suffix("-latest"))
        .or_else(|| without_day(name))
        .or_else(|| name.strip_suffix("-preview").filter(|_| dated))
        .or_else(|| {
            let claude = name.starts_with("claude-");
            name.strip_suffix("-thinking").filter(|_| claude)
        });
    rest.filter(|rest| !rest.is_empty())
}

/// `NAME@20250929`
fn without_at(name: &str) -> Option<&str> {
    let (rest, version) = name.rsplit_once('@')?;
    let day = version.len() == 8 && digits(version);
    (day || version == "latest" || version == "default").then_some(rest)
}

/// `NAME-v1:0`, and `NAME-v1` of the models that have such versions.
fn without_version(name: &str) -> Option<&str> {
    let (rest, version) = name.rsplit_once("-v")?;
    let mut parts = version.split(':');
    let major = parts.next().is_some_and(digits);
    let minor = parts.next();
    let fine = major && minor.is_none_or(digits);
    // A context window may follow: `:200k`.
    let window = parts
        .next()
        .is_none_or(|window| window.strip_suffix('k').is_some_and(digits));
    let versioned = ["claude-", "nova-"]
        .iter()
        .any(|kind| rest.starts_with(kind));
    (fine && window && parts.next().is_none() && (minor.is_some() || versioned)).then_some(rest)
}

/// `NAME-20250929`, `NAME-2024-08-06`, `NAME-001`, `NAME-preview-05-06`
fn without_day(name: &str) -> Option<&str> {
    let cut = |len: usize| {
        let at = name.len().checked_sub(len)?;
        let rest = name.get(..at)?;
        Some((rest, name.get(at..)?.strip_prefix('-')?))
    };
    let whole =
        |(rest, day): (&'_ str, &str)| (digits(day) && day.starts_with("20")).then_some(rest.len());
    let split = |(rest, day): (&'_ str, &str)| {
        let mut parts = day.split('-');
        let mut part = |len| parts.next().is_some_and(|p| p.len() == len && digits(p));
        (part(4) && part(2) && part(2) && day.starts_with("20")).then_some(rest.len())
    };
    let counted =
        |(rest, n): (&'_ str, &str)| (digits(n) && n.starts_with("00")).then_some(rest.len());
    let preview = |(rest, day): (&'_ str, &str)| {
        let mut parts = day.split('-');
        let mut part = |lens: &[usize]| {
            parts
                .next()
                .is_some_and(|p| lens.contains(&p.len()) && digits(p))
        };
        let day = part(&[2]) && part(&[2, 4]);
        (day && rest.ends_with("-preview")).then_some(rest.len())
    };
    let len = cut(9)
        .and_then(whole)
        .or_else(|| cut(11).and_then(split))
        .or_else(|| cut(4).and_then(counted))
        .or_else(|| cut(6).and_then(preview))
        .or_else(|| cut(8).and_then(preview))?;
    name.get(..len)
}

/// `claude-4-5-sonnet` as `claude-sonnet-4-5`, and vice versa.
fn reordered(name: &str) -> Option<String> {
    let rest = name.strip_prefix("claude-")?;
    let version = |text: &str| {
        text.split(['-', '.'])
            .all(|part| part.len() < 3 && digits(part))
    };
    let family = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase());
    let (front, last) = rest.rsplit_once('-')?;
    if version(front) && family(last) {
        return Some(format!("claude-{last}-{front}"));
    }
    let (first, back) = rest.split_once('-')?;
    (family(first) && version(back)).then(|| format!("claude-{back}-{first}"))
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
