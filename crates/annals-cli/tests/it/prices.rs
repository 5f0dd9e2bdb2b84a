//! `prices`: the list, lookup of a model name, and the user's own list.

use std::fs;

use insta::assert_snapshot;

use crate::harness::Stage;

/// A list of a made-up provider, because the built-in list grows.
const OWN: &str = "\
# ours
provider,model,from,above,pace,input,output,cache_read,context,same_as
acme,rocket-1,,,,1,2,0.1,100000,
acme,rocket-1,,50000,,2,4,0.2,100000,
acme,rocket-1,2026-06-01,,,0.75,1.5,0.075,100000,
acme,rocket-1,2026-06-01,50000,,1.5,3,,100000,
acme,rocket-1,2026-12-01,,,0.5,1,,100000,
acme,rocket-1,2026-06-01,,batch,0.375,0.75,,100000,
acme,rocket-mini,,,,0.05,0.4,,,
,rocket-latest,,,,,,,,rocket-1
";

fn own(stage: &Stage, text: &str) -> String {
    let file = stage.work().join("own.csv");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn prices_lists_current_and_past_prices() {
    let stage = Stage::empty();
    let file = own(&stage, OWN);
    let run = |args: &[&str]| {
        let all = [
            &["prices", "--prices", file.as_str(), "--provider", "ACME"],
            args,
        ]
        .concat();
        stage.bare(&all)
    };
    assert_snapshot!("prices", run(&[]));
    assert_snapshot!("prices_on", run(&["--on", "2026-05-31"]));
    assert_snapshot!("prices_all", run(&["--all"]));
    assert_snapshot!("prices_json", run(&["--json"]));
    assert_snapshot!("prices_csv", run(&["--csv"]));
    let whole = stage.bare(&["prices"]).fine();
    assert!(whole.out.lines().count() > 300, "{whole}");
    assert!(whole.out.contains("claude-sonnet-4-5"), "{whole}");
    assert_snapshot!(
        "prices_none",
        stage.bare(&["prices", "--provider", "nobody"])
    );
}

#[test]
fn prices_explains_the_match_of_a_name() {
    let stage = Stage::empty();
    let file = own(&stage, OWN);
    assert_snapshot!(
        "price",
        stage.bare(&["prices", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"])
    );
    assert_snapshot!(
        "price_own",
        stage.bare(&[
            "prices",
            "--prices",
            &file,
            "Rocket-Latest",
            "--on",
            "2026-06-01"
        ])
    );
    assert_snapshot!(
        "price_json",
        stage.bare(&["prices", "--json", "claude-3.5-haiku", "--on", "2024-12-02"])
    );
    let dated = own(&stage, "model,input,output,from\nnew,1,2,2026-12-01\n");
    assert_snapshot!(
        "price_not_yet",
        stage.bare(&["prices", "--prices", &dated, "new"])
    );
}

#[test]
fn prices_marks_derived_prices() {
    let stage = Stage::empty();
    let file = own(
        &stage,
        "model,input,output,cache_read\nclaude-sonnet-4-6,1,2,0.25\nrocket,3,4,\n",
    );
    let args = ["prices", "--prices", &file, "claude-sonnet-4-6", "rocket"];
    assert_snapshot!("price_derived", stage.bare(&args));
    let json = stage.bare(&[&args[..], &["--json"]].concat()).json();
    let holds = |at: usize| &json["matches"][at]["holds"];
    let expected = serde_json::json!({ "cache_write_5m": "1.25", "cache_write_1h": "2" });
    assert_eq!(holds(0)["derived"], expected);
    assert_eq!(holds(0)["cache_read"], "0.25");
    assert_eq!(holds(0)["cache_write_5m"], serde_json::Value::Null);
    assert_eq!(holds(1)["derived"]["cache_read"], "3");
}

#[test]
fn unknown_model_name_is_reported_with_suggestions() {
    let stage = Stage::empty();
    assert_snapshot!(
        "price_unknown",
        stage.bare(&[
            "prices",
            "claude-sonnet-9",
            "o3-mini-2025-01-31",
            "\u{1b}[2J\u{202e}gnp.exe"
        ])
    );
    assert_snapshot!(
        "price_unknown_json",
        stage.bare(&["prices", "--json", "gpt-51"])
    );
    // `<synthetic>` marks the client's own messages, which cost nothing.
    assert_snapshot!("price_free", stage.bare(&["prices", "<synthetic>"]).fine());
    let free = stage.bare(&["prices", "--json", "<synthetic>"]).json();
    assert_eq!(free["matches"][0]["free"], true);
}

#[test]
fn exported_price_list_can_be_edited_and_used() {
    let stage = Stage::empty();
    let all = stage.bare(&["prices", "--csv"]).fine().out;
    let file = own(&stage, &all);
    let again = stage
        .bare(&["prices", "--csv", "--prices", &file])
        .fine()
        .out;
    assert_eq!(all, again);
    let one = stage
        .bare(&["prices", "--csv", "claude-opus-4-1", "claude-opus-4.1"])
        .fine()
        .out;
    let file = own(&stage, &one.replace(",15,75,", ",10,50,"));
    let run = stage.bare(&["prices", "--prices", &file, "claude-opus-4-1", "--json"]);
    let holds = &run.json()["matches"][0]["holds"];
    assert_eq!(holds["input"], "10");
    assert_eq!(holds["cache_write_5m"], "18.75");
    assert_eq!(holds["line"], 2);
}

#[test]
fn user_price_list_is_found_in_config_directories() {
    let stage = Stage::empty();
    let price = |command: &mut assert_cmd::Command| {
        let output = command.args(["prices", "o3", "--json"]).output().unwrap();
        stage.run_of(&output).json()["matches"][0]["holds"]["input"].clone()
    };
    assert_eq!(price(&mut stage.command()), "2");
    let base = stage.root.parent().unwrap();
    let write = |dir: &str, input: u32| {
        let dir = base.join(dir);
        fs::create_dir_all(&dir).unwrap();
        let text = format!("model,from,input,output\no3,2025-06-10,{input},1\n");
        fs::write(dir.join("prices.csv"), text).unwrap();
    };
    write("home/.config/annals", 11);
    assert_eq!(price(&mut stage.command()), "11");
    write("xdg/annals", 12);
    let xdg = base.join("xdg");
    assert_eq!(price(stage.command().env("XDG_CONFIG_HOME", &xdg)), "12");
    write("own", 13);
    let mut command = stage.command();
    command
        .env("XDG_CONFIG_HOME", &xdg)
        .env("ANNALS_CONFIG_DIR", base.join("own"));
    assert_eq!(price(&mut command), "13");
    // A list given with `--prices` replaces the configured one.
    let file = own(&stage, "model,from,input,output\no3,2025-06-10,14,1\n");
    assert_eq!(price(stage.command().args(["--prices", &file])), "14");
}

#[test]
fn price_list_encodings_are_read_or_refused() {
    let stage = Stage::empty();
    let file = stage.work().join("own.csv");
    let price = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let args = ["prices", "--prices", file.to_str().unwrap(), "o3", "--json"];
        stage.bare(&args).json()["matches"][0]["holds"]["input"].clone()
    };
    assert_eq!(price(b""), "2");
    assert_eq!(
        price("\u{feff}model,input,output\r\no3,5,6\r\n".as_bytes()),
        "5"
    );
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        stage.refused(&["prices", "--prices", file.to_str().unwrap()], "")
    };
    assert_snapshot!(
        "prices_not_utf8",
        refused(b"model,input,output\r\nm\xfcller,1,2\r\n")
    );
    assert_snapshot!("prices_utf16", refused(b"\xff\xfem\0o\0d\0e\0l\0"));
    assert_snapshot!(
        "prices_semicolons",
        refused(b"model;input;output\no3;1;2\n")
    );
}

#[test]
fn invalid_price_list_is_refused_with_all_errors() {
    let stage = Stage::empty();
    let file = own(
        &stage,
        "model,input,output,form\n\
         rocket-1,1,2,2026-01-01\n\
         rocket-1,\"1,2,\n\
         rocket-2,-1,1.5.2,\n\
         ,1,2,\n\
         rocket-3,1\n\
         rocket-4,1,2,\n\
         Rocket-4,1,2,\n",
    );
    assert_snapshot!(
        "prices_bad",
        stage.refused(&["prices", "--prices", &file], "")
    );
    let many = own(
        &stage,
        &format!("model,input,output\n{}", "rocket,one,2\n".repeat(30)),
    );
    let run = stage.refused(&["prices", "--prices", &many], "");
    assert!(run.err.contains("  … and 10 more"), "{run}");
    let nowhere = own(&stage, "model,same_as\nrocket,rocket-9\n");
    assert_snapshot!(
        "prices_nowhere",
        stage.refused(&["prices", "--prices", &nowhere], "")
    );
    assert_snapshot!(
        "prices_missing",
        stage.refused(&["prices", "--prices", "nope.csv"], "")
    );
    assert_snapshot!(
        "prices_bad_day",
        stage.refused(&["prices", "--on", "tomorrow"], "")
    );
    assert_snapshot!(
        "prices_csv_json",
        stage.refused(&["prices", "--csv", "--json"], "")
    );
}
