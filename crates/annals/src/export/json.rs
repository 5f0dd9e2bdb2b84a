//! Sessions as JSON and as JSON lines. The layout that reads them specifies the format
//! ([`annals_layouts::layout::export_file`]).
//!
//! A document is valid even if a log could not be read to its end. Entries of sub-agents that are in
//! the log of another agent stay there, in the order of the log.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::store::{Agent, Call, Session};
use annals_layouts::layout::export_file::{
    AgentHead, EntryJson, ExportProblem, SessionHead, TodoList, VERSION, is_head, write_json,
};
use annals_layouts::model::{Block, Body, Entry, EntryKey, Fact, Span, TitleSource};

use super::reading_order::{ExportPart, selected_agents};
use super::redact::Redactor;
use super::title::mask_title;
use super::write_error;

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
    /// Id of the session.
    session: String,
    /// No entry of the current log was written to the document.
    is_first_entry: bool,
}

impl<'a> JsonWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, lines: bool, number: usize) -> Self {
        JsonWriter {
            out,
            lines,
            number,
            session: String::new(),
            is_first_entry: true,
        }
    }

    pub(super) fn write_session(
        &mut self,
        session: &Session,
        part: &ExportPart,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        let head = self.session_head(session, redactor.as_deref_mut())?;
        self.session.clone_from(&head.id);
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
            self.open_log(None, logs).map_err(write_error)?;
            let written = self
                .write_entries(session, 0, &entries, redactor.as_deref_mut())
                .and_then(|()| self.write_session_data(session, part, redactor.as_deref_mut()));
            let closed = self.close();
            written.and(closed)?;
            logs += 1;
        }
        for at in selected_agents(session, part) {
            let agent = session.agents.get(at);
            // Entries of a sub-agent in another agent's log stay in that log.
            let Some(agent) = agent.filter(|agent| agent.sidechain.is_none()) else {
                continue;
            };
            let mut head = agent_head(session, agent)?;
            if let (Some(redactor), Some(text)) = (&mut redactor, &mut head.description) {
                *text = redactor.mask_text(text).into_owned();
            }
            let entries = all_entries(session, agent.log);
            self.open_log(Some(head), logs).map_err(write_error)?;
            let written = self.write_entries(session, agent.log, &entries, redactor.as_deref_mut());
            let closed = self.close();
            written.and(closed)?;
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

    /// Writes entries of a log. Without masking, each has its record, if that is all there is to it
    /// and its layout can be written.
    fn write_entries(
        &mut self,
        session: &Session,
        log: usize,
        entries: &[usize],
        mut redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        let with_records = redactor.is_none() && session.root().layout.writer().is_some();
        let mut last = None;
        let is_export = session.root().layout.root_is_file();
        session.each_record_of_log(log, entries, |mut entry, outline, record| {
            // The new heads stand for those of an export.
            if is_export && (is_head(&entry) || matches!(entry.body, Body::Todos(_))) {
                return Ok(true);
            }
            if let Some(redactor) = redactor.as_deref_mut() {
                redactor.mask_entry(&mut entry);
            }
            let is_repeated = outline.facts.contains(&Fact::RepeatedId);
            let cost = outline.reply.as_ref().and_then(|reply| reply.recorded);
            let row = EntryJson::new(&entry)
                .with_repeated_id(is_repeated)
                .with_recorded_cost(cost);
            let place: (u16, Span) = (outline.volume, outline.span);
            let row = match record.filter(|_| with_records) {
                Some(_) if last.replace(place) == Some(place) => row.of_same_record(),
                Some(record) => row.with_record(record, outline.span.offset),
                None => row,
            };
            self.write_row(row).map_err(write_error)?;
            Ok(true)
        })
    }

    /// Writes titles, notes and tags that are not among the entries, as entries of the main log.
    fn write_session_data(
        &mut self,
        session: &Session,
        part: &ExportPart,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<()> {
        let mut write = |mut entry: Entry| {
            if let Some(redactor) = redactor.as_deref_mut() {
                redactor.mask_entry(&mut entry);
            }
            self.write_row(EntryJson::new(&entry)).map_err(write_error)
        };
        let given = session
            .title()
            .filter(|title| title.source > TitleSource::Summary);
        let (title, tag) = match part {
            ExportPart::Whole => (
                session
                    .listed_title()
                    .map(|text| (text, TitleSource::Custom)),
                None,
            ),
            ExportPart::Path(_) => (given.map(|title| (title.text, title.source)), session.tag()),
        };
        if let Some((text, source)) = title {
            write(Entry::new(Span::default(), Body::Title { text, source }))?;
        }
        if let Some(text) = tag {
            write(Entry::new(Span::default(), Body::Tag { text }))?;
        }
        if let ExportPart::Path(_) = part {
            return Ok(());
        }
        for (file, scan) in session.files.notes().zip(&session.note_logs) {
            let all: Vec<usize> = (0..scan.outlines.len()).collect();
            session.each_entry_of_file(file, scan, &all, |entry| {
                // Headers: nothing of them is known.
                if !matches!(entry.body, Body::Opaque { .. }) {
                    write(entry)?;
                }
                Ok(true)
            })?;
        }
        Ok(())
    }

    fn open_log(&mut self, agent: Option<AgentHead>, number: usize) -> io::Result<()> {
        match (self.lines, agent) {
            (true, None) => Ok(()),
            (true, Some(agent)) => {
                let line = Some(Cow::Borrowed("agent"));
                let session = Some(self.session.clone());
                let head = AgentHead {
                    line,
                    session,
                    ..agent
                };
                write_json(&head, self.out)?;
                self.out.write_all(b"\n")
            }
            (false, agent) => {
                let comma = if number > 0 { ",\n" } else { "\n" };
                self.out.write_all(comma.as_bytes())?;
                self.is_first_entry = true;
                self.open(&agent.unwrap_or_default(), "entries")
            }
        }
    }

    fn write_row(&mut self, row: EntryJson<'_>) -> io::Result<()> {
        if self.lines {
            write_json(&row.with_line_type(), self.out)?;
            return self.out.write_all(b"\n");
        }
        let is_first = std::mem::take(&mut self.is_first_entry);
        self.out.write_all(if is_first { b"\n" } else { b",\n" })?;
        write_json(&row, self.out)
    }
}

fn main_entries(session: &Session, part: &ExportPart) -> Vec<usize> {
    let ExportPart::Path(path) = part else {
        return all_entries(session, 0);
    };
    let mut entries: BTreeSet<usize> = path.iter().copied().collect();
    let agents = selected_agents(session, part).into_iter();
    let agents = agents.filter_map(|at| session.agents.get(at));
    for strand in agents
        .filter(|agent| agent.log == 0)
        .filter_map(|agent| agent.sidechain)
    {
        let strand = session.tree().and_then(|tree| tree.sidechains.get(strand));
        entries.extend(strand.into_iter().flat_map(|strand| &strand.entries));
    }
    entries.into_iter().collect()
}

fn all_entries(session: &Session, log: usize) -> Vec<usize> {
    let entries = session
        .log(log)
        .map_or(0, |(_, scan, _)| scan.outlines.len());
    (0..entries).collect()
}

fn agent_head(session: &Session, agent: &Agent) -> Result<AgentHead> {
    let call = agent.call.map(|call| call_id(session, call)).transpose()?;
    let id = agent.id.as_ref().map(ToString::to_string);
    Ok(AgentHead {
        line: None,
        session: None,
        agent: Some(id.unwrap_or_else(|| format!("log-{}", agent.log))),
        kind: agent.kind.clone(),
        description: agent.description.clone(),
        call: call.flatten(),
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
