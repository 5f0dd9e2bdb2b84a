//! Archives: what was exported as JSON or as JSON lines, read back.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek as _};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::export::entry::EntryJson;
use crate::export::json::{AgentHead, SessionHead, VERSION};
use crate::model::{Entry, TitleSource, Todo};

/// An exported session.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportedSession {
    /// The layout it came from.
    pub layout: String,
    /// Its id.
    pub id: String,
    /// The directory it is about.
    pub project: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Who gave the title.
    pub title_source: Option<TitleSource>,
    /// Its label.
    pub tag: Option<String>,
    /// When it began.
    pub started: Option<Timestamp>,
    /// The todos of each agent, by its id; the session's own stands for the main agent.
    pub todos: Vec<(String, Vec<Todo>)>,
    /// Its logs.
    pub logs: Vec<ExportedLog>,
}

impl ExportedSession {
    /// When its first entry was written, or else when it is said to have begun.
    pub(super) fn first_entry_time(&self) -> Option<Timestamp> {
        let mut entries = self.logs.iter().flat_map(|log| &log.entries);
        entries.find_map(|entry| entry.time).or(self.started)
    }
}

/// An exported log.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportedLog {
    /// The sub-agent whose log it is; `None` means the main agent.
    pub agent: Option<ExportedAgent>,
    /// Its entries.
    pub entries: Vec<Entry>,
}

/// An exported sub-agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedAgent {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// Its kind, such as `Explore`.
    pub kind: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The tool call that spawned it.
    pub call: Option<String>,
}

/// What an archive holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// The ids of its sessions.
    pub sessions: Vec<String>,
    /// When each of them began.
    pub began: Vec<Option<Timestamp>>,
    /// Entries of all of them.
    pub entries: u64,
    /// What tells this export from others: a SHA-256 of its bytes.
    pub sha256: String,
}

/// Exported sessions, to be read as often as it takes.
#[derive(Debug)]
pub struct ExportFile {
    source: Source,
    /// What it is called in messages.
    name: String,
    lines: bool,
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl ExportFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
        let name = path.display().to_string();
        match file.metadata() {
            Ok(metadata) if !metadata.is_file() => ExportFile::read(file, &name),
            _ => ExportFile::of(Source::File(file), &name),
        }
    }

    /// Takes an archive into memory from where it can be read only once.
    pub fn read(mut from: impl Read, name: &str) -> Result<Self> {
        let mut bytes = Vec::new();
        let read = from.read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", name, error))?;
        ExportFile::of(Source::Memory(bytes), name)
    }

    fn of(source: Source, name: &str) -> Result<Self> {
        let mut archive = ExportFile {
            source,
            name: name.to_owned(),
            lines: false,
        };
        archive.lines = archive.has_lines()?;
        Ok(archive)
    }

    /// The first value tells: a document has sessions, a line has a type.
    fn has_lines(&self) -> Result<bool> {
        #[derive(Deserialize)]
        struct First {
            #[serde(rename = "type")]
            kind: Option<IgnoredAny>,
            sessions: Option<IgnoredAny>,
        }
        let reader = self.rewind()?;
        let mut values = serde_json::Deserializer::from_reader(reader).into_iter::<First>();
        match values.next() {
            Some(Ok(first)) if first.kind.is_some() => Ok(true),
            Some(Ok(first)) if first.sessions.is_some() => Ok(false),
            None => Err(self.bad("it is empty")),
            Some(Err(error)) if error.is_io() => Err(Error::io("read", &self.name, error.into())),
            Some(Err(error)) if !error.is_data() => Err(self.bad(&error.to_string())),
            _ => Err(self.bad("it is no export of annals in JSON or JSON lines")),
        }
    }

    /// Reads all of it, and tells what it holds or what is wrong with it.
    pub fn read_contents(&self) -> Result<ExportContents> {
        let mut contents = ExportContents::default();
        self.each_session(|kept| {
            contents.entries += kept
                .logs
                .iter()
                .map(|log| log.entries.len() as u64)
                .sum::<u64>();
            contents.began.push(kept.first_entry_time());
            contents.sessions.push(kept.id);
            Ok(())
        })?;
        contents.sha256 = self.sha256()?;
        Ok(contents)
    }

    fn sha256(&self) -> Result<String> {
        let mut sum = Sha256::new();
        let mut reader = self.rewind()?;
        let failed = |error| Error::io("read", &self.name, error);
        loop {
            let bytes = reader.fill_buf().map_err(failed)?;
            if bytes.is_empty() {
                break;
            }
            sum.update(bytes);
            let read = bytes.len();
            reader.consume(read);
        }
        let digits = sum.finalize();
        Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Hands over its sessions, one by one.
    pub fn each_session(&self, visit: impl FnMut(ExportedSession) -> Result<()>) -> Result<()> {
        match self.lines {
            true => self.each_of_lines(visit),
            false => self.each_of_document(visit),
        }
    }

    fn each_of_lines(&self, mut visit: impl FnMut(ExportedSession) -> Result<()>) -> Result<()> {
        let mut reader = self.rewind()?;
        let mut line = Vec::new();
        let mut number = 0;
        let mut session: Option<ExportedSession> = None;
        loop {
            line.clear();
            number += 1;
            let read = reader.read_until(b'\n', &mut line);
            let read = read.map_err(|error| Error::io("read", &self.name, error))?;
            if read == 0 {
                break;
            }
            let bad = |why: String| self.bad(&format!("line {number}: {why}"));
            let text = std::str::from_utf8(&line).map_err(|_| bad("not UTF-8".to_owned()))?;
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() {
                continue;
            }
            if let Some(whole) = take_line(text, &mut session).map_err(bad)? {
                visit(whole)?;
            }
        }
        session.map_or(Ok(()), visit)
    }

    fn each_of_document(&self, mut visit: impl FnMut(ExportedSession) -> Result<()>) -> Result<()> {
        let mut reader = serde_json::Deserializer::from_reader(self.rewind()?);
        let mut failed = None;
        let document = Document {
            visit: &mut visit,
            failed: &mut failed,
        };
        let read = document
            .deserialize(&mut reader)
            .and_then(|()| reader.end());
        match (failed, read) {
            (Some(error), _) => Err(error),
            (None, Err(error)) if error.is_io() => Err(Error::io("read", &self.name, error.into())),
            (None, Err(error)) => Err(self.bad(&error.to_string())),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Reads from the front again.
    fn rewind(&self) -> Result<Box<dyn BufRead + '_>> {
        let mut file = match &self.source {
            Source::File(file) => file,
            Source::Memory(bytes) => return Ok(Box::new(bytes.as_slice())),
        };
        let rewound = file.rewind();
        rewound.map_err(|error| Error::io("read", &self.name, error))?;
        Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    fn bad(&self, why: &str) -> Error {
        Error::refused(format!("{}: {why}", self.name))
    }
}

/// Takes in a line of a stream; gives the session before it, if it begins another.
fn take_line(
    text: &str,
    session: &mut Option<ExportedSession>,
) -> Result<Option<ExportedSession>, String> {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let broken = |error: serde_json::Error| error.to_string();
    let Tag { kind } = serde_json::from_str(text).map_err(broken)?;
    let orphan = || "it belongs to no session: a line of the type session comes first".to_owned();
    match kind.as_deref() {
        Some("session") => {
            let head: SessionHead = serde_json::from_str(text).map_err(broken)?;
            check_version(head.annals)?;
            Ok(session.replace(kept(head)?))
        }
        Some("agent") => {
            let head: AgentHead = serde_json::from_str(text).map_err(broken)?;
            let session = session.as_mut().ok_or_else(orphan)?;
            session.logs.push(ExportedLog {
                agent: Some(agent(head)),
                entries: Vec::new(),
            });
            Ok(None)
        }
        Some("entry") => {
            let row: EntryJson<'_> = serde_json::from_str(text).map_err(broken)?;
            let session = session.as_mut().ok_or_else(orphan)?;
            if session.logs.is_empty() {
                session.logs.push(ExportedLog::default());
            }
            if let Some(log) = session.logs.last_mut() {
                log.entries.push(row.entry()?);
            }
            Ok(None)
        }
        Some(other) => Err(format!(
            "its type is `{}`; known are session, agent and entry",
            other.escape_debug()
        )),
        None => Err("it has no `type`".to_owned()),
    }
}

fn kept(head: SessionHead) -> Result<ExportedSession, String> {
    if head.id.is_empty() {
        return Err("a session needs `id`".to_owned());
    }
    let todos = head.todos.into_iter();
    Ok(ExportedSession {
        layout: head.layout,
        id: head.id,
        project: head.project,
        title: head.title,
        title_source: head.title_source,
        tag: head.tag,
        started: head.started,
        todos: todos.map(|list| (list.agent, list.todos)).collect(),
        logs: Vec::new(),
    })
}

fn agent(head: AgentHead) -> ExportedAgent {
    ExportedAgent {
        id: head.agent,
        kind: head.kind,
        description: head.description,
        call: head.call,
    }
}

fn check_version(version: Option<u32>) -> Result<(), String> {
    match version {
        Some(version) if version > VERSION => Err(format!(
            "it was written in form {version}, and this annals reads {VERSION}; a newer one does"
        )),
        _ => Ok(()),
    }
}

/// A session within a document. What is large is read from its own text, because a tool's arguments
/// keep their spelling only there.
fn whole(json: &str) -> Result<ExportedSession, String> {
    #[derive(Deserialize)]
    struct Logs<'a> {
        #[serde(borrow, default)]
        logs: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Entries<'a> {
        #[serde(borrow, default)]
        entries: Vec<&'a RawValue>,
    }
    let broken = |error: serde_json::Error| error.to_string();
    let head: SessionHead = serde_json::from_str(json).map_err(broken)?;
    let mut session = kept(head)?;
    let Logs { logs } = serde_json::from_str(json).map_err(broken)?;
    for (at, log) in logs.into_iter().enumerate() {
        let head: AgentHead = serde_json::from_str(log.get()).map_err(broken)?;
        let Entries { entries } = serde_json::from_str(log.get()).map_err(broken)?;
        let read = entries.into_iter().enumerate().map(|(number, entry)| {
            let row: Result<EntryJson<'_>, _> = serde_json::from_str(entry.get());
            let place = |why| format!("log {}, entry {}: {why}", at + 1, number + 1);
            row.map_err(broken)
                .and_then(EntryJson::entry)
                .map_err(place)
        });
        let is_main = head.agent.is_none() && !head.strand && at == 0;
        session.logs.push(ExportedLog {
            entries: read.collect::<Result<_, _>>()?,
            agent: (!is_main).then(|| agent(head)),
        });
    }
    Ok(session)
}

/// A document whose sessions are handed over as they are read.
struct Document<'a> {
    visit: &'a mut dyn FnMut(ExportedSession) -> Result<()>,
    /// What the visitor failed with.
    failed: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export of annals")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "annals" => {
                    check_version(Some(map.next_value()?)).map_err(serde::de::Error::custom)?;
                }
                "sessions" => map.next_value_seed(Sessions(&mut self))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

struct Sessions<'a, 'b>(&'a mut Document<'b>);

impl<'de> DeserializeSeed<'de> for Sessions<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sessions<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of sessions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(session) = seq.next_element::<Box<RawValue>>()? {
            let kept = whole(session.get()).map_err(serde::de::Error::custom)?;
            if let Err(error) = (self.0.visit)(kept) {
                let told = serde::de::Error::custom(&error);
                *self.0.failed = Some(error);
                return Err(told);
            }
        }
        Ok(())
    }
}
