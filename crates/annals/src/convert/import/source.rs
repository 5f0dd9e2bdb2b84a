//! An export that is imported: it is read and checked as a whole first.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::store::{Root, record_source};
use annals_jsonl::{OpenLog, RangeReader, Scanner};
use annals_layouts::json::describe_json_error;
use annals_layouts::layout::export_file::{ExportLine, ExportProblem, is_export, parse_line};
use annals_layouts::layout::{AGENT_SEPARATOR, ExportFile};
use annals_layouts::model::{AgentId, SessionId};

/// An export in a file, or a copy of one that can be read only once.
#[derive(Debug)]
pub struct ExportSource {
    path: PathBuf,
    /// Name in error messages.
    name: String,
    /// The copy, which is removed on drop.
    _copy: Option<NamedTempFile>,
}

/// Summary of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// Ids of the sessions.
    pub sessions: Vec<String>,
    /// Number of entries in all sessions.
    pub entries: u64,
    /// Files that could not be read when the export was written; their data is missing.
    pub problems: Vec<ExportProblem>,
    /// SHA-256 of the file, which identifies the export.
    pub(super) sha256: String,
}

impl ExportSource {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let real = path.canonicalize().map_err(failed)?;
        let name = path.display().to_string();
        if !real.is_file() {
            return ExportSource::read(File::open(path).map_err(failed)?, &name);
        }
        Ok(ExportSource {
            path: real,
            name,
            _copy: None,
        })
    }

    /// Copies an export from a source that can be read only once to a temporary file.
    pub fn read(mut from: impl Read, name: &str) -> Result<Self> {
        let failed = |error| Error::io("read", name, error);
        let mut copy = NamedTempFile::new().map_err(failed)?;
        io::copy(&mut from, &mut copy).map_err(failed)?;
        Ok(ExportSource {
            path: copy.path().to_owned(),
            name: name.to_owned(),
            _copy: Some(copy),
        })
    }

    /// Returns the root that the export is.
    pub fn root(&self) -> Root {
        Root::with_layout(&ExportFile, &self.path)
    }

    /// Reads and checks the whole export.
    pub fn read_contents(&self) -> Result<ExportContents> {
        let failed = |error| Error::io("read", &self.name, error);
        let bytes = OpenLog::open(&self.path).map_err(failed)?;
        let mut beginning = Vec::new();
        let mut reader = RangeReader::between(&bytes, 0, 1 << 20);
        reader.read_to_end(&mut beginning).map_err(failed)?;
        if !is_export(&beginning) {
            return Err(self.invalid(&not_an_export(&beginning)));
        }
        let records = record_source::open_root_file(&self.root()).map_err(failed)?;
        let is_log = matches!(records, OpenLog::Plain(_));
        let mut scanner = Scanner::new(RangeReader::from_offset(&records, 0));
        let mut check = Check::default();
        while let Some(line) = scanner.next().map_err(failed)? {
            let number = line.number;
            let read = match line.oversize {
                true => Err("the line is too long".to_owned()),
                false => check.add_line(line.bytes),
            };
            read.map_err(|why| {
                let place = match is_log {
                    true => format!("line {number}: "),
                    false => check.place(),
                };
                self.invalid(&format!("{place}{why}"))
            })?;
        }
        let mut contents = check.contents;
        contents.sha256 = sha256(&bytes).map_err(failed)?;
        Ok(contents)
    }

    fn invalid(&self, why: &str) -> Error {
        Error::refused(format!("{}: {why}", self.name))
    }
}

/// The lines of an export that were checked.
#[derive(Default)]
struct Check {
    contents: ExportContents,
    /// Number of logs of the last session.
    logs: usize,
    /// Number of entries of the last log.
    entries: usize,
}

impl Check {
    fn add_line(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let has_session = !self.contents.sessions.is_empty();
        match parse_line(text)? {
            ExportLine::Session(head) => {
                (self.logs, self.entries) = (1, 0);
                SessionId::new(&head.id).map_err(|error| error.to_string())?;
                let parts = head.id.rsplit_once(AGENT_SEPARATOR);
                let is_agent = parts.is_some_and(|(session, agent)| {
                    SessionId::new(session).is_ok() && AgentId::new(agent).is_ok()
                });
                if is_agent {
                    return Err(format!("the id {} is that of a sub-agent", head.id));
                }
                if self.contents.sessions.contains(&head.id) {
                    let id = head.id;
                    return Err(format!("the export contains session {id} twice"));
                }
                self.contents.sessions.push(head.id);
            }
            ExportLine::Agent(_) | ExportLine::Entry(_) if !has_session => {
                return Err(
                    "no session for this line: a line of type session must come first".to_owned(),
                );
            }
            ExportLine::Agent(head) => {
                (self.logs, self.entries) = (self.logs + 1, 0);
                let id = head.agent.as_deref().unwrap_or("agent");
                AgentId::new(id).map_err(|error| error.to_string())?;
                if head.session != self.contents.sessions.last().cloned() {
                    return Err("the agent belongs to another session".to_owned());
                }
            }
            ExportLine::Entry(row) => {
                self.entries += 1;
                row.entry()?;
                self.contents.entries += 1;
            }
            ExportLine::Problem(problem) => self.contents.problems.push(problem),
            ExportLine::End => {}
        }
        Ok(())
    }

    /// Returns the place of the last line in a document.
    fn place(&self) -> String {
        match (self.contents.sessions.len(), self.logs, self.entries) {
            (0, ..) => String::new(),
            (session, _, 0) => format!("session {session}: "),
            (session, log, entry) => format!("session {session}, log {log}, entry {entry}: "),
        }
    }
}

/// Returns why a file with this beginning is no export.
fn not_an_export(beginning: &[u8]) -> String {
    let mut values =
        serde_json::Deserializer::from_slice(beginning).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        None => "the file is empty".to_owned(),
        Some(Err(error)) if !error.is_data() => describe_json_error(&error),
        _ => "not an annals export in JSON or JSON lines".to_owned(),
    }
}

fn sha256(bytes: &OpenLog) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut reader = RangeReader::from_offset(bytes, 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        sum.update(buffer.get(..read).unwrap_or_default());
    }
    let digits = sum.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}
