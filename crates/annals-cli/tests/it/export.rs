//! `export` and `import`: output, written files, refusals.

use std::fs;

use insta::{assert_snapshot, with_settings};
use serde_json::Value;

use crate::harness::{Run, Stage};

fn snapshot(name: &str, run: &Run) {
    with_settings!({ omit_expression => true }, { assert_snapshot!(name, run.to_string()) });
}

/// Returns a fake GitHub token.
fn token() -> String {
    format!("ghp_{}", "q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeU1234")
}

/// A session with secrets in it.
fn leaky() -> (Stage, &'static str) {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    let key = "-----BEGIN PRIVATE KEY-----\nq7Xb2LmZ9kTf4RwY\n-----END PRIVATE KEY-----";
    let prompt = format!("Use {} and {}2.\n{key}", token(), token());
    let new = ["new", "--id", id, "--cwd", "/home/dev/leaky", "-m", &prompt];
    stage.annals(&new).fine();
    let title = format!("About {}", token());
    stage.annals(&["title", id, &title]).fine();
    stage.settle();
    (stage, id)
}

#[test]
fn export_markdown() {
    let stage = Stage::with_fixture("branch-nested");
    snapshot("markdown-branches", &stage.annals(&["export", "4549b9f6"]));
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    snapshot("markdown-agent", &stage.annals(&["export", "3dfa1268"]));
    let stage = Stage::with_fixture("compaction");
    snapshot(
        "markdown-compaction",
        &stage.annals(&["export", "--project", "compaction"]),
    );
}

#[test]
fn export_of_one_conversation() {
    let stage = Stage::with_fixture("branch-nested");
    let rows = stage.annals(&["conversations", "--json"]).json();
    let leaf = rows["conversations"][0]["leaf"].as_str().unwrap();
    let run = stage.annals(&["export", &format!("4549b9f6@{leaf}")]);
    snapshot("markdown-conversation", &run);
    snapshot(
        "conversation-unknown",
        &stage.annals(&["export", "4549b9f6@ffff"]),
    );
}

#[test]
fn export_html_is_a_single_file() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let run = stage
        .annals(&["export", "branch-edited-prompt", "--format", "html"])
        .fine();
    let style = run.out.find("<style>").unwrap()..run.out.find("</style>").unwrap();
    let script = run.out.find("<script>").unwrap()..run.out.find("</script>").unwrap();
    let mut page = run.out.clone();
    page.replace_range(script, "<script>");
    page.replace_range(style, "<style>");
    let digests = vec![("sha256-[^']+", "[digest]")];
    with_settings!({ omit_expression => true, filters => digests }, { assert_snapshot!("html", page) });
}

#[test]
fn export_jsonl_and_json_have_the_same_entries() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let lines = ["export", "branch-edited-prompt", "--format", "jsonl"];
    snapshot("jsonl", &stage.annals(&lines));
    let document = stage
        .annals(&["export", "branch-edited-prompt", "--json"])
        .json();
    assert_eq!(document["annals"], 1);
    let session = &document["sessions"][0];
    assert_eq!(session["layout"], "claude-code");
    let entries = session["logs"][0]["entries"].as_array().unwrap();
    let of_lines: Vec<Value> = stage
        .annals(&lines)
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "entry")
        .collect();
    assert_eq!(entries.len(), of_lines.len());
    for (entry, line) in entries.iter().zip(of_lines) {
        let mut line = line;
        line.as_object_mut().unwrap().remove("type");
        assert_eq!(*entry, line);
    }
}

#[test]
fn export_masks_and_counts_secrets() {
    let (stage, id) = leaky();
    snapshot("redacted", &stage.annals(&["export", id]));
    let kept = stage.annals(&["export", id, "--no-redact"]).fine();
    assert!(kept.out.contains(&token()) && kept.err.is_empty(), "{kept}");
    let json = stage.annals(&["export", id, "--format", "json"]).fine();
    assert!(json.out.contains(&token()) && json.err.is_empty(), "{json}");
    let masked = stage
        .annals(&["export", id, "--format", "json", "--redact"])
        .fine();
    assert!(!masked.out.contains(&token()), "{masked}");
    assert!(masked.err.starts_with("masked 3 secrets in "), "{masked}");
    // The last flag wins.
    let last = ["export", id, "--redact", "--no-redact"];
    assert!(stage.annals(&last).out.contains(&token()));
}

#[test]
fn export_masks_the_names_of_tools() {
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    let token = token();
    let call = format!(
        r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"toolu_1","name":"get {token}","input":{{}}}}]}}"#
    );
    assert_eq!(stage.with_stdin(&["append", "6cec6145"], call).code, 0);
    for format in ["markdown", "html", "json", "jsonl"] {
        let run = stage.annals(&["export", "6cec6145", "-f", format, "--redact"]);
        assert_eq!(run.code, 0, "{format}: {run}");
        assert!(!run.out.contains(&token), "{format}: {run}");
        assert!(run.out.contains("[redacted:"), "{format}: {run}");
    }
}

#[test]
fn export_writes_whole_files_and_never_overwrites() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    let work = stage.work();
    snapshot(
        "file",
        &stage.annals(&["export", "3dfa", "-o", "talk.html"]),
    );
    let page = fs::read_to_string(work.join("talk.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    snapshot(
        "file-taken",
        &stage.refused(&["export", "3dfa", "-o", "talk.html"], ""),
    );
    let again = [
        "export",
        "3dfa",
        "-o",
        "talk.html",
        "--force",
        "--json",
        "--format",
        "markdown",
    ];
    let document = stage.annals(&again).json();
    let bytes = fs::read(work.join("talk.html")).unwrap();
    assert!(bytes.starts_with(b"# "));
    assert_eq!(document["files"][0]["bytes"], bytes.len());
    let left: Vec<_> = fs::read_dir(&work).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn export_to_a_pipe_or_a_link_leaves_it_in_place() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    // Outside of the stage, which opens its files.
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path();
    let pipe = work.join("pipe.md");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    // A pipe holds nothing that could be overwritten.
    stage
        .annals(&["export", "3dfa", "-o", &pipe.display().to_string()])
        .fine();
    let text = reader.join().unwrap();
    assert!(text.starts_with("# "), "{text}");
    let kind = fs::symlink_metadata(&pipe).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));

    fs::write(work.join("target.md"), "old text ".repeat(100_000)).unwrap();
    std::os::unix::fs::symlink("target.md", work.join("link.md")).unwrap();
    let link = work.join("link.md");
    let name = link.display().to_string();
    stage.refused(&["export", "3dfa", "-o", &name], "");
    stage
        .annals(&["export", "3dfa", "-o", &name, "--force"])
        .fine();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(work.join("target.md")).unwrap(), text);
}

#[test]
fn export_project_to_one_file_or_a_directory() {
    let stage = Stage::with_fixture("2.1.325-s01-multiturn");
    let rows = stage.annals(&["sessions", "--json"]).json();
    let sessions = rows["sessions"].as_array().unwrap().len();
    let path = rows["sessions"][0]["project"].as_str().unwrap().to_owned();
    let run = stage
        .annals(&[
            "export",
            "--project",
            &path,
            "-o",
            "all/",
            "--format",
            "json",
        ])
        .fine();
    assert_eq!(run.out.lines().count(), sessions, "{run}");
    let made = fs::read_dir(stage.work().join("all")).unwrap().count();
    assert_eq!(made, sessions);
    stage.refused(&["export", &path, "-o", "all/", "--format", "json"], "");
    let run = stage.annals(&["export", &path, "-o", "all.html"]).fine();
    assert!(run.out.contains(&format!("{sessions} sessions")), "{run}");
    let page = fs::read_to_string(stage.work().join("all.html")).unwrap();
    assert_eq!(page.matches("<header id=\"s").count(), sessions);
    assert_eq!(page.matches("<!doctype").count(), 1);
}

#[test]
fn export_rejects_invalid_targets() {
    let stage = Stage::with_fixture("branch-nested");
    let inside = stage.root.join("x.md").display().to_string();
    snapshot(
        "refused-root",
        &stage.refused(&["export", "4549", "-o", &inside], ""),
    );
    let home = "../home/.claude/x.md";
    stage.refused(&["export", "4549", "-o", home], "");
    snapshot(
        "refused-ending",
        &stage.refused(&["export", "4549", "-o", "x.docx"], ""),
    );
    snapshot(
        "refused-nothing",
        &stage.refused(&["export", "no-such-thing"], ""),
    );
    snapshot(
        "refused-project",
        &stage.refused(&["export", "--project", "nowhere"], ""),
    );
    stage.refused(&["export", "4549", "-o", "missing/x.md"], "");
    // Control: a path outside the root is accepted.
    stage.annals(&["export", "4549", "-o", "x.md"]).fine();
}

/// The exported session, unmasked.
fn exported(stage: &Stage, id: &str, format: &str) -> String {
    let name = format!("exported.{format}");
    stage.annals(&["export", id, "-o", &name, "--force"]).fine();
    fs::read_to_string(stage.work().join(name)).unwrap()
}

/// All messages of each conversation of a root.
fn messages(stage: &Stage) -> Vec<Value> {
    // Unmasked, because ids are compared.
    let json = |args: &[&str]| -> Value {
        let mut command = stage.command();
        command
            .arg("--root")
            .arg(&stage.root)
            .arg("--json")
            .args(args);
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    let rows = json(&["conversations"]);
    let mut read: Vec<Value> = Vec::new();
    for row in rows["conversations"].as_array().unwrap() {
        let mut shown = json(&["show", row["id"].as_str().unwrap()]);
        let entries = shown["entries"].as_array_mut().unwrap();
        for entry in entries.iter_mut() {
            let entry = entry.as_object_mut().unwrap();
            entry.retain(|name, _| !["line", "offset"].contains(&name.as_str()));
        }
        read.push(shown["entries"].take());
    }
    read
}

#[test]
fn export_can_be_imported_into_an_empty_root() {
    let stage = Stage::with_fixture("branch-nested");
    for format in ["json", "jsonl"] {
        let text = exported(&stage, "4549", format);
        let other = Stage::empty();
        let run = other.with_stdin(&["import", "-"], text);
        snapshot(&format!("import-{format}"), &run);
        assert_eq!(messages(&other), messages(&stage), "{format}");
    }
}

#[test]
fn import_reports_what_was_left_out() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    stage.annals(&["export", "3dfa", "-o", "all.jsonl"]).fine();
    let file = stage.work().join("all.jsonl").display().to_string();
    let other = Stage::empty();
    snapshot("import-report", &other.annals(&["import", &file]));
    let third = Stage::empty();
    snapshot(
        "import-report-json",
        &third.annals(&["import", &file, "--json"]),
    );
}

#[test]
fn import_never_changes_an_existing_session() {
    let stage = Stage::with_fixture("branch-nested");
    stage.annals(&["export", "4549", "-o", "one.jsonl"]).fine();
    // It is there already, exactly as the import would write it.
    let tree = stage.tree();
    snapshot("import-again", &stage.annals(&["import", "one.jsonl"]));
    assert_eq!(stage.tree(), tree);
    let log = stage.log_path("4549b9f6-2746-4805-82d0-228c3ff84d47");
    let text = fs::read_to_string(&log).unwrap();
    let other = text.replacen("\"timestamp\":\"2", "\"timestamp\":\"1", 1);
    assert_ne!(other, text);
    fs::write(&log, other).unwrap();
    snapshot("import-taken", &stage.refused(&["import", "one.jsonl"], ""));
    let run = stage
        .annals(&["import", "one.jsonl", "--fresh-ids", "--json"])
        .fine();
    assert_ne!(
        run.json()["sessions"][0]["session"],
        run.json()["sessions"][0]["from"]
    );
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(rows["sessions"].as_array().unwrap().len(), 2);
    // Import into another root, which does not exist yet.
    let into = format!("claude-code:{}", stage.work().join("new").display());
    let run = stage
        .annals(&["import", "one.jsonl", "--into", &into, "--fresh-ids"])
        .fine();
    assert!(stage.work().join("new/projects").is_dir(), "{run}");
}

#[test]
fn import_of_a_bad_line_fails_and_writes_nothing() {
    let stage = Stage::with_fixture("branch-nested");
    let mut text = exported(&stage, "4549", "jsonl");
    let other = Stage::empty();
    text.push_str("{\"type\":\"entry\",\"kind\":\"message\"}\n");
    snapshot("import-bad-line", &other.refused(&["import", "-"], &text));
    snapshot(
        "import-not-ours",
        &other.refused(&["import", "-"], "{\"role\":\"user\"}\n"),
    );
    snapshot(
        "import-missing",
        &other.refused(&["import", "none.jsonl"], ""),
    );
    other.refused(&["import", "-"], "");
}
