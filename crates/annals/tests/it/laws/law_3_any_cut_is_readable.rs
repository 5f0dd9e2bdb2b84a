//! A file truncated at any byte gives a prefix of its entries and at most one flaw; outlines and
//! entries agree.

use super::*;
use annals::model::Framing;
use annals::store::RootFile;

/// Returns the outlines of one record.
fn outlined(
    layout: &dyn Layout,
    artifact: &Artifact,
    record: &Record<'_>,
) -> (Vec<Outline>, Vec<Flaw>) {
    let mut sink = Decoded::default();
    layout.decoder(artifact).outline(record, &mut sink);
    (sink.items, sink.flaws)
}

fn decoded(
    layout: &dyn Layout,
    artifact: &Artifact,
    record: &Record<'_>,
) -> (Vec<Entry>, Vec<Flaw>) {
    let mut sink = Decoded::default();
    layout.decoder(artifact).decode(record, &mut sink);
    (sink.items, sink.flaws)
}

/// Truncation changes only the last record, so each record is truncated at each byte.
#[test]
fn truncated_record_gives_itself_or_one_flaw() {
    let mut dice = Dice(11);
    let mut cuts = 0;
    for case in cases() {
        for (file, bytes) in logs(&case) {
            for line in lines(&bytes) {
                let whole = outlined(case.layout, &file.artifact, &line.record());
                let len = line.bytes.len();
                for cut in 1..len {
                    // Each parse reads the whole prefix, so long records are sampled in the middle.
                    let near = cut < 600 || len - cut < 200;
                    if !near && dice.roll(len) >= 30 {
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
                    let place = || format!("{} line {} cut at {cut}", case.name, line.span.line);
                    assert!(
                        flaws.len() <= 1.max(whole.1.len()),
                        "{}: {flaws:?}",
                        place()
                    );
                    if found.is_empty() {
                        assert!(record.is_blank() || flaws.len() == 1, "{}", place());
                        continue;
                    }
                    // A complete record can only lose trailing whitespace; of glued records, the
                    // first may be complete.
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

/// The same through the store: truncated files, read as sessions with their trees.
#[test]
fn truncated_file_is_read_as_a_prefix() {
    let mut dice = Dice(5);
    for case in cases() {
        let of_lines = |(file, _): &(RootFile, _)| file.artifact.framing == Framing::Lines;
        for (file, bytes) in logs(&case).into_iter().filter(of_lines) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("cut.jsonl");
            let root = Root::new(case.layout.name(), dir.path()).unwrap();
            let found = |path: &Path| {
                let mut found = file.clone();
                found.path = path.to_owned();
                found
            };
            fs::write(&path, &bytes).unwrap();
            let whole = annals::store::LogScan::read(&root, &found(&path)).unwrap();
            let mut at: BTreeSet<usize> = (0..6).map(|_| dice.roll(bytes.len() + 1)).collect();
            for line in lines(&bytes).iter().rev().take(3) {
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

/// Every prefix of a document gives some of its entries, in order, and one flaw more at most. Later
/// parts of a document may add to an entry, so only ids are compared.
#[test]
fn truncated_document_gives_a_prefix_of_its_entries() {
    let mut cuts = 0;
    for case in cases() {
        let is_document =
            |(file, _): &(RootFile, _)| matches!(file.artifact.framing, Framing::Document(_));
        for (file, _) in logs(&case).into_iter().filter(is_document) {
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new(case.layout.name(), dir.path()).unwrap();
            let bytes = fs::read(&file.path).unwrap();
            let mut part = file.clone();
            part.path = dir.path().join("part");
            let mut read = |len: usize| {
                fs::write(&part.path, &bytes[..len]).unwrap();
                part.id.len = len as u64;
                let scan = annals::store::LogScan::read(&root, &part).unwrap();
                let ids = scan.outlines.iter().filter_map(Outline::id);
                let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
                (ids, scan.flaws.len())
            };
            let (whole, flaws) = read(bytes.len());
            let step = (bytes.len() / 300).max(1);
            for cut in (0..bytes.len()).step_by(step) {
                let (ids, found) = read(cut);
                let place = format!("{} {} cut at {cut}", case.name, file.path.display());
                // Results that a later message repeats have an entry of their own until then, and so has
                // a rewind until the next message.
                let passing = ["-results", "-resumed"];
                let ids = ids.iter();
                let ids = ids.filter(|id| !passing.iter().any(|ending| id.ends_with(ending)));
                let mut rest = whole.iter();
                for id in ids {
                    assert!(rest.any(|known| known == id), "{place}: {id}");
                }
                assert!(found <= flaws + 1, "{place}: {found} flaws");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 2_000, "{cuts}");
}

/// Fields on which outlines and entries must agree.
#[derive(Debug, PartialEq)]
struct Seen {
    span: Span,
    kind: OutlineKind,
    id: Option<String>,
    parent: Option<EntryKey>,
    time: Option<jiff::Timestamp>,
    agent: Option<AgentId>,
    sidechain: bool,
    human: bool,
    model: Option<String>,
    usage: Option<annals::model::Usage>,
    calls: Vec<EntryKey>,
    results: Vec<EntryKey>,
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
            // A message that the program does not send has the entry at which the program resumes.
            Fact::Resume(leaf) if !outline.kind.is_message() => Some(format!("resume {leaf:?}")),
            Fact::Note(text) => Some(format!("note {text}")),
            Fact::Files => Some("files".to_owned()),
            _ => None,
        }),
    }
}

/// Line types that Chorus counts as messages although they have no role; the last two are from a
/// newer program.
const CHORUS_TYPES: [&str; 5] = [
    "error",
    "research_progress",
    "research_result",
    "brainstorm",
    "plan",
];

/// Returns the comparable fields of an entry, with the kind that Chorus gives lines without a role.
fn counted(layout: &dyn Layout, entry: &Entry) -> Seen {
    let mut seen = of_entry(entry);
    if let Body::System { subtype, .. } = &entry.body
        && CHORUS_TYPES.contains(&subtype.as_str())
        && layout.name() == "chorus"
    {
        seen.kind = OutlineKind::System;
    }
    seen
}

fn of_entry(entry: &Entry) -> Seen {
    use annals::model::Block;
    let message = match &entry.body {
        Body::Message(message) => Some(message),
        _ => None,
    };
    let role = message.map(|message| message.role);
    let key = |text: &String| EntryKey::from_text(text);
    let blocks = || message.into_iter().flat_map(|message| &message.blocks);
    let short = |text: &str| text.chars().take(200).collect::<String>();
    Seen {
        span: entry.span,
        kind: match (&entry.body, role) {
            (_, Some(Role::User)) => OutlineKind::User,
            (_, Some(Role::Assistant)) => OutlineKind::Assistant,
            (_, Some(Role::System)) => OutlineKind::System,
            (Body::Compaction { .. }, _) => OutlineKind::Compaction,
            _ => OutlineKind::Other,
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
                Block::ToolUse { id, .. } if !id.is_empty() && role == Some(Role::Assistant) => {
                    Some(key(id))
                }
                _ => None,
            })
            .collect(),
        results: blocks()
            .filter_map(|block| match block {
                Block::ToolResult { call, .. } if !call.is_empty() && role == Some(Role::User) => {
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
fn outline_and_entry_agree() {
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
                // An unreadable record is an opaque entry, so that it can be shown.
                let readable =
                    |entry: &&Entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. });
                let entries = entries.iter().filter(readable);
                let entries: Vec<Seen> = entries.map(|entry| counted(case.layout, entry)).collect();
                let outlines: Vec<Seen> = outlines.iter().map(of_outline).collect();
                assert_eq!(outlines, entries, "{}", place());
                compared += outlines.len();
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// A decoder that omits one field at one depth is caught.
#[test]
fn control_difference_between_outline_and_entry_is_caught() {
    let line = br#"{"type":"user","uuid":"u","parentUuid":"p","timestamp":"2026-03-01T10:00:00Z","message":{"content":"hi"}}"#;
    let artifact = Artifact::new(ArtifactKind::SessionLog);
    for layout in LAYOUTS {
        let whole = &lines(line)[0];
        let (outlines, _) = outlined(*layout, &artifact, &whole.record());
        let (entries, _) = decoded(*layout, &artifact, &whole.record());
        let (Some(outline), Some(entry)) = (outlines.first(), entries.first()) else {
            continue;
        };
        assert_eq!(of_outline(outline), of_entry(entry));
        let forgets: [fn(&mut Outline); 4] = [
            |outline| outline.time = None,
            |outline| outline.human = !outline.human,
            |outline| outline.link = annals::model::Link::None,
            |outline| outline.key = None,
        ];
        for forget in forgets
            .iter()
            .take(if outline.key.is_some() { 4 } else { 0 })
        {
            let mut worse = outline.clone();
            worse.facts.clear();
            forget(&mut worse);
            assert_ne!(of_outline(&worse), of_entry(entry));
        }
    }
}
