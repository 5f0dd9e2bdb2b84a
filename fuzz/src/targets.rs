//! What is fuzzed: one function for each decoder and parser, over any bytes.
//!
//! Shared by the fuzzer (`fuzz/targets`, coverage guided, millions of inputs) and by a test on the
//! stable compiler that feeds each of them some thousands of damaged seeds. They see the library as
//! any embedder does. Each asserts more than the absence of a panic where there is more to say.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use annals::archive::{Archive, CompressedFile, RestoreOutcome};
use annals::convert::ExportSource;
use annals::cost::{LogCharges, Prices};
use annals::export::{
    ExportOptions, ExportPart, Exporter, Format, Redactor, read_entry, write_entry,
};
use annals::jsonl::{LineEnding, ReadAt, Scanner, TailReader};
use annals::layout::{Decoded, Layout, ListUpdate, Record, RowUpdate, by_name};
use annals::model::{
    Artifact, Block, Body, Entry, FilePart, Framing, OutlineKind, SessionId, Span,
};
use annals::repair::LineEdits;
use annals::search::{Dialect, Query};
use annals::store::{Root, Session, Store};
use annals::text::{LineBreaks, is_hostile, visible};
use annals::time_input::Now;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A function over any bytes; it must return.
pub type Target = fn(&[u8]);

/// Every target, by the name that the fuzzer knows it by.
pub const TARGETS: &[(&str, Target)] = &[
    ("claude_code", claude_code),
    ("chorus", chorus),
    ("clog", clog),
    ("orchestrator", orchestrator),
    ("codex", codex),
    ("gemini", gemini),
    ("opencode", opencode),
    ("pi", pi),
    ("copilot", copilot),
    ("qwen", qwen),
    ("droid", droid),
    ("cline", cline),
    ("aider", aider),
    ("database", database),
    ("lines", lines),
    ("query", query),
    ("search", search),
    ("text", text),
    ("prices", prices),
    ("when", when),
    ("entry", entry),
    ("archive", archive),
    ("redact", redact),
    ("enrol", enrol),
    ("path", path),
    ("session", session),
    ("compressed", compressed),
    ("manifest", manifest),
    ("salvage", salvage),
    ("mend", mend),
    ("check", check),
];

/// Files of each kind that a layout knows, as paths within a root. The first is a session's log.
const CLAUDE_CODE: &[&str] = &[
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/subagents/agent-a1.jsonl",
    "projects/-w/agent-a2.jsonl",
    "history.jsonl",
    "todos/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa-agent-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json",
    "tasks/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/1.json",
    "settings.json",
    "projects/-w/sessions-index.json",
];
const CHORUS: &[&str] = &[
    "sessions/w-app/a-main/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa-messages.jsonl",
    "sessions/w-app/a-main/conversations.json",
    "sessions/w-app/a-main/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa-todos.json",
    "sessions/w-app/a-main/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa-notes.jsonl",
    "config.json",
];
const CLOG: &[&str] = &[
    "conversations/conversation-2026-03-26T01-32-20-418Z-thread/chat.jsonl",
    "conversations/conversation-2026-03-26T01-32-20-418Z-thread/notes.jsonl",
    "state/channels.json",
    "sessions/2026-03-26T01-32-19Z/system.log",
];
const ORCHESTRATOR: &[&str] = &[
    "projects/eSlgu1iz-VWavn8Y4vLC/2026-03-01.jsonl",
    "projects/eSlgu1iz-VWavn8Y4vLC/named.todos.json",
    "projects/eSlgu1iz-VWavn8Y4vLC/named.notes.annals",
    "projects/eSlgu1iz-VWavn8Y4vLC/named.origin.annals",
];
const CODEX: &[&str] = &[
    "sessions/2026/11/16/rollout-2026-11-16T14-00-01-01a1e487-0000-7000-8000-000000000001.jsonl",
    "session_index.jsonl",
    "history.jsonl",
    "annals/01a1e487-0000-7000-8000-000000000001/todos.json",
];
const PI: &[&str] = &[
    "sessions/--w--/2026-11-16T13-24-24-000Z_01a1e48b-a58f-7175-b111-f2f8ae3f5db3.jsonl",
    "annals/--w--/01a1e48b-a58f-7175-b111-f2f8ae3f5db3/agent-a1.jsonl",
    "annals/--w--/01a1e48b-a58f-7175-b111-f2f8ae3f5db3/todos.json",
];
const GEMINI: &[&str] = &[
    "tmp/work/chats/session-2026-11-16T13-31-aaaaaaaa.jsonl",
    "tmp/work/chats/session-2026-11-16T13-31-aaaaaaab.json",
    "tmp/work/chats/session-2026-11-16T13-31-aaaaaaaa/agent.jsonl",
    "tmp/work/logs.json",
    "projects.json",
];
const COPILOT: &[&str] = &[
    "session-state/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/events.jsonl",
    "session-state/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/workspace.yaml",
];
const QWEN: &[&str] = &[
    "projects/-w/chats/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/subagents/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/agent-a1.jsonl",
    "projects/-w/subagents/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/agent-a1.meta.json",
    "todos/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json",
];
const DROID: &[&str] = &[
    "sessions/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "sessions/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.settings.json",
];
const CLINE: &[&str] = &[
    "data/sessions/1794838340132_abcde/1794838340132_abcde.messages.json",
    "data/sessions/1794838340132_abcde/1794838340132_abcde.json",
];
const AIDER: &[&str] = &[".aider.chat.history.md", ".aider.input.history"];
/// Lines that are derived from a database.
const OPENCODE: &[&str] = &["opencode.db/ses_a", "opencode.db/ses_a/ses_b"];

/// The paths that the first byte of an input chooses from, for the script that makes seeds.
pub const FILES: &[(&str, &[&str])] = &[
    ("claude-code", CLAUDE_CODE),
    ("chorus", CHORUS),
    ("clog", CLOG),
    ("orchestrator", ORCHESTRATOR),
    ("codex", CODEX),
    ("gemini", GEMINI),
    ("pi", PI),
    ("copilot", COPILOT),
    ("qwen", QWEN),
    ("droid", DROID),
    ("cline", CLINE),
    ("aider", AIDER),
];

fn claude_code(data: &[u8]) {
    file("claude-code", CLAUDE_CODE, data);
}

fn chorus(data: &[u8]) {
    file("chorus", CHORUS, data);
}

fn clog(data: &[u8]) {
    file("clog", CLOG, data);
}

fn orchestrator(data: &[u8]) {
    file("orchestrator", ORCHESTRATOR, data);
}

fn codex(data: &[u8]) {
    file("codex", CODEX, data);
}

fn gemini(data: &[u8]) {
    file("gemini", GEMINI, data);
}

fn opencode(data: &[u8]) {
    file("opencode", OPENCODE, data);
    // The records of a conversion, which another program may have changed.
    let writer = by_name("opencode").unwrap().row_writer().unwrap();
    let text = String::from_utf8_lossy(data);
    let records: Vec<&str> = text.lines().collect();
    let id = SessionId::new("ses_a").unwrap();
    let _ = writer.rows_of_records(&id, &records);
}

fn pi(data: &[u8]) {
    file("pi", PI, data);
}

fn copilot(data: &[u8]) {
    file("copilot", COPILOT, data);
}

fn qwen(data: &[u8]) {
    file("qwen", QWEN, data);
}

fn droid(data: &[u8]) {
    file("droid", DROID, data);
}

fn cline(data: &[u8]) {
    file("cline", CLINE, data);
}

fn aider(data: &[u8]) {
    file("aider", AIDER, data);
}

/// Returns the records of a file, one per line: its own lines, or those that are derived from it.
///
/// Of a session in several files, the second file of the layout is given too: it begins after the last
/// byte 255, which no text contains.
fn derived<'a>(artifact: &Artifact, paths: &[&str], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match artifact.framing {
        Framing::Document(format) => (format.to_lines)(bytes).into(),
        Framing::LinesOrDocument(either) if !(either.is_log)(bytes) => {
            (either.document.to_lines)(bytes).into()
        }
        Framing::Files(format) => {
            let at = bytes.iter().rposition(|byte| *byte == 255);
            let parts = match at.filter(|_| paths.len() > 1) {
                Some(at) => vec![&bytes[..at], &bytes[at + 1..]],
                None => vec![bytes],
            };
            let parts = parts.into_iter().zip(paths).map(|(bytes, path)| FilePart {
                path: Path::new(path),
                bytes,
            });
            (format.to_lines)(&parts.collect::<Vec<_>>()).into()
        }
        _ => bytes.into(),
    }
}

/// A database of any bytes: its sessions are read, or the failure is reported. Nothing is written.
fn database(data: &[u8]) {
    let thread = format!("{:?}", std::thread::current().id());
    let dir = place().join(thread).join("database");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("opencode.db");
    fs::write(&path, data).unwrap();
    let store = Store::new(vec![Root::new("opencode", &dir).unwrap()]);
    for files in store.inventory().sessions {
        if let Ok(session) = Session::read(files) {
            let _ = (session.title(), session.todos());
        }
    }
    assert_eq!(fs::read(&path).unwrap(), data);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

/// Decodes a file of a layout at every depth; the first byte says which file it is.
fn file(layout: &str, paths: &[&str], data: &[u8]) {
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    let layout = by_name(layout).unwrap();
    let path = Path::new(paths[usize::from(which) % paths.len()]);
    let Some(artifact) = layout.classify(path) else {
        return;
    };
    let bytes = &*derived(&artifact, paths, bytes);
    if artifact.kind.is_log() || artifact.framing != Framing::Lines {
        each_record(bytes, |record| depths(layout, &artifact, record));
        spending(layout, &artifact, bytes);
    } else {
        let span = Span {
            offset: 0,
            len: bytes.len() as u64,
            line: 1,
        };
        let record = Record {
            span,
            bytes,
            terminated: true,
            oversize: false,
        };
        depths(layout, &artifact, &record);
    }
}

/// The records of a log.
fn each_record(bytes: &[u8], mut visit: impl FnMut(&Record<'_>)) {
    let mut scanner = Scanner::with_capacity_and_cap(bytes, 64, 1 << 20);
    while let Some(line) = scanner.next().unwrap() {
        visit(&Record {
            span: Span {
                offset: line.offset,
                len: line.len,
                line: line.number,
            },
            bytes: line.bytes,
            terminated: line.ending != LineEnding::None,
            oversize: false,
        });
    }
}

/// Reads one record at every depth: what lies outside of it is nobody's, and what a ledger sees is
/// no more than what there is.
fn depths(layout: &dyn Layout, artifact: &Artifact, record: &Record<'_>) {
    let within = |span: Span| {
        assert!(span.offset >= record.span.offset, "{span:?}");
        assert!(span.end() <= record.span.end(), "{span:?}");
    };
    let mut decoder = layout.decoder(artifact);
    let mut outlines = Decoded::default();
    decoder.outline(record, &mut outlines);
    let mut spent = Decoded::default();
    decoder.outline_usage(record, &mut spent);
    let mut entries = Decoded::default();
    decoder.decode(record, &mut entries);
    decoder.extra_text(record, &mut |text| _ = text.len());
    assert!(spent.items.len() <= outlines.items.len());
    outlines.items.iter().for_each(|found| within(found.span));
    entries.items.iter().for_each(|found| within(found.span));
    for flaw in outlines.flaws.iter().chain(&entries.flaws) {
        within(flaw.span);
    }
    if artifact.kind.is_conversation() {
        entries.items.iter().for_each(comes_back);
    }
}

/// Reads replies as a ledger does, each by what was read before it, and each in full: both come to the
/// same.
fn spending(layout: &dyn Layout, artifact: &Artifact, bytes: &[u8]) {
    let Some(mark) = layout.usage_needle() else {
        return;
    };
    let (mut one, mut other) = (layout.decoder(artifact), layout.decoder(artifact));
    let (mut quick, mut full) = (LogCharges::default(), LogCharges::default());
    each_record(bytes, |record| {
        let mut alone = Decoded::default();
        layout.decoder(artifact).outline(record, &mut alone);
        let mut replies = alone
            .items
            .iter()
            .map(|found| found.kind == OutlineKind::Assistant);
        let (any, all) = (replies.clone().any(|is| is), replies.all(|is| is));
        // What a ledger does not know of is not told to it; a damaged line may hold both.
        if (mark.find)(record.bytes).is_none() || any && !all {
            return;
        }
        let mut found = Decoded::default();
        match one.reply_delta(record) {
            Some(again) => quick.add_delta(&again),
            None => one.outline_usage(record, &mut found),
        }
        let odd = !found.items.is_empty() || !alone.flaws.is_empty();
        found.items.iter().for_each(|reply| quick.add(reply));
        if any || odd {
            let mut outlines = Decoded::default();
            other.outline(record, &mut outlines);
            outlines.items.iter().for_each(|reply| full.add(reply));
            assert_eq!(found.flaws, outlines.flaws);
        }
    });
    let charges = |sheet: LogCharges| -> Vec<_> {
        let session = SessionId::new("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa").unwrap();
        sheet.charges(0, Some(&session)).collect()
    };
    assert_eq!(charges(quick), charges(full));
}

/// An entry that is written as JSON is read as the same.
fn comes_back(entry: &Entry) {
    let mut json = Vec::new();
    write_entry(entry, &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    let mut read = read_entry(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    // Where it lay is not part of what it says.
    read.span = entry.span;
    read.derived_id = entry.derived_id;
    assert_eq!(&read, entry);
}

/// Lines forwards and backwards: both concatenate to the input and agree, whatever the buffers.
fn lines(data: &[u8]) {
    let Some((&sizes, bytes)) = data.split_first() else {
        return;
    };
    let block = 1 + usize::from(sizes & 15);
    let cap = 1 + usize::from(sizes >> 4) * 3;
    let mut scanner = Scanner::with_capacity_and_cap(bytes, block, cap);
    let mut forwards = Vec::new();
    let mut next = 0;
    while let Some(line) = scanner.next().unwrap() {
        assert_eq!(line.offset, next);
        assert!(line.len > 0 && line.bytes.len() as u64 <= line.len);
        next += line.len;
        let span = &bytes[line.offset as usize..next as usize];
        let ending = match line.ending {
            LineEnding::Lf => &b"\n"[..],
            LineEnding::CrLf => b"\r\n",
            LineEnding::None => b"",
        };
        let mark = if line.bom { 3 } else { 0 };
        if !line.oversize {
            assert_eq!(&span[mark..span.len() - ending.len()], line.bytes);
        }
        assert!(span.ends_with(ending));
        forwards.push((line.offset, line.len, line.bytes.to_vec(), line.oversize));
    }
    assert_eq!(next, bytes.len() as u64);
    let mut tail = TailReader::with_cap(Cursor::new(bytes), block, cap).unwrap();
    while let Some(line) = tail.prev().unwrap() {
        let seen = (line.offset, line.len, line.bytes.to_vec(), line.oversize);
        assert_eq!(forwards.pop(), Some(seen));
    }
    assert_eq!(forwards, []);
}

fn now() -> Now {
    Now {
        time: Timestamp::from_second(1_794_744_000).unwrap(),
        zone: TimeZone::UTC,
    }
}

/// What people type into a search, read in every dialect.
fn query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for (case, regex) in [(false, false), (true, false), (false, true)] {
        let dialect = Dialect::new(now()).case(case).regex(regex);
        let _ = Query::parse(text, &dialect);
    }
}

/// A place for the targets that need files; one for each process.
fn place() -> &'static Path {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    let make = || {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        dir.unwrap()
    };
    PLACE.get_or_init(make).path()
}

/// A root of a layout with one session whose log holds these bytes.
fn root(layout: usize, log: &[u8]) -> (Store, PathBuf) {
    let (name, files) = FILES[layout % FILES.len()];
    // Tests run on several threads.
    let thread = format!("{:?}", std::thread::current().id());
    let dir = place().join(thread).join(name);
    let path = dir.join(files[0]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, log).unwrap();
    (Store::new(vec![Root::new(name, dir).unwrap()]), path)
}

/// What a record says is found: nothing that is meant to save work rules it out.
fn search(data: &[u8]) {
    let [layout, from, len, log @ ..] = data else {
        return;
    };
    let (store, path) = root(usize::from(*layout), log);
    let inventory = store.inventory();
    let Some(files) = inventory.sessions.first() else {
        return;
    };
    let Some(file) = files.logs().find(|file| file.path == path) else {
        return;
    };
    let (name, paths) = FILES[usize::from(*layout) % FILES.len()];
    let layout = by_name(name).unwrap();
    let mut said = None;
    each_record(&derived(&file.artifact, &paths[..1], log), |record| {
        let mut entries = Decoded::default();
        let mut decoder = layout.decoder(&file.artifact);
        decoder.decode(record, &mut entries);
        said = said
            .take()
            .or_else(|| entries.items.iter().find_map(first_text));
    });
    let Some(said) = said else { return };
    let letters: Vec<char> = said.chars().collect();
    let from = usize::from(*from) % letters.len();
    let sought: String = letters
        .iter()
        .skip(from)
        .take(1 + usize::from(*len) % 9)
        .collect();
    if sought.trim().is_empty() {
        return;
    }
    for case in [false, true] {
        let dialect = Dialect::new(now()).case(case).regex(true);
        let Ok(query) = Query::parse(&regex::escape(&sought), &dialect) else {
            continue;
        };
        let found = store.search(&inventory, &query).unwrap();
        assert!(
            found.total > 0,
            "{sought:?} stands in {said:?}, which was not found"
        );
    }
}

fn first_text(entry: &Entry) -> Option<String> {
    let Body::Message(message) = &entry.body else {
        return None;
    };
    message.blocks.iter().find_map(|block| match block {
        Block::Text(text) if !text.is_empty() => Some(text.to_string()),
        _ => None,
    })
}

/// No control leaves but those that were allowed, and what is visible stays as it is.
fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for breaks in [LineBreaks::Spaces, LineBreaks::Preserved] {
        let shown = visible(&text, breaks);
        for c in shown.chars().filter(|c| c.is_control()) {
            assert!(
                breaks == LineBreaks::Preserved && matches!(c, '\n' | '\t'),
                "{c:?}"
            );
        }
        let overrides = [
            '\u{202A}', '\u{202E}', '\u{2066}', '\u{2069}', '\u{200B}', '\u{FEFF}',
        ];
        assert!(!shown.contains(overrides), "{shown:?}");
        assert_eq!(visible(&shown, breaks), shown, "not settled");
        if !text.contains(is_hostile) {
            assert_eq!(shown, text);
        }
    }
}

fn prices(data: &[u8]) {
    let Ok(prices) = Prices::default().with_list_bytes(data, "prices.csv") else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    // What the list itself names, and not what is built in, is what the input has a say in.
    let names = text.lines().filter_map(|line| line.split(',').next());
    for name in names.skip(1).take(3) {
        let _ = prices.find(name);
    }
    let asked: String = text.chars().take(40).collect();
    let _ = prices.find(&asked);
    // All rows, built-in ones too, are read anew for this, which takes longer than all of the above.
    if data.len().is_multiple_of(4) {
        let _ = prices.suggest(&asked);
    }
}

fn when(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let now = now();
    if let (Some(since), Some(until)) = (now.parse_since(text), now.parse_until(text)) {
        assert!(since <= until, "{text:?}: {since} {until}");
    }
}

fn entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(entry) = read_entry(text) {
        comes_back(&entry);
    }
}

fn archive(data: &[u8]) {
    let source = ExportSource::read(data, "input").unwrap();
    if let Ok(contents) = source.read_contents() {
        let sessions = Store::new(vec![source.root()]).inventory().sessions;
        let ids: BTreeSet<&str> = sessions.iter().map(|files| files.id.as_str()).collect();
        let checked: BTreeSet<&str> = contents.sessions.iter().map(String::as_str).collect();
        assert!(checked.is_subset(&ids), "{checked:?} {ids:?}");
        for files in sessions {
            Session::read(files).unwrap();
        }
    }
}

fn redact(data: &[u8]) {
    thread_local! {
        static REDACTOR: std::cell::RefCell<Redactor> =
            std::cell::RefCell::new(Redactor::new().unwrap());
    }
    let text = String::from_utf8_lossy(data);
    REDACTOR.with_borrow_mut(|redactor| {
        let _ = redactor.mask_text(&text);
        let _ = redactor.mask_json(&text);
    });
}

/// An update of a session list in any state is idempotent.
fn enrol(data: &[u8]) {
    let Some((&flags, old)) = data.split_first() else {
        return;
    };
    let layout = by_name("chorus").unwrap();
    let writer = layout.writer().unwrap();
    let session_list = layout.classify(Path::new(CHORUS[1])).unwrap();
    let log = layout.classify(Path::new(CHORUS[0])).unwrap();
    let row = RowUpdate {
        log: Some(log),
        messages: u64::from(flags),
        started: Some(now().time),
        updated: Some(now().time),
        title: (flags & 1 == 1).then(|| "A \"title\"\n".to_owned()),
        removed: flags & 2 == 2,
        ..RowUpdate::default()
    };
    let rows = [row];
    let whole = flags & 4 == 4;
    let Ok(ListUpdate::Changed { bytes, .. }) =
        writer.update_session_list(&session_list, Some(old), &rows, whole)
    else {
        return;
    };
    let again = writer
        .update_session_list(&session_list, Some(&bytes), &rows, whole)
        .unwrap();
    assert_eq!(
        again,
        ListUpdate::Unchanged,
        "{}",
        String::from_utf8_lossy(&bytes)
    );
}

/// A path means one thing, and that thing has one path.
fn path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let path = Path::new(text);
    for (name, _) in FILES {
        let layout = by_name(name).unwrap();
        if let Some(artifact) = layout.classify(path) {
            let placed = layout.path_for(&artifact);
            assert_eq!(layout.classify(&placed), Some(artifact), "{text:?}");
            let climbs = |part| !matches!(part, std::path::Component::Normal(_));
            assert!(!placed.components().any(climbs), "{placed:?}");
        }
    }
}

/// A whole session: its tree, and every form in which it is passed on.
fn session(data: &[u8]) {
    let Some((&layout, log)) = data.split_first() else {
        return;
    };
    let (store, _) = root(usize::from(layout), log);
    for files in store.inventory().sessions {
        let session = Session::read(files).unwrap();
        let _ = (session.title(), session.todos());
        for format in [Format::Html, Format::Markdown, Format::Jsonl] {
            let mut page = Vec::new();
            let options = ExportOptions::new(format).redact(false);
            let mut exporter = Exporter::begin(options, None, &mut page).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
            exporter.finish().unwrap();
            let page = String::from_utf8(page).unwrap();
            if format == Format::Html {
                let scripts = page.to_ascii_lowercase().matches("<script").count();
                assert!(scripts <= 1, "{scripts} scripts");
            } else if format == Format::Jsonl {
                let archive = ExportSource::read(page.as_bytes(), "page").unwrap();
                let contents = archive.read_contents().unwrap();
                assert_eq!(contents.sessions, [session.files.id.as_str()]);
            }
        }
    }
}

/// A compressed file in any state, of a length that its manifest claims: it is read within bounds, and
/// what cannot be read is told.
fn compressed(data: &[u8]) {
    let thread = format!("{:?}", std::thread::current().id());
    let dir = place().join(thread);
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("input.zst");
    let (claim, data) = data.split_at(data.len().min(2));
    fs::write(&path, data).unwrap();
    let mut len = claim
        .iter()
        .fold(0, |len, byte| len << 8 | u64::from(*byte));
    if let Ok((file, packed)) = CompressedFile::open_unlisted(&path) {
        assert!(packed <= data.len() as u64);
        is_within(&file, file.size().unwrap());
        len = len.min(file.size().unwrap().saturating_add(9));
    }
    let id = annals::jsonl::FileId {
        len,
        ..Default::default()
    };
    if let Ok(file) = CompressedFile::open(&path, data.len() as u64, id) {
        is_within(&file, len);
    }
}

/// A compressed file has as many bytes as it says, or is told to be damaged, piece by piece.
fn is_within(file: &CompressedFile, len: u64) {
    let mut at = 0;
    let mut buffer = [0; 61];
    let whole = loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => break true,
            Ok(read) => at += read as u64,
            Err(_) => break false,
        }
    };
    assert!(at <= len && (!whole || at == len), "{at}");
    let lost = file.lost_ranges();
    assert!(whole || !lost.is_empty(), "{lost:?}");
    let mut end = 0;
    for stretch in lost {
        assert!(end <= stretch.start && stretch.start < stretch.end);
        end = stretch.end;
    }
}

/// A manifest in any state, with checksums that match or not: what it lists is read within bounds and
/// put back below its new root.
///
/// A byte of flags, and the lines.
fn manifest(data: &[u8]) {
    let Some((&flags, said)) = data.split_first() else {
        return;
    };
    let thread = format!("{:?}", std::thread::current().id());
    let dir = place().join(thread);
    let root = dir.join("state/archive/input");
    let _ = fs::remove_dir_all(&dir);
    for (path, content) in CLAUDE_CODE.iter().zip([&b"{}\n"[..], b"", b"[]"]) {
        let path = root.join(format!("files/{path}.zst"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, stored(content)).unwrap();
    }
    let note = r#"{"version":1,"layout":"claude-code","path":"/nowhere"}"#;
    fs::write(root.join("root.json"), note).unwrap();
    let lines = said.split(|byte| *byte == b'\n').map(|line| {
        let json = line.strip_suffix(b"}").filter(|_| flags & 1 == 0);
        json.map_or_else(
            || line.to_vec(),
            |json| {
                let json = match json.windows(8).rposition(|word| word == b",\"sum\":\"") {
                    Some(at) => &json[..at],
                    None => json,
                };
                let sum = Sha256::digest(json);
                let sum: String = sum
                    .iter()
                    .take(8)
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                [json, b",\"sum\":\"", sum.as_bytes(), b"\"}"].concat()
            },
        )
    });
    let lines: Vec<Vec<u8>> = lines.collect();
    fs::write(root.join("manifest.jsonl"), lines.join(&b'\n')).unwrap();
    let Ok((sessions, _)) = Archive::open(&dir.join("state")).sessions() else {
        return;
    };
    for session in sessions {
        let damaged = annals::archive::verify(&session);
        for member in session.members.iter().chain(&session.earlier) {
            let mut parts = member.path.components();
            assert!(
                parts.all(|part| matches!(part, std::path::Component::Normal(_))),
                "{member:?}"
            );
            assert!(session.location(member).starts_with(&root));
            if let Ok(file) = session.file(member) {
                assert!(!damaged.is_empty() || file.lost_ranges().is_empty());
            }
        }
        for number in 1..=session.earlier.len() {
            session.with_earlier_version(number).unwrap();
        }
        let to = dir.join("put-back");
        let put = session.restore_salvaged(Some(&to));
        for file in put.iter().flat_map(|put| &put.files) {
            let there = fs::symlink_metadata(to.join(&file.path));
            let whole = file.lost.is_empty() && file.fate == RestoreOutcome::New;
            assert!(
                !whole || there.is_ok_and(|it| it.is_file() && it.len() == file.bytes),
                "{file:?}"
            );
        }
    }
}

/// Some bytes as zstd keeps what it cannot make smaller: one raw block, with its checksum.
fn stored(content: &[u8]) -> Vec<u8> {
    const SUMS: [(&[u8], u32); 3] = [
        (b"", 0x51d8_e999),
        (b"{}\n", 0x9c11_d3ba),
        (b"[]", 0x617f_1f56),
    ];
    let sum = SUMS.iter().find(|(known, _)| *known == content);
    let len = content.len() as u32;
    let head = [0x28, 0xB5, 0x2F, 0xFD, 0xA4];
    let block = (len << 3 | 1).to_le_bytes();
    let sum = sum.map_or(0, |(_, sum)| *sum).to_le_bytes();
    [&head[..], &len.to_le_bytes(), &block[..3], content, &sum].concat()
}

/// A damaged line: its pieces follow each other and cover it, a record is what stands there without
/// NULs, and is whole in itself.
fn salvage(data: &[u8]) {
    let is_record = |object: &[u8]| object.windows(5).any(|word| word == b"\"type");
    let mut done = 0;
    for piece in annals::layout::salvage(data, is_record) {
        assert_eq!(piece.range.start, done);
        assert!(!piece.range.is_empty());
        done = piece.range.end;
        let Some(record) = piece.record else { continue };
        let stood = data[piece.range].iter().filter(|byte| **byte != 0);
        assert!(stood.eq(&record));
        let again = annals::layout::salvage(&record, is_record);
        assert_eq!(again.len(), 1, "{}", record.escape_ascii());
        assert_eq!(again[0].record.as_ref(), Some(&record));
    }
    assert_eq!(done, data.len());
}

/// A log in any state is mended once; then there is nothing to do. What leaves it is told.
fn mend(data: &[u8]) {
    let Some((&layout, log)) = data.split_first() else {
        return;
    };
    let (name, files) = FILES[usize::from(layout) % FILES.len()];
    let layout = by_name(name).unwrap();
    let mut artifact = layout.classify(Path::new(files[0])).unwrap();
    // The lines of the file itself are repaired.
    artifact.framing = Framing::Lines;
    let Ok(mending) = LineEdits::new(layout, &artifact, log) else {
        return;
    };
    let mended = mending.apply(log);
    assert_eq!(mended.len() as u64, mending.result_len(log.len() as u64));
    if mending.is_empty() {
        assert_eq!(mended, log);
    }
    for removed in &mending.removed {
        let at = removed.offset as usize;
        assert_eq!(log[at..at + removed.bytes.len()], removed.bytes);
    }
    let again = LineEdits::new(layout, &artifact, &mended).unwrap();
    assert!(again.is_empty(), "{:?}", again.steps);
}

/// A session in any state is checked: every line is counted, and what is wrong lies in the file.
fn check(data: &[u8]) {
    let Some((&layout, log)) = data.split_first() else {
        return;
    };
    let (store, path) = root(usize::from(layout), log);
    let (name, files) = FILES[usize::from(layout) % FILES.len()];
    let artifact = by_name(name).unwrap().classify(Path::new(files[0]));
    let len = derived(&artifact.unwrap(), &files[..1], log).len() as u64;
    let inventory = store.inventory();
    for files in &inventory.sessions {
        for report in annals::check::session(&inventory, files, None) {
            let report = report.unwrap();
            assert!(report.valid <= report.lines);
            for flaw in report.flaws.iter().filter(|_| report.path == path) {
                assert!(flaw.span.end() <= len, "{flaw:?}");
            }
        }
    }
}

/// The control: it panics at one word, which the fuzzer has to find.
#[allow(dead_code, reason = "only the fuzzer plants it")]
pub fn planted(data: &[u8]) {
    lines(data);
    // Byte by byte, so that coverage leads there: a comparison of words is one step, and without a
    // sanitizer the fuzzer does not see into it.
    let is_there = |at: usize| {
        data.get(at) == Some(&b'"')
            && data.get(at + 1) == Some(&b'i')
            && data.get(at + 2) == Some(&b'd')
            && data.get(at + 3) == Some(&b'"')
    };
    assert!(!(0..data.len()).any(is_there), "planted");
}
