//! Links in a root: their targets are not read, and each link is reported once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::harness::{Run, Stage};

/// A layout, a fixture of it, paths for a link to a directory and for one to a file that the layout
/// would read, and the log behind them.
struct Hole {
    layout: &'static str,
    fixture: &'static str,
    directory: &'static str,
    /// Name of a log in the linked directory.
    name: &'static str,
    file: &'static str,
    log: &'static str,
}

const HOLES: [Hole; 9] = [
    Hole {
        layout: "claude-code",
        fixture: "branch-edited-prompt",
        directory: "projects/-outside",
        name: "000000dd-0000-4000-8000-000000000001.jsonl",
        file: "projects/-w/000000dd-0000-4000-8000-000000000001.jsonl",
        log: r#"{"type":"user","uuid":"000000dd-0000-4000-8000-000000000002","parentUuid":null,"sessionId":"000000dd-0000-4000-8000-000000000001","cwd":"/w","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":"SECRETWORD"}}"#,
    },
    Hole {
        layout: "chorus",
        fixture: "chorus-plain",
        directory: "sessions/w-app/a-outside",
        name: "c9-messages.jsonl",
        file: "sessions/w-app/a-new/c9-messages.jsonl",
        log: r#"{"uuid":"u1","type":"user","content":"SECRETWORD","timestamp":"2026-03-02T09:00:50.000Z"}"#,
    },
    Hole {
        layout: "clog",
        fixture: "every-role-and-channel",
        directory: "conversations/conversation-2026-03-26T01-32-20-418Z-outside",
        name: "chat.jsonl",
        file: "conversations/conversation-2026-03-26T01-32-20-418Z-new/chat.jsonl",
        log: r#"{"type":"message","conversationId":"c","threadId":"outside","messageId":"m1","role":"user","channel":"tui","content":"SECRETWORD","createdAt":1774488741418}"#,
    },
    Hole {
        layout: "orchestrator",
        fixture: "one-day",
        directory: "projects/OUTSIDEoutsideOUTSID",
        name: "2026-03-01.jsonl",
        file: "projects/NEWnewNEWnewNEWnewNE/2026-03-01.jsonl",
        log: r#"{"type":"user","content":"SECRETWORD","timestamp":"2026-03-01T10:00:00.000Z","metadata":{"source":"cli","sessionId":"main"}}"#,
    },
    Hole {
        layout: "codex",
        fixture: "0.80-s01-qa",
        directory: "sessions/2026/12/02",
        name: "rollout-2026-03-01T10-00-00-000000dd-0000-4000-8000-000000000001.jsonl",
        file: "sessions/2026/12/01/rollout-2026-03-01T10-00-00-000000dd-0000-4000-8000-000000000001.jsonl",
        log: r#"{"timestamp":"2026-03-01T10:00:00.000Z","type":"session_meta","payload":{"id":"000000dd-0000-4000-8000-000000000001","cwd":"/w","cli_version":"0.80.0","source":"cli"}}
{"timestamp":"2026-03-01T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"SECRETWORD"}]}}"#,
    },
    Hole {
        layout: "gemini",
        fixture: "patches-tools",
        directory: "tmp/outside",
        name: "chats/session-2026-03-01T10-00-000000dd.jsonl",
        file: "tmp/new/chats/session-2026-03-01T10-00-000000dd.jsonl",
        log: r#"{"sessionId":"000000dd-0000-4000-8000-000000000001","projectHash":"x","startTime":"2026-03-01T10:00:00.000Z","lastUpdated":"2026-03-01T10:00:00.000Z","kind":"main"}
{"id":"m1","timestamp":"2026-03-01T10:00:00.000Z","type":"user","content":"SECRETWORD"}"#,
    },
    Hole {
        layout: "pi",
        fixture: "0.73-s01-qa",
        directory: "sessions/--outside--",
        name: "2026-03-01T10-00-00-000Z_000000dd-0000-4000-8000-000000000001.jsonl",
        file: "sessions/--new--/2026-03-01T10-00-00-000Z_000000dd-0000-4000-8000-000000000001.jsonl",
        log: r#"{"type":"session","version":3,"id":"000000dd-0000-4000-8000-000000000001","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/w"}
{"type":"message","id":"000000d1","parentId":null,"timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":"SECRETWORD"}}"#,
    },
    Hole {
        layout: "qwen",
        fixture: "0.24-s01-qa",
        directory: "projects/-outside",
        name: "chats/000000dd-0000-4000-8000-000000000001.jsonl",
        file: "projects/-new/chats/000000dd-0000-4000-8000-000000000001.jsonl",
        log: r#"{"uuid":"000000dd-0000-4000-8000-000000000002","parentUuid":null,"sessionId":"000000dd-0000-4000-8000-000000000001","timestamp":"2026-03-01T10:00:00.000Z","type":"user","cwd":"/w","version":"0.24.4","message":{"role":"user","parts":[{"text":"SECRETWORD"}]}}"#,
    },
    Hole {
        layout: "copilot",
        fixture: "1.0-s01-qa",
        directory: "session-state/000000dd-0000-4000-8000-000000000001",
        name: "events.jsonl",
        file: "session-state/000000dd-0000-4000-8000-000000000002/events.jsonl",
        log: r#"{"type":"session.start","data":{"sessionId":"000000dd-0000-4000-8000-000000000001","context":{"cwd":"/w"}},"id":"e1","timestamp":"2026-03-01T10:00:00.000Z","parentId":null}
{"type":"user.message","data":{"content":"SECRETWORD"},"id":"e2","timestamp":"2026-03-01T10:00:01.000Z","parentId":"e1"}"#,
    },
];

/// Verbs that read sessions.
const VERBS: [&[&str]; 15] = [
    &[],
    &["sessions"],
    &["sessions", "--json"],
    &["--no-index", "sessions"],
    &["conversations"],
    &["projects"],
    &["show", "latest"],
    &["tree", "latest"],
    &["search", "SECRETWORD"],
    &["search", "e", "--json"],
    &["cost", "--json"],
    &["export", "latest"],
    &["todos", "latest"],
    &["keep"],
    &["archive", "latest", "--live", "--apply"],
];

impl Hole {
    fn stage(&self) -> Stage {
        let stage = Stage::with_fixture_of(self.layout, self.fixture);
        let outside = stage.work().join("outside");
        fs::create_dir_all(outside.join("below")).unwrap();
        fs::create_dir_all(outside.join(self.name).parent().unwrap()).unwrap();
        fs::write(outside.join(self.name), format!("{}\n", self.log)).unwrap();
        fs::write(outside.join("id_rsa"), "SECRETKEY").unwrap();
        // Both stages get the parent directory of the file.
        let parent = stage.root.join(self.file);
        fs::create_dir_all(parent.parent().unwrap()).unwrap();
        stage
    }

    /// Creates a link in the root and returns its path.
    fn pierce(&self, stage: &Stage, kind: Kind) -> PathBuf {
        let outside = stage.work().join("outside");
        let (place, target) = match kind {
            Kind::Directory => (self.directory, outside),
            Kind::File => (self.file, outside.join(self.name)),
            Kind::Everything => (self.directory, "/".into()),
            Kind::Process => (self.file, "/proc/self/maps".into()),
        };
        let link = stage.root.join(place);
        symlink(target, &link).unwrap();
        link
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A link to a directory with a log and a key.
    Directory,
    /// A link to a log.
    File,
    /// A link to the whole file system.
    Everything,
    /// A link to `/proc/self/maps`.
    Process,
}

const KINDS: [Kind; 4] = [Kind::Directory, Kind::File, Kind::Everything, Kind::Process];

fn masked(path: &Path, stage: &Stage) -> String {
    let base = stage.root.parent().unwrap();
    format!("[DIR]/{}", path.strip_prefix(base).unwrap().display())
}

/// The number of lines that name a link, and the other lines.
fn parted(text: &str, link: &str) -> (usize, Vec<String>) {
    let (naming, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains(link));
    (
        naming.len(),
        others.into_iter().map(str::to_owned).collect(),
    )
}

fn assert_no_secret(run: &Run, what: &str) {
    for secret in ["SECRETWORD", "SECRETKEY"] {
        assert!(!run.out.contains(secret), "{what}: {run}");
        assert!(!run.err.contains(secret), "{what}: {run}");
    }
}

/// The paths of the problems in a JSON document, and the document without them.
fn without_problems(out: &str) -> (Vec<String>, String) {
    let Some((answer, problems)) = out.split_once(",\n  \"problems\": ") else {
        return (Vec::new(), out.to_owned());
    };
    let problems = problems.strip_suffix("\n}\n").unwrap();
    let problems: Vec<serde_json::Value> = serde_json::from_str(problems).unwrap();
    let paths = problems.iter().map(|it| it["path"].as_str().unwrap());
    (
        paths.map(str::to_owned).collect(),
        format!("{answer}\n}}\n"),
    )
}

#[test]
fn content_behind_a_link_changes_no_output() {
    for hole in &HOLES {
        for kind in KINDS {
            let (plain, pierced) = (hole.stage(), hole.stage());
            let link = hole.pierce(&pierced, kind);
            let link = masked(&link, &pierced);
            for verb in VERBS {
                let what = format!("{} {kind:?} {verb:?}", hole.layout);
                let (before, after) = (plain.annals(verb), pierced.annals(verb));
                // This verb prints the searched word itself.
                if verb != ["search", "SECRETWORD"] {
                    assert_no_secret(&after, &what);
                }
                let (reported, others) = parted(&after.err, &link);
                assert_eq!(reported, 1, "{what}: {after}");
                assert_eq!(after.code, 2, "{what}: {after}");
                if verb == ["keep"] {
                    // `keep` also reports that it could not archive everything.
                    continue;
                }
                let plain: Vec<&str> = before.err.lines().collect();
                assert_eq!(others, plain, "{what}: {after}");
                let (problems, answer) = without_problems(&after.out);
                assert_eq!(answer, before.out, "{what}");
                match verb.contains(&"--json") {
                    true => assert_eq!(problems, [link.as_str()], "{what}"),
                    false => assert!(problems.is_empty(), "{what}"),
                }
            }
            let archived = |stage: &Stage| {
                let mut names: Vec<(String, usize)> = stage
                    .tree()
                    .into_iter()
                    .filter(|(path, _)| path.extension().is_some_and(|it| it == "zst"))
                    .map(|(path, bytes)| {
                        let name = path.file_name().unwrap().to_str().unwrap();
                        (name.split('.').next().unwrap().to_owned(), bytes.len())
                    })
                    .collect();
                names.sort();
                names
            };
            // Times differ, and so do sizes, slightly.
            let names = |stage: &Stage| {
                archived(stage)
                    .into_iter()
                    .map(|it| it.0)
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&plain), names(&pierced), "{} {kind:?}", hole.layout);
            let size = |stage: &Stage| archived(stage).iter().map(|it| it.1).sum::<usize>();
            assert!(
                size(&pierced) < size(&plain) + 2_000,
                "{} {kind:?}",
                hole.layout
            );
        }
    }
}

/// Control: the test above fails if a link is followed.
#[test]
fn control_followed_link_changes_output() {
    for hole in &HOLES {
        let (plain, pierced) = (hole.stage(), hole.stage());
        let link = hole.pierce(&pierced, Kind::Directory);
        pierced.follow(&link);
        for verb in [&["sessions"][..], &["search", "SECRETWORD"]] {
            let (before, after) = (plain.annals(verb), pierced.annals(verb));
            assert_ne!(before.out, after.out, "{} {verb:?}", hole.layout);
            assert!(after.out.contains("SECRETWORD"), "{} {after}", hole.layout);
        }
    }
}

#[test]
fn check_reports_each_link_once() {
    for hole in &HOLES {
        for kind in KINDS {
            let stage = hole.stage();
            let link = hole.pierce(&stage, kind);
            let what = format!("{} {kind:?}", hole.layout);
            let run = stage.annals(&["check", "--json"]);
            let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
            let files = found["files"].as_array().unwrap().iter();
            let links: Vec<_> = files
                .flat_map(|file| {
                    file["flaws"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(move |flaw| (file, flaw))
                })
                .filter(|(_, flaw)| flaw["kind"] == "unread-link")
                .collect();
            assert_eq!(links.len(), 1, "{what}: {run}");
            assert_eq!(links[0].0["path"], masked(&link, &stage), "{what}");
            assert_eq!(found["ok"], false, "{what}: {run}");
            assert!(run.err.is_empty(), "{what}: {run}");
            assert_eq!(run.code, 1, "{what}: {run}");
            assert_no_secret(&run, &what);
        }
    }
}

#[test]
fn convert_copies_nothing_from_behind_a_link() {
    for hole in &HOLES {
        let to = match hole.layout {
            "chorus" => "clog",
            _ => "chorus",
        };
        for kind in KINDS {
            let (plain, pierced) = (hole.stage(), hole.stage());
            let link = hole.pierce(&pierced, kind);
            let within = link
                .strip_prefix(&pierced.root)
                .unwrap()
                .display()
                .to_string();
            let what = format!("{} {kind:?}", hole.layout);
            let convert = |stage: &Stage| {
                let from = format!("{}:{}", hole.layout, stage.root.display());
                let into = stage.work().join("there");
                let run = stage.bare(&[
                    "convert",
                    &from,
                    "--to",
                    to,
                    "--into",
                    into.to_str().unwrap(),
                ]);
                let mut names = Vec::new();
                for (path, bytes) in super::below(&into) {
                    let text = String::from_utf8_lossy(&bytes);
                    assert!(!text.contains("SECRET"), "{what}: {}", path.display());
                    names.push(path.strip_prefix(&into).unwrap().to_owned());
                }
                (run, names)
            };
            let (before, names) = convert(&plain);
            let (after, others) = convert(&pierced);
            assert_eq!(before.code, 0, "{what}: {before}");
            assert_eq!(after.code, 2, "{what}: {after}");
            assert_eq!(names, others, "{what}");
            assert!(after.err.contains(&within), "{what}: {after}");
            let (reported, rest) = parted(&after.out, &within);
            assert_eq!(reported, 1, "{what}: {after}");
            assert_eq!(rest, before.out.lines().collect::<Vec<_>>(), "{what}");
        }
    }
}

/// Some users move `projects` to a larger disk and link to it.
#[test]
fn linked_projects_directory_is_reported_until_allowed() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let before = stage.annals(&["sessions"]).fine();
    let disk = stage.work().join("disk");
    fs::rename(stage.root.join("projects"), &disk).unwrap();
    symlink(&disk, stage.root.join("projects")).unwrap();
    let run = stage.annals(&["sessions"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(
        run.err.contains("[DIR]/root/projects was not read"),
        "{run}"
    );
    assert!(run.err.contains("[DIR]/work/disk"), "{run}");
    assert!(
        run.err
            .contains("`follow` in [DIR]/home/.config/annals/config.toml"),
        "{run}"
    );
    // With `follow` in the settings it is read, but still not written.
    let link = stage.root.join("projects");
    stage.follow(&link);
    for args in [&["sessions"][..], &["--no-index", "sessions"]] {
        let run = stage.annals(args).fine();
        assert_eq!((run.out, run.err), (before.out.clone(), before.err.clone()));
    }
    stage.annals(&["check"]).fine();
    let run = stage.annals(&["append", "latest", "-m", "x"]);
    assert_eq!(run.code, 2, "{run}");
    // Other links inside the linked directory are not allowed by it.
    symlink("/", disk.join("-slash")).unwrap();
    let run = stage.annals(&["sessions"]);
    assert_eq!((run.code, run.out), (2, before.out), "{}", run.err);
    // The root itself may be a link.
    fs::remove_file(disk.join("-slash")).unwrap();
    fs::remove_file(&link).unwrap();
    fs::rename(&disk, &link).unwrap();
    let real = stage.work().join("real");
    fs::rename(&stage.root, &real).unwrap();
    symlink(&real, &stage.root).unwrap();
    let home = stage.root.with_file_name("home");
    fs::remove_file(home.join(".config/annals/config.toml")).unwrap();
    stage.annals(&["sessions"]).fine();
}

/// Users who link `settings.json` to their dotfiles are not warned by every command.
#[test]
fn linked_settings_are_reported_only_by_check() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let dotfiles = stage.work().join("settings.json");
    fs::write(&dotfiles, r#"{"cleanupPeriodDays":7}"#).unwrap();
    let _ = fs::remove_file(stage.root.join("settings.json"));
    symlink(&dotfiles, stage.root.join("settings.json")).unwrap();
    let run = stage.annals(&["sessions"]).fine();
    assert_eq!(run.err, "", "{run}");
    let run = stage.annals(&["check"]);
    assert!(run.out.contains("unread-link"), "{run}");
}

/// A root found in the current directory may have come with a cloned repository.
#[test]
fn root_in_the_current_directory_is_not_read_through_a_link() {
    let stage = Stage::with_fixture_of("chorus", "chorus-plain");
    let named = stage.annals(&["sessions"]).fine();
    let found = stage.work().join(".chorus");
    // A real directory of the user.
    fs::rename(&stage.root, &found).unwrap();
    let run = stage.bare(&["sessions"]).fine();
    assert_eq!(run.out, named.out, "{run}");
    // A link.
    fs::rename(&found, &stage.root).unwrap();
    symlink(&stage.root, &found).unwrap();
    let run = stage.bare(&["sessions"]);
    assert!(!run.out.contains("question"), "{run}");
    assert!(run.err.contains("[DIR]/work/.chorus was not read"), "{run}");
    assert!(run.err.contains("symbolic link"), "{run}");
    let run = stage.bare(&["--root", "chorus:.chorus", "sessions"]).fine();
    assert_eq!(run.out, named.out, "{run}");
    // A root in the home directory is the user's own, link or not.
    let home = stage.root.with_file_name("home");
    fs::create_dir_all(&home).unwrap();
    fs::rename(&found, home.join(".chorus")).unwrap();
    let run = stage.bare(&["sessions"]).fine();
    assert_eq!((run.out, run.err), (named.out, String::new()));
    // A directory of another user; only root can create one.
    fs::remove_file(home.join(".chorus")).unwrap();
    fs::rename(&stage.root, &found).unwrap();
    if std::os::unix::fs::chown(&found, Some(54_321), None).is_ok() {
        let run = stage.bare(&["sessions"]);
        assert!(run.err.contains("belongs to another user"), "{run}");
    }
}

/// A pipe in the place of any file, or a link to one, holds up no verb, whichever session it works on.
#[test]
fn pipes_in_any_layout_hold_up_no_verb() {
    const VERBS: [&[&str]; 9] = [
        &["sessions"],
        &["search", "e"],
        &["check"],
        &["keep"],
        &["archive", "latest", "--live", "--apply"],
        &["delete", "latest", "--live", "--apply"],
        &["clean", "--older-than", "1d", "--apply"],
        &["fork", "latest"],
        &["repair", "--apply"],
    ];
    for (layout, fixture) in [
        // One of its threads continues another.
        ("codex", "0.166-s03-fork"),
        ("gemini", "made-sub-agent"),
        ("pi", "0.87-s11-forkcli"),
        ("qwen", "made-sub-agent"),
        ("copilot", "1.0-s04-subagent"),
        ("opencode", "1.1-s01-qa"),
        ("droid", "0.215-s01-qa"),
        ("cline", "3.0-s01-qa"),
        ("aider", "0.86-s01-qa"),
    ] {
        let files = {
            let stage = Stage::with_fixture_of(layout, fixture).without_notes();
            let files = super::below(&stage.root).into_iter();
            let files = files.filter(|(path, _)| path.is_file());
            let within = |path: PathBuf| path.strip_prefix(&stage.root).unwrap().to_owned();
            files.map(|(path, _)| within(path)).collect::<Vec<_>>()
        };
        for (number, file) in files.iter().take(6).enumerate() {
            let stage = Stage::with_fixture_of(layout, fixture).without_notes();
            let (path, pipe) = (stage.root.join(file), stage.work().join("pipe"));
            fs::remove_file(&path).unwrap();
            let is_link = number % 2 == 1;
            let place = if is_link { &pipe } else { &path };
            let made = std::process::Command::new("mkfifo").arg(place).status();
            assert!(made.unwrap().success());
            if is_link {
                symlink(&pipe, &path).unwrap();
            }
            let root = format!("{layout}:{}", stage.root.display());
            for verb in VERBS {
                // `timeout` ends with 124.
                let within = "exec timeout 60 \"$0\" \"$@\"";
                let output =
                    super::limited(&stage, within, &[&["--root", root.as_str()], verb].concat());
                let code = output.status.code();
                let what = format!("{layout} {} {verb:?}", file.display());
                assert!(matches!(code, Some(0..=2)), "{what}: {code:?}");
            }
        }
    }
}
