//! Conversations, titles, flaws and agents of each fixture, as its NOTES.md describes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use annals::layout::LAYOUTS;
use annals::model::{Body, Entry, FlawKind, TitleSource};
use annals::store::{ProjectInfo, Session, SessionInfo, Store};

use crate::support::{Case, case, cases, conversations, fixtures};

/// Formats everything that a reader finds in a fixture.
fn dump(case: &Case) -> String {
    let mut out = format!("## {}\n", case.name);
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let rows: Vec<SessionInfo> = store
        .sessions(&inventory)
        .read(&|_, _| {})
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for project in ProjectInfo::from_sessions(rows.iter()) {
        let guessed = if project.guessed { " (guessed)" } else { "" };
        // The project of aider's logs is their own directory.
        let path = project.path.replace(case.path.to_str().unwrap(), "ROOT");
        let path: String = path.chars().take(60).collect();
        writeln!(
            out,
            "project {path}{guessed}: {} sessions",
            project.sessions
        )
        .unwrap();
    }
    for (row, files) in rows.iter().zip(&inventory.sessions) {
        let mut session = Session::read(files.clone()).unwrap();
        session.apply_folder_hints(&annals::store::FolderHints::new(&inventory.sessions));
        describe(&mut out, row, &session);
    }
    for (_, file) in &inventory.others {
        let path = file.path.strip_prefix(&case.path).unwrap();
        writeln!(out, "other {:?} {}", file.artifact.kind, path.display()).unwrap();
    }
    for report in annals::check::all(&inventory, None, &|_, _| {}) {
        let report = report.unwrap();
        let path = report.path.strip_prefix(&case.path).unwrap();
        // NOTES.md explains the fixture and is not part of it.
        if path == Path::new("NOTES.md") {
            continue;
        }
        for flaw in report.flaws {
            let (kind, line) = (flaw.kind.as_str(), flaw.span.line);
            let detail: String = flaw.detail.chars().take(90).collect();
            writeln!(
                out,
                "flaw {kind} line {line}: {detail} [{}]",
                path.display()
            )
            .unwrap();
        }
    }
    out
}

fn describe(out: &mut String, row: &SessionInfo, session: &Session) {
    let title = row.title.as_ref();
    let title = title.map_or("–".to_owned(), |title| {
        format!("{:?} ({:?})", title.text, title.source)
    });
    let id: String = row.id.as_str().chars().take(8).collect();
    let usage = row.usage;
    writeln!(
        out,
        "session {id} {title}: {} entries, {} messages, {} in {} out",
        row.entries, row.messages, usage.input, usage.output
    )
    .unwrap();
    if let Some(tag) = &row.tag {
        writeln!(out, "  tag {tag:?}").unwrap();
    }
    if !row.other_directories.is_empty() {
        writeln!(out, "  also {:?}", row.other_directories).unwrap();
    }
    let infos = session.conversations();
    for (said, info) in conversations(session).iter().zip(infos) {
        let mark = if info.resumes { "*" } else { "-" };
        let title = info.title.map(|title| title.text).unwrap_or_default();
        let said: Vec<String> = said
            .iter()
            .map(|text| text.chars().take(28).collect())
            .collect();
        writeln!(out, "  {mark} {title:?} {said:?}").unwrap();
    }
    for agent in &session.agents {
        let call = agent.call.map(|call| {
            let outline = &session.logs[call.log].outlines[call.entry];
            outline
                .calls()
                .iter()
                .position(|key| *key == call.key)
                .expect("a call of that entry")
        });
        let place = agent
            .sidechain
            .map_or("log".to_owned(), |strand| format!("strand {strand}"));
        writeln!(
            out,
            "  agent {:?} {place} {:?} {:?}: {} messages, call {}",
            agent.id,
            agent.kind,
            agent.description,
            agent.messages,
            call.map_or("–".to_owned(), |at| format!("{at} of its entry"))
        )
        .unwrap();
    }
    for (agent, todos) in session.todos().unwrap() {
        let agent: String = agent.chars().take(8).collect();
        for todo in todos {
            writeln!(out, "  todo {agent} {:?} {:?}", todo.status, todo.content).unwrap();
        }
    }
    for file in session.saved_files().unwrap() {
        let versions: Vec<String> = file
            .versions
            .iter()
            .map(
                |version| match (&version.stored, version.absent, &version.operation) {
                    (Some(_), ..) => {
                        format!("{}: {} bytes", version.version, version.bytes.unwrap())
                    }
                    (None, true, _) => format!("{}: absent", version.version),
                    (None, false, Some(operation)) => format!("{}: {operation}", version.version),
                    (None, false, None) => format!("{}: gone", version.version),
                },
            )
            .collect();
        writeln!(out, "  saved {} {versions:?}", file.path).unwrap();
    }
    for file in &session.files.attachments {
        let name = file.path.file_name().unwrap().to_string_lossy();
        writeln!(out, "  beside {:?} {name}", file.artifact.kind).unwrap();
    }
}

#[test]
fn snapshot_of_every_fixture() {
    for layout in LAYOUTS {
        let of_layout = cases()
            .into_iter()
            .filter(|case| case.layout.name() == layout.name());
        let dumps: Vec<String> = of_layout.map(|case| dump(&case)).collect();
        insta::assert_snapshot!(layout.name(), dumps.join("\n"));
    }
}

/// Expected results for a fixture's only session, or for the named one, from NOTES.md.
struct Expected {
    case: &'static str,
    session: &'static str,
    conversations: &'static [&'static [&'static str]],
    flaws: &'static [(FlawKind, u64)],
    agents: usize,
}

const TURN: &[&str] = &["question 1", "answer 1"];
const TWO: &[&str] = &["question 1", "answer 1", "question 2", "answer 2"];
/// The second answer was torn, and the third prompt glued to it.
const GLUED: &[&str] = &[
    "question 1",
    "answer 1",
    "question 2",
    "question 3",
    "answer 3",
];
const THREE: &[&str] = &[
    "question 1",
    "answer 1",
    "question 2",
    "answer 2",
    "question 3",
    "answer 3",
];

#[test]
fn fixtures_have_the_expected_conversations_and_flaws() {
    use FlawKind as F;
    let plain = |case, conversations| Expected {
        case,
        session: "",
        conversations,
        flaws: &[],
        agents: 0,
    };
    let flawed = |case, conversations, flaws| Expected {
        case,
        session: "",
        conversations,
        flaws,
        agents: 0,
    };
    let table = [
        plain("attachments-in-chain", &[TURN]),
        plain("blank-lines", &[TWO]),
        plain("bom", &[TWO]),
        plain(
            "branch-edited-prompt",
            &[
                TWO,
                &[
                    "question 1",
                    "answer 1",
                    "question 2, edited",
                    "answer to the edited question",
                ],
            ],
        ),
        plain(
            "branch-nested",
            &[
                TWO,
                &[
                    "question 1",
                    "answer 1",
                    "question 2, edited",
                    "answer to the edited question",
                    "go left",
                    "deep left",
                ],
                &[
                    "question 1",
                    "answer 1",
                    "question 2, edited",
                    "answer to the edited question",
                    "go right",
                    "deep right",
                ],
            ],
        ),
        plain(
            "branch-retried-reply",
            &[&["question 1", "first try"], &["question 1", "[thinking]"]],
        ),
        plain(
            "branch-three-way",
            &[
                &["question 1", "answer 1", "turn left", "went left"],
                &["question 1", "answer 1", "turn middle", "went middle"],
                &["question 1", "answer 1", "turn right", "went right"],
            ],
        ),
        plain(
            "compaction",
            &[&[
                "question 1",
                "answer 1",
                "question 2",
                "answer 2",
                "This session is being continued from a previous conversation",
                "question 3",
                "answer 3",
            ]],
        ),
        flawed(
            "compaction-logical-parent-missing",
            &[
                TURN,
                &["Continued from elsewhere.", "question 2", "answer 2"],
            ],
            &[(F::Orphan, 3)],
        ),
        plain(
            "compaction-preserved-segment",
            &[&[
                "question 1",
                "answer 1",
                "question 2",
                "answer 2",
                "Summary of the first turn.",
                "question 3",
                "answer 3",
            ]],
        ),
        plain(
            "compaction-twice",
            &[&[
                "question 1",
                "answer 1",
                "question 2",
                "answer 2",
                "First summary.",
                "Second summary, of the first.",
                "question 3",
                "answer 3",
            ]],
        ),
        flawed(
            "corrupt-parent",
            &[
                &["question 1"],
                &["question 2", "answer 2", "question 3", "answer 3"],
            ],
            &[(F::BadJson, 2), (F::Orphan, 3)],
        ),
        plain("crlf", &[TWO]),
        flawed("cycle-of-three", &[TWO], &[(F::Cycle, 1)]),
        plain("dangling-tool-use", &[&["do it", "On it.", "[Bash]"]]),
        plain("deep-nesting", &[TWO]),
        plain(
            "duplicate-keys",
            &[&["second text", "answer 1", "question 2", "answer 2"]],
        ),
        flawed(
            "duplicate-uuid",
            &[&[
                "question 1",
                "answer 1",
                "question 2, said again",
                "answer 2",
            ]],
            &[(F::DuplicateId, 5)],
        ),
        plain(
            "empty-contents",
            &[&["", "[]", "[]", "", "[]", "[]", "[]", "at last", "answer 1"]],
        ),
        Expected {
            session: "6e1c849f",
            ..plain("empty-file", &[])
        },
        plain("final-newline-missing", &[TWO]),
        plain("foreign-lines", &[TWO]),
        Expected {
            session: "2b334dc0",
            ..plain("fork-by-sdk", &[TWO])
        },
        Expected {
            session: "c41b5597",
            ..plain("fork-by-sdk", &[TURN])
        },
        flawed(
            "invalid-utf8",
            &[&[
                "question 1",
                "caf\u{fffd} \u{fffd} \u{fffd}",
                "question 2",
                "answer 2",
            ]],
            &[(F::BadUtf8, 2)],
        ),
        plain("last-prompt-ancestor", &[THREE]),
        plain(
            "lone-surrogates",
            &[&["cut \u{fffd} here", "answer 1", "question 2", "answer 2"]],
        ),
        flawed(
            "not-objects",
            &[TWO],
            &[
                (F::NotAnObject, 2),
                (F::NotAnObject, 4),
                (F::NotAnObject, 6),
                (F::NotAnObject, 7),
                (F::NotAnObject, 9),
            ],
        ),
        flawed(
            "number-spellings",
            &[&[
                "café http://example.org/ ABC",
                "answer 1",
                "question 2",
                "answer 2",
            ]],
            &[(F::BadUsage, 4)],
        ),
        flawed(
            "only-noise",
            &[],
            &[(F::BadJson, 1), (F::BadJson, 2), (F::BadJson, 3)],
        ),
        Expected {
            session: "35204b54",
            ..plain("only-summary", &[])
        },
        flawed(
            "orphan",
            &[TURN, &["question 2", "answer 2"]],
            &[(F::Orphan, 3)],
        ),
        plain("out-of-order", &[THREE]),
        plain(
            "parallel-tools-dag",
            &[&[
                "do both",
                "[thinking]",
                "Running both.",
                "[Bash]",
                "[Bash]",
                "[result of toolu_a]",
                "[result of toolu_b]",
                "Both done.",
            ]],
        ),
        plain(
            "parallel-tools-dag-swapped",
            &[&[
                "do both",
                "[thinking]",
                "Running both.",
                "[Bash]",
                "[Bash]",
                "[result of toolu_b]",
                "[result of toolu_a]",
                "Both done.",
            ]],
        ),
        plain(
            "parallel-tools-linear",
            &[&[
                "do both",
                "[thinking]",
                "Running both.",
                "[Bash]",
                "[Bash]",
                "[result of toolu_a]",
                "[result of toolu_b]",
                "Both done.",
            ]],
        ),
        plain(
            "parallel-tools-progress",
            &[&[
                "do both",
                "[thinking]",
                "Running both.",
                "[Bash]",
                "[Bash]",
                "[result of toolu_a]",
                "[result of toolu_b]",
                "Both done.",
            ]],
        ),
        plain("queue-operations", &[TURN]),
        plain(
            "result-without-call",
            &[&[
                "question 1",
                "answer 1",
                "[result of toolu_nowhere]",
                "Odd.",
            ]],
        ),
        flawed("self-parent", &[TURN], &[(F::Cycle, 1)]),
        plain(
            "sidechain-as-branch",
            &[
                TWO,
                &[
                    "question 1",
                    "answer 1",
                    "question 2, on a side branch",
                    "answer on the side branch",
                ],
            ],
        ),
        Expected {
            agents: 1,
            ..plain("sidechain-first-line", &[TURN])
        },
        Expected {
            agents: 2,
            ..plain(
                "sidechain-own-root",
                &[&[
                    "delegate this",
                    "[Task]",
                    "[Task]",
                    "[result of toolu_one]",
                    "[result of toolu_two]",
                    "Both agents are done.",
                ]],
            )
        },
        Expected {
            agents: 1,
            ..plain(
                "sidechain-with-agent-id",
                &[&[
                    "delegate this",
                    "[Task]",
                    "[result of toolu_task]",
                    "The agent found two files.",
                ]],
            )
        },
        Expected {
            agents: 1,
            ..plain("subagents-without-session", &[])
        },
        plain("timestamps-equal", &[THREE]),
        flawed(
            "torn-tail",
            &[&["question 1", "answer 1", "question 2"]],
            &[(F::TornTail, 4)],
        ),
        plain(
            "two-roots",
            &[TURN, &["another beginning", "another answer"]],
        ),
        // Damage without loss: intact records are in their places.
        flawed("glued-records", &[TWO], &[(F::Glued, 2)]),
        flawed("nul-runs", &[TWO], &[(F::NulRun, 3), (F::NulRun, 4)]),
        flawed("torn-then-glued", &[GLUED], &[(F::Glued, 4)]),
        flawed("torn-in-character", &[GLUED], &[(F::Glued, 4)]),
        flawed("torn-after-many-objects", &[GLUED], &[(F::Glued, 4)]),
        flawed("glued-with-many-objects", &[GLUED], &[(F::Glued, 4)]),
        flawed(
            "glued-asides",
            &[TWO],
            &[(F::Glued, 5), (F::Glued, 6), (F::Glued, 7)],
        ),
        Expected {
            session: "9973dca6",
            ..plain("unknown-files", &[TURN])
        },
        plain("unknown-type-parent", &[TWO]),
        plain(
            "web-search",
            &[&[
                "look it up",
                "[opaque]",
                "[opaque]",
                "Annals are yearly records.",
            ]],
        ),
    ];
    for expected in table {
        let session = case(expected.case).session(expected.session);
        assert_eq!(
            conversations(&session),
            expected.conversations,
            "{}",
            expected.case
        );
        let mut flaws: Vec<(FlawKind, u64)> = session
            .flaws()
            .map(|(_, flaw)| (flaw.kind, flaw.span.line))
            .collect();
        flaws.sort_by_key(|(_, line)| *line);
        assert_eq!(flaws, expected.flaws, "{}", expected.case);
        assert_eq!(session.agents.len(), expected.agents, "{}", expected.case);
    }
}

/// The leaf from which the real client resumes, recorded by tools/verify/record_leaves.py.
#[test]
fn resume_leaf_matches_the_real_client() {
    let leaves = fs::read(fixtures().join("client-leaves.json")).unwrap();
    let leaves: BTreeMap<String, BTreeMap<String, BTreeMap<String, serde_json::Value>>> =
        serde_json::from_slice(&leaves).unwrap();
    let mut compared = 0;
    for (name, sessions) in &leaves {
        let with_log = case(name).sessions().into_iter();
        // The client resumes only sessions named by a UUID.
        let is_known = |id: &str| uuid::Uuid::try_parse(id).is_ok();
        let with_log = with_log.filter(|files| files.log.is_some() && is_known(files.id.as_str()));
        for files in with_log {
            // If two logs have the same id, each is recorded under its path.
            let twice = sessions.iter().find(|(key, _)| {
                key.contains('/') && files.main_path().to_string_lossy().contains(key.as_str())
            });
            let Some(client) = twice
                .map(|(_, client)| client)
                .or(sessions.get(files.id.as_str()))
            else {
                panic!("{name} {} was not recorded", files.id);
            };
            let wanted = client["2.1.325"]["leaf"].as_str();
            let session = Session::read(files).unwrap();
            let tree = session.tree().unwrap();
            let id = |at: usize| session.entry_id(at).map(|id| id.to_string());
            let leaf = tree.resume_entry.and_then(id);
            compared += 1;
            match wanted {
                Some(wanted) => assert_eq!(leaf.as_deref(), Some(wanted), "{name}"),
                // The client refuses a log with such times; annals reads it.
                None if name == "timestamps-odd" => assert!(leaf.unwrap().starts_with("00000008")),
                None => assert_eq!(leaf, None, "{name}"),
            }
        }
    }
    assert!(compared > 90, "{compared}");
}

#[test]
fn title_sources_follow_their_precedence() {
    use TitleSource as S;
    for (name, session, title, source) in [
        ("title-ai", "", "A title by a machine", S::Ai),
        ("title-api-error-summary", "", "question 1", S::Prompt),
        ("title-custom", "", "Second custom title", S::Custom),
        ("glued-asides", "", "Kept title", S::Custom),
        (
            "title-emoji-at-cut",
            "d984d379",
            "123456789 123456789 123456789 123456789😀 and more",
            S::Prompt,
        ),
        (
            "title-emoji-at-cut",
            "180640ee",
            "123456789 123456789 123456789 12345678👨‍👩‍👧‍👦 and more",
            S::Prompt,
        ),
        (
            "title-first-prompt-cut",
            "",
            "Please rename the module and then run the tests for every crate of the workspace.",
            S::Prompt,
        ),
        ("title-sidecar", "", "Title in the log", S::Custom),
        (
            "title-summary-other-file",
            "dbdc94c8",
            "From another file",
            S::Summary,
        ),
        (
            "title-summary-other-file",
            "d4861df2",
            "question 1",
            S::Prompt,
        ),
        ("title-summary-per-branch", "", "The second way", S::Summary),
        (
            "title-summary-same-file",
            "76abc93f",
            "From the same file",
            S::Summary,
        ),
        (
            "only-summary",
            "7e29369c",
            "Asking the first question",
            S::Summary,
        ),
        ("prompts-not-human", "", "the only human prompt", S::Prompt),
        ("compaction", "", "question 1", S::Prompt),
        (
            "sessions-index-stale",
            "2758c9ff",
            "Title of today",
            S::Custom,
        ),
    ] {
        let case = case(name);
        let mut read = case.session(session);
        read.apply_folder_hints(&annals::store::FolderHints::new(case.sessions().iter()));
        let found = read.title().unwrap();
        assert_eq!(
            (found.text.as_str(), found.source),
            (title, source),
            "{name} {session}"
        );
    }
    let branches: Vec<String> = case("title-summary-per-branch")
        .only()
        .conversations()
        .into_iter()
        .map(|info| info.title.unwrap().text)
        .collect();
    assert_eq!(branches, ["The first way", "The second way"]);
    assert_eq!(case("prompts-only-commands").only().title(), None);
}

#[test]
fn sub_agents_are_linked_to_their_calls_in_every_placement() {
    let calls = |name: &str| -> Vec<(String, Option<String>)> {
        let session = case(name).only();
        let mut found: Vec<_> = session
            .agents
            .iter()
            .map(|agent| {
                let id = agent
                    .id
                    .as_ref()
                    .map_or("–".to_owned(), ToString::to_string);
                let call = agent.call.map(|call| {
                    let mut made = None;
                    session
                        .each_entry_of_log(call.log, &[call.entry], |entry| {
                            made = call_of(&entry);
                            Ok(true)
                        })
                        .unwrap();
                    made.unwrap()
                });
                (id, call)
            })
            .collect();
        found.sort();
        found
    };
    let tied = |id: &str, call: Option<&str>| (id.to_owned(), call.map(str::to_owned));
    assert_eq!(
        calls("subagents-every-placement"),
        [
            tied("a00000000deadbeef", None),
            tied("a0123456789abcdef", Some("toolu_nested")),
            tied("a1b2c3d", Some("toolu_flat")),
            tied("a9999999", None),
            tied("afedcba9876543210", Some("toolu_flow")),
        ]
    );
    assert_eq!(
        calls("sidechain-with-agent-id"),
        [tied("a0b1c2d", Some("toolu_task"))]
    );
    assert_eq!(
        calls("sidechain-own-root"),
        [tied("–", Some("toolu_one")), tied("–", Some("toolu_two"))]
    );
}

fn call_of(entry: &Entry) -> Option<String> {
    use annals::model::Block;
    let Body::Message(message) = &entry.body else {
        return None;
    };
    message.blocks.iter().find_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.clone()),
        _ => None,
    })
}

/// Compares the totals per conversation with a separate walk of each path.
#[test]
fn conversation_usage_equals_the_sum_over_its_path() {
    for case in cases() {
        for files in case.sessions() {
            let session = Session::read(files).unwrap();
            let Some((_, scan, tree)) = session.main_log() else {
                continue;
            };
            let whole = crate::support::whole_names(&scan.outlines);
            for (info, conversation) in session.conversations().iter().zip(&tree.conversations) {
                let mut named = BTreeMap::new();
                let mut sum = annals::model::Usage::default();
                for at in tree.path(conversation) {
                    let Some(reply) = &scan.outlines[at].reply else {
                        continue;
                    };
                    let Some(usage) = reply.usage else { continue };
                    match reply.response {
                        Some(key) => named
                            .entry(whole(key))
                            .or_insert_with(annals::model::Usage::default)
                            .max_each(&usage),
                        None => sum.add(&usage).unwrap(),
                    }
                }
                named.values().for_each(|usage| sum.add(usage).unwrap());
                assert_eq!(info.usage, sum, "{}", case.name);
            }
        }
    }
}

mod scale;
