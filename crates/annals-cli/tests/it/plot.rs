//! `cost --plot`: which files are written, and which are refused.

use std::fs;

use insta::{assert_snapshot, with_settings};

use crate::harness::{Run, Stage};

fn snapshot(name: &str, run: &Run) {
    with_settings!({ omit_expression => true }, { assert_snapshot!(name, run.to_string()) });
}

#[test]
fn plot_format_follows_the_file_extension() {
    let stage = Stage::with_fixture("usage-cache-split");
    let run = stage.annals(&["cost", "--plot", "out.svg"]).fine();
    assert!(run.out.starts_with("out.svg  1200x630, "), "{run}");
    let svg = fs::read_to_string(stage.work().join("out.svg")).unwrap();
    assert!(svg.starts_with("<svg "), "{svg}");
    assert!(svg.contains("<title id=\"title\">Cost by day</title>"));

    let size = [
        "cost",
        "--by",
        "model",
        "--plot",
        "o.PNG",
        "--plot-size",
        "600x400",
    ];
    stage.annals(&size).fine();
    let png = fs::read(stage.work().join("o.PNG")).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(png[16..24], [0, 0, 4, 176, 0, 0, 3, 32], "1200 × 800");
}

#[test]
fn plot_to_standard_output_prints_only_the_chart() {
    let stage = Stage::with_fixture("usage-cache-split");
    let run = stage.annals(&["cost", "--plot", "-"]).fine();
    assert!(run.out.starts_with("<svg ") && run.out.ends_with("</svg>\n"));
}

#[test]
fn plot_json_reports_the_file() {
    let stage = Stage::with_fixture("usage-cache-split");
    let reported = stage
        .annals(&["cost", "--plot", "out.svg", "--json"])
        .json();
    let bytes = fs::metadata(stage.work().join("out.svg")).unwrap().len();
    assert_eq!(reported["files"][0]["path"], "out.svg");
    assert_eq!(reported["files"][0]["bytes"], bytes);
}

#[test]
fn plot_overwrites_only_with_force() {
    let stage = Stage::with_fixture("usage-cache-split");
    let path = stage.work().join("out.svg");
    fs::write(&path, "mine").unwrap();
    let run = stage.refused(&["cost", "--plot", "out.svg"], "");
    snapshot("plot_taken", &run);
    stage
        .annals(&["cost", "--plot", "out.svg", "--force"])
        .fine();
    assert!(fs::read_to_string(&path).unwrap().starts_with("<svg "));
    let files = fs::read_dir(stage.work()).unwrap().count();
    assert_eq!(files, 1, "nothing is left beside it");
}

#[test]
fn plot_rejects_invalid_options() {
    let stage = Stage::with_fixture("usage-cache-split");
    let inside = stage.root.join("out.svg").display().to_string();
    for (name, args) in [
        ("plot_ending", &["cost", "--plot", "out.pdf"][..]),
        (
            "plot_size",
            &["cost", "--plot", "out.svg", "--plot-size", "10x10"],
        ),
        ("plot_csv", &["cost", "--plot", "out.svg", "--csv"]),
        ("plot_json", &["cost", "--plot", "-", "--json"]),
        ("plot_inside", &["cost", "--plot", &inside]),
    ] {
        snapshot(name, &stage.refused(args, ""));
    }
}

#[test]
fn plot_without_data_writes_no_file() {
    let stage = Stage::with_fixture("usage-cache-split");
    let run = stage.annals(&["cost", "--since", "2026-11-14", "--plot", "out.svg"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(!stage.work().join("out.svg").exists());
}

/// Names from logs are plain text in a chart, whatever they contain.
#[test]
fn plot_escapes_hostile_names() {
    let stage = Stage::empty();
    let cwd = "/home/dev/<script>alert(1)&\u{1b}[31m\u{202e}";
    let id = "00000000-0000-4000-8000-000000000001";
    stage
        .annals(&["new", "--id", id, "--cwd", cwd, "-m", "hello"])
        .fine();
    let reply = r#"{"role":"assistant","model":"</text><image href='http://x/'/>","content":"hi","usage":{"input_tokens":5,"output_tokens":7}}"#;
    stage.with_stdin(&["append", id], reply).fine();
    let run = stage
        .annals(&["cost", "--by", "project,model", "--plot", "-"])
        .fine();
    for forbidden in ["<script", "<image", "\u{1b}", "\u{202e}"] {
        assert!(!run.out.contains(forbidden), "{forbidden:?}: {run}");
    }
    assert!(run.out.contains("&lt;/text&gt;&lt;image"), "{run}");
}
