use super::*;
use annals_layouts::model::{BillingTerms, Usage};

fn charge(model: &str, usage: Usage) -> Charge {
    let mut charge = Charge::new(0);
    charge.source_mut().model = Some(model.into());
    charge.usage = usage;
    charge
}

fn tokens(input: u64, output: u64, written: u64, read: u64) -> Usage {
    Usage {
        input,
        output,
        cache_write_5m: written,
        cache_read: read,
        ..Usage::default()
    }
}

/// Returns the exact cost of a charge in dollars.
fn dollars(prices: &Prices, charge: &Charge) -> String {
    let cost = prices.cost(charge, PriceMode::Auto);
    cost.map_or("unpriced".to_owned(), |money| money.to_string())
}

/// Returns the charge at another time and service tier.
fn at_time(charge: &Charge, time: &str, pace: ServiceTier) -> Charge {
    let mut charge = charge.clone();
    charge.time = Some(time.parse().unwrap());
    charge.source_mut().terms.tier = pace;
    charge
}

#[test]
fn costs_match_design_examples() {
    let prices = Prices::built_in();
    let sonnet = "claude-sonnet-4-5-20250929";
    let example = prices.cost(
        &charge(sonnet, tokens(15_000, 2_150, 8_000, 0)),
        PriceMode::Auto,
    );
    assert_eq!(example.unwrap().to_string(), "0.10725");
    assert_eq!(example.unwrap().rounded(2), "0.11");
    let hundred = (0..100).map(|_| charge(sonnet, tokens(1_000, 50, 0, 0)));
    let sum: Money = hundred
        .filter_map(|one| prices.cost(&one, PriceMode::Auto))
        .sum();
    assert_eq!(sum.to_string(), "0.375");
}

#[test]
fn built_in_prices_match_design_table() {
    let prices = Prices::built_in();
    for (model, row) in [
        (
            "claude-sonnet-4-5-20250929",
            ["3", "15", "3.75", "6", "0.3"],
        ),
        (
            "claude-opus-4-1-20250805",
            ["15", "75", "18.75", "30", "1.5"],
        ),
        ("claude-opus-4-5-20251101", ["5", "25", "6.25", "10", "0.5"]),
        ("claude-haiku-4-5-20251001", ["1", "5", "1.25", "2", "0.1"]),
    ] {
        let found = prices.find(model).unwrap();
        let listed = found.row(None, ServiceTier::Standard, 0).unwrap();
        let columns = [
            PriceColumn::Input,
            PriceColumn::Output,
            PriceColumn::CacheWrite5m,
            PriceColumn::CacheWrite1h,
            PriceColumn::CacheRead,
        ];
        assert_eq!(columns.map(|column| listed.field(column)), row, "{model}");
        let million = |usage| dollars(&prices, &charge(model, usage));
        // A million of each, in pieces that are below the long-context limit.
        let piece = |usage: Usage| -> Money {
            let cost = prices
                .cost(&charge(model, usage), PriceMode::Tokens)
                .unwrap();
            cost * 10
        };
        assert_eq!(million(tokens(0, 1_000_000, 0, 0)), row[1]);
        assert_eq!(piece(tokens(100_000, 0, 0, 0)).to_string(), row[0]);
        assert_eq!(piece(tokens(0, 0, 100_000, 0)).to_string(), row[2]);
        let hour = Usage {
            cache_write_1h: 100_000,
            ..Usage::default()
        };
        assert_eq!(piece(hour).to_string(), row[3]);
        assert_eq!(piece(tokens(0, 0, 0, 100_000)).to_string(), row[4]);
    }
}

#[test]
fn price_applies_from_its_first_day() {
    let prices = Prices::built_in();
    let haiku = charge("claude-3-5-haiku-20241022", tokens(1_000, 0, 0, 0));
    let at = |time| dollars(&prices, &at_time(&haiku, time, ServiceTier::Standard));
    assert_eq!(at("2024-12-02T23:59:59.999Z"), "0.001");
    assert_eq!(at("2024-12-03T00:00:00Z"), "0.0008");
    assert_eq!(at("1960-01-01T00:00:00Z"), "0.001");
    assert_eq!(dollars(&prices, &haiku), "0.0008");
    // The newer day has one price for all contexts, so the older long-context price no longer
    // applies.
    let opus = charge("claude-opus-4-6", tokens(200_001, 0, 0, 0));
    let at = |time| dollars(&prices, &at_time(&opus, time, ServiceTier::Standard));
    assert_eq!(at("2026-03-12T00:00:00Z"), "2.00001");
    assert_eq!(at("2026-03-13T00:00:00Z"), "1.000005");
}

#[test]
fn long_context_price_applies_to_all_tokens() {
    let prices = Prices::built_in();
    let sonnet = |usage| dollars(&prices, &charge("claude-sonnet-4-5", usage));
    // 200,000 is not above 200,000; cached tokens count as context, output does not.
    assert_eq!(sonnet(tokens(200_000, 1_000, 0, 0)), "0.615");
    assert_eq!(sonnet(tokens(1, 1_000, 100_000, 100_000)), "0.832506");
    assert_eq!(sonnet(tokens(0, 300_000, 0, 0)), "4.5");
}

#[test]
fn tier_uses_its_price_or_the_standard_one() {
    let prices = Prices::built_in();
    let opus = charge("claude-opus-4-8", tokens(1_000, 1_000, 0, 0));
    let at = |pace| dollars(&prices, &at_time(&opus, "2026-11-01T00:00:00Z", pace));
    assert_eq!(at(ServiceTier::Standard), "0.03");
    assert_eq!(at(ServiceTier::Batch), "0.015");
    assert_eq!(at(ServiceTier::Fast), "0.06");
    assert_eq!(at(ServiceTier::Flex), "0.03");
    // A tier with a flat price does not use the long-context price of the standard tier.
    let long = charge("gpt-5.4", tokens(300_000, 0, 0, 0));
    let at = |pace| dollars(&prices, &at_time(&long, "2026-11-01T00:00:00Z", pace));
    assert_eq!(at(ServiceTier::Standard), "1.5");
    assert_eq!(at(ServiceTier::Priority), "1.5");
    assert_eq!(at(ServiceTier::Flex), "0.75");
}

#[test]
fn web_searches_and_us_only_cost_extra() {
    let prices = Prices::built_in();
    let mut usage = tokens(1_000, 0, 0, 0);
    usage.web_searches = 3;
    let mut opus = charge("claude-opus-4-6", usage);
    opus.time = Some("2026-11-01T00:00:00Z".parse().unwrap());
    assert_eq!(dollars(&prices, &opus), "0.035");
    opus.source_mut().terms = BillingTerms {
        us_only: true,
        ..BillingTerms::default()
    };
    assert_eq!(dollars(&prices, &opus), "0.0355");
    opus.source_mut().model = Some("claude-sonnet-4-5".into());
    assert_eq!(dollars(&prices, &opus), "0.033");
}

#[test]
fn price_mode_chooses_between_tokens_and_recorded_cost() {
    let prices = Prices::built_in();
    let recorded = Money::parse("0.5");
    let all = |charge: &Charge| {
        [PriceMode::Auto, PriceMode::Tokens, PriceMode::Recorded].map(|mode| {
            let cost = prices.cost(charge, mode);
            cost.map_or("none".to_owned(), |money| money.to_string())
        })
    };
    let mut known = charge("claude-haiku-4-5", tokens(1_000, 0, 0, 0));
    assert_eq!(all(&known), ["0.001", "0.001", "none"]);
    known.recorded = recorded.map(Box::new);
    assert_eq!(all(&known), ["0.001", "0.001", "0.5"]);
    // Tokens that a log does not record are not free.
    known.usage = Usage::default();
    assert_eq!(all(&known), ["0.5", "none", "0.5"]);
    known.recorded = Some(Box::new(Money::ZERO));
    assert_eq!(all(&known), ["0", "0", "0"]);
    known.recorded = None;
    assert_eq!(all(&known), ["0", "0", "none"]);
    let mut unknown = charge("claude-imaginary-9", tokens(1_000, 0, 0, 0));
    assert_eq!(all(&unknown), ["none", "none", "none"]);
    unknown.recorded = recorded.map(Box::new);
    assert_eq!(all(&unknown), ["0.5", "none", "0.5"]);
    unknown.source_mut().model = None;
    assert_eq!(all(&unknown), ["0.5", "none", "0.5"]);
    unknown.source_mut().model = Some(SYNTHETIC.into());
    assert_eq!(all(&unknown), ["0", "0", "0"]);
    unknown.usage = Usage::default();
    assert_eq!(all(&unknown), ["0", "0", "0"]);
}

#[test]
fn absurd_counts_do_not_overflow() {
    let prices = Prices::built_in();
    let usage = tokens(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    let cost = prices
        .cost(&charge("o1-pro", usage), PriceMode::Auto)
        .unwrap();
    assert!(cost > Money::ZERO);
}

#[test]
fn user_list_overrides_and_adds_prices() {
    let own = "\
# what we pay
model,from,pace,input,output,cache_read,same_as
claude-opus-4.1,,,10,50,,
claude-opus-4-1,2026-06-01,,9,45,0.5,
our-model,,,1,2,,
our-alias,,,,,,anthropic/claude-opus-4.1
";
    let prices = Prices::built_in().with_list(own, "own.csv").unwrap();
    let cost = |model, usage| dollars(&prices, &charge(model, usage));
    let opus = charge(
        "us.anthropic.claude-opus-4-1-20250805-v1:0",
        tokens(1_000, 0, 1_000, 1_000),
    );
    // The row has no cache prices, so they follow Anthropic's rule.
    let at = |time| dollars(&prices, &at_time(&opus, time, ServiceTier::Standard));
    assert_eq!(at("2026-05-31T00:00:00Z"), "0.0235");
    assert_eq!(at("2026-06-01T00:00:00Z"), "0.02075");
    assert_eq!(
        dollars(
            &prices,
            &at_time(&opus, "2026-05-31T00:00:00Z", ServiceTier::Batch)
        ),
        "0.0235"
    );
    assert_eq!(
        cost("our-model", tokens(1_000, 1_000, 1_000, 1_000)),
        "0.005"
    );
    assert_eq!(cost("our-alias", tokens(1_000, 0, 0, 0)), "0.009");
    let found = prices.find("our-alias").unwrap();
    assert_eq!(
        (found.model.as_str(), found.provider.as_str()),
        ("claude-opus-4-1", "anthropic")
    );
    let row = found
        .row("2026-05-31".parse().ok(), ServiceTier::Standard, 0)
        .unwrap();
    assert_eq!((row.file.as_deref(), row.line), (Some("own.csv"), 3));
    assert_eq!(row.web_search, Money::parse("10"));
    // A later list overrides an earlier one.
    let prices = prices
        .with_list("model,input,output\nour-alias,7,7\n", "more.csv")
        .unwrap();
    assert_eq!(
        dollars(&prices, &charge("our-alias", tokens(1_000, 0, 0, 0))),
        "0.007"
    );
    let rows = prices.rows();
    assert_eq!(rows.iter().filter(|row| row.file.is_some()).count(), 4);
    assert_eq!(rows.len(), Prices::built_in().rows().len() + 2);
}

/// Returns the cost of 100,000 and of 300,000 tokens of Sonnet 4.6 with a user's list, before and
/// after the day on which the built-in long-context price ends.
fn sonnet(own: &str, pace: ServiceTier) -> [String; 4] {
    let prices = Prices::built_in().with_list(own, "own.csv").unwrap();
    let cost = |tokens_in, time| {
        let one = charge("claude-sonnet-4-6", tokens(tokens_in, 0, 0, 0));
        dollars(&prices, &at_time(&one, time, pace))
    };
    [
        cost(100_000, "2026-03-01T00:00:00Z"),
        cost(300_000, "2026-03-01T00:00:00Z"),
        cost(100_000, "2026-11-10T00:00:00Z"),
        cost(300_000, "2026-11-10T00:00:00Z"),
    ]
}

#[test]
fn undated_user_price_replaces_all_rows_of_model() {
    assert_eq!(
        sonnet("", ServiceTier::Standard),
        ["0.3", "1.8", "0.3", "0.9"]
    );
    assert_eq!(
        sonnet("", ServiceTier::Batch),
        ["0.15", "0.9", "0.15", "0.45"]
    );
    let base = "model,input,output\nclaude-sonnet-4-6,1,2\n";
    for pace in ServiceTier::ALL {
        assert_eq!(sonnet(base, pace), ["0.1", "0.3", "0.1", "0.3"], "{pace:?}");
    }
    let prices = Prices::built_in().with_list(base, "own.csv").unwrap();
    let found = prices.find("claude-sonnet-4-6").unwrap();
    assert_eq!(found.rows.len(), 1);
    assert_eq!(found.rows[0].us_percent, Some(110));
    // The window is that of the newest row it replaces.
    let chat = Prices::built_in()
        .with_list("model,input,output\ndeepseek-chat,1,2\n", "own.csv")
        .unwrap();
    assert_eq!(chat.context_window("deepseek-chat"), Some(128_000));
}

#[test]
fn user_rows_with_day_context_or_tier_combine() {
    let own = "\
model,from,above,pace,input,output
claude-sonnet-4-6,2026-06-01,,,4,2
claude-sonnet-4-6,,200000,,7,2
claude-sonnet-4-6,,,,1,2
claude-sonnet-4-6,,,batch,2,2
";
    assert_eq!(
        sonnet(own, ServiceTier::Standard),
        ["0.1", "2.1", "0.4", "1.2"]
    );
    assert_eq!(
        sonnet(own, ServiceTier::Batch),
        ["0.2", "0.6", "0.2", "0.6"]
    );
}

#[test]
fn user_price_of_tier_or_context_leaves_others_unchanged() {
    let batch = "model,pace,input,output\nclaude-sonnet-4-6,batch,2,2\n";
    assert_eq!(
        sonnet(batch, ServiceTier::Standard),
        sonnet("", ServiceTier::Standard)
    );
    assert_eq!(
        sonnet(batch, ServiceTier::Batch),
        ["0.2", "0.6", "0.2", "0.6"]
    );
    // It also applies after the day on which the built-in list ends the long-context price.
    let long = "model,above,input,output\nclaude-sonnet-4-6,200000,7,2\n";
    assert_eq!(
        sonnet(long, ServiceTier::Standard),
        ["0.3", "2.1", "0.3", "2.1"]
    );
    assert_eq!(
        sonnet(long, ServiceTier::Batch),
        sonnet("", ServiceTier::Batch)
    );
    let dated = "model,from,input,output\nclaude-sonnet-4-6,2026-02-20,1,2\n";
    assert_eq!(
        sonnet(dated, ServiceTier::Standard),
        ["0.1", "0.3", "0.3", "0.9"]
    );
    // A day in the user's list without a long-context price ends it.
    let both = "model,from,above,input,output\nclaude-sonnet-4-6,,200000,7,2\nclaude-sonnet-4-6,2026-03-13,,1,2\n";
    assert_eq!(
        sonnet(both, ServiceTier::Standard),
        ["0.3", "2.1", "0.1", "0.3"]
    );
}

#[test]
fn a_model_without_a_row_for_the_day_is_unpriced() {
    let own = "model,from,input,output\nnew,2026-06-01,1,2\n";
    let prices = Prices::built_in().with_list(own, "own.csv").unwrap();
    let new = charge("new", tokens(1_000, 0, 0, 0));
    let at = |time| dollars(&prices, &at_time(&new, time, ServiceTier::Standard));
    assert_eq!(at("2026-05-31T23:59:59Z"), "unpriced");
    assert_eq!(at("2026-06-01T00:00:00Z"), "0.001");
}

#[test]
fn dangling_aliases_are_errors() {
    let own = "model,same_as\na,b\nb,a\nc,claude-imaginary-9\nd,gpt-5\n";
    let error = Prices::built_in().with_list(own, "own.csv").unwrap_err();
    let PriceListError {
        file,
        faults,
        count,
    } = error;
    assert_eq!((file.as_str(), count), ("own.csv", 3));
    let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 3, 4]);
}

#[test]
fn errors_beyond_limit_are_only_counted() {
    let own = format!("model,input,output\n{}", "x,y,z\n".repeat(50));
    let error = Prices::built_in().with_list(&own, "own.csv").unwrap_err();
    assert_eq!((error.faults.len(), error.count), (20, 100));
}

#[test]
fn context_windows_are_known() {
    let prices = Prices::built_in();
    for (model, tokens) in [
        ("claude-sonnet-4-5-20250929", Some(200_000)),
        ("claude-sonnet-4-5-20250929[1m]", Some(1_000_000)),
        ("claude-opus-4-1", Some(200_000)),
        ("claude-opus-5-5", Some(1_000_000)),
        ("gpt-5.1-codex", Some(400_000)),
        ("gemini-2.5-pro", Some(1_048_576)),
        ("claude-imaginary-9", None),
    ] {
        assert_eq!(prices.context_window(model), tokens, "{model}");
    }
}

#[test]
fn suggest_returns_nearest_names() {
    let prices = Prices::built_in();
    let first = |name: &str| prices.suggest(name).into_iter().next();
    assert_eq!(
        first("claude-sonet-4-5").as_deref(),
        Some("claude-sonnet-4-5")
    );
    assert_eq!(
        first("anthropic/claude-opus-4-9").as_deref(),
        Some("claude-opus-4-1")
    );
    assert_eq!(first("gpt5.1").as_deref(), Some("gpt-5.1"));
    assert_eq!(first("entirely-unheard-of-thing"), None);
    assert_eq!(first(""), None);
}

/// Expected match of each name; `""` means none.
const NAMES: &[(&str, &str)] = &[
    ("claude-sonnet-4-5", "claude-sonnet-4-5"),
    ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
    ("claude-sonnet-4.5", "claude-sonnet-4-5"),
    ("Claude-Sonnet-4.5", "claude-sonnet-4-5"),
    ("claude-4.5-sonnet", "claude-sonnet-4-5"),
    ("claude-4-5-sonnet-20250929", "claude-sonnet-4-5"),
    ("claude-4.5-sonnet-thinking", "claude-sonnet-4-5"),
    ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
    ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
    ("claude-sonnet-4-5-latest", "claude-sonnet-4-5"),
    ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
    ("anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5"),
    ("anthropic/claude-sonnet-4.5:beta", "claude-sonnet-4-5"),
    (
        "openrouter/anthropic/claude-sonnet-4.5",
        "claude-sonnet-4-5",
    ),
    (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "apac.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5",
    ),
    (
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "claude-3-5-sonnet",
    ),
    (
        "anthropic.claude-3-sonnet-20240229-v1:0:200k",
        "claude-3-sonnet",
    ),
    ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
    ("vertex_ai/claude-sonnet-4@20250514", "claude-sonnet-4"),
    (
        "publishers/anthropic/models/claude-opus-4-1@20250805",
        "claude-opus-4-1",
    ),
    (
        "projects/p/locations/global/publishers/anthropic/models/claude-opus-4-1@default",
        "claude-opus-4-1",
    ),
    ("claude-sonnet-4-20250514", "claude-sonnet-4"),
    ("claude-4-sonnet", "claude-sonnet-4"),
    ("claude-4-sonnet-20250514", "claude-sonnet-4"),
    ("claude-sonnet-4-0", "claude-sonnet-4"),
    ("claude-4-opus", "claude-opus-4"),
    ("claude-opus-4-20250514", "claude-opus-4"),
    ("claude-opus-4-1-20250805", "claude-opus-4-1"),
    ("claude-opus-4-5-20251101", "claude-opus-4-5"),
    ("claude-opus-4.8-fast", "claude-opus-4-8-fast"),
    ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
    ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
    ("claude-3.7-sonnet:thinking", "claude-3-7-sonnet"),
    ("claude-sonnet-3.7", "claude-3-7-sonnet"),
    ("claude-3-5-haiku-20241022", "claude-3-5-haiku"),
    ("claude-3-opus-20240229", "claude-3-opus"),
    ("claude-3-haiku@20240307", "claude-3-haiku"),
    ("claude-2.1", "claude-2"),
    ("anthropic.claude-v2:1", "claude-2"),
    ("gpt-4o", "gpt-4o"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
    ("azure/gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    ("gpt-4.1-2025-04-14", "gpt-4.1"),
    ("gpt-4-1", "gpt-4.1"),
    ("gpt-4-0613", "gpt-4"),
    ("gpt-4-turbo-2024-04-09", "gpt-4-turbo"),
    ("openai/gpt-5", "gpt-5"),
    ("gpt-5-2025-08-07", "gpt-5"),
    ("gpt-5-codex", "gpt-5"),
    ("gpt-5.1-codex", "gpt-5.1"),
    ("gpt-5.1-codex-max", "gpt-5.1"),
    ("gpt-5.1-codex-mini", "gpt-5.1-codex-mini"),
    ("gpt-5.2-codex", "gpt-5.2"),
    ("gpt-5.3-codex", "gpt-5.3-codex"),
    ("o3-2025-04-16", "o3"),
    ("o4-mini-2025-04-16", "o4-mini"),
    ("codex-mini-latest", "codex-mini"),
    ("models/gemini-2.5-pro", "gemini-2.5-pro"),
    ("gemini/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
    (
        "publishers/google/models/gemini-2.5-flash",
        "gemini-2.5-flash",
    ),
    ("gemini-2.5-flash-preview-05-20", "gemini-2.5-flash-preview"),
    ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
    ("gemini-1.5-pro-002", "gemini-1.5-pro"),
    ("gemini-2.0-flash-001", "gemini-2.0-flash"),
    ("gemini-3-pro", "gemini-3-pro-preview"),
    ("x-ai/grok-4", "grok-4-0709"),
    ("grok-code-fast-1", "grok-code-fast-1"),
    ("z-ai/glm-4.6", "glm-4.6"),
    ("GLM-4.6", "glm-4.6"),
    ("moonshotai/kimi-k2-thinking", "kimi-k2-thinking"),
    ("qwen/qwen3-coder", "qwen3-coder"),
    ("amazon.nova-pro-v1:0", "nova-pro"),
    ("deepseek/deepseek-chat", "deepseek-chat"),
    // Nothing is guessed.
    ("claude-sonnet-9", ""),
    ("claude-sonnet-4-9", ""),
    ("claude-sonnet-4-55", ""),
    ("claude-imaginary-9-20290101", ""),
    ("claude-sonnet", ""),
    ("claude", ""),
    ("sonnet", ""),
    ("opus", ""),
    ("default", ""),
    ("claude-sonnet-4-5-turbo", ""),
    ("my-claude-sonnet-4-5", ""),
    ("claude-sonnet-4-5@home", ""),
    ("gpt-5-ultra", ""),
    ("gpt-5.1-codex-mini-max", ""),
    ("gpt-5-2025", ""),
    ("gpt-55", ""),
    ("ollama/qwen3-coder", ""),
    ("together_ai/meta-llama/llama-3.3-70b-instruct", ""),
    ("qwen/qwen3-coder:free", ""),
    ("deepseek-chat-v3", ""),
    ("azure/eu/gpt-4o", ""),
    ("us.claude-sonnet-4-5", ""),
    ("anthropic/", ""),
    ("/", ""),
    ("-latest", ""),
    ("[1m]", ""),
    ("", ""),
    (" ", ""),
    ("<synthetic>", ""),
    ("\u{1b}[2J \u{202e}gnp.exe", ""),
    ("ﬁ-日本-2024-08-06", ""),
];

#[test]
fn names_match_their_models_and_no_others() {
    let prices = Prices::built_in();
    for (asked, model) in NAMES {
        let found = prices.find(asked);
        let found = found.as_ref().map_or("", |found| found.model.as_str());
        assert_eq!(found, *model, "{asked}");
    }
}

#[test]
fn match_lists_every_step() {
    let prices = Prices::built_in();
    let steps = |name| prices.find(name).unwrap().steps;
    assert_eq!(steps("claude-sonnet-4-5"), [""; 0]);
    assert_eq!(
        steps("Claude-Sonnet-4.5"),
        ["listed as `claude-sonnet-4-5`"]
    );
    assert_eq!(
        steps("bedrock/us.anthropic.claude-4-sonnet-20250514-v1:0"),
        [
            "prefix `bedrock/` removed",
            "prefix `us.` removed",
            "prefix `anthropic.` removed",
            "suffix `-v1:0` removed",
            "suffix `-20250514` removed",
            "words reordered: `claude-sonnet-4`",
        ]
    );
    assert_eq!(
        steps("gemini-2.5-pro-preview-05-06"),
        ["suffix `-05-06` removed", "suffix `-preview` removed"]
    );
    assert_eq!(steps("gpt-5-codex"), ["alias of `gpt-5`"]);
}

#[test]
fn name_simplification_is_limited_to_16_steps() {
    let prices = Prices::built_in();
    let days = |count| format!("gpt-5{}", "-20250101".repeat(count));
    assert_eq!(prices.find(&days(16)).unwrap().steps.len(), 16);
    assert_eq!(prices.find(&days(17)), None);
    // Names that are too long are neither looked up nor cached.
    let padded = |len: usize| format!("{:len$}", "gpt-5");
    assert!(prices.find(&padded(200)).is_some());
    assert_eq!(prices.find(&padded(201)), None);
    assert_eq!(prices.suggest(&padded(201)), [""; 0]);
    let long = charge(&days(32_000), tokens(1, 1, 0, 0));
    assert_eq!(prices.cost(&long, PriceMode::Auto), None);
    assert!(prices.memo.lock().unwrap().known.is_empty());
}

#[test]
fn price_cache_is_bounded() {
    let prices = Prices::built_in();
    for n in 0..10_000 {
        assert_eq!(
            prices.cost(
                &charge(&format!("model-{n}"), tokens(1, 1, 0, 0)),
                PriceMode::Auto
            ),
            None
        );
    }
    assert!(prices.memo.lock().unwrap().known.len() <= 4096);
    assert_eq!(
        dollars(&prices, &charge("gpt-5", tokens(1_000, 0, 0, 0))),
        "0.00125"
    );
}
