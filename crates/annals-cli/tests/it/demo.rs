//! `demo`: a sample root whose printed commands work.

use std::io::Read as _;

use insta::assert_snapshot;

use crate::harness::Stage;

#[test]
fn commands_suggested_by_demo_succeed() {
    let stage = Stage::empty();
    let program = assert_cmd::cargo::cargo_bin!("annals");
    // The output is not masked here, because its commands are run.
    let output = stage.command().arg("demo").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let suggested: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(" --root "))
        .collect();
    assert_eq!(suggested.len(), 11, "{text}");
    let verbs = ["search", "cost", "watch", "export"];
    for (line, verb) in suggested.iter().zip(verbs) {
        assert!(line.contains(&format!(" {verb} ")), "{line}");
    }
    for line in &suggested {
        assert!(line.starts_with(program.to_str().unwrap()), "{line}");
        let mut command = std::process::Command::new("bash");
        command
            .args(["-c", &format!("exec {line}")])
            .env_clear()
            .envs(stage.env())
            .current_dir(stage.work())
            .stdin(std::process::Stdio::null());
        if line.contains(" watch ") {
            // It runs until it is interrupted.
            let mut child = command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let shown = child.stdout.as_mut().unwrap().read_exact(&mut [0]);
            child.kill().unwrap();
            child.wait().unwrap();
            shown.unwrap();
            continue;
        }
        let run = command.output().unwrap();
        assert!(
            run.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
    let remove = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("rm -r "))
        .unwrap();
    let dir = remove.strip_prefix("rm -r ").unwrap();
    assert!(std::path::Path::new(dir).join("projects").is_dir());
}

#[test]
fn demo_creates_the_promised_sessions() {
    let stage = Stage::empty();
    let dir = stage.root.with_file_name("sample");
    let made = stage
        .bare(&["demo", "--keep", dir.to_str().unwrap(), "--json"])
        .json();
    assert_eq!(made["sessions"].as_array().unwrap().len(), 5);
    let root = format!("claude-code:{}", dir.display());
    // The age of a file decides whether its session is marked as expired.
    stage.settle();
    let rows = stage.bare(&["--root", &root, "sessions", "--json"]).json();
    let rows = rows["sessions"].as_array().unwrap();
    let sum = |key: &str| {
        rows.iter()
            .map(|row| row[key].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (
            rows.len(),
            sum("conversations"),
            sum("agents"),
            sum("flaws")
        ),
        (5, 6, 1, 0)
    );
    let projects: std::collections::BTreeSet<&str> = rows
        .iter()
        .map(|row| row["project"].as_str().unwrap())
        .collect();
    assert_eq!(projects.len(), 2);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{8}\b", "[short]");
    settings.bind(|| {
        assert_snapshot!("demo_sessions", stage.bare(&["--root", &root, "sessions"]));
        assert_snapshot!(
            "demo_todos",
            stage.bare(&["--root", &root, "todos", "--all"])
        );
    });
    let again = stage.bare(&["demo", "--keep", dir.to_str().unwrap()]);
    assert_eq!(again.code, 2);
    assert_snapshot!("demo_not_empty", again);
}
