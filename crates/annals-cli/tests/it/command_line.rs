//! Other names of verbs, errors in arguments, errors as JSON, and completions.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Run, Stage};

const FIXTURE: &str = "2.1.325-s01-multiturn";

/// A stage whose sessions are indexed. Files changed a moment ago are not.
fn indexed() -> Stage {
    let stage = Stage::with_fixture(FIXTURE);
    std::thread::sleep(Duration::from_millis(25));
    stage.annals(&["sessions"]).fine();
    stage
}

/// Standard output of a command that succeeds. Ids are not masked.
fn output(stage: &Stage, args: &[&str]) -> String {
    let root = format!("claude-code:{}", stage.root.display());
    let mut command = stage.command();
    let output = command.args(["--root", &root]).args(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{args:?}: {errors}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn sessions(stage: &Stage) -> Vec<Value> {
    let list: Value = serde_json::from_str(&output(stage, &["sessions", "--json"])).unwrap();
    list["sessions"].as_array().unwrap().clone()
}

/// The id of a session that has a title.
fn titled(rows: &[Value]) -> &str {
    let mut rows = rows.iter();
    let row = rows.find(|row| row["title"].is_string()).unwrap();
    row["id"].as_str().unwrap()
}

/// The completions of a command line, with their descriptions.
fn completions(stage: &Stage, words: &[&str]) -> Vec<(String, String)> {
    let printed = output(stage, &[&["__complete", "--"][..], words].concat());
    let lines = printed.lines().map(|line| line.split_once('\t').unwrap());
    lines
        .map(|(value, about)| (value.to_owned(), about.to_owned()))
        .collect()
}

fn values(stage: &Stage, words: &[&str]) -> Vec<String> {
    let all = completions(stage, words).into_iter();
    all.map(|(value, _)| value).collect()
}

/// The error that a command prints as JSON.
fn json_error(stage: &Stage, args: &[&str]) -> Value {
    let run = stage.annals(args);
    assert_eq!(run.code, 2, "{args:?}: {run}");
    assert!(run.err.is_empty(), "{args:?}: {run}");
    assert_eq!(run.out.lines().count(), 1, "{args:?}: {run}");
    let document: Value = serde_json::from_str(&run.out).unwrap();
    document["error"].clone()
}

#[test]
fn verbs_have_the_names_of_other_programs() {
    let stage = Stage::with_fixture(FIXTURE);
    let same = |other: &[&str], usual: &[&str]| {
        let (other, usual) = (stage.annals(other), stage.annals(usual));
        assert_eq!(other.to_string(), usual.to_string());
    };
    let id = titled(&sessions(&stage)).to_owned();
    same(&["ls"], &["sessions"]);
    same(&["list"], &["sessions"]);
    same(&["find", "the"], &["search", "the"]);
    same(&["grep", "the"], &["search", "the"]);
    same(&["cat", &id], &["show", &id]);
    same(&["log", &id], &["show", &id]);
    same(&["rm", &id], &["delete", &id]);
    same(&["version"], &["--version"]);
    let version = stage.annals(&["version", "--json"]).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn unknown_arguments_are_answered_with_what_was_meant() {
    let stage = Stage::empty();
    let reported = |args: &[&str]| -> Run {
        let run = stage.bare(args);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(run.err.starts_with("error: "), "{args:?}: {run}");
        assert_eq!(run.err.lines().count(), 2, "{args:?}: {run}");
        run
    };
    let run = reported(&["workspaces", "add", "."]);
    assert!(run.err.contains("`annals chorus workspaces`"), "{run}");
    let run = reported(&["cost", "--monthly"]);
    assert!(run.err.contains("`--by monthly`"), "{run}");
    let run = reported(&["sessions", "--foo"]);
    assert!(!run.err.contains("--root"), "{run}");
    // What is repeated in a message cannot command the terminal.
    let run = reported(&["x\x1b[31m\u{202e}\ny"]);
    assert!(!run.err.contains(['\x1b', '\u{202e}']), "{run}");
}

#[test]
fn errors_are_documents_with_json() {
    let stage = Stage::with_fixture(FIXTURE);
    let error = json_error(&stage, &["show", "ffffffff", "--json"]);
    assert_eq!(error["kind"], "not-found");
    assert!(error["hint"].is_string(), "{error}");
    let error = json_error(&stage, &["search", "\"open", "--json"]);
    assert_eq!(error["kind"], "query");
    assert_eq!(error["query"], "\"open");
    assert!(error["at"]["start"].is_u64(), "{error}");
    for args in [
        &["--json", "sessions", "--foo"][..],
        &["--json", "nonesuch"],
        &["import", "--json"],
        &["cost", "--by", "mont", "--json"],
    ] {
        let error = json_error(&stage, args);
        assert_eq!(error["kind"], "usage", "{args:?}");
        assert!(error["hint"].is_string(), "{args:?}: {error}");
    }
    for args in [
        &["sessions", "--since", "gibberish", "--json"][..],
        &["cost", "--zone", "Nowhere/None", "--json"],
    ] {
        let error = json_error(&stage, args);
        assert_eq!(error["kind"], "usage", "{args:?}: {error}");
    }
    let run = stage.annals(&["show", "--", "--json"]);
    assert!(
        run.out.is_empty() && run.err.starts_with("error: "),
        "{run}"
    );
}

#[test]
fn ambiguous_names_have_candidates_in_json() {
    let stage = Stage::empty();
    let ids = ["1", "2"].map(|end| format!("00000000-0000-4000-8000-00000000000{end}"));
    for (id, message) in ids.iter().zip(["Fix the harbor", "Paint the harbor"]) {
        stage.annals(&["new", "--id", id, "-m", message]).fine();
    }
    for name in ["00000000", "the harbor"] {
        let error = json_error(&stage, &["show", name, "--json"]);
        assert_eq!(error["kind"], "ambiguous");
        let listed = |key: &str| -> std::collections::BTreeSet<&str> {
            let list = error[key].as_array().unwrap().iter();
            list.map(|it| it.as_str().unwrap()).collect()
        };
        assert_eq!(
            listed("candidates"),
            ids.iter().map(String::as_str).collect()
        );
        let titles = ["Fix the harbor", "Paint the harbor"];
        assert_eq!(listed("details"), titles.into());
        let run = stage.annals(&["show", name]);
        assert!(
            run.err.contains(&format!("{}  Fix the harbor", ids[0])),
            "{run}"
        );
    }
}

#[test]
fn global_options_are_accepted_before_an_action() {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    stage.annals(&["new", "--id", id, "-m", "x"]).fine();
    let root = format!("claude-code:{}", stage.root.display());
    let added = stage.bare(&["todos", "--root", &root, "--json", "add", id, "one"]);
    assert_eq!(added.json()["todos"][0]["content"], "one");
    let added = stage.bare(&["notes", "--root", &root, "--json", "add", id, "two"]);
    assert_eq!(added.json()["session"], id);
    let run = stage.refused(&["todos", id, "clear", id], "");
    assert!(run.err.contains("annals todos add SESSION"), "{run}");
    let run = stage.refused(&["notes", "-n", "1", "add", id, "three"], "");
    assert!(run.err.contains("annals notes add SESSION"), "{run}");
}

#[test]
fn completions_offer_sessions_projects_and_models() {
    let stage = indexed();
    let rows = sessions(&stage);
    let id = titled(&rows);
    let shown = completions(&stage, &["show", &id[..4]]);
    let (value, about) = shown.first().unwrap();
    assert!(id.starts_with(value.as_str()), "{shown:?}");
    assert!(!about.is_empty(), "{shown:?}");
    assert_eq!(values(&stage, &["show", &id[..20]]), [id]);
    let all = values(&stage, &["delete", "other", ""]);
    assert_eq!(all.len(), rows.len() + 1, "{all:?}");
    assert_eq!(values(&stage, &["tree", "lat"]), ["latest"]);
    let path = rows[0]["project"].as_str().unwrap();
    let name = path.rsplit('/').next().unwrap();
    for words in [
        &["sessions", "-p", &name[..2]][..],
        &["sessions", "--project", &name[..2]],
        &["sessions", "--project", "=", &name[..2]],
    ] {
        assert_eq!(values(&stage, words), [name], "{words:?}");
    }
    let typed = format!("--project={}", &name[..2]);
    let whole = format!("--project={name}");
    assert_eq!(values(&stage, &["sessions", &typed]), [whole]);
    assert_eq!(values(&stage, &["sessions", "-p", &path[..3]]), [path]);
    let mut models = rows.iter().map(|row| &row["models"][0]);
    let model = models.find_map(Value::as_str).unwrap();
    assert!(values(&stage, &["cost", "--model", ""]).contains(&model.to_owned()));
}

#[test]
fn completions_offer_verbs_options_and_values() {
    let stage = Stage::empty();
    assert_eq!(values(&stage, &["sess"]), ["sessions"]);
    assert_eq!(values(&stage, &["help", "stat"]), ["statusline"]);
    assert_eq!(values(&stage, &["chorus", "work"]), ["workspaces"]);
    assert_eq!(values(&stage, &["todos", "rem"]), ["remove"]);
    assert_eq!(values(&stage, &["sessions", "--sin"]), ["--since"]);
    assert_eq!(values(&stage, &["sessions", "--no-p"]), ["--no-pager"]);
    assert_eq!(values(&stage, &["cost", "--by", "mon"]), ["month"]);
    assert_eq!(
        values(&stage, &["convert", "--to", "cl"]),
        ["claude-code", "clog", "cline"]
    );
    assert_eq!(values(&stage, &["show", ""]), [""; 0]);
    assert_eq!(values(&stage, &["--color", "a"]), ["auto", "always"]);
    assert!(
        !values(&stage, &[""])
            .iter()
            .any(|verb| verb.starts_with('_'))
    );
}

#[test]
fn hostile_titles_and_ids_do_not_reach_the_completion() {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    stage.annals(&["new", "--id", id, "-m", "x"]).fine();
    stage
        .annals(&["title", id, "a\u{202e}\tb \x1b[31m $(touch PWNED)"])
        .fine();
    stage.settle_times();
    std::thread::sleep(Duration::from_millis(25));
    stage.annals(&["sessions"]).fine();
    let run = stage.annals(&["__complete", "--", "show", "0000"]).fine();
    assert!(!run.out.contains(['\x1b', '\u{202e}']), "{run}");
    assert_eq!(run.out.lines().count(), 1, "{run}");
    assert_eq!(run.out.matches('\t').count(), 1, "{run}");
}

/// Runs the bash script and completes a command line.
#[test]
fn bash_completes_with_the_script() {
    let stage = indexed();
    let script = stage.bare(&["completions", "bash"]).fine().out;
    let id = titled(&sessions(&stage)).to_owned();
    let program = assert_cmd::cargo::cargo_bin!("annals");
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let root = format!("claude-code:{}", stage.root.display());
    let test = format!(
        "{script}\nCOMP_WORDS=(annals --root {root} show {})\nCOMP_CWORD=4\n_annals\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        &id[..4]
    );
    let mut bash = Command::new("bash");
    bash.env_clear().envs(stage.env()).env("PATH", path);
    let output = bash.args(["-c", &test]).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = found.lines().next().unwrap_or_default();
    assert!(
        first.len() >= 8 && id.starts_with(first),
        "{found} {errors}"
    );
}

#[test]
fn scripts_call_the_program() {
    let stage = Stage::empty();
    for (shell, part) in [
        ("bash", "annals __complete -- "),
        ("zsh", "annals __complete -- "),
        ("fish", "annals __complete -- "),
        ("elvish", "sessions"),
        ("nushell", "export extern \"annals sessions\""),
        ("powershell", "sessions"),
    ] {
        let script = stage.bare(&["completions", shell]).fine();
        assert!(script.out.contains(part), "{shell}: {script}");
    }
}

#[test]
fn every_listed_command_has_a_manual_page() {
    let stage = Stage::empty();
    let dir = stage.work().join("man");
    std::fs::create_dir(&dir).unwrap();
    stage.bare(&["man", dir.to_str().unwrap()]).fine();
    let help = stage.bare(&["--help"]).fine().out;
    let listed = help.lines().skip_while(|line| *line != "Look:");
    let listed = listed.take_while(|line| *line != "Global options:");
    let verbs = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut count = 0;
    for verb in verbs.filter(|verb| *verb != "help") {
        let page = std::fs::read_to_string(dir.join(format!("annals-{verb}.1")));
        let page = page.unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{verb}: {page}");
        count += 1;
    }
    assert!(count > 30, "{count}");
    let missing = stage.bare(&["man", "/no/such/directory"]);
    assert_eq!(missing.code, 2, "{missing}");
    assert!(missing.err.contains("/no/such/directory"), "{missing}");
}
