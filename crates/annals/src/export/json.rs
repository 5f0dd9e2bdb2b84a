//! Sessions as JSON and as JSON lines.
//!
//! ```text
//! JSON    {"annals":1,"sessions":[{…,"logs":[{…,"entries":[{…},…]},…]},…],"problems":[{…},…]}
//! lines   {"type":"session","annals":1,…}      a session; its main agent's entries follow
//!         {"type":"entry",…}
//!         {"type":"agent",…}                   a sub-agent; its entries follow
//!         {"type":"entry",…}
//!         {"type":"problem",…}                 something that could not be read; at the end
//! ```
//!
//! Without problems there is no such member or line. A document is valid even if a log could not be read
//! to its end. The first log of a session is its main agent's and has no `agent`. Sub-agents whose entries are
//! in another agent's log get their own log here, with `strand`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::{Agent, Call, Session};
use annals_layouts::model::{Block, Body, EntryKey, TitleSource, Todo, Usage};

use super::entry::{EntryJson, write_json};
use super::reading_order::{ExportPart, selected_agents};
use super::redact::Redactor;
use super::title::mask_title;
use super::write_error;

/// The version of the document's shape. A reader refuses a later one.
pub(super) const VERSION: u32 = 1;

/// Session metadata, without the entries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionHead {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annals: Option<u32>,
    pub(super) layout: String,
    pub(super) id: String,
    /// The project directory; missing if no entry records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title_source: Option<TitleSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated: Option<Timestamp>,
    pub(super) messages: u64,
    pub(super) models: Vec<String>,
    pub(super) usage: Usage,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) todos: Vec<TodoList>,
}

/// Todo list of one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TodoList {
    /// The agent id, or the session id for the main agent.
    pub(super) agent: String,
    pub(super) todos: Vec<Todo>,
}

/// Agent metadata, without the entries. The main agent has no members.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AgentHead {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// The tool call that spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
    /// Its entries are in another agent's log.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) strand: bool,
}

/// Something that could not be read, so that an export is incomplete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportProblem {
    /// The file or directory, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it could not be read.
    pub error: String,
}

impl From<&Error> for ExportProblem {
    fn from(error: &Error) -> Self {
        ExportProblem {
            path: error.path().map(|path| path.display().to_string()),
            error: error.to_string(),
        }
    }
}

/// A problem as a line of its own.
#[derive(Serialize)]
struct ProblemLine<'a> {
    #[serde(rename = "type")]
    line: &'static str,
    #[serde(flatten)]
    problem: &'a ExportProblem,
}

/// Begins a document.
pub(super) fn begin(out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"annals\":{VERSION},\"sessions\":[")
}

/// Ends a document.
pub(super) fn end(problems: &[ExportProblem], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\n]")?;
    if !problems.is_empty() {
        out.write_all(b",\"problems\":")?;
        write_json(&problems, out)?;
    }
    out.write_all(b"}\n")
}

/// Ends JSON lines.
pub(super) fn end_lines(problems: &[ExportProblem], out: &mut dyn Write) -> io::Result<()> {
    for problem in problems {
        let line = "problem";
        write_json(&ProblemLine { line, problem }, out)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes sessions as one JSON document or as JSON lines.
pub(super) struct JsonWriter<'a> {
    out: &'a mut dyn Write,
    /// JSON lines instead of one document.
    lines: bool,
    /// Index of the session in the document.
    number: usize,
}

impl<'a> JsonWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, lines: bool, number: usize) -> Self {
        JsonWriter { out, lines, number }
    }

    pub(super) fn write_session(
        &mut self,
        session: &Session,
        part: &ExportPart,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        let head = self.session_head(session, redactor.as_deref_mut())?;
        self.open_session(&head).map_err(write_error)?;
        let written = self.write_logs(session, part, redactor);
        let closed = self.close();
        written.and(closed)
    }

    fn write_logs(
        &mut self,
        session: &Session,
        part: &ExportPart,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        let mut logs = 0;
        if session.main_log().is_some() {
            let entries = main_entries(session, part);
            self.write_log(session, 0, &entries, None, logs, redactor.as_deref_mut())?;
            logs += 1;
        }
        for at in selected_agents(session, part) {
            let Some(agent) = session.agents.get(at) else {
                continue;
            };
            let mut head = agent_head(session, agent)?;
            if let (Some(redactor), Some(text)) = (&mut redactor, &mut head.description) {
                *text = redactor.mask_text(text).into_owned();
            }
            let entries = agent_entries(session, agent);
            self.write_log(
                session,
                agent.log,
                &entries,
                Some(head),
                logs,
                redactor.as_deref_mut(),
            )?;
            logs += 1;
        }
        Ok(())
    }

    /// Closes the list and the object that [`Self::open`] opened. Also after an error, so that the
    /// document stays valid.
    fn close(&mut self) -> Result<()> {
        match self.lines {
            true => Ok(()),
            false => self.out.write_all(b"]}").map_err(write_error),
        }
    }

    fn session_head(
        &self,
        session: &Session,
        redactor: Option<&mut Redactor>,
    ) -> Result<SessionHead> {
        let info = session.info(None);
        let lists = session.todos()?.into_iter();
        let mut head = SessionHead {
            line: self.lines.then_some(Cow::Borrowed("session")),
            annals: self.lines.then_some(VERSION),
            layout: info.layout.to_owned(),
            id: info.id.to_string(),
            project: Some(info.project.path).filter(|_| !info.project.guessed),
            title_source: info.title.as_ref().map(|title| title.source),
            title: info.title.map(|title| title.text),
            tag: info.tag,
            started: info.started,
            updated: info.updated,
            messages: info.messages,
            models: info.models.into_iter().collect(),
            usage: info.usage,
            todos: lists
                .map(|(agent, todos)| TodoList { agent, todos })
                .collect(),
        };
        if let Some(redactor) = redactor {
            if let Some(title) = &mut head.title {
                *title = mask_title(session, 0, title, redactor)?;
            }
            let texts = [&mut head.project, &mut head.tag];
            for text in texts.into_iter().flatten() {
                *text = redactor.mask_text(text).into_owned();
            }
            for list in &mut head.todos {
                redactor.mask_todos(&mut list.todos);
            }
        }
        Ok(head)
    }

    fn open_session(&mut self, head: &SessionHead) -> io::Result<()> {
        if self.lines {
            write_json(head, self.out)?;
            return self.out.write_all(b"\n");
        }
        let comma = if self.number > 0 { ",\n" } else { "\n" };
        self.out.write_all(comma.as_bytes())?;
        self.open(head, "logs")
    }

    /// Writes an object whose last member is a list, and leaves the list open.
    fn open(&mut self, head: &impl Serialize, list: &str) -> io::Result<()> {
        let object = serde_json::to_string(head)?;
        let members = object.strip_suffix('}').unwrap_or(&object);
        let comma = if members == "{" { "" } else { "," };
        write!(self.out, "{members}{comma}\"{list}\":[")
    }

    fn write_log(
        &mut self,
        session: &Session,
        log: usize,
        entries: &[usize],
        agent: Option<AgentHead>,
        number: usize,
        redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        self.open_log(agent, number).map_err(write_error)?;
        let mut redactor = redactor;
        let mut first = true;
        let read = session.each_entry_of_log(log, entries, |mut entry| {
            if let Some(redactor) = redactor.as_deref_mut() {
                redactor.mask_entry(&mut entry);
            }
            self.write_row(EntryJson::new(&entry), first)
                .map_err(write_error)?;
            first = false;
            Ok(true)
        });
        let closed = self.close();
        read.and(closed)
    }

    fn open_log(&mut self, agent: Option<AgentHead>, number: usize) -> io::Result<()> {
        match (self.lines, agent) {
            (true, None) => Ok(()),
            (true, Some(agent)) => {
                let line = Some(Cow::Borrowed("agent"));
                write_json(&AgentHead { line, ..agent }, self.out)?;
                self.out.write_all(b"\n")
            }
            (false, agent) => {
                let comma = if number > 0 { ",\n" } else { "\n" };
                self.out.write_all(comma.as_bytes())?;
                self.open(&agent.unwrap_or_default(), "entries")
            }
        }
    }

    fn write_row(&mut self, row: EntryJson<'_>, first: bool) -> io::Result<()> {
        if self.lines {
            write_json(&row.with_line_type(), self.out)?;
            return self.out.write_all(b"\n");
        }
        self.out.write_all(if first { b"\n" } else { b",\n" })?;
        write_json(&row, self.out)
    }
}

fn main_entries(session: &Session, part: &ExportPart) -> Vec<usize> {
    match part {
        ExportPart::Path(path) => path.clone(),
        ExportPart::Whole => own_entries(session, 0),
    }
}

fn agent_entries(session: &Session, agent: &Agent) -> Vec<usize> {
    let strands = session.log(agent.log).map(|(_, _, tree)| &tree.sidechains);
    let strand = agent.sidechain.and_then(|at| strands?.get(at));
    match strand {
        Some(strand) => strand.entries.clone(),
        None => own_entries(session, agent.log),
    }
}

/// Returns the entries of a log that belong to no sidechain, in file order.
fn own_entries(session: &Session, log: usize) -> Vec<usize> {
    let Some((_, scan, tree)) = session.log(log) else {
        return Vec::new();
    };
    let strands = tree.sidechains.iter().flat_map(|strand| &strand.entries);
    let others: HashSet<usize> = strands.copied().collect();
    (0..scan.outlines.len())
        .filter(|at| !others.contains(at))
        .collect()
}

fn agent_head(session: &Session, agent: &Agent) -> Result<AgentHead> {
    let call = agent.call.map(|call| call_id(session, call)).transpose()?;
    Ok(AgentHead {
        line: None,
        agent: agent.id.as_ref().map(ToString::to_string),
        kind: agent.kind.clone(),
        description: agent.description.clone(),
        call: call.flatten(),
        strand: agent.sidechain.is_some(),
    })
}

/// Returns the id of a call; trees store only its key.
fn call_id(session: &Session, call: Call) -> Result<Option<String>> {
    let mut found = None;
    session.each_entry_of_log(call.log, &[call.entry], |entry| {
        if let Body::Message(message) = entry.body {
            found = message.blocks.into_iter().find_map(|block| match block {
                Block::ToolUse { id, .. } if EntryKey::from_text(&id) == call.key => Some(id),
                _ => None,
            });
        }
        Ok(false)
    })?;
    Ok(found)
}
