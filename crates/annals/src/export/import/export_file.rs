//! Reads exports in JSON or JSON lines.

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
use crate::export::json::{AgentHead, ExportProblem, SessionHead, VERSION};
use annals_layouts::json::describe_json_error;
use annals_layouts::model::{Entry, TitleSource, Todo};

/// An exported session.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportedSession {
    /// The layout it was exported from.
    pub layout: String,
    /// Session id.
    pub id: String,
    /// Project directory.
    pub(crate) project: Option<String>,
    /// Title.
    pub(crate) title: Option<String>,
    /// Source of the title.
    pub(crate) title_source: Option<TitleSource>,
    /// Tag.
    pub(crate) tag: Option<String>,
    /// Start time.
    pub(crate) started: Option<Timestamp>,
    /// Todos by agent id; the session id stands for the main agent.
    pub(crate) todos: Vec<(String, Vec<Todo>)>,
    /// Logs of all agents.
    pub logs: Vec<ExportedLog>,
}

impl ExportedSession {
    /// Returns the time of the first entry, or else the recorded start time.
    pub(super) fn first_entry_time(&self) -> Option<Timestamp> {
        let mut entries = self.logs.iter().flat_map(|log| &log.entries);
        entries.find_map(|entry| entry.time).or(self.started)
    }
}

/// An exported log.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExportedLog {
    /// The sub-agent that wrote the log; `None` for the main agent.
    pub agent: Option<ExportedAgent>,
    /// Entries of the log.
    pub entries: Vec<Entry>,
}

/// An exported sub-agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedAgent {
    /// Agent id, if it has one.
    pub(crate) id: Option<String>,
    /// Kind, such as `Explore`.
    pub(crate) kind: Option<String>,
    /// Description of the task.
    pub(crate) description: Option<String>,
    /// The tool call that spawned it.
    pub(crate) call: Option<String>,
}

/// Summary of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// Ids of the sessions.
    pub sessions: Vec<String>,
    /// Start time of each session.
    pub(crate) began: Vec<Option<Timestamp>>,
    /// Number of entries in all sessions.
    pub(crate) entries: u64,
    /// SHA-256 of the file, which identifies the export.
    pub(crate) sha256: String,
    /// Files that could not be read when the export was written; their data is missing.
    pub problems: Vec<ExportProblem>,
}

/// Exported sessions, which can be read repeatedly.
#[derive(Debug)]
pub struct ExportFile {
    source: Source,
    /// Name in error messages.
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
            _ => ExportFile::from_source(Source::File(file), &name),
        }
    }

    /// Reads an export into memory, from a source that can be read only once.
    pub fn read(mut from: impl Read, name: &str) -> Result<Self> {
        let mut bytes = Vec::new();
        let read = from.read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", name, error))?;
        ExportFile::from_source(Source::Memory(bytes), name)
    }

    fn from_source(source: Source, name: &str) -> Result<Self> {
        let mut archive = ExportFile {
            source,
            name: name.to_owned(),
            lines: false,
        };
        archive.lines = archive.has_lines()?;
        Ok(archive)
    }

    /// Returns whether the export is JSON lines. A document has `sessions`, a line has a `type`.
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
            None => Err(self.invalid("the file is empty")),
            Some(Err(error)) if error.is_io() => Err(Error::io("read", &self.name, error.into())),
            Some(Err(error)) if !error.is_data() => Err(self.invalid(&describe_json_error(&error))),
            _ => Err(self.invalid("not an annals export in JSON or JSON lines")),
        }
    }

    /// Reads and validates the whole export.
    pub fn read_contents(&self) -> Result<ExportContents> {
        let mut contents = ExportContents::default();
        let mut problems = Vec::new();
        let visit = |exported_session: ExportedSession| {
            contents.entries += exported_session
                .logs
                .iter()
                .map(|log| log.entries.len() as u64)
                .sum::<u64>();
            contents.began.push(exported_session.first_entry_time());
            contents.sessions.push(exported_session.id);
            Ok(())
        };
        self.each(visit, &mut problems)?;
        contents.problems = problems;
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

    /// Passes each session to `visit`.
    pub fn each_session(&self, visit: impl FnMut(ExportedSession) -> Result<()>) -> Result<()> {
        self.each(visit, &mut Vec::new())
    }

    fn each(
        &self,
        visit: impl FnMut(ExportedSession) -> Result<()>,
        problems: &mut Vec<ExportProblem>,
    ) -> Result<()> {
        match self.lines {
            true => self.each_of_lines(visit, problems),
            false => self.each_of_document(visit, problems),
        }
    }

    fn each_of_lines(
        &self,
        mut visit: impl FnMut(ExportedSession) -> Result<()>,
        problems: &mut Vec<ExportProblem>,
    ) -> Result<()> {
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
            let invalid = |why: String| self.invalid(&format!("line {number}: {why}"));
            let text = std::str::from_utf8(&line).map_err(|_| invalid("not UTF-8".to_owned()))?;
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() {
                continue;
            }
            if let Some(whole) = take_line(text, &mut session, problems).map_err(invalid)? {
                visit(whole)?;
            }
        }
        session.map_or(Ok(()), visit)
    }

    fn each_of_document(
        &self,
        mut visit: impl FnMut(ExportedSession) -> Result<()>,
        problems: &mut Vec<ExportProblem>,
    ) -> Result<()> {
        let mut reader = serde_json::Deserializer::from_reader(self.rewind()?);
        let mut failed = None;
        let document = Document {
            visit: &mut visit,
            problems,
            failed: &mut failed,
        };
        let read = document
            .deserialize(&mut reader)
            .and_then(|()| reader.end());
        match (failed, read) {
            (Some(error), _) => Err(error),
            (None, Err(error)) if error.is_io() => Err(Error::io("read", &self.name, error.into())),
            (None, Err(error)) => Err(self.invalid(&describe_json_error(&error))),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Returns a reader at the start of the export.
    fn rewind(&self) -> Result<Box<dyn BufRead + '_>> {
        let mut file = match &self.source {
            Source::File(file) => file,
            Source::Memory(bytes) => return Ok(Box::new(bytes.as_slice())),
        };
        let rewound = file.rewind();
        rewound.map_err(|error| Error::io("read", &self.name, error))?;
        Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    fn invalid(&self, why: &str) -> Error {
        Error::refused(format!("{}: {why}", self.name))
    }
}

/// Adds a line of a stream. Returns the previous session if the line begins another one.
fn take_line(
    text: &str,
    session: &mut Option<ExportedSession>,
    problems: &mut Vec<ExportProblem>,
) -> Result<Option<ExportedSession>, String> {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let broken = |error: serde_json::Error| describe_json_error(&error);
    let Tag { kind } = serde_json::from_str(text).map_err(broken)?;
    let orphan = || "no session for this line: a line of type session must come first".to_owned();
    match kind.as_deref() {
        Some("session") => {
            let head: SessionHead = serde_json::from_str(text).map_err(broken)?;
            check_version(head.annals)?;
            Ok(session.replace(exported_session(head)?))
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
        Some("problem") => {
            problems.push(serde_json::from_str(text).map_err(broken)?);
            Ok(None)
        }
        Some(other) => Err(format!(
            "unknown type `{}`; expected session, agent or entry",
            other.escape_debug()
        )),
        None => Err("missing `type`".to_owned()),
    }
}

fn exported_session(head: SessionHead) -> Result<ExportedSession, String> {
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
            "unsupported format version {version}; this annals reads up to {VERSION}, use a newer one"
        )),
        _ => Ok(()),
    }
}

/// Parses a session of a document. Logs and entries are parsed from their raw text, because a
/// tool's arguments keep their spelling only there.
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
    let broken = |error: serde_json::Error| describe_json_error(&error);
    let head: SessionHead = serde_json::from_str(json).map_err(broken)?;
    let mut session = exported_session(head)?;
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

/// Deserializer that passes on each session as it is read.
struct Document<'a> {
    visit: &'a mut dyn FnMut(ExportedSession) -> Result<()>,
    problems: &'a mut Vec<ExportProblem>,
    /// Error returned by the visitor.
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
        f.write_str("an annals export")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "annals" => {
                    check_version(Some(map.next_value()?)).map_err(serde::de::Error::custom)?;
                }
                "sessions" => map.next_value_seed(Sessions(&mut self))?,
                "problems" => {
                    let problems: Vec<ExportProblem> = map.next_value()?;
                    self.problems.extend(problems);
                }
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
            let exported_session = whole(session.get()).map_err(serde::de::Error::custom)?;
            if let Err(error) = (self.0.visit)(exported_session) {
                let failure = serde::de::Error::custom(&error);
                *self.0.failed = Some(error);
                return Err(failure);
            }
        }
        Ok(())
    }
}
