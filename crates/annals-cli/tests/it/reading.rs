//! How `show` and `export` present tool calls: results below their calls, subjects, diffs, no
//! control sequences of terminals; and passwords that exports mask.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Run, Stage};

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// Fixtures of two parallel calls, `echo a` and `echo b`, in every form that clients write.
const PARALLEL: [&str; 4] = [
    "parallel-tools-dag",
    "parallel-tools-dag-swapped",
    "parallel-tools-linear",
    "parallel-tools-progress",
];

/// Returns the log of the only session.
fn only_log(stage: &Stage) -> PathBuf {
    let mut pending = vec![stage.root.clone()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ending| ending == "jsonl") {
                return path;
            }
        }
    }
    panic!("there is no log");
}

/// Returns the id of the only session. Output has it masked.
fn only_session(stage: &Stage) -> String {
    let log = only_log(stage);
    log.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Asserts that texts occur in the output in this order.
fn assert_in_order(run: &Run, texts: &[&str]) {
    let mut rest = run.out.as_str();
    for text in texts {
        let Some((_, after)) = rest.split_once(text) else {
            panic!("{text} does not follow in {run}");
        };
        rest = after;
    }
}

/// Creates a session with these messages.
fn written(messages: &[Value]) -> Stage {
    let stage = Stage::empty();
    let new = ["new", "--id", ID, "--cwd", "/home/dev/app", "-m", "go"];
    stage.annals(&new).fine();
    let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
    stage.with_stdin(&["append", ID], lines.join("\n")).fine();
    stage.settle();
    stage
}

#[test]
fn results_of_parallel_calls_are_below_their_calls() {
    for fixture in PARALLEL {
        let stage = Stage::with_fixture(fixture);
        let id = only_session(&stage);
        let shown = stage.annals(&["show", &id]).fine();
        assert_in_order(
            &shown,
            &[
                "→ Bash $ echo a\n│ out a\n→ Bash $ echo b\n│ out b\n",
                "Both done.",
            ],
        );
        assert!(!shown.out.contains('←'), "{shown}");
        let markdown = stage.annals(&["export", &id]).fine();
        assert_in_order(
            &markdown,
            &[
                "**Call** of `Bash`: `echo a`\n\n**Result** of `Bash`\n\n```\nout a\n```\n",
                "**Call** of `Bash`: `echo b`\n\n**Result** of `Bash`\n\n```\nout b\n```\n",
            ],
        );
        let html = stage.annals(&["export", &id, "--format", "html"]).fine();
        assert_in_order(
            &html,
            &[
                "<b>Bash</b> <code>echo a</code>",
                "<b>Result</b> of Bash <code>out a</code>",
                "<b>Bash</b> <code>echo b</code>",
                "<b>Result</b> of Bash <code>out b</code>",
            ],
        );
    }
}

/// JSON, raw records and `--all` keep the order of the file.
#[test]
fn other_forms_of_show_keep_the_order_of_the_file() {
    let stage = Stage::with_fixture("parallel-tools-dag");
    let id = only_session(&stage);
    let lines = |args: &[&str]| -> Vec<u64> {
        let shown = stage.annals(args).json();
        let entries = shown["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["line"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(lines(&["show", &id, "--json"]), (1..=8).collect::<Vec<_>>());
    let all = stage.annals(&["show", &id, "--all"]).fine();
    assert_in_order(&all, &["echo a", "echo b", "out a", "out b"]);
    let raw = stage.annals(&["show", &id, "--raw"]).fine();
    assert_in_order(&raw, &["echo a", "echo b", "out a", "out b"]);
}

#[test]
fn output_has_no_terminal_sequences_except_in_raw_records() {
    let output = "\u{1b}[31mred\u{1b}[0m\n\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}\n10 %\r100 %";
    let stage = written(&[
        json!({"role": "assistant", "model": "m", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": output}]}),
    ]);
    let shown = stage.annals(&["show", ID]).fine();
    assert_in_order(&shown, &["→ Bash $ make\n│ red\n│ link\n│ 100 %\n"]);
    for format in ["markdown", "html"] {
        let page = stage.annals(&["export", ID, "--format", format]).fine();
        assert_in_order(&page, &["red\nlink\n100 %"]);
        assert!(
            !page.out.contains('␛') && !page.out.contains("http://x"),
            "{page}"
        );
    }
    let json = stage.annals(&["show", ID, "--json"]).json();
    let result = &json["entries"][2]["blocks"][0];
    assert!(result.to_string().contains("\\u001b[31mred"), "{result}");
    let log = fs::read_to_string(only_log(&stage)).unwrap();
    assert!(log.contains("\\u001b[31mred"), "{log}");
}

#[test]
fn exports_mask_passwords_that_are_words() {
    let env = "DB_PASSWORD=\"two words\"\nMYSQL_ROOT_PASSWORD: rootpw\nJWT_SECRET=my-jwt-secret\npassword: letmein";
    let stage = written(&[json!({"role": "assistant", "model": "m", "content": env})]);
    for format in ["markdown", "html"] {
        let page = stage.annals(&["export", ID, "--format", format]).fine();
        for secret in ["two words", "rootpw", "my-jwt", "letmein"] {
            assert!(!page.out.contains(secret), "{secret}: {page}");
        }
        assert_eq!(page.err, "masked 4 secrets: 4 generic-secret\n", "{page}");
    }
}
