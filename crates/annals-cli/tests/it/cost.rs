//! Tests of `cost`.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{Run, Stage};

pub(crate) const APP: &str = "00000001-0000-4000-8000-000000000001";
const SITE: &str = "00000002-0000-4000-8000-000000000002";

/// One reply: time, model, and tokens (input, output, 5-minute and 1-hour cache write, cache read).
struct Reply(&'static str, &'static str, [u64; 5]);

/// Writes a log of prompts and replies. The fourth prompt is a sibling of the third.
fn log(stage: &Stage, path: &str, session: &str, cwd: &str, replies: &[Reply]) {
    let agent = path
        .rsplit_once("agent-")
        .map(|(_, name)| name.trim_end_matches(".jsonl"));
    let mut lines = String::new();
    let mut parent = Value::Null;
    for (at, Reply(time, model, tokens)) in replies.iter().enumerate() {
        let id = |kind: u32| format!("{:08x}-{kind:04x}-4000-8000-{}", at + 1, &session[24..]);
        let name = agent.unwrap_or("main");
        let common = |kind: u32, parent: &Value| {
            json!({
                "parentUuid": parent, "isSidechain": agent.is_some(), "agentId": agent, "cwd": cwd,
                "sessionId": session, "version": "2.1.50", "gitBranch": if at % 2 == 0 { "main" } else { "fix" },
                "uuid": id(kind), "timestamp": time,
            })
        };
        let mut asked = common(1, &parent);
        asked["type"] = "user".into();
        asked["message"] = json!({ "role": "user", "content": format!("question {}", at + 1) });
        let [input, output, five, hour, read] = tokens;
        let mut said = common(2, &asked["uuid"]);
        said["type"] = "assistant".into();
        said["requestId"] = format!("req_{name}{session}{at}").into();
        said["message"] = json!({
            "id": format!("msg_{name}{session}{at}"), "type": "message", "role": "assistant", "model": model,
            "content": [{ "type": "text", "text": "answer" }],
            "usage": {
                "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": five + hour,
                "cache_creation": { "ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour },
            },
        });
        // The fourth prompt gets the parent of the third, so the log branches there.
        if at != 2 {
            parent = said["uuid"].clone();
        }
        lines += &format!("{asked}\n{said}\n");
    }
    let path = stage.root.join("projects").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, lines).unwrap();
}

/// Two sessions in two projects, a sub-agent, and a billing block active at the fixed time.
pub(crate) fn stage() -> Stage {
    let stage = Stage::empty();
    const SONNET: &str = "claude-sonnet-4-5-20250929";
    const OPUS: &str = "claude-opus-4-1-20250805";
    log(
        &stage,
        &format!("-home-mira-app/{APP}.jsonl"),
        APP,
        "/home/mira/app",
        &[
            Reply("2026-10-31T23:30:00Z", SONNET, [1_000, 50, 0, 0, 0]),
            Reply(
                "2026-11-12T14:30:00Z",
                OPUS,
                [200, 4_000, 30_000, 10_000, 250_000],
            ),
            Reply("2026-11-13T23:30:00Z", OPUS, [10, 900, 0, 0, 290_000]),
            Reply(
                "2026-11-15T09:10:00Z",
                SONNET,
                [40, 12_000, 8_000, 0, 120_000],
            ),
            Reply(
                "2026-11-15T10:40:00Z",
                SONNET,
                [60, 8_000, 2_000, 0, 125_000],
            ),
        ],
    );
    log(
        &stage,
        &format!("-home-mira-app/{APP}/subagents/agent-a1b2c3d.jsonl"),
        APP,
        "/home/mira/app",
        &[Reply(
            "2026-11-12T14:40:00Z",
            "claude-haiku-4-5-20251001",
            [5, 300, 0, 0, 9_000],
        )],
    );
    log(
        &stage,
        &format!("-home-mira-site/{SITE}.jsonl"),
        SITE,
        "/home/mira/site",
        &[
            Reply(
                "2026-11-13T08:00:00Z",
                "claude-haiku-4-5-20251001",
                [1, 1, 0, 0, 0],
            ),
            Reply("2026-11-14T08:00:00Z", "mystery-9", [500, 1_500, 0, 0, 0]),
        ],
    );
    stage.settle();
    stage
}

fn cost(stage: &Stage, args: &str) -> Run {
    let args: Vec<&str> = std::iter::once("cost")
        .chain(args.split_whitespace())
        .collect();
    stage.annals(&args)
}

#[test]
fn cost_prints_a_table_for_every_grouping() {
    let stage = stage();
    let by = |by: &str| cost(&stage, &format!("--by {by}"));
    for name in [
        "day",
        "hour",
        "week",
        "month",
        "session",
        "project",
        "model",
        "agent",
        "branch",
        "git-branch",
        "layout",
    ] {
        assert_snapshot!(format!("cost_{name}"), by(name).fine());
    }
    assert_snapshot!("cost_block", by("block").fine());
    assert_snapshot!("cost_project_model", by("project,model").fine());
    assert_snapshot!(
        "cost_breakdown",
        cost(&stage, "--by month --breakdown --exact").fine()
    );
    assert_snapshot!("cost_agents", cost(&stage, "--by session --agents").fine());
    assert_snapshot!("cost_top", cost(&stage, "--by day --top 2").fine());
    let reversed = cost(&stage, "--by day --sort tokens --reverse").fine();
    assert_snapshot!("cost_sorted", reversed);
}

#[test]
fn cost_json_has_stable_keys_and_adds_up() {
    let stage = stage();
    assert_snapshot!(
        "cost_json",
        cost(&stage, "--by project,model --json").fine()
    );
    assert_snapshot!(
        "cost_json_breakdown",
        cost(&stage, "--by month --breakdown --json --top 1").fine()
    );
    let blocks = cost(&stage, "--by block --since 2026-11-14 --json");
    assert_snapshot!("cost_json_block", blocks.fine());
    for by in [
        "day", "week", "month", "hour", "block", "session", "project", "model", "agent", "branch",
    ] {
        let report = cost(&stage, &format!("--by {by} --json")).json();
        let rows = report["rows"].as_array().unwrap();
        for key in [
            "requests",
            "input",
            "output",
            "cache_write_5m",
            "cache_write_1h",
            "cache_read",
            "unpriced",
        ] {
            let sum: u64 = rows.iter().map(|row| row[key].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), report["total"][key].as_u64(), "{by} {key}");
        }
        assert_eq!(report["total"]["requests"], 8);
        assert!(rows.iter().all(|row| row["key"] == row[by]), "{report}");
    }
}

#[test]
fn cost_csv_is_exact_and_escapes_formulas() {
    let stage = stage();
    log(
        &stage,
        "-home-mira-odd/00000003-0000-4000-8000-000000000003.jsonl",
        "00000003-0000-4000-8000-000000000003",
        "=cmd|' /C calc'!A0,\"x\"",
        &[Reply(
            "2026-11-14T08:00:00Z",
            "claude-sonnet-4-5",
            [1, 1, 0, 0, 0],
        )],
    );
    assert_snapshot!("cost_csv", cost(&stage, "--by project --csv").fine());
    assert_snapshot!(
        "cost_csv_breakdown",
        cost(&stage, "--by day --breakdown --csv").fine()
    );
    // The largest days with all their models, and one line for the rest: no cost is omitted.
    for (name, args) in [
        ("cost_csv_top", "--by day --top 2 --csv"),
        (
            "cost_csv_breakdown_top",
            "--by day --top 2 --breakdown --csv",
        ),
    ] {
        let run = cost(&stage, args).fine();
        let total = &cost(&stage, "--json").json()["total"];
        let head: Vec<&str> = run.out.lines().next().unwrap().split(',').collect();
        for key in ["requests", "output", "cache_read", "unpriced"] {
            let at = head.iter().position(|name| *name == key).unwrap();
            let lines = run
                .out
                .lines()
                .skip(1)
                .map(|line| line.split(',').nth(at).unwrap());
            let sum: u64 = lines.map(|count| count.parse::<u64>().unwrap()).sum();
            assert_eq!(Some(sum), total[key].as_u64(), "{name} {key}");
        }
        assert_snapshot!(name, run);
    }
    assert_snapshot!(
        "cost_csv_json",
        stage.refused(&["cost", "--csv", "--json"], "")
    );
}

#[test]
fn cost_filters_limit_the_total() {
    let stage = stage();
    let requests = |args: &str| {
        let run = cost(&stage, &format!("{args} --json"));
        let report: Value = serde_json::from_str(&run.out).unwrap();
        (report["total"]["requests"].as_u64().unwrap(), run.code)
    };
    assert_eq!(requests("--project app"), (6, 0));
    assert_eq!(requests("--project /home/mira/site"), (2, 0));
    assert_eq!(requests("--session 00000002"), (2, 0));
    assert_eq!(requests("--model opus"), (2, 0));
    assert_eq!(requests("--model opus --project site"), (0, 1));
    assert_eq!(requests("--since 2026-11-13 --until 2026-11-13"), (2, 0));
    assert_eq!(
        requests("--since 2026-11-13 --until 2026-11-13 --zone Europe/Berlin"),
        (1, 0)
    );
    assert_eq!(requests("--since 1d"), (2, 0));
    assert_eq!(requests("--until 2026-10-31"), (1, 0));
}

#[test]
fn cost_counts_a_session_of_several_files_once() {
    let stage = Stage::with_fixture_of("orchestrator", "across-midnight");
    let all = cost(&stage, "--by session --json").json();
    let night = cost(&stage, "--session night --json").json();
    let row = all["rows"].as_array().unwrap().iter();
    let row = row.clone().find(|row| row["session"] == "night").unwrap();
    assert_eq!(night["total"]["requests"], row["requests"]);
    let run = cost(&stage, "--by branch").fine();
    assert!(run.err.is_empty(), "{run}");
    // Two folders have a session with this id, so its path is needed.
    let stage = Stage::with_fixture("same-session-two-projects");
    stage.refused(&["cost", "--session", "d5c236be"], "");
    let rows = cost(&stage, "--by session --json").json();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 2);
    let tree = stage.tree();
    let is_log = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    for path in tree.keys().filter(is_log) {
        let one = cost(&stage, &format!("--json --session {}", path.display())).json();
        assert_eq!(one["total"]["requests"], 1);
    }
}

#[test]
fn cost_days_follow_the_time_zone() {
    let stage = Stage::empty();
    // The last minute before and the first after midnight, on days of a clock change.
    log(
        &stage,
        &format!("-home-mira-app/{APP}.jsonl"),
        APP,
        "/home/mira/app",
        &[
            Reply("2026-10-24T21:59:00Z", "claude-sonnet-4-5", [1, 0, 0, 0, 0]),
            Reply(
                "2026-10-24T22:00:00Z",
                "claude-sonnet-4-5",
                [10, 0, 0, 0, 0],
            ),
            Reply(
                "2026-10-25T00:30:00Z",
                "claude-sonnet-4-5",
                [20, 0, 0, 0, 0],
            ),
            Reply(
                "2026-10-25T01:30:00Z",
                "claude-sonnet-4-5",
                [40, 0, 0, 0, 0],
            ),
            Reply(
                "2026-10-25T22:59:00Z",
                "claude-sonnet-4-5",
                [80, 0, 0, 0, 0],
            ),
            Reply(
                "2026-10-25T23:00:00Z",
                "claude-sonnet-4-5",
                [100, 0, 0, 0, 0],
            ),
            Reply(
                "2026-11-01T03:59:00Z",
                "claude-sonnet-4-5",
                [1_000, 0, 0, 0, 0],
            ),
            Reply(
                "2026-11-02T04:59:00Z",
                "claude-sonnet-4-5",
                [2_000, 0, 0, 0, 0],
            ),
            Reply("2026-12-31T23:30:00Z", "claude-sonnet-4-5", [7, 0, 0, 0, 0]),
        ],
    );
    stage.settle();
    let sums = |args: &str| -> Vec<(String, u64)> {
        let report = cost(&stage, &format!("{args} --json")).json();
        let rows = report["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            (
                row["key"].as_str().unwrap().to_owned(),
                row["input"].as_u64().unwrap(),
            )
        })
        .collect()
    };
    let rows = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
        rows.iter()
            .map(|(key, sum)| ((*key).to_owned(), *sum))
            .collect()
    };
    let until = "--until 2026-10-28";
    assert_eq!(
        sums(&format!("--zone Europe/Berlin {until}")),
        rows(&[("2026-10-24", 1), ("2026-10-25", 150), ("2026-10-26", 100)])
    );
    let hours = sums(&format!(
        "--by hour --zone Europe/Berlin --since 2026-10-25 {until}"
    ));
    assert_eq!(hours[1], ("2026-10-25 02:00 +02:00".to_owned(), 20));
    assert_eq!(hours[2], ("2026-10-25 02:00 +01:00".to_owned(), 40));
    assert_eq!(
        sums("--zone America/New_York --since 2026-10-30 --until 2026-11-05"),
        rows(&[("2026-10-31", 1_000), ("2026-11-01", 2_000)])
    );
    assert_eq!(
        sums("--by week --zone Europe/Berlin --since 2026-12-01"),
        rows(&[("2026-W53", 7)])
    );
    assert_eq!(
        sums("--by month --zone Asia/Tokyo --since 2026-12-01"),
        rows(&[("2027-01", 7)])
    );
    assert_snapshot!(
        "cost_zone_unknown",
        stage.refused(&["cost", "--zone", "Europe/Berlim"], "")
    );
    assert_snapshot!(
        "cost_zone_odd",
        stage.refused(&["cost", "--zone", "\u{1b}[31m?"], "")
    );
}

#[test]
fn cost_without_matches_reports_what_exists() {
    let stage = stage();
    assert_snapshot!(
        "cost_nothing",
        cost(&stage, "--since 2025-01-01 --until 2025-01-31")
    );
    assert_snapshot!("cost_nothing_fits", cost(&stage, "--model gpt"));
    assert_snapshot!("cost_nothing_json", cost(&stage, "--model gpt --json"));
    assert_snapshot!("cost_nothing_at_all", cost(&Stage::empty(), ""));
    let run = stage.refused(&["cost", "--since", "1d", "--until", "2d"], "");
    assert!(run.err.contains("--since is later than --until"), "{run}");
    stage.refused(&["cost", "--session", "nobody"], "");
    let all = cost(&stage, "--by model --top 0").fine();
    assert_eq!(all.out, cost(&stage, "--by model").fine().out);
}

#[test]
fn used_up_budgets_are_reported() {
    let stage = stage();
    let config = stage
        .root
        .with_file_name("home")
        .join(".config/annals/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let with = |text: &str, args: &str| {
        fs::write(&config, text).unwrap();
        cost(&stage, args)
    };
    let lines = |run: Run| -> String {
        let lines = run.fine().out;
        let reported = lines.lines().filter(|line| line.contains("budget"));
        reported.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(lines(with(
        "monthly = 3\n[budget]\nweekly = 1\ndaily = 0.50\n",
        "--by month"
    )));
    assert_eq!(lines(with("monthly = 200", "--by month")), "");
    // A budget counts all costs, whatever filter the table has.
    assert!(lines(with("monthly = 1", "--model haiku")).contains("$2.46"));
    let report = with(
        "monthly = 200\nzone = \"Europe/Berlin\"",
        "--by month --json",
    )
    .json();
    assert_snapshot!(
        serde_json::to_string_pretty(&json!([report["budgets"], report["zone"]])).unwrap()
    );
    fs::write(&config, b"# f\xfcnf\nmonthly = 5\n").unwrap();
    assert_snapshot!("cost_config_not_utf8", stage.refused(&["cost"], ""));
    fs::write(&config, "[budget]\nmonthly = 200\nyearly = 1\n").unwrap();
    assert_snapshot!("cost_config_unknown", stage.refused(&["cost"], ""));
    fs::write(&config, "monthly = 20O\n").unwrap();
    assert_snapshot!("cost_config_torn", stage.refused(&["cost"], ""));
    fs::write(&config, "zone = \"Nowhere\"\n").unwrap();
    assert!(
        stage
            .refused(&["cost"], "")
            .err
            .contains("unknown time zone `Nowhere`")
    );
}

#[test]
fn cost_limits_the_unpriced_models_it_names() {
    let stage = Stage::empty();
    let names: Vec<String> = (0..1200).map(|n| format!("model-{n:04}")).collect();
    let replies: Vec<Reply> = names
        .iter()
        .map(|name| Reply("2026-11-14T08:00:00Z", name.clone().leak(), [1, 0, 0, 0, 0]))
        .collect();
    log(
        &stage,
        &format!("-home-mira-app/{APP}.jsonl"),
        APP,
        "/home/mira/app",
        &replies,
    );
    stage.settle();
    assert_snapshot!("cost_unpriced_many", cost(&stage, "").fine());
    // A long table is cut and counts the omitted rows; `--top 0`, `--csv` and `--json` have all.
    let rows = |args: &str| -> Vec<String> {
        let lines = cost(&stage, args).fine().out;
        lines.lines().map(str::to_owned).collect()
    };
    let models = rows("--by model");
    let lines = |lines: &[String]| lines.join("\n");
    assert_snapshot!(lines(&models[999..1005]), @r"
    model-0998         1      1                                   unpriced
    model-0999         1      1                                   unpriced
    … 200 more       200    200                                   unpriced
    TOTAL          1,200   1.2k                                   unpriced

    These are the 1,000 largest of 1,200 rows; --top 0 shows all, as --csv and --json do
    ");
    assert_eq!(rows("--by model --top 0").len(), 1 + 1200 + 1 + 2);
    assert_eq!(rows("--by model --csv").len(), 1 + 1200);
    let breakdown = rows("--by month --breakdown");
    assert_snapshot!(lines(&breakdown[50..54]), @r"
      model-0048                          1      1                                   unpriced
      model-0049                          1      1                                   unpriced
      … 1,150 more (--top 0: all)     1,150   1.2k                                   unpriced
    TOTAL                             1,200   1.2k                                   unpriced
    ");
    assert_eq!(
        rows("--by month --breakdown --top 0").len(),
        2 + 1200 + 1 + 2
    );
    let report = cost(&stage, "--json").json();
    assert_eq!(report["unpriced_models"].as_array().unwrap().len(), 1000);
    assert_eq!(report["unpriced_model_count"], 1200);
    assert_eq!(report["total"]["cost_usd"], Value::Null);
}

#[test]
fn costs_come_from_where_they_are_asked_for() {
    let stage = Stage::with_fixture("usage-cost-usd");
    let total = |args: &str| {
        let report = cost(&stage, &format!("{args} --json")).json();
        let total = &report["total"];
        (total["cost_usd"].clone(), total["unpriced"].clone())
    };
    assert_snapshot!(format!(
        "{:?}\n{:?}\n{:?}",
        total(""),
        total("--mode tokens"),
        total("--mode recorded")
    ));
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "mode = \"recorded\"\n").unwrap();
    assert_eq!(total(""), total("--mode recorded"));
    assert_ne!(total("--mode tokens"), total(""));
    // A record with a cost but no usage has no price with `--mode tokens`.
    let log = stage.tree().into_keys();
    let mut logs = log.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let log = logs.next().unwrap();
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("\"usage\":", "\"used\":")).unwrap();
    assert_snapshot!("cost_mode_tokens", cost(&stage, "--mode tokens").fine());
    // Current clients record no costs.
    let stage = Stage::with_fixture("usage-cache-split");
    assert_snapshot!("cost_mode_recorded", cost(&stage, "--mode recorded").fine());
}

#[test]
fn cost_uses_the_users_price_list() {
    let stage = stage();
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(
        config.join("prices.csv"),
        "model,input,output\nmystery-9,1,2\n",
    )
    .unwrap();
    let report = cost(&stage, "--by model --model mystery --json").json();
    assert_eq!(report["unpriced_models"], json!([]));
    assert_eq!(report["total"]["cost_usd"], "0.0035");
}

#[test]
fn unpriced_usage_is_never_shown_as_zero() {
    let stage = Stage::empty();
    let replies = ["2026-11-11", "2026-11-12", "2026-11-14", "2026-11-15"].map(|day| {
        let time = format!("{day}T08:00:00Z").leak();
        Reply(time, "mystery-9", [1_000, 500, 0, 0, 0])
    });
    let path = format!("-home-mira-app/{APP}.jsonl");
    log(&stage, &path, APP, "/home/mira/app", &replies);
    stage.settle();
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "monthly = 200\n").unwrap();
    assert_snapshot!("cost_all_unpriced", cost(&stage, "").fine());
    let overview = stage.annals(&[]).fine();
    assert!(!overview.out.contains("$0"), "{overview}");
    assert_snapshot!("overview_all_unpriced", overview);
}

#[test]
fn cost_help() {
    assert_snapshot!("cost_help", Stage::empty().bare(&["cost", "-h"]));
}

#[test]
fn cost_reports_unreadable_usage() {
    let stage = Stage::with_fixture("usage-absurd");
    let run = stage.annals(&["cost", "--by", "model"]);
    assert!(run.out.contains("could not be read completely"), "{run}");
    let json = stage.annals(&["cost", "--json"]).json();
    assert!(json["uncounted"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn cost_truncates_very_long_model_names() {
    let stage = Stage::with_fixture("usage-unknown-model");
    let log = stage
        .tree()
        .into_keys()
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let log = log.unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let name = format!("odd-{}", "x".repeat(5_000));
    let text = text.replace("\"model\":\"", &format!("\"model\":\"{name}"));
    fs::write(&log, text).unwrap();
    let run = stage.annals(&["cost"]);
    let note = run
        .out
        .lines()
        .find(|line| line.contains("no price"))
        .unwrap();
    assert!(note.len() < 600, "{}", note.len());
}
