//! `convert` and `repair` through the program.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use crate::harness::Stage;

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn convert_plans_reports_and_round_trips() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let from = format!("claude-code:{}", text(&stage.root));
    let (there, back) = (stage.work().join("there"), stage.work().join("back"));
    assert_snapshot!(
        "convert_plan",
        stage.bare(&["convert", &from, "--to", "chorus"])
    );
    assert!(!there.exists(), "a plan writes nothing");
    let to = text(&there);
    assert_snapshot!(
        "convert_done",
        stage.bare(&["convert", &from, "--to", "chorus", "--into", &to])
    );
    assert_snapshot!(
        "convert_again",
        stage.bare(&["convert", &from, "--to", "chorus", "--into", &to])
    );
    let chorus = format!("chorus:{to}");
    assert_snapshot!(
        "convert_shown",
        stage.bare(&["--root", &chorus, "conversations"])
    );
    // Chorus shows only what its configuration lists.
    let known = stage
        .bare(&["--root", &chorus, "chorus", "workspaces"])
        .fine();
    assert!(!known.out.contains("not in the configuration"), "{known}");
    let to = text(&back);
    assert_snapshot!(
        "convert_back",
        stage.bare(&[
            "convert",
            &chorus,
            "--to",
            "claude-code",
            "--into",
            &to,
            "--also",
            "NOTES.md"
        ])
    );
    for file in walk(&stage.root) {
        let within = file.strip_prefix(&stage.root).unwrap();
        let again = fs::read(back.join(within)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), again, "{}", within.display());
    }
}

/// Titles of these layouts are in lists, which a conversion updates after it has written the logs.
#[test]
fn title_given_since_a_conversion_is_kept_by_the_next() {
    for layout in ["chorus", "codex"] {
        let stage = Stage::with_fixture("title-custom");
        let there = format!("{layout}:{}", text(&stage.work().join("there")));
        let from = format!("claude-code:{}", text(&stage.root));
        let into = there.split_once(':').unwrap().1;
        let args = ["convert", &from, "--to", layout, "--into", into];
        stage.bare(&args).fine();
        stage
            .bare(&["--root", &there, "title", "d1cbce04", "Newer"])
            .fine();
        stage.bare(&args).fine();
        let listed = stage.bare(&["--root", &there, "sessions", "--json"]).json();
        assert_eq!(listed["sessions"][0]["title"], "Newer", "{layout}");
    }
}

#[test]
fn new_session_has_its_title_in_every_layout() {
    for layout in [
        "claude-code",
        "chorus",
        "clog",
        "orchestrator",
        "codex",
        "gemini",
        "pi",
        "qwen",
        "copilot",
    ] {
        let stage = Stage::empty();
        let root = format!("{layout}:{}", text(&stage.work().join("root")));
        let cwd = text(&stage.work());
        let new = [
            "--root", &root, "new", "--cwd", &cwd, "--title", "Given", "-m", "hi",
        ];
        stage.bare(&new).fine();
        let listed = stage.bare(&["--root", &root, "sessions", "--json"]).json();
        assert_eq!(listed["sessions"][0]["title"], "Given", "{layout}");
    }
}

/// The list with the titles of Codex is not restored from an origin, because it has other sessions too.
#[test]
fn title_of_codex_returns_with_its_session() {
    let stage = Stage::with_fixture_of("codex", "0.80-s01-qa").without_notes();
    let from = format!("codex:{}", text(&stage.root));
    let id = {
        let listed = stage.bare(&["--root", &from, "sessions", "--json"]).json();
        listed["sessions"][0]["id"].as_str().unwrap().to_owned()
    };
    stage
        .bare(&["--root", &from, "title", &id, "Own title"])
        .fine();
    let title = |root: &str| {
        let listed = stage.bare(&["--root", root, "sessions", "--json"]).json();
        listed["sessions"][0]["title"].as_str().unwrap().to_owned()
    };
    for (layout, name) in [("chorus", "one"), ("pi", "two")] {
        let there = format!("{layout}:{}", text(&stage.work().join(name)));
        let back = text(&stage.work().join(format!("{name}-back")));
        let into = there.split_once(':').unwrap().1;
        stage
            .bare(&["convert", &from, "--to", layout, "--into", into])
            .fine();
        let args = ["convert", &there, "--to", "codex", "--into", &back];
        stage.bare(&args).fine();
        let returned = format!("codex:{back}");
        assert_eq!(title(&returned), "Own title", "{layout}");
        // A title that was given there since is kept by another conversion.
        stage
            .bare(&["--root", &returned, "title", &id, "Newer"])
            .fine();
        // The log is there already.
        assert_eq!(stage.bare(&args).code, 1);
        assert_eq!(title(&returned), "Newer", "{layout}");
    }
}

#[test]
fn convert_without_origin_reports_what_is_dropped() {
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    let from = format!("claude-code:{}", text(&stage.root));
    let to = text(&stage.work().join("there"));
    assert_snapshot!(
        "convert_no_origin",
        stage.bare(&[
            "convert",
            &from,
            "--to",
            "clog",
            "--into",
            &to,
            "--no-origin"
        ])
    );
    for file in walk(Path::new(&to)) {
        let bytes = fs::read_to_string(&file).unwrap();
        assert!(!bytes.contains("\"origin\""), "{}", file.display());
    }
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn record_appended_after_conversion_survives_converting_back() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let from = format!("claude-code:{}", text(&stage.root));
    let (there, back) = (stage.work().join("there"), stage.work().join("back"));
    let (to, home) = (text(&there), text(&back));
    stage
        .bare(&["convert", &from, "--to", "clog", "--into", &to])
        .fine();
    let clog = format!("clog:{to}");
    // Read from disk, because the output has masked ids.
    let folder = fs::read_dir(there.join("conversations")).unwrap();
    let folder = folder.last().unwrap().unwrap().file_name();
    let id = folder
        .to_str()
        .unwrap()
        .strip_prefix("conversation-")
        .unwrap()
        .to_owned();
    stage
        .bare(&["--root", &clog, "append", &id, "-m", "said in clog"])
        .fine();
    stage
        .bare(&["convert", &clog, "--to", "claude-code", "--into", &home])
        .fine();
    let root = format!("claude-code:{home}");
    let said = stage.bare(&["--root", &root, "search", "said in clog", "--json"]);
    assert_eq!(said.json()["total"], 1);
    let before = walk(&stage.root);
    let log = before
        .iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap();
    let old = fs::read(log).unwrap();
    let new = fs::read(back.join(log.strip_prefix(&stage.root).unwrap())).unwrap();
    assert!(new.starts_with(&old), "what was there is as it was");
}

#[test]
fn convert_rejects_unsuitable_targets() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let root = text(&stage.root);
    let from = format!("claude-code:{root}");
    let refused = |name: &str, args: &[&str]| {
        let before = stage.tree();
        let run = stage.bare(args);
        assert_snapshot!(name.to_owned(), run);
        assert_eq!(stage.tree(), before, "{name}");
    };
    let inside = format!("{root}/chorus");
    refused(
        "convert_inside",
        &["convert", &from, "--to", "chorus", "--into", &inside],
    );
    refused(
        "convert_same",
        &[
            "convert",
            &from,
            "--to",
            "claude-code",
            "--into",
            "/nowhere/x",
        ],
    );
    refused(
        "convert_unknown",
        &["convert", &from, "--to", "papyrus", "--into", "/nowhere/x"],
    );
    let other = Stage::with_fixture_of("chorus", "chorus-plain");
    let full = stage.work().join("full");
    fs::rename(&other.root, &full).unwrap();
    let full = text(&full);
    refused(
        "convert_not_empty",
        &["convert", &from, "--to", "chorus", "--into", &full],
    );
}

#[test]
fn convert_into_a_file_names_the_into_option() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let from = format!("claude-code:{}", text(&stage.root));
    let file = stage.work().join("file");
    fs::write(&file, "").unwrap();
    let run = stage.bare(&["convert", &from, "--to", "clog", "--into", &text(&file)]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("with --into"), "{run}");
    assert!(!run.err.contains("--root"), "{run}");
}

#[test]
fn check_reports_stale_session_lists() {
    for (fixture, detail) in [
        ("chorus-index-missing", "missing; `annals repair`"),
        ("chorus-index-torn", "damaged; `annals repair`"),
        (
            "chorus-index-behind",
            "does not match its logs; `annals repair`",
        ),
    ] {
        let stage = Stage::with_fixture_of("chorus", fixture);
        let run = stage.annals(&["check", "--json"]);
        assert_eq!(run.code, 1, "{fixture}: {run}");
        let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let files = report["files"].as_array().unwrap();
        let flaws = files.iter().flat_map(|file| {
            let flaws = file["flaws"].as_array().unwrap();
            flaws.iter().map(move |flaw| (file, flaw))
        });
        let stale: Vec<_> = flaws
            .filter(|(_, flaw)| flaw["kind"] == "stale-index")
            .collect();
        let reported = stale.iter().any(|(file, flaw)| {
            let path = file["path"].as_str().unwrap();
            let what = flaw["detail"].as_str().unwrap();
            path.ends_with("conversations.json") && what.starts_with(detail)
        });
        assert!(reported, "{fixture}: {run}");
        stage.annals(&["repair", "--apply"]).fine();
        let again = stage.annals(&["check", "--json"]);
        assert!(!again.out.contains("stale-index"), "{fixture}: {again}");
    }
}

#[test]
fn session_list_that_is_a_directory_is_reported() {
    let stage = Stage::with_fixture_of("chorus", "chorus-plain").without_notes();
    let index = walk(&stage.root)
        .into_iter()
        .find(|path| path.ends_with("conversations.json"))
        .unwrap();
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_snapshot!("check_index_is_a_directory", stage.annals(&["check"]));
    assert_snapshot!("repair_index_is_a_directory", stage.annals(&["repair"]));
}

#[test]
fn repair_rebuilds_a_damaged_session_list() {
    let stage = Stage::with_fixture_of("chorus", "chorus-plain").without_notes();
    assert_snapshot!("repair_nothing", stage.annals(&["repair"]));
    let index = walk(&stage.root)
        .into_iter()
        .find(|path| path.ends_with("conversations.json"))
        .unwrap();
    let whole = fs::read(&index).unwrap();
    fs::write(&index, &whole[..whole.len() / 2]).unwrap();
    assert_snapshot!("check_damaged_index", stage.annals(&["check"]));
    assert_snapshot!("repair_plan", stage.annals(&["repair"]));
    let done = stage.annals(&["repair", "--apply"]).to_string();
    let (_, kept) = done.split_once("the original is kept: ").unwrap();
    let kept = kept.lines().next().unwrap().to_owned();
    assert_snapshot!("repair_done", done.replace(&kept, "conversations-[sum]"));
    assert_snapshot!("repair_again", stage.annals(&["repair"]));
    stage.annals(&["repair", "--undo", &kept]);
    assert_eq!(
        fs::read(&index).unwrap(),
        &whole[..whole.len() / 2],
        "what could not be read is kept"
    );
}
