//! The laws of the design, each over LAYOUTS × fixtures. A new layout is tested by being there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use annals::jsonl::{Ending, Scanner};
use annals::layout::{LAYOUTS, Layout, Record, Sink};
use annals::model::{
    AgentId, Artifact, ArtifactKind, Body, Entry, Fact, Flaw, Key, Kind, Outline, Role, SessionId,
    Span,
};
use annals::store::{Root, Session, Store};
use annals::tree::{Scope, Tree};

use crate::support::{Case, Dice, QUICK, cases, members, paths, picture};

/// A line of a file as the scanner gives it, owned.
struct Line {
    span: Span,
    bytes: Vec<u8>,
    terminated: bool,
}

fn lines(file: &[u8]) -> Vec<Line> {
    let mut scanner = Scanner::new(file);
    let mut found = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        found.push(Line {
            span: Span {
                offset: line.offset,
                len: line.len,
                line: line.number,
            },
            bytes: line.bytes.to_vec(),
            terminated: line.ending != Ending::None,
        });
    }
    found
}

impl Line {
    fn record(&self) -> Record<'_> {
        Record {
            span: self.span,
            bytes: &self.bytes,
            terminated: self.terminated,
            oversize: false,
        }
    }
}

fn logs(case: &Case) -> Vec<(annals::store::FoundFile, Vec<u8>)> {
    let files = case.files().into_iter();
    files
        .filter(|file| file.artifact.kind.is_log())
        .map(|file| (file.clone(), fs::read(&file.path).unwrap()))
        .collect()
}

mod law_1_bytes_are_the_truth {
    use super::*;
    use annals::model::Draft;

    #[test]
    fn the_spans_of_all_records_are_the_file() {
        for case in cases() {
            for (file, bytes) in logs(&case) {
                let mut together: Vec<u8> = Vec::new();
                let mut number = 0;
                for line in lines(&bytes) {
                    number += 1;
                    assert_eq!(line.span.offset as usize, together.len(), "{}", case.name);
                    assert_eq!(line.span.line, number, "{}", case.name);
                    let span = line.span.offset as usize..line.span.end() as usize;
                    together.extend(&bytes[span]);
                }
                assert_eq!(together, bytes, "{}", file.path.display());
            }
        }
    }

    #[test]
    fn what_is_opened_for_writing_and_closed_is_as_it_was() {
        for case in cases()
            .into_iter()
            .filter(|case| case.layout.writer().is_some())
        {
            let copy = case.copy();
            let before = picture(&copy.root.path);
            for files in copy.sessions() {
                if files.log.is_some() {
                    drop(copy.store().write(&files, QUICK).unwrap());
                }
                for agent in &files.agents {
                    let id = agent.artifact.agent.as_ref().unwrap();
                    drop(
                        copy.store()
                            .write_agent(&files, id.as_str(), QUICK)
                            .unwrap(),
                    );
                }
            }
            assert_eq!(picture(&copy.root.path), before, "{}", case.name);
        }
    }

    #[test]
    fn an_append_leaves_every_byte_before_it() {
        for case in cases()
            .into_iter()
            .filter(|case| case.layout.writer().is_some())
        {
            let copy = case.copy();
            for files in copy.sessions() {
                let Some(log) = &files.log else { continue };
                let before = fs::read(&log.path).unwrap();
                let writer = copy.store().write(&files, QUICK).unwrap();
                writer.append(Draft::user("one more")).unwrap();
                writer.retitle("another title").unwrap();
                let after = fs::read(&log.path).unwrap();
                assert!(after.starts_with(&before), "{}", case.name);
                assert!(after.ends_with(b"\n"), "{}", case.name);
            }
        }
    }

    /// What a fork may change of a record.
    fn unlike(original: &[u8], copied: &[u8]) -> Option<String> {
        const MAY: [&[u8]; 5] = [
            br#""sessionId""#,
            br#""forkedFrom""#,
            br#""parentUuid""#,
            br#""logicalParentUuid""#,
            br#""isSidechain""#,
        ];
        let own = |object: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let all = members(object).into_iter();
            all.filter(|(key, _)| !MAY.contains(&key.as_slice()))
                .collect()
        };
        let (original, copied) = (own(original), own(copied));
        (original != copied).then(|| format!("{original:?}\nbecame\n{copied:?}"))
    }

    #[test]
    fn a_fork_differs_in_nothing_but_names_and_links() {
        let mut forked = 0;
        for case in cases()
            .into_iter()
            .filter(|case| case.layout.writer().is_some())
        {
            let copy = case.copy();
            for files in copy
                .sessions()
                .into_iter()
                .filter(|files| files.log.is_some())
            {
                let session = Session::read(files).unwrap();
                let (log, scan, tree) = session.main().unwrap();
                let original = fs::read(&log.path).unwrap();
                for (at, conversation) in tree.conversations.iter().enumerate() {
                    let path = tree.path(conversation);
                    let to = SessionId::new(&format!("{forked:08x}-ffff-4000-8000-000000000000"))
                        .unwrap();
                    let made = copy
                        .store()
                        .fork(&session, &path, to.clone(), None)
                        .unwrap();
                    forked += 1;
                    let bytes = fs::read(&made).unwrap();
                    let copied: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
                    assert_eq!(copied.len(), path.len(), "{} {at}", case.name);
                    for (record, entry) in copied.iter().zip(&path) {
                        let span = scan.outlines[*entry].span;
                        let old = &original[span.offset as usize..span.end() as usize];
                        let old = old.strip_prefix(b"\xef\xbb\xbf").unwrap_or(old);
                        if let Some(difference) = unlike(old, record) {
                            panic!("{} {at}: {difference}", case.name);
                        }
                        let said = |key: &[u8]| {
                            let found = members(record).into_iter().find(|(name, _)| name == key);
                            found.map(|(_, value)| String::from_utf8(value).unwrap())
                        };
                        assert_eq!(
                            said(br#""sessionId""#),
                            Some(format!("\"{to}\"")),
                            "{}",
                            case.name
                        );
                        let origin = said(br#""forkedFrom""#).expect(&case.name);
                        assert!(origin.contains(session.files.id.as_str()), "{}", case.name);
                    }
                    // It is the same conversation, alone, without a flaw of its own making.
                    let fork = Session::read(copy.files(to.as_str())).unwrap();
                    let (new, resume) = paths(&fork);
                    let old: Vec<String> = path
                        .iter()
                        .map(|&at| session.entry_id(at).unwrap().to_string())
                        .collect();
                    assert_eq!((new, resume), (vec![old], Some(0)), "{} {at}", case.name);
                    assert_eq!(fork.trees[0].flaws, [], "{} {at}", case.name);
                    fs::remove_file(made).unwrap();
                }
            }
        }
        assert!(forked > 100, "{forked}");
    }

    #[test]
    fn control_a_rewritten_value_is_seen() {
        let original = br#"{"uuid":"a","n":1e5,"sessionId":"s","t":"\u00e9"}"#;
        assert_eq!(
            unlike(
                original,
                br#"{"uuid":"a","n":1e5,"sessionId":"x","t":"\u00e9","forkedFrom":{}}"#
            ),
            None
        );
        assert!(
            unlike(
                original,
                br#"{"uuid":"a","n":100000.0,"sessionId":"x","t":"\u00e9"}"#
            )
            .is_some()
        );
        assert!(
            unlike(
                original,
                "{\"uuid\":\"a\",\"n\":1e5,\"t\":\"é\"}".as_bytes()
            )
            .is_some()
        );
        assert!(unlike(original, br#"{"n":1e5,"uuid":"a","t":"\u00e9"}"#).is_some());
    }
}

mod law_2_places_and_meanings {
    use super::*;

    fn stays_inside(path: &Path) -> bool {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    }

    #[test]
    fn every_file_of_a_fixture_is_placed_where_it_lies() {
        let mut seen = BTreeSet::new();
        for case in cases() {
            for file in case.files() {
                let relative = file.path.strip_prefix(&case.path).unwrap();
                assert_eq!(case.layout.classify(relative), Some(file.artifact.clone()));
                assert_eq!(case.layout.place(&file.artifact), relative, "{}", case.name);
                for dir in relative
                    .ancestors()
                    .skip(1)
                    .filter(|dir| dir != &Path::new(""))
                {
                    assert!(case.layout.enters(dir), "{}", dir.display());
                }
                seen.insert(file.artifact.kind);
            }
        }
        assert!(
            seen.len() >= 12,
            "the fixtures show most kinds of files: {seen:?}"
        );
    }

    /// Paths made of parts that tempt: names of the layout, ways out, nothing, garbage.
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
                let _ = layout.enters(path);
                let Some(artifact) = layout.classify(path) else {
                    continue;
                };
                meant += 1;
                let placed = layout.place(&artifact);
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
    fn an_artifact_made_by_hand_means_itself_or_nothing() {
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
            ] {
                for folder in texts() {
                    for name in texts() {
                        for (session, agent) in session()
                            .into_iter()
                            .flat_map(|s| agent().map(|a| (s.clone(), a)))
                        {
                            let artifact = Artifact {
                                kind,
                                folder: folder.clone(),
                                session,
                                agent,
                                name: name.clone(),
                            };
                            let placed = layout.place(&artifact);
                            if let Some(meaning) = layout.classify(&placed) {
                                assert!(
                                    stays_inside(&placed),
                                    "{artifact:?} → {}",
                                    placed.display()
                                );
                                assert_eq!(layout.place(&meaning), placed);
                            }
                        }
                    }
                }
            }
        }
    }
}

mod law_3_any_cut_is_readable {
    use super::*;

    /// What one record gives, at both depths.
    fn outlined(
        layout: &dyn Layout,
        artifact: &Artifact,
        record: &Record<'_>,
    ) -> (Vec<Outline>, Vec<Flaw>) {
        let mut sink = Sink::default();
        layout.decoder(artifact).outline(record, &mut sink);
        (sink.found, sink.flaws)
    }

    fn decoded(
        layout: &dyn Layout,
        artifact: &Artifact,
        record: &Record<'_>,
    ) -> (Vec<Entry>, Vec<Flaw>) {
        let mut sink = Sink::default();
        layout.decoder(artifact).decode(record, &mut sink);
        (sink.found, sink.flaws)
    }

    /// A cut changes the last record only, so each record is cut at each of its bytes.
    #[test]
    fn a_record_cut_at_any_byte_gives_itself_or_one_flaw() {
        let mut dice = Dice(11);
        let mut cuts = 0;
        for case in cases() {
            for (file, bytes) in logs(&case) {
                for line in lines(&bytes) {
                    let whole = outlined(case.layout, &file.artifact, &line.record());
                    let len = line.bytes.len();
                    for cut in 1..len {
                        // Each parse reads all that is left: long records are sampled in the middle.
                        let near = cut < 600 || len - cut < 200;
                        if !near && dice.roll(len) >= 60 {
                            continue;
                        }
                        cuts += 1;
                        let record = Record {
                            span: Span {
                                len: cut as u64,
                                ..line.span
                            },
                            bytes: &line.bytes[..cut],
                            terminated: false,
                            oversize: false,
                        };
                        let (found, flaws) = outlined(case.layout, &file.artifact, &record);
                        let place =
                            || format!("{} line {} cut at {cut}", case.name, line.span.line);
                        assert!(
                            flaws.len() <= 1.max(whole.1.len()),
                            "{}: {flaws:?}",
                            place()
                        );
                        if found.is_empty() {
                            assert!(record.is_blank() || flaws.len() == 1, "{}", place());
                            continue;
                        }
                        // White space at the end is all that a whole record can lose.
                        let mut same = whole.0.clone();
                        same.iter_mut()
                            .for_each(|outline| outline.span = record.span);
                        assert_eq!(found, same, "{}", place());
                    }
                }
            }
        }
        assert!(cuts > 200_000, "{cuts}");
    }

    /// The same through the store: files that were really cut, read as sessions with their trees.
    #[test]
    fn a_file_cut_anywhere_is_read_as_a_prefix() {
        let mut dice = Dice(5);
        for case in cases() {
            for (file, bytes) in logs(&case) {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("cut.jsonl");
                let root = Root::new(case.layout.name(), dir.path()).unwrap();
                let found = |path: &Path| annals::store::FoundFile {
                    path: path.to_owned(),
                    ..file.clone()
                };
                fs::write(&path, &bytes).unwrap();
                let whole = annals::store::LogScan::read(&root, &found(&path)).unwrap();
                let mut at: BTreeSet<usize> = (0..12).map(|_| dice.roll(bytes.len() + 1)).collect();
                for line in lines(&bytes).iter().rev().take(4) {
                    let end = line.span.end() as usize;
                    at.extend([
                        line.span.offset as usize,
                        end.saturating_sub(1),
                        end.saturating_sub(2),
                    ]);
                }
                for cut in at {
                    fs::write(&path, &bytes[..cut]).unwrap();
                    let scan = annals::store::LogScan::read(&root, &found(&path)).unwrap();
                    let place = || format!("{} {} cut at {cut}", case.name, file.path.display());
                    assert_eq!(scan.bytes as usize, cut, "{}", place());
                    let count = scan.outlines.len();
                    assert!(count <= whole.outlines.len(), "{}", place());
                    for (mine, full) in scan.outlines.iter().zip(&whole.outlines) {
                        let mut full = full.clone();
                        full.span.len = mine.span.len;
                        assert_eq!(*mine, full, "{}", place());
                    }
                    let tail = whole
                        .flaws
                        .iter()
                        .take_while(|flaw| flaw.span.end() as usize <= cut)
                        .count();
                    assert_eq!(scan.flaws[..tail], whole.flaws[..tail], "{}", place());
                    assert!(
                        scan.flaws.len() <= tail + 1,
                        "{}: {:?}",
                        place(),
                        scan.flaws
                    );
                    if file.artifact.kind.is_conversation() {
                        Tree::build(&scan.outlines, Scope::Main);
                        Tree::build(&scan.outlines, Scope::Agent);
                    }
                }
            }
        }
    }

    /// What both depths must tell alike.
    #[derive(Debug, PartialEq)]
    struct Seen {
        span: Span,
        kind: Kind,
        id: Option<String>,
        parent: Option<Key>,
        time: Option<jiff::Timestamp>,
        agent: Option<AgentId>,
        sidechain: bool,
        human: bool,
        model: Option<String>,
        usage: Option<annals::model::Usage>,
        calls: Vec<Key>,
        results: Vec<Key>,
        spawned: Option<AgentId>,
        aside: Option<String>,
    }

    fn of_outline(outline: &Outline) -> Seen {
        let reply = outline.reply.as_deref();
        let fact = |pick: &dyn Fn(&Fact) -> Option<String>| outline.facts.iter().find_map(pick);
        Seen {
            span: outline.span,
            kind: outline.kind,
            id: outline.id().map(|id| id.to_string()),
            parent: outline.link.key(),
            time: outline.time,
            agent: outline.agent.clone(),
            sidechain: outline.sidechain,
            human: outline.human,
            model: reply
                .and_then(|reply| reply.model.as_deref())
                .map(str::to_owned),
            usage: reply.and_then(|reply| reply.usage),
            calls: outline.calls().to_vec(),
            results: outline.results.clone(),
            spawned: outline.facts.iter().find_map(|fact| match fact {
                Fact::Spawned(agent) => Some(agent.clone()),
                _ => None,
            }),
            aside: fact(&|fact| match fact {
                Fact::Title(text, source) => Some(format!("title {source:?} {text}")),
                Fact::Summary(text, leaf) => Some(format!("summary {text} {leaf:?}")),
                Fact::Tag(text) => Some(format!("tag {text}")),
                Fact::Resume(leaf) => Some(format!("resume {leaf:?}")),
                Fact::Note(text) => Some(format!("note {text}")),
                Fact::Files => Some("files".to_owned()),
                _ => None,
            }),
        }
    }

    fn of_entry(entry: &Entry) -> Seen {
        use annals::model::Block;
        let message = match &entry.body {
            Body::Message(message) => Some(message),
            _ => None,
        };
        let role = message.map(|message| message.role);
        let key = |text: &String| Key::of(text);
        let blocks = || message.into_iter().flat_map(|message| &message.blocks);
        let short = |text: &str| text.chars().take(200).collect::<String>();
        Seen {
            span: entry.span,
            kind: match (&entry.body, role) {
                (_, Some(Role::User)) => Kind::User,
                (_, Some(Role::Assistant)) => Kind::Assistant,
                (Body::Compaction { .. }, _) => Kind::Compaction,
                _ => Kind::Other,
            },
            id: entry.id.as_ref().map(ToString::to_string),
            parent: entry.parent.as_ref().map(|id| id.key()),
            time: entry.time,
            agent: entry.agent.clone(),
            sidechain: entry.sidechain,
            human: message.is_some_and(|message| message.human),
            model: message
                .filter(|_| role == Some(Role::Assistant))
                .and_then(|message| message.model.clone())
                .filter(|model| !model.is_empty()),
            usage: message
                .filter(|_| role == Some(Role::Assistant))
                .and_then(|message| message.usage),
            calls: blocks()
                .filter_map(|block| match block {
                    Block::ToolUse { id, .. }
                        if !id.is_empty() && role == Some(Role::Assistant) =>
                    {
                        Some(key(id))
                    }
                    _ => None,
                })
                .collect(),
            results: blocks()
                .filter_map(|block| match block {
                    Block::ToolResult { call, .. }
                        if !call.is_empty() && role == Some(Role::User) =>
                    {
                        Some(key(call))
                    }
                    _ => None,
                })
                .collect(),
            spawned: message
                .filter(|_| role == Some(Role::User))
                .and_then(|message| message.spawned.clone()),
            aside: match &entry.body {
                Body::Title { text, source } => Some(format!("title {source:?} {}", short(text))),
                Body::Summary { text, leaf } => {
                    let leaf = leaf.as_ref().map(|leaf| leaf.key());
                    Some(format!("summary {} {leaf:?}", short(text)))
                }
                Body::Tag { text } => Some(format!("tag {}", short(text))),
                Body::Resume { leaf } => Some(format!("resume {:?}", leaf.key())),
                Body::Note { text, .. } => Some(format!("note {}", short(text))),
                Body::Files(_) => Some("files".to_owned()),
                _ => None,
            },
        }
    }

    #[test]
    fn both_depths_tell_the_same() {
        let mut compared = 0;
        for case in cases() {
            for (file, bytes) in logs(&case) {
                if !file.artifact.kind.is_conversation() {
                    continue;
                }
                for line in lines(&bytes) {
                    let record = line.record();
                    let (outlines, shallow) = outlined(case.layout, &file.artifact, &record);
                    let (entries, deep) = decoded(case.layout, &file.artifact, &record);
                    let place = || format!("{} line {}", file.path.display(), line.span.line);
                    assert_eq!(shallow, deep, "{}", place());
                    // A record that cannot be read is an opaque entry, so that it can be shown.
                    let readable =
                        |entry: &&Entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. });
                    let entries: Vec<Seen> =
                        entries.iter().filter(readable).map(of_entry).collect();
                    let outlines: Vec<Seen> = outlines.iter().map(of_outline).collect();
                    assert_eq!(outlines, entries, "{}", place());
                    compared += outlines.len();
                }
            }
        }
        assert!(compared > 1_000, "{compared}");
    }
}

mod law_7_one_answer_by_every_route {
    use super::*;

    #[test]
    fn a_row_of_the_list_is_what_the_session_says_of_itself() {
        for case in cases() {
            let store = Store::new(vec![case.root()]);
            let inventory = store.inventory();
            let keep = store
                .keep_days(&inventory)
                .get(&case.path)
                .copied()
                .flatten();
            let rows = store.sessions(&inventory, &|_, _| {});
            assert_eq!(rows.len(), inventory.sessions.len());
            for (row, files) in rows.into_iter().zip(&inventory.sessions) {
                let mut alone = Session::read(files.clone()).unwrap();
                alone.find_summaries(inventory.sessions.iter());
                let alone = format!("{:#?}", alone.info(keep));
                assert_eq!(format!("{:#?}", row.unwrap()), alone, "{}", case.name);
            }
        }
    }

    #[test]
    fn the_end_of_a_log_gives_the_same_last_messages() {
        let mut compared = 0;
        for case in cases() {
            for files in case.sessions() {
                let full = Session::read(files.clone()).unwrap();
                for n in 1..=10 {
                    let tail = Session::read_tail(files.clone(), n).unwrap();
                    let strip = |mut entries: Vec<Entry>| {
                        entries.iter_mut().for_each(|entry| entry.span.line = 0);
                        entries
                    };
                    let wanted = strip(full.last_messages(n).unwrap());
                    assert_eq!(
                        strip(tail.last_messages(n).unwrap()),
                        wanted,
                        "{} {n}",
                        case.name
                    );
                    compared += wanted.len();
                }
            }
        }
        assert!(compared > 1_000, "{compared}");
    }

    /// A log much longer than the first window: the named leaf, and a summary, lie before it.
    #[test]
    fn the_end_of_a_long_log_gives_the_same_last_messages() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new("claude-code", dir.path()).unwrap();
        let folder = dir.path().join("projects/-w");
        fs::create_dir_all(&folder).unwrap();
        let id = |n: usize| format!("{n:08x}-0000-4000-8000-000000000000");
        let line = |n: usize, parent: usize| {
            let pad = "x".repeat(700);
            let kind = if n % 2 == 1 { "user" } else { "assistant" };
            let parent = if parent == 0 {
                "null".to_owned()
            } else {
                format!("\"{}\"", id(parent))
            };
            format!(
                r#"{{"type":"{kind}","uuid":"{}","parentUuid":{parent},"timestamp":"2026-03-01T10:{:02}:{:02}.000Z","message":{{"role":"{kind}","id":"m{n}","content":[{{"type":"text","text":"{n} {pad}"}}]}}}}"#,
                id(n),
                n / 60 % 60,
                n % 60
            ) + "\n"
        };
        let chain: String = (1..=600).map(|n| line(n, n - 1)).collect();
        // A second branch from message 10, 300 lines long, after which the log names the first.
        let branch: String = (601..=900)
            .map(|n| line(n, if n == 601 { 10 } else { n - 1 }))
            .collect();
        let named = format!(
            "{{\"type\":\"last-prompt\",\"leafUuid\":\"{}\"}}\n",
            id(600)
        );
        for (name, log) in [
            ("a", chain.clone()),
            ("b", format!("{chain}{branch}")),
            ("c", format!("{chain}{branch}{named}")),
            ("d", format!("{named}{chain}{branch}")),
        ] {
            let name = format!("{}-ffff-4000-8000-000000000000.jsonl", name.repeat(8));
            fs::write(folder.join(name), log).unwrap();
        }
        for files in Store::new(vec![root]).inventory().sessions {
            let full = Session::read(files.clone()).unwrap();
            for n in [1, 5, 40, 200, 1_000] {
                let tail = Session::read_tail(files.clone(), n).unwrap();
                let ids = |session: &Session| -> Vec<String> {
                    let messages = session.last_messages(n).unwrap();
                    messages
                        .iter()
                        .map(|entry| entry.id.as_ref().unwrap().to_string())
                        .collect()
                };
                assert_eq!(ids(&tail), ids(&full), "{} {n}", files.id);
            }
        }
    }
}
