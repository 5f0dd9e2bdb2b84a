//! Sessions that exist only in the archive or only in part: restore after a folder was renamed,
//! interrupted imports, missing configurations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Stage;

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// An archived session with a sub-agent, whose folder was renamed afterwards.
fn renamed() -> (Stage, PathBuf) {
    let stage = Stage::empty();
    stage
        .annals(&[
            "new",
            "--id",
            SESSION,
            "--cwd",
            "/home/dev/one",
            "-m",
            "question",
        ])
        .fine();
    let log = stage.log_path(SESSION);
    let agents = log.with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    fs::write(agents.join("agent-one.jsonl"), text).unwrap();
    stage.settle();
    stage.annals(&["keep"]).fine();
    let folder = log.parent().unwrap();
    let now = folder.with_file_name("-home-dev-new");
    fs::rename(folder, &now).unwrap();
    (stage, now)
}

#[test]
fn restore_writes_archived_sub_agent_into_the_renamed_folder() {
    let (stage, folder) = renamed();
    let agent = folder.join(SESSION).join("subagents/agent-one.jsonl");
    let text = fs::read(&agent).unwrap();
    stage.annals(&["keep"]).fine();
    fs::remove_file(&agent).unwrap();
    // The archive has the session once, under its new folder.
    let listed = stage.annals(&["archive", "--list"]).fine();
    let rows: Vec<&str> = listed.out.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{listed}");
    assert!(rows[0].contains(" 1 of 2 present "), "{listed}");
    let shown = stage.annals(&["archive", "--list", SESSION]).fine();
    assert!(shown.out.contains("-home-dev-new"), "{shown}");
    assert!(!shown.out.contains("-home-dev-one"), "{shown}");
    let to = stage.work().join("converted");
    let to = to.to_str().unwrap();
    let into = ["--to", "clog", "--into", to];
    let refused = stage.annals(&[&["convert", SESSION][..], &into].concat());
    assert_eq!(refused.code, 2, "{refused}");
    let way = format!("annals restore {SESSION} --apply");
    assert!(refused.err.contains(&way), "{refused}");
    let left = stage.annals(&[&["convert", SESSION, "--without-archived"][..], &into].concat());
    let reported = "left out: 1 file only in the archive";
    assert!(left.fine().out.contains(reported));
    // The suggested command works.
    let run = stage.annals(&["restore", SESSION, "--apply"]).fine();
    assert!(run.out.contains("restored"), "{run}");
    assert_eq!(fs::read(&agent).unwrap(), text);
    assert!(!folder.with_file_name("-home-dev-one").exists());
}

/// Files that are in the renamed folder are not called missing, nor the only copy.
#[test]
fn archive_list_finds_the_files_of_a_renamed_folder() {
    let (stage, folder) = renamed();
    let row = || {
        let list = stage.annals(&["archive", "--list", "--json"]).json();
        let rows = list["archived"].as_array().unwrap().clone();
        assert_eq!(rows.len(), 1, "{list}");
        rows[0].clone()
    };
    let forget = || stage.annals(&["archive", "--forget", SESSION]).fine().out;
    let is_renamed = |renamed: bool| {
        let row = row();
        assert_eq!((&row["source"], &row["there"]), (&true.into(), &2.into()));
        assert_eq!(row["renamed"] == true, renamed, "{row}");
        let plan = forget();
        assert!(plan.contains(" in its root "), "{plan}");
        assert!(!plan.contains("only copy"), "{plan}");
    };
    is_renamed(true);
    // The next run renames it in the archive too.
    stage.annals(&["keep"]).fine();
    is_renamed(false);
    let later = folder.with_file_name("-home-dev-newer");
    fs::rename(&folder, &later).unwrap();
    is_renamed(true);
    fs::remove_dir_all(&later).unwrap();
    let plan = forget();
    assert!(
        plan.contains(" none ") && plan.contains("only copy"),
        "{plan}"
    );
}

/// When a file is only in the archive, the list counts the files that are still in the root.
#[test]
fn archive_list_counts_the_files_still_in_the_root() {
    let (stage, folder) = renamed();
    let was = folder.with_file_name("-home-dev-one");
    fs::rename(&folder, &was).unwrap();
    let source = |reported: &str| {
        let list = stage.annals(&["archive", "--list"]).fine();
        let row = list.out.lines().nth(1).unwrap();
        assert!(row.contains(reported), "{reported}: {list}");
        assert_eq!(row.contains(" of "), reported.contains(" of "), "{list}");
    };
    source("  present  ");
    fs::remove_dir_all(was.join(SESSION)).unwrap();
    source("  1 of 2 present  ");
    let shown = stage.annals(&["archive", "--list", SESSION]).fine();
    let line = |name: &str| {
        let mut lines = shown.out.lines().skip(1);
        lines.find(|line| line.contains(name)).unwrap()
    };
    assert!(line("agent-one.jsonl").contains(" missing "), "{shown}");
    let log = format!("{SESSION}.jsonl");
    assert!(line(&log).contains(" present "), "{shown}");
    let reported = stage
        .annals(&["archive", "--list", SESSION, "--json"])
        .json();
    let row = &reported["archived"][0];
    assert_eq!((&row["source"], &row["there"]), (&true.into(), &1.into()));
    let there = row["members"].as_array().unwrap().iter();
    let there: Vec<_> = there.map(|file| file["there"].as_bool()).collect();
    assert_eq!(there, [Some(true), Some(false)]);
    fs::create_dir_all(was.join(SESSION).join("subagents")).unwrap();
    let agent = was.join(SESSION).join("subagents/agent-one.jsonl");
    fs::rename(was.join(&log), agent).unwrap();
    source("  1 of 2 present, log missing  ");
    fs::remove_dir_all(&was).unwrap();
    source("  missing  ");
}

#[test]
fn interrupted_import_is_completed_by_the_next_run() {
    let stage = Stage::empty();
    for n in 1..=2 {
        let id = format!("0000000{n}-0000-4000-8000-000000000001");
        let cwd = ["--cwd", "/home/dev/one", "-m", "question"];
        stage
            .annals(&[&["new", "--id", &id][..], &cwd].concat())
            .fine();
    }
    stage.settle();
    let file = stage.work().join("all.jsonl");
    let file = file.to_str().unwrap();
    stage
        .annals(&["export", "--project", "/home/dev/one", "-o", file])
        .fine();
    fs::remove_dir_all(stage.root.join("projects")).unwrap();
    let into = format!("claude-code:{}", stage.work().join("copy").display());
    let import = ["import", file, "--into", &into];
    // A directory in place of the second log refuses the first run as a whole.
    let text = fs::read_to_string(file).unwrap();
    let second = match text.find("00000001-") > text.find("00000002-") {
        true => "00000001-0000-4000-8000-000000000001",
        false => "00000002-0000-4000-8000-000000000001",
    };
    let folder = stage.work().join("copy/projects/-home-dev-one");
    let wall = folder.join(format!("{second}.jsonl"));
    fs::create_dir_all(&wall).unwrap();
    let run = stage.annals(&import);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("nothing was imported"), "{run}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir(&wall).unwrap();
    let run = stage.annals(&import).fine();
    assert!(!run.out.contains("imported by an earlier run"), "{run}");
    // As if it had been killed before it renamed the second log.
    fs::remove_file(&wall).unwrap();
    let run = stage.annals(&import).fine();
    let earlier = run.out.matches("imported by an earlier run").count();
    assert_eq!(earlier, 1, "{run}");
    assert!(wall.is_file());
    // Now everything is imported, and a further import changes nothing.
    let run = stage.annals(&import).fine();
    let earlier = run.out.matches("imported by an earlier run").count();
    assert_eq!(earlier, 2, "{run}");
}

#[test]
fn import_reports_and_leaves_an_existing_todo_list() {
    for (layout, fixture) in [
        ("claude-code", "2.1.325-s01-multiturn"),
        ("chorus", "chorus-plain"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        let cwd = ["--cwd", "/home/dev/one", "-m", "question"];
        stage
            .annals(&[&["new", "--id", SESSION][..], &cwd].concat())
            .fine();
        stage.settle();
        stage.annals(&["todos", "add", SESSION, "exported"]).fine();
        let lists = todo_lists(&stage.root);
        let file = stage.work().join("one.jsonl");
        let file = file.to_str().unwrap();
        stage.annals(&["export", SESSION, "-o", file]).fine();
        stage.annals(&["delete", SESSION, "--apply"]).fine();
        let list = lists.iter().find(|list| !list.exists()).unwrap();
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        let foreign = r#"[{"content":"foreign","status":"pending","activeForm":"x"}]"#;
        fs::write(list, foreign).unwrap();
        let into = format!("{layout}:{}", stage.root.display());
        let run = stage.annals(&["import", file, "--into", &into]).fine();
        assert_eq!(fs::read_to_string(list).unwrap(), foreign, "{layout}");
        let name = list.file_name().unwrap().to_str().unwrap();
        let reported = run.out.lines().find(|line| line.contains(name));
        assert!(reported.unwrap().contains("left unchanged"), "{run}");
    }
}

/// All todo lists of a root.
fn todo_lists(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let is_list = path.to_string_lossy().contains("todos") && path.is_file();
            match path.is_dir() {
                true => folders.push(path),
                false => found.extend(is_list.then_some(path)),
            }
        }
    }
    found
}

#[test]
fn missing_configuration_suggests_restore() {
    let stage = Stage::with_fixture_of("chorus", "chorus-plain");
    let path = stage.root.join("config.json");
    let before = fs::read(&path).unwrap();
    stage.annals(&["keep"]).fine();
    for verb in ["workspaces", "agents", "settings"] {
        let run = stage.annals(&["chorus", verb]);
        assert!(!run.err.contains("archived"), "{verb}: {run}");
    }
    fs::remove_file(&path).unwrap();
    for verb in ["workspaces", "agents", "settings"] {
        let run = stage.annals(&["chorus", verb]);
        assert!(
            run.err.contains("restore root --also config.json --apply"),
            "{verb}: {run}"
        );
        assert!(!run.out.contains("There are no"), "{verb}: {run}");
    }
    stage.annals(&["restore", "root", "--apply"]).fine();
    assert!(
        !path.exists(),
        "configuration comes back only if it is named"
    );
    stage
        .annals(&["restore", "root", "--also", "config.json", "--apply"])
        .fine();
    assert_eq!(fs::read(&path).unwrap(), before);
    let run = stage.annals(&["chorus", "agents"]).fine();
    assert!(run.err.is_empty(), "{run}");
}

#[test]
fn root_archive_without_files_is_an_error() {
    let stage = Stage::empty();
    for args in [
        &["restore", "root"][..],
        &["archive", "--list", "root"],
        &["archive", "--forget", "root"],
    ] {
        let run = stage.refused(args, "");
        let reported = "no files outside sessions of ";
        assert!(run.err.contains(reported), "{args:?}: {run}");
    }
}
