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
                        // White space at the end is all that a whole record can lose; of glued ones,
                        // the first may be whole.
                        let mut same = whole.0.clone();
                        same.truncate(found.len());
                        for outline in &mut same {
                            if outline.span == line.span {
                                outline.span = record.span;
                            }
                        }
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

mod law_4_what_is_written_is_read {
    use super::*;
    use annals::layout::{NewSession, Spawn};
    use annals::model::{Block, Draft, Message, TitleSource, Todo, TodoStatus, Usage};
    use annals::store::SessionWriter;

    fn writable() -> Vec<&'static dyn Layout> {
        let layouts = LAYOUTS.iter().copied();
        layouts.filter(|layout| layout.writer().is_some()).collect()
    }

    fn begin(layout: &dyn Layout) -> (tempfile::TempDir, Store, SessionWriter) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout.name(), dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]);
        let new = NewSession {
            id: SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap(),
            cwd: "/home/dev/new".to_owned(),
            git_branch: Some("main".to_owned()),
        };
        let writer = store.create(&root, &new, QUICK).unwrap();
        (dir, store, writer)
    }

    fn read(store: &Store) -> Session {
        Session::read(store.inventory().sessions.remove(0)).unwrap()
    }

    fn call(id: &str, input: &str) -> Block {
        Block::ToolUse {
            id: id.to_owned(),
            name: "Bash".to_owned(),
            input: input.to_owned(),
        }
    }

    fn result(call: &str, output: Vec<Block>, is_error: bool) -> Block {
        Block::ToolResult {
            call: call.to_owned(),
            output,
            is_error,
        }
    }

    fn text(text: &str) -> Block {
        Block::Text(text.to_owned())
    }

    /// Messages of every shape, with texts that are hard to write.
    fn drafts() -> Vec<Draft> {
        let image = Block::Image {
            media_type: "image/png".to_owned(),
            data: "iVBORw0KGgo=".to_owned(),
        };
        let user = |blocks| Draft::new(Body::Message(Message::new(Role::User, blocks)));
        let usage = Usage {
            input: 1,
            output: 2,
            cache_write_5m: 3,
            cache_write_1h: 4,
            cache_read: 5,
            web_searches: 6,
        };
        let thinking = |signature: &str| Block::Thinking {
            text: "hm".to_owned(),
            signature: Some(signature.to_owned()),
        };
        vec![
            Draft::user("plain"),
            Draft::user(
                "line\nbreak\r\n\ttab \u{0} \u{1b}[31m \u{2028} \"quote\" \\ / é 😀 \u{fffd}",
            ),
            Draft::user(" "),
            Draft::user("x".repeat(100_000)),
            Draft::assistant(vec![text("answer")])
                .model("claude-test")
                .usage(usage),
            Draft::assistant(vec![
                thinking("sig=="),
                text("before"),
                call(
                    "toolu_1",
                    r#"{"command":"ls","n":1e5,"u":"\u00e9\/","n":2}"#,
                ),
                call("toolu_2", "{}"),
                text("after"),
            ])
            .model("claude-test"),
            user(vec![
                result("toolu_1", vec![text("out")], false),
                result("toolu_2", vec![text("bad")], true),
            ]),
            user(vec![result(
                "toolu_3",
                vec![text("a"), image.clone()],
                false,
            )]),
            user(vec![result("toolu_4", vec![], false)]),
            user(vec![text("look"), image.clone(), text("at this")]),
            Draft::assistant(vec![
                thinking(""),
                Block::Opaque {
                    kind: "server_tool_use".to_owned(),
                    json: r#"{"type":"server_tool_use","id":"x"}"#.to_owned(),
                },
            ]),
        ]
    }

    fn blocks_of(body: &Body) -> Vec<Block> {
        match body {
            Body::Message(message) => message.blocks.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_message_comes_back() {
        for layout in writable() {
            let (_dir, store, writer) = begin(layout);
            let mut told: Vec<Entry> = Vec::new();
            for draft in drafts() {
                told.extend(writer.append_all(vec![draft]).unwrap());
            }
            let session = read(&store);
            assert_eq!(session.flaws().count(), 0);
            let (_, _, tree) = session.main().unwrap();
            assert_eq!(tree.conversations.len(), 1);
            let found = session.messages(&Default::default()).unwrap();
            // What an append tells is what a reader finds, byte for byte.
            let mut told: Vec<Entry> = told
                .into_iter()
                .filter(|entry| matches!(entry.body, Body::Message(_)))
                .collect();
            for (told, found) in told.iter_mut().zip(&found) {
                told.span.line = found.span.line;
            }
            assert_eq!(told, found);
            // A reply may be several entries, but its parts are all there, once and in order.
            let mut left = found.iter().peekable();
            for draft in drafts() {
                let wanted = blocks_of(&draft.body);
                let mut got = Vec::new();
                while got.len() < wanted.len() {
                    let entry = left.next().unwrap();
                    let (Body::Message(entry), Body::Message(draft)) = (&entry.body, &draft.body)
                    else {
                        panic!()
                    };
                    assert_eq!(entry.role, draft.role);
                    // Blanks are nothing that a person said.
                    let blank = wanted == [text(" ")];
                    assert!(!draft.human || entry.human != blank);
                    if draft.role == Role::Assistant {
                        assert_eq!(entry.usage, Some(draft.usage.unwrap_or_default()));
                    }
                    if draft.model.is_some() {
                        assert_eq!(entry.model, draft.model);
                    }
                    got.extend(entry.blocks.clone());
                }
                assert_eq!(got, wanted);
            }
            assert!(left.next().is_none());
            // Tokens of a reply on several lines count once.
            assert_eq!(session.info(None).usage.output, 2);
        }
    }

    #[test]
    fn what_stands_beside_the_messages_comes_back() {
        for layout in writable() {
            let (_dir, store, writer) = begin(layout);
            writer.append(Draft::user("ask")).unwrap();
            let answer = writer.append(Draft::assistant(vec![text("say")])).unwrap();
            writer.retitle("  A title\nof two lines ").unwrap();
            writer.tag("important").unwrap();
            let note = writer.append(Draft::note("remember\nthis")).unwrap();
            assert_eq!(
                note.body,
                Body::Note {
                    author: None,
                    text: "remember\nthis".to_owned()
                }
            );
            let todos = [
                Todo::pending("first"),
                Todo {
                    status: TodoStatus::Completed,
                    active_form: Some("Doing".to_owned()),
                    ..Todo::pending("second 😀")
                },
            ];
            writer.set_todos(&[Todo::pending("replaced")]).unwrap();
            writer.set_todos(&todos).unwrap();
            let session = read(&store);
            assert_eq!(session.title().unwrap().text, "A title of two lines");
            assert_eq!(session.title().unwrap().source, TitleSource::Custom);
            assert_eq!(session.tag().as_deref(), Some("important"));
            assert_eq!(
                session.todos().unwrap(),
                [(session.files.id.to_string(), todos.to_vec())]
            );
            writer.tag("").unwrap();
            assert_eq!(read(&store).tag(), None);
            // None of that moved the leaf.
            assert_eq!(writer.leaf(), answer.id);
            let last = session.last_messages(1).unwrap();
            assert_eq!(last[0].id, answer.id);
            for empty in ["", "  \n"] {
                assert!(writer.retitle(empty).is_err());
            }
        }
    }

    #[test]
    fn a_compaction_continues_the_conversation() {
        for layout in writable() {
            let (_dir, store, writer) = begin(layout);
            assert!(writer.compact("nothing yet", None).is_err());
            writer.append(Draft::user("one")).unwrap();
            writer.append(Draft::assistant(vec![text("two")])).unwrap();
            let written = writer.compact("what was said", Some(1_000)).unwrap();
            assert_eq!(written.len(), 2);
            assert!(matches!(written[0].body, Body::Compaction { .. }));
            writer.append(Draft::user("three")).unwrap();
            let session = read(&store);
            assert_eq!(
                crate::support::conversations(&session),
                [["one", "two", "what was said", "three"]]
            );
            assert_eq!(session.flaws().count(), 0);
            assert_eq!(session.title().unwrap().text, "one");
        }
    }

    #[test]
    fn a_spawned_agent_is_tied_to_its_call() {
        for layout in writable() {
            let (_dir, store, writer) = begin(layout);
            writer.append(Draft::user("delegate")).unwrap();
            let task = Block::ToolUse {
                id: "toolu_t".to_owned(),
                name: "Task".to_owned(),
                input: r#"{"prompt":"find it"}"#.to_owned(),
            };
            writer.append(Draft::assistant(vec![task])).unwrap();
            let spawn = Spawn {
                agent: AgentId::new("a0123456789abcdef").unwrap(),
                kind: "Explore".to_owned(),
                description: "Finds it".to_owned(),
                call: Some("toolu_t".to_owned()),
            };
            let agent = writer.spawn(&spawn).unwrap();
            agent.append(Draft::user("find it")).unwrap();
            agent.append(Draft::assistant(vec![text("found")])).unwrap();
            assert!(writer.spawn(&spawn).is_err(), "it is there already");
            let mut done = Message::new(
                Role::User,
                vec![result("toolu_t", vec![text("found")], false)],
            );
            done.spawned = Some(spawn.agent.clone());
            let back = writer.append(Draft::new(Body::Message(done))).unwrap();
            assert!(
                matches!(&back.body, Body::Message(message) if message.spawned.as_ref() == Some(&spawn.agent))
            );
            let session = read(&store);
            assert_eq!(session.agents.len(), 1);
            let read_back = &session.agents[0];
            assert_eq!(read_back.id.as_ref(), Some(&spawn.agent));
            assert_eq!(read_back.kind.as_deref(), Some("Explore"));
            assert_eq!(read_back.description.as_deref(), Some("Finds it"));
            assert_eq!(read_back.messages, 2);
            assert_eq!(read_back.call.unwrap().key, Key::of("toolu_t"));
            assert_eq!(session.tree().unwrap().conversations.len(), 1);
            assert_eq!(session.trees[1].conversations.len(), 1);
            assert_eq!(session.flaws().count(), 0);
        }
    }

    /// The heart of it: whatever is in a log, a new entry goes on where its program would.
    #[test]
    fn an_entry_added_to_any_fixture_is_the_new_leaf_and_nothing_else_changes() {
        let mut extended = 0;
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
                let before = Session::read(files.clone()).unwrap();
                let (old, resumed) = paths(&before);
                let flaws = |session: &Session| -> Vec<String> {
                    let mut kinds: Vec<String> = session
                        .flaws()
                        .map(|(_, flaw)| format!("{:?} {}", flaw.kind, flaw.span.offset))
                        .collect();
                    kinds.sort();
                    kinds
                };
                let writer = copy.store().write(&files, QUICK).unwrap();
                let asked = writer.append(Draft::user("and now?")).unwrap();
                let answered = writer
                    .append(Draft::assistant(vec![
                        text("now this"),
                        call("toolu_x", "{}"),
                    ]))
                    .unwrap();
                let after = Session::read(files).unwrap();
                let place = || format!("{} {}", case.name, before.files.main_path().display());
                let (new, now) = paths(&after);
                let now = &new[now.unwrap_or_else(|| panic!("{}: nothing to resume", place()))];
                let id = |entry: &Entry| entry.id.as_ref().unwrap().to_string();
                assert_eq!(now.last(), Some(&id(&answered)), "{}", place());
                assert!(now.contains(&id(&asked)), "{}", place());
                // The conversation that was resumed has grown, the others are as they were.
                let others =
                    |paths: &[Vec<String>], but: Option<&Vec<String>>| -> BTreeSet<Vec<String>> {
                        paths
                            .iter()
                            .filter(|path| Some(*path) != but)
                            .cloned()
                            .collect()
                    };
                let grown = resumed.map(|at| &old[at]);
                assert_eq!(others(&new, Some(now)), others(&old, grown), "{}", place());
                if let Some(grown) = grown {
                    assert_eq!(now[..grown.len()], grown[..], "{}", place());
                    extended += 1;
                }
                // A torn tail became a line of its own; that is all.
                let torn = |list: Vec<String>| -> Vec<String> {
                    list.into_iter()
                        .filter(|flaw| {
                            !flaw.starts_with("TornTail") && !flaw.starts_with("BadJson")
                        })
                        .collect()
                };
                assert_eq!(torn(flaws(&after)), torn(flaws(&before)), "{}", place());
            }
        }
        assert!(extended > 120, "{extended}");
    }
}

mod law_8_nothing_outside {
    use super::*;
    use annals::layout::{NewSession, Spawn};
    use annals::model::{Draft, Todo};
    use std::os::unix::fs::symlink;

    const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

    fn hostile() -> Vec<String> {
        let mut ids: Vec<String> = [
            "..",
            "../x",
            "../../etc/passwd",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "a\0b",
            "%2e%2e%2f",
            "",
            ".",
            "-rf",
            "CON",
            "a\nb",
            "\u{202e}x",
            "~",
            "$(id)",
            "*",
        ]
        .map(str::to_owned)
        .to_vec();
        ids.push("x".repeat(10_000));
        ids.push("../".repeat(3_000));
        ids
    }

    #[test]
    fn hostile_ids_change_nothing() {
        for case in cases()
            .into_iter()
            .filter(|case| case.name == "subagents-every-placement" || case.name == "todos")
        {
            let copy = case.copy();
            let store = copy.store();
            let inventory = store.inventory();
            let files = inventory.sessions[0].clone();
            let session = Session::read(files.clone()).unwrap();
            let before = picture(copy.dir.path());
            for id in hostile() {
                assert!(
                    store.find(&inventory, &id).is_err()
                        || id.is_empty()
                        || Path::new(&id).is_file(),
                    "{id:?}"
                );
                let _ = store.find(&inventory, &format!("{}@{id}", files.id));
                assert!(store.write_agent(&files, &id, QUICK).is_err(), "{id:?}");
                assert!(store.undelete(&id).is_err(), "{id:?}");
                assert!(session.message(&id).is_err(), "{id:?}");
                assert!(session.ancestry(&id).is_err(), "{id:?}");
                assert!(session.find_entry(&id).is_err(), "{id:?}");
                assert!(AgentId::new(&id).is_err() || id == "CON", "{id:?}");
                if let Ok(to) = SessionId::new(&id) {
                    let new = NewSession {
                        id: to.clone(),
                        cwd: "/w".to_owned(),
                        git_branch: None,
                    };
                    assert!(store.create(&copy.root, &new, QUICK).is_err(), "{id:?}");
                    assert!(store.fork(&session, &[0], to, None).is_err(), "{id:?}");
                }
            }
            assert_eq!(picture(copy.dir.path()), before);
        }
    }

    #[test]
    fn hostile_directories_stay_in_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new("claude-code", dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]);
        for (at, id) in hostile().into_iter().enumerate() {
            let session = SessionId::new(&format!("{at:08x}-0000-4000-8000-000000000000")).unwrap();
            for cwd in [id.clone(), format!("/{id}"), format!("C:\\{id}")] {
                let new = NewSession {
                    id: session.clone(),
                    cwd,
                    git_branch: None,
                };
                let _ = store.create(&root, &new, QUICK);
            }
        }
        let made = picture(dir.path());
        assert!(
            made.keys().all(|path| path.starts_with("root")),
            "{made:#?}"
        );
        assert!(made.keys().any(|path| path.starts_with("root/projects")));
        for path in made
            .keys()
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        {
            let relative = path.strip_prefix("root").unwrap();
            assert!(
                root.layout.classify(relative).is_some(),
                "{}",
                path.display()
            );
        }
    }

    /// A sandbox: a root in which a project's folder, a log and `todos` are links to the outside.
    struct Sandbox {
        dir: tempfile::TempDir,
        root: Root,
    }

    fn sandbox() -> Sandbox {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let line = |n: u32| {
            format!(
                "{{\"type\":\"user\",\"uuid\":\"{n:08x}-0000-4000-8000-000000000000\",\"parentUuid\":null,\"sessionId\":\"s\",\"cwd\":\"/w\",\"timestamp\":\"2026-03-01T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n"
            )
        };
        for folder in [
            "root/projects/-plain",
            "outside/project",
            "outside/todos",
            "outside/session/subagents",
            "decoy",
        ] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let log = |name: &str| format!("{name}-0000-4000-8000-000000000000.jsonl");
        fs::write(
            path.join("root/projects/-plain").join(log("aaaaaaaa")),
            line(1),
        )
        .unwrap();
        fs::write(path.join("outside/project").join(log("bbbbbbbb")), line(2)).unwrap();
        fs::write(path.join("outside/log.jsonl"), line(3)).unwrap();
        fs::write(path.join("outside/todos/secret.json"), "[]").unwrap();
        fs::write(
            path.join("outside/session/subagents/agent-a1.jsonl"),
            line(4),
        )
        .unwrap();
        fs::write(path.join("decoy/keep.txt"), "keep").unwrap();
        symlink(
            path.join("outside/project"),
            path.join("root/projects/-linked"),
        )
        .unwrap();
        symlink(
            path.join("outside/log.jsonl"),
            path.join("root/projects/-plain").join(log("cccccccc")),
        )
        .unwrap();
        symlink(path.join("outside/todos"), path.join("root/todos")).unwrap();
        symlink(
            path.join("outside/session"),
            path.join("root/projects/-plain").join(ID),
        )
        .unwrap();
        let root = Root::new("claude-code", path.join("root")).unwrap();
        Sandbox { dir, root }
    }

    fn outside(dir: &Path) -> Vec<(std::path::PathBuf, String)> {
        let all = picture(dir).into_iter();
        all.filter(|(path, _)| !path.starts_with("root") && !path.starts_with("state"))
            .collect()
    }

    #[test]
    fn links_lead_readers_but_no_writer_outside() {
        let sandbox = sandbox();
        let dir = sandbox.dir.path();
        let store = Store::new(vec![sandbox.root.clone()]).with_state(dir.join("state"));
        let before = outside(dir);
        let now = jiff::Timestamp::UNIX_EPOCH;
        let inventory = store.inventory();
        assert_eq!(inventory.sessions.len(), 3, "links are followed to read");
        let new = |cwd: &str, id: &str| NewSession {
            id: SessionId::new(id).unwrap(),
            cwd: cwd.to_owned(),
            git_branch: None,
        };
        let other = "dddddddd-0000-4000-8000-000000000000";
        // `-linked` is the folder of the directory `/linked`.
        let created = store.create(&sandbox.root, &new("/linked", other), QUICK);
        assert!(created.is_err());
        assert_eq!(outside(dir), before, "creating");
        for files in &inventory.sessions {
            let linked = files.id.as_str() != ID;
            let opened = store.write(files, QUICK);
            assert_eq!(opened.is_err(), linked, "{}", files.id);
            if let Ok(writer) = opened {
                writer.append(Draft::user("more")).unwrap();
                assert!(
                    writer.set_todos(&[Todo::pending("x")]).is_err(),
                    "todos is a link"
                );
                let spawn = Spawn {
                    agent: AgentId::new("a2").unwrap(),
                    kind: "k".to_owned(),
                    description: "d".to_owned(),
                    call: None,
                };
                assert!(
                    writer.spawn(&spawn).is_err(),
                    "the session's folder is a link"
                );
                assert!(store.write_agent(files, "a1", QUICK).is_err());
            }
            assert_eq!(outside(dir), before, "writing {}", files.id);
            let session = Session::read(files.clone()).unwrap();
            let to = SessionId::new(&other.replace('d', "e")).unwrap();
            let _ = store.fork(&session, &[0], to, Some("t"));
            assert_eq!(outside(dir), before, "forking {}", files.id);
            let _ = store.delete(files, now);
            assert_eq!(outside(dir), before, "deleting {}", files.id);
        }
        for trashed in store.trashed().unwrap() {
            let _ = store.undelete(&trashed.id);
        }
        assert_eq!(outside(dir), before, "undeleting");
    }

    /// What was deleted comes back to its place, not to where a link has come to lead meanwhile.
    #[test]
    fn what_was_deleted_does_not_come_back_outside() {
        let sandbox = sandbox();
        let dir = sandbox.dir.path();
        let store = Store::new(vec![sandbox.root.clone()]).with_state(dir.join("state"));
        fs::remove_file(dir.join("root/projects/-plain").join(ID)).unwrap();
        let files = store
            .inventory()
            .sessions
            .into_iter()
            .find(|files| files.id.as_str() == ID)
            .unwrap();
        store.delete(&files, jiff::Timestamp::UNIX_EPOCH).unwrap();
        fs::remove_dir_all(dir.join("root/projects/-plain")).unwrap();
        symlink(
            dir.join("outside/project"),
            dir.join("root/projects/-plain"),
        )
        .unwrap();
        let before = outside(dir);
        assert!(store.undelete(ID).is_err());
        assert_eq!(outside(dir), before);
        assert_eq!(store.trashed().unwrap().len(), 1, "it is still there");
        // A manifest that was tampered with leads nowhere either.
        let trash = dir.join("state/trash");
        let name = store.trashed().unwrap().remove(0).id;
        let manifest = trash.join(&name).join("manifest.json");
        let text = fs::read_to_string(&manifest).unwrap();
        let evil = text.replace(
            &format!("projects/-plain/{ID}.jsonl"),
            "projects/-x/../../../evil.jsonl",
        );
        assert_ne!(text, evil);
        fs::write(&manifest, evil).unwrap();
        assert!(store.undelete(&name).is_err());
        assert_eq!(outside(dir), before);
    }

    /// The check itself sees a write outside.
    #[test]
    fn control_a_write_outside_is_seen() {
        let sandbox = sandbox();
        let before = outside(sandbox.dir.path());
        let through = sandbox.root.path.join("todos/new.json");
        fs::write(through, "[]").unwrap();
        assert_ne!(outside(sandbox.dir.path()), before);
    }
}
