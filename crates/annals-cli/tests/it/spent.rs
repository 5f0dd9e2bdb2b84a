//! Costs in lists, in sessions and in the overview.

use std::fs;
use std::path::Path;

use annals::model::Money;
use insta::assert_snapshot;
use serde_json::Value;

use crate::cost::{APP, stage};
use crate::harness::{Run, Stage};

fn snapshot(name: &str, run: &Run) {
    insta::with_settings!({ omit_expression => true }, { assert_snapshot!(name, run.to_string()) });
}

/// A cost of a JSON document; null is zero.
#[track_caller]
fn amount(value: &Value) -> Money {
    match value {
        Value::Null => Money::ZERO,
        Value::String(text) => Money::parse(text).unwrap(),
        other => panic!("{other} is no amount"),
    }
}

#[track_caller]
fn sum(rows: &Value) -> Money {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| amount(&row["cost_usd"])).sum()
}

fn unpriced(rows: &Value) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["unpriced"].as_u64().unwrap()).sum()
}

/// The JSON document, with or without results.
#[track_caller]
fn document(stage: &Stage, args: &[&str]) -> Value {
    let run = stage.annals(args);
    // One fixture has a damaged configuration, which is reported.
    assert!(run.code < 2 || run.err.contains("config.json"), "{run}");
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
}

#[test]
fn lists_print_costs() {
    let stage = stage();
    snapshot("spent-sessions", &stage.annals(&["sessions"]));
    snapshot("spent-projects", &stage.annals(&["projects"]));
    snapshot("spent-conversations", &stage.annals(&["conversations"]));
    snapshot("spent-tree", &stage.annals(&["tree", APP]));
    snapshot("spent-show", &stage.annals(&["show", APP, "--limit", "1"]));
    snapshot("spent-end", &stage.annals(&["show", APP, "--last", "1"]));
    snapshot("spent-overview", &stage.annals(&[]));
}

#[test]
fn sort_by_cost_applies_before_the_limit() {
    let stage = stage();
    let ids = |args: &[&str]| -> Vec<String> {
        let rows = document(&stage, &[&["sessions", "--json"], args].concat());
        let rows = rows["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["title"].to_string() + row["project"].as_str().unwrap())
            .collect()
    };
    // The newest session is also the most expensive, until its prices are removed.
    let prices = stage.work().join("prices.csv");
    let text =
        "model,input,output,cache_read,cache_write_5m,cache_write_1h\nmystery-9,1e6,1e6,0,0,0\n";
    fs::write(&prices, text).unwrap();
    let own = ["--prices", prices.to_str().unwrap()];
    let all = ids(&[&["--sort", "cost"], &own[..]].concat());
    assert!(all[0].ends_with("/home/mira/site"), "{all:?}");
    assert!(ids(&own)[0].ends_with("/home/mira/app"));
    assert_eq!(
        ids(&[&["--sort", "cost", "-n", "1"], &own[..]].concat()),
        all[..1]
    );
}

/// One stage per fixture of every layout, and one built here.
fn stages() -> Vec<(String, Stage)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut stages = vec![("made here".to_owned(), stage())];
    for layout in ["claude-code", "chorus", "clog", "orchestrator"] {
        for entry in fs::read_dir(fixtures.join(layout)).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_type().unwrap().is_dir() {
                continue;
            }
            let name = entry.file_name().into_string().unwrap();
            stages.push((
                format!("{layout}/{name}"),
                Stage::with_fixture_of(layout, &name),
            ));
        }
    }
    stages
}

#[test]
fn session_and_project_costs_add_up_to_the_total() {
    let mut priced = 0;
    for (name, stage) in stages() {
        let total = document(&stage, &["cost", "--json"])["total"].take();
        let sessions = document(&stage, &["sessions", "--json"])["sessions"].take();
        let projects = document(&stage, &["projects", "--json"])["projects"].take();
        for rows in [&sessions, &projects] {
            assert_eq!(sum(rows), amount(&total["cost_usd"]), "{name}");
            assert_eq!(
                unpriced(rows),
                total["unpriced"].as_u64().unwrap(),
                "{name}"
            );
        }
        priced += u32::from(sum(&sessions) > Money::ZERO);
    }
    assert!(priced > 50, "{priced}");
}

#[test]
fn entry_costs_add_up_to_the_conversation_across_pages() {
    let stage = stage();
    let shown = |args: &[&str]| document(&stage, &[&["show", APP, "--json"], args].concat());
    let whole = shown(&[]);
    let cost = amount(&whole["conversation"]["cost_usd"]);
    assert_eq!(sum(&whole["entries"]), cost);
    let pages = ["0", "3", "6"].map(|offset| shown(&["--offset", offset, "--limit", "3"]));
    let paged: Money = pages.iter().map(|page| sum(&page["entries"])).sum();
    assert_eq!(paged, cost);
    // `--last` gives the same costs per entry and the same context.
    let end = shown(&["--last", "3"]);
    let costs = |shown: &Value| -> Vec<(Value, Value)> {
        let entries = shown["entries"].as_array().unwrap().iter();
        let cost = |entry: &Value| (entry["id"].clone(), entry["cost_usd"].clone());
        entries.map(cost).collect()
    };
    assert_eq!(costs(&end), costs(&whole)[5..]);
    assert_eq!(end["session"]["context"], whole["session"]["context"]);
    assert_eq!(whole["session"]["context"]["tokens"], 135_060);
}

#[test]
fn overview_reports_budgets_and_recent_costs() {
    let stage = stage();
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(
        config.join("config.toml"),
        "monthly = 3\nzone = \"Asia/Tokyo\"\n",
    )
    .unwrap();
    let overview = document(&stage, &["--json"]);
    let cost = document(&stage, &["cost", "--json"]);
    assert_eq!(overview["budgets"], cost["budgets"]);
    assert_eq!(overview["budgets"][0]["period"], "monthly");
    let week = document(
        &stage,
        &["cost", "--json", "--since", "2026-11-08T12:00:00Z"],
    );
    let recent = &overview["last_7_days"];
    assert_eq!(recent["cost_usd"], week["total"]["cost_usd"]);
    assert_eq!(recent["unpriced"], 1);
    snapshot("spent-budget", &stage.annals(&[]));
}

#[test]
fn invalid_prices_or_settings_stop_only_cost_commands() {
    let stage = stage();
    let others: [&[&str]; 7] = [
        &[],
        &["sessions"],
        &["projects"],
        &["conversations"],
        &["tree", APP],
        &["show", APP],
        &["statusline"],
    ];
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    let whole: Vec<Run> = others
        .iter()
        .map(|args| stage.with_stdin(args, ""))
        .collect();
    let slips = [
        ("prices.csv", "model,input,output\nodd,one,2\n"),
        (
            "prices.csv",
            "model,input,output\nodd,one,2\neven,2\n,1,1\n",
        ),
        ("config.toml", "daily = 1\nmontly = 200\n"),
        ("config.toml", "zone = \"Mars/X\"\n"),
    ];
    let mut reported = String::new();
    for (file, text) in slips {
        fs::write(config.join(file), text).unwrap();
        let mut first = None;
        for (args, whole) in others.iter().zip(&whole) {
            let run = stage.with_stdin(args, "");
            assert_eq!((run.code, &run.out), (whole.code, &whole.out), "{args:?}");
            assert_eq!(first.get_or_insert_with(|| run.err.clone()), &run.err);
        }
        reported += &first.unwrap_or_default();
        stage.refused(&["cost"], "");
        if file == "prices.csv" {
            stage.refused(&["prices"], "");
            // An error in a list given with `--prices` is fatal.
            let path = config.join(file);
            stage.refused(&["sessions", "--prices", path.to_str().unwrap()], "");
        }
        fs::remove_file(config.join(file)).unwrap();
    }
    assert_snapshot!("spent-slips", reported);
}
