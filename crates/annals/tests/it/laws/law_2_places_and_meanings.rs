//! `path_for` and `classify` are inverses, and no path leads outside the root.

use super::*;

fn stays_inside(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_)))
}

#[test]
fn every_fixture_path_round_trips_through_its_artifact() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        for file in case.files() {
            let relative = file.path.strip_prefix(&case.path).unwrap();
            let mut meaning = case.layout.classify(relative).unwrap();
            if meaning.kind == ArtifactKind::SharedLog {
                // The path does not show whose records they are.
                meaning.agent.clone_from(&file.artifact.agent);
            }
            assert_eq!(meaning, file.artifact);
            assert_eq!(
                case.layout.path_for(&file.artifact),
                relative,
                "{}",
                case.name
            );
            for dir in relative
                .ancestors()
                .skip(1)
                .filter(|dir| dir != &Path::new(""))
            {
                assert!(case.layout.may_hold_files(dir), "{}", dir.display());
            }
            seen.insert(file.artifact.kind);
        }
    }
    assert!(
        seen.len() >= 12,
        "the fixtures show most kinds of files: {seen:?}"
    );
}

/// Some layouts have logs at the same paths: then their content decides.
#[test]
fn every_fixture_with_a_session_is_a_root_of_its_layout_alone() {
    let mut wrong = Vec::new();
    for case in cases() {
        // A stray file in a root of the orchestrator is named like a log of Claude Code.
        if case.sessions().is_empty() || case.name == "unknown-files" {
            continue;
        }
        let roots = Root::parse(case.path.to_str().unwrap());
        let found: Vec<&str> = roots
            .iter()
            .flatten()
            .map(|root| root.layout.name())
            .collect();
        if found != [case.layout.name()] {
            wrong.push((case.name, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// It is no data of a session, but data that a removal has not finished with.
#[test]
fn file_that_is_being_removed_has_no_meaning() {
    for case in cases() {
        for file in case.files() {
            let relative = file.path.strip_prefix(&case.path).unwrap();
            // A root that is one file has no other files.
            let Some(name) = relative.file_name() else {
                assert!(case.layout.spec().root_is_file);
                continue;
            };
            let name = name.to_str().unwrap();
            for removed in [name, "0123456789abcdef"] {
                let removed = format!(".annals-{removed}.removed");
                let removed = relative.with_file_name(removed);
                let meaning = case.layout.classify(&removed);
                assert_eq!(meaning, None, "{}", removed.display());
            }
        }
    }
}

/// Paths of hostile parts: names of the layout, parent directories, empty parts, garbage.
#[test]
fn hostile_paths_are_never_placed_outside() {
    const PARTS: [&str; 26] = [
        "..",
        ".",
        "",
        "/",
        "projects",
        "todos",
        "tasks",
        "file-history",
        "session-env",
        "plans",
        "-w",
        "8c549c46-16ca-47dd-b731-f4c264becc53",
        "s.jsonl",
        "agent-a1.jsonl",
        "agent-..jsonl",
        "agent-.meta.json",
        "subagents",
        "tool-results",
        "x-agent-y.json",
        "..-agent-...json",
        "custom-title.json",
        "sessions-index.json",
        "a\0b",
        "%2e%2e",
        "é\u{202e}",
        ".jsonl",
    ];
    let mut dice = Dice(7);
    let mut meant = 0;
    for round in 0..60_000 {
        let mut text = String::new();
        for _ in 0..=dice.roll(7) {
            text.push_str(PARTS[dice.roll(PARTS.len())]);
            if dice.roll(8) > 0 {
                text.push('/');
            }
        }
        let path = Path::new(&text);
        for layout in LAYOUTS {
            let _ = layout.may_hold_files(path);
            let Some(artifact) = layout.classify(path) else {
                continue;
            };
            meant += 1;
            let placed = layout.path_for(&artifact);
            assert!(
                stays_inside(&placed),
                "{round}: {text:?} → {}",
                placed.display()
            );
            assert_eq!(layout.classify(&placed), Some(artifact), "{text:?}");
        }
    }
    assert!(meant > 1_000, "the paths are not all nonsense: {meant}");
}

#[test]
fn artifact_with_hostile_parts_never_leaves_the_root() {
    use ArtifactKind as K;
    let texts = ["..", "../../x", "/etc", "a/b", "", "ok", "a/../../b", "a\0"];
    let texts = || std::iter::once(None).chain(texts.map(|text| Some(text.to_owned())));
    let session = || [None, Some(SessionId::new("s1").unwrap())];
    let agent = || [None, Some(AgentId::new("a1").unwrap())];
    for layout in LAYOUTS {
        for kind in [
            K::SessionLog,
            K::AgentLog,
            K::AgentMeta,
            K::Todos,
            K::Task,
            K::FileVersion,
            K::ToolResult,
            K::History,
            K::Settings,
            K::Plan,
            K::Index,
            K::TitleFile,
            K::SessionState,
            K::SharedLog,
            K::Notes,
            K::SessionList,
            K::State,
            K::RunLog,
            K::Origin,
        ] {
            for folder in texts() {
                for name in texts() {
                    for (session, agent) in session()
                        .into_iter()
                        .flat_map(|s| agent().map(|a| (s.clone(), a)))
                    {
                        let artifact = Artifact {
                            folder: folder.clone(),
                            session,
                            agent,
                            name: name.clone(),
                            ..Artifact::new(kind)
                        };
                        let placed = layout.path_for(&artifact);
                        if let Some(meaning) = layout.classify(&placed) {
                            assert!(stays_inside(&placed), "{artifact:?} → {}", placed.display());
                            assert_eq!(layout.path_for(&meaning), placed);
                        }
                    }
                }
            }
        }
    }
}
