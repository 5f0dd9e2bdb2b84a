//! Writing rows of the database, as the program writes them.
//!
//! | change | statements |
//! |---|---|
//! | a session | a row of `session`, in the project that has its directory, or in `global`, as the program does outside of repositories |
//! | a message | a row of `message`, and one of `part` for each text, reasoning and call |
//! | a result | the `state` of the call's part |
//! | a compaction | a prompt with a `compaction` part, and a reply with `summary` |
//! | a title | `session.title` |
//! | todos | the rows of `todo` of the session, all of them |
//! | a note, a tag | a `part` of the newest message, of a type that the program skips: see `annotations.rs` |
//! | a fork | copies of the rows of `session`, `message` and `part`, under ids with one more ending |
//! | a conversion back | the rows that the records were made from |
//!
//! Each message updates the sums of its session. `message.data` has a member `annals` with what the
//! format cannot express; the program ignores it. The tables of events are not written: the program
//! does not need them. No statement changes the schema.
//!
//! Reasoning is a part of a type that the program skips: it sends that of another model as text.
//!
//! The program orders messages by time, so each is later than the one before.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json::{self, Raw, Text, object};
use crate::layout::content::one_line;
use crate::layout::{
    AGENT_SEPARATOR, AppendState, Change, Edit, EditPlan, ForkEdit, NewSession, PROGRAM,
    PlanContext, Spawn, Writer, WriterSpec, annotations,
};
use crate::model::{
    AgentId, Artifact, Block, Body, Draft, EntryId, EntryKey, Message, Role, RowEdit, SessionId,
    SqlValue, TitleSource, Todo, TodoStatus, Usage,
};

use super::decode::{GENERATED, NOTE, REASONING, RESULTS};
use super::statements::{
    BEGIN, FORK, FORK_MESSAGES, FORK_PARTS, FORK_SUMS, MESSAGE_BACK, NO_TODOS, NOTE_PART, PART,
    PARTS_BACK, PROJECT, PROMPT, REPLY, RESULT, SESSION_BACK, SPAWN, SPAWNED, SPEND, TITLE, TODOS,
    TODOS_BACK, TOUCH,
};
use super::{DATABASE, OpenCode, session_artifact};

static SPEC: WriterSpec = WriterSpec {
    needs_rising_times: true,
    is_linear: true,
    ..WriterSpec::DEFAULT
};

/// Version of the program whose sessions these are.
const VERSION: &str = "1.18.33";

/// Agent of the program that answers unless a person chose another one.
const AGENT: &str = "build";

impl Writer for OpenCode {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        let id = match new.unnamed {
            true => SessionId::new(&self.new_id("ses", stamp.now, stamp))?,
            false => new.id.clone(),
        };
        if !id.as_str().starts_with("ses_") {
            return Err(Error::refused(format!(
                "OpenCode opens only sessions whose id begins with `ses_`; `{id}` does not"
            )));
        }
        if !new.cwd.starts_with('/') {
            let why = format!("`{}` is not an absolute path", new.cwd);
            return Err(Error::refused(why));
        }
        Ok(session_artifact(Some(id), None))
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if !agent.as_str().starts_with("ses_") {
            return Err(Error::refused(format!(
                "a sub-agent of OpenCode is a session, whose id begins with `ses_`; `{agent}` does not"
            )));
        }
        Ok(session_artifact(
            Some(head.session.clone()),
            Some(agent.clone()),
        ))
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let agent = head.agent.as_ref().map(AgentId::as_str);
        let mut builder = RowBuilder {
            session: agent.unwrap_or(head.session.as_str()),
            head,
            stamp,
            rows: Vec::new(),
            plan: EditPlan::default(),
            time: head.time,
        };
        match change {
            Change::Begin => builder.begin(),
            Change::Append(drafts) => drafts.iter().try_for_each(|draft| builder.draft(draft))?,
            Change::Compact { summary, tokens: _ } => builder.compact(summary)?,
            Change::Fork { from } => builder.fork(from)?,
            Change::Spawn(spawn) => builder.spawn(spawn),
            Change::SetTodos(todos) => builder.todos(todos)?,
        }
        Ok(builder.finish())
    }

    fn valid_id(&self, id: &str) -> String {
        let is_id = id.starts_with("ses_") && !id.contains(crate::layout::AGENT_SEPARATOR);
        match is_id {
            true => id.to_owned(),
            false => {
                let uuid = EntryKey::from_text(id).derived_uuid().replace('-', "");
                let number = u128::from_str_radix(&uuid, 16).unwrap_or_default();
                format!("ses_{}", twenty_six_digits(number))
            }
        }
    }

    fn copy_record(&self, _: &[u8], _: &ForkEdit<'_>) -> Result<Vec<u8>> {
        Err(Error::refused(
            "records of OpenCode's database are copied by the database",
        ))
    }

    fn rows_of_records(&self, id: &SessionId, records: &[&str]) -> Result<Vec<RowEdit>> {
        let mut rows = Vec::new();
        // Sessions that the records begin. Others are not those of the conversion.
        let mut begun = HashSet::new();
        for record in records {
            let row: BackRow<'_> = serde_json::from_str(record)
                .map_err(|error| Error::refused(json::describe_json_error(&error)))?;
            let name = row.session.or_empty();
            let (top, session) = match name.rsplit_once(AGENT_SEPARATOR) {
                Some((top, agent)) => (top, agent),
                None => (name, name),
            };
            let kind = row.kind.or_empty();
            if kind == "session" && top == id.as_str() && row.id.get() == Some(session) {
                begun.insert(session.to_owned());
            }
            if !begun.contains(session) {
                return Err(Error::refused(format!(
                    "a record of session {id} is one of `{name}`"
                )));
            }
            let one = |sql, refusal| RowEdit {
                sql,
                values: vec![text(record), text(session)],
                refusal,
            };
            match kind {
                "session" => {
                    let created = row.created.count().ok().flatten().unwrap_or(0);
                    rows.push(RowEdit {
                        values: vec![text(row.directory.or_empty()), count(created)],
                        ..one(PROJECT, None)
                    });
                    rows.push(RowEdit {
                        values: vec![text(record)],
                        ..one(SESSION_BACK, Some(NO_PROJECT))
                    });
                }
                "message" => {
                    rows.push(one(MESSAGE_BACK, Some(NOT_WRITTEN)));
                    rows.push(one(PARTS_BACK, None));
                }
                "todos" => rows.push(one(TODOS_BACK, None)),
                _ => {}
            }
        }
        Ok(rows)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

impl OpenCode {
    /// Returns a new id like the program's: a time that counts up, or down for sessions, and random
    /// letters.
    fn new_id(&self, prefix: &str, time: Timestamp, stamp: &mut PlanContext<'_>) -> String {
        let random = (stamp.new_id)().replace('-', "");
        let time = u64::try_from(time.as_millisecond()).unwrap_or(0);
        let count = (time << 12) & 0xffff_ffff_ffff;
        let count = match prefix {
            "ses" => !count & 0xffff_ffff_ffff,
            _ => count,
        };
        format!(
            "{prefix}_{count:012x}{}",
            random.get(..14).unwrap_or(&random)
        )
    }
}

object! {
    struct BackRow<'a> {
        "type" => kind: Text<'a>,
        "session" => session: Text<'a>,
        "id" => id: Text<'a>,
        "directory" => directory: Text<'a>,
        "created" => created: Raw<'a>,
    }
}

/// Builds the statements of one change.
struct RowBuilder<'a, 'b> {
    head: &'a AppendState,
    session: &'a str,
    stamp: &'a mut PlanContext<'b>,
    rows: Vec<RowEdit>,
    plan: EditPlan,
    /// Time of the newest message so far.
    time: Option<Timestamp>,
}

impl RowBuilder<'_, '_> {
    fn finish(mut self) -> EditPlan {
        if !self.rows.is_empty() {
            self.plan.edits.push(Edit::Rows {
                path: DATABASE.into(),
                rows: self.rows,
            });
        }
        self.plan
    }

    /// Adds a statement that must change one row, or else `refusal` says why.
    fn row(&mut self, sql: &'static str, values: Vec<SqlValue>, refusal: &'static str) {
        self.rows.push(RowEdit {
            sql,
            values,
            refusal: Some(refusal),
        });
    }

    /// Adds a statement that may change any number of rows.
    fn rows(&mut self, sql: &'static str, values: Vec<SqlValue>) {
        self.rows.push(RowEdit {
            sql,
            values,
            refusal: None,
        });
    }

    /// Begins the session of a sub-agent.
    fn spawn(&mut self, spawn: &Spawn) {
        let now = self.stamp.now;
        let title = match spawn.description.trim() {
            "" => format!("Child session - {now:.3}"),
            title => title.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let parent = text(self.head.session.as_str());
        let missing = "the session is not in the database";
        let kind = match spawn.kind.as_str() {
            "" => "general",
            kind => kind,
        };
        let values = vec![
            text(spawn.agent.as_str()),
            parent.clone(),
            text(&title),
            text(kind),
            millis(now),
        ];
        self.row(SPAWN, values, missing);
        if let Some(call) = &spawn.call {
            let values = vec![parent, text(call), text(spawn.agent.as_str())];
            self.row(SPAWNED, values, "the session has no such call");
        }
    }

    /// Replaces the todos of the session.
    fn todos(&mut self, todos: &[Todo]) -> Result<()> {
        #[derive(serde::Serialize)]
        struct TodoRow<'a> {
            content: &'a str,
            status: &'a str,
            priority: &'a str,
        }
        let rows = todos.iter().map(|todo| {
            let priority = todo.priority.as_deref().filter(|name| !name.is_empty());
            let status = match todo.status {
                TodoStatus::InProgress => "in_progress",
                TodoStatus::Completed => "completed",
                TodoStatus::Other => "cancelled",
                TodoStatus::Pending => "pending",
            };
            TodoRow {
                content: &todo.content,
                status,
                priority: priority.unwrap_or("medium"),
            }
        });
        let list = serde_json::to_string(&rows.collect::<Vec<_>>());
        let list = list.map_err(|error| Error::refused(error.to_string()))?;
        let now = millis(self.stamp.now);
        self.rows(NO_TODOS, vec![text(self.session)]);
        let values = vec![text(self.session), SqlValue::Text(list), now];
        self.rows(TODOS, values);
        Ok(())
    }

    /// Copies a session up to the message at the leaf.
    fn fork(&mut self, from: &SessionId) -> Result<()> {
        let leaf = self.head.leaf.as_ref().map(EntryId::as_str);
        let Some(leaf) = leaf else {
            return Err(Error::refused("there are no messages to fork"));
        };
        let last = leaf.strip_suffix(RESULTS).unwrap_or(leaf);
        let random = (self.stamp.new_id)().replace('-', "");
        let ending = random.get(..8).unwrap_or(&random).to_owned();
        let to = text(self.session);
        let missing = "the session is not in the database";
        let source = || text(from.as_str());
        let values = vec![to.clone(), source(), millis(self.stamp.now)];
        self.row(FORK, values, missing);
        let values = vec![to.clone(), source(), text(last), text(&ending)];
        self.rows(FORK_MESSAGES, values);
        let values = vec![to.clone(), source(), text(&ending), text(NOTE)];
        self.rows(FORK_PARTS, values);
        self.row(FORK_SUMS, vec![to], missing);
        Ok(())
    }

    /// Writes an annotation.
    fn note(&mut self, draft: &Draft) -> Result<()> {
        let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
            return Err(Error::refused(
                "this kind of entry cannot be written to OpenCode's database",
            ));
        };
        let note = String::from_utf8(note);
        let note = note.map_err(|error| Error::refused(error.to_string()))?;
        let time = self.stamp.now;
        let part = self.part_id(time);
        let data = format!(r#"{{"type":"{NOTE}","note":{}}}"#, note.trim_end());
        let values = vec![
            text(&part),
            text(self.session),
            millis(time),
            SqlValue::Text(data),
        ];
        self.row(
            NOTE_PART,
            values,
            "a session without messages has no place for notes and tags",
        );
        self.row(
            TOUCH,
            vec![text(self.session), millis(time)],
            "the session is not in the database",
        );
        self.plan.added.push(id);
        Ok(())
    }

    fn begin(&mut self) {
        let title = self.head.writer_state.get(AppendState::TITLE).cloned();
        let title = title.unwrap_or_else(|| {
            let now = self.stamp.now;
            format!("New session - {now:.3}")
        });
        let cwd = text(self.head.cwd.as_deref().unwrap_or("/"));
        self.rows(PROJECT, vec![cwd.clone(), millis(self.stamp.now)]);
        let values = vec![
            text(self.session),
            cwd,
            text(&title),
            millis(self.stamp.now),
            text(VERSION),
            text(AGENT),
        ];
        self.row(BEGIN, values, NO_PROJECT);
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Title {
                text: title,
                source,
            } if *source == TitleSource::Custom => {
                let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
                if title.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                let values = vec![text(self.session), text(&title)];
                self.row(TITLE, values, "the session is not in the database");
                Ok(())
            }
            _ => self.note(draft),
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        self.check_parent(draft)?;
        let is_result = |block: &&Block| matches!(block, Block::ToolResult { .. });
        for block in message.blocks.iter().filter(is_result) {
            self.result(block, message.spawned.as_ref(), draft)?;
        }
        let blocks: Vec<&Block> = message.blocks.iter().filter(|it| !is_result(it)).collect();
        if blocks.is_empty() && !message.blocks.is_empty() {
            return Ok(());
        }
        let time = self.next_time(draft.time);
        let id = draft.id.as_ref().map(|id| id.as_str().to_owned());
        let id = id.unwrap_or_else(|| OpenCode.new_id("msg", time, self.stamp));
        let created = time.as_millisecond();
        let own = match self.head.writer_state.contains_key(AppendState::CONVERTED) {
            true => format!(r#"{{"program":"{PROGRAM}","origin":{GENERATED}}}"#),
            false => format!(r#"{{"program":"{PROGRAM}"}}"#),
        };
        let (sql, data) = match message.role {
            Role::Assistant => {
                let model = message.model.as_deref().unwrap_or("unknown");
                let cwd = json::quote(self.head.cwd.as_deref().unwrap_or("/"));
                let calls = blocks.iter();
                let calls = calls
                    .filter(|block| matches!(block, Block::ToolUse { .. }))
                    .count();
                let finish = match (&message.stop_reason, calls) {
                    (_, 1..) => "tool-calls",
                    _ => "stop",
                };
                let data = format!(
                    r#"{{"role":"assistant","mode":"{AGENT}","agent":"{AGENT}","path":{{"cwd":{cwd},"root":{cwd}}},"cost":0,"tokens":{},"modelID":{},"providerID":"{}","time":{{"created":{created},"completed":{created}}},"finish":"{finish}","annals":{own}}}"#,
                    tokens(message.usage.unwrap_or_default()),
                    json::quote(model),
                    provider(model),
                );
                (REPLY, data)
            }
            Role::User => (
                PROMPT,
                format!(
                    r#"{{"role":"user","time":{{"created":{created}}},"agent":"{AGENT}","annals":{own}}}"#
                ),
            ),
            Role::System => {
                return Err(Error::refused(
                    "OpenCode's database has no place for instructions of the system",
                ));
            }
        };
        self.row(sql, self.message_values(&id, time, data), NOT_WRITTEN);
        for block in blocks {
            let data = part(block, message, created)?;
            self.part(&id, time, data);
        }
        self.spend(time, message.usage.unwrap_or_default());
        let id = EntryId::new(&id);
        self.plan.leaf = Some(id.clone());
        self.plan.added.push(id);
        Ok(())
    }

    /// Writes the result of a call into its part.
    fn result(&mut self, block: &Block, spawned: Option<&AgentId>, draft: &Draft) -> Result<()> {
        let Block::ToolResult {
            call,
            output,
            is_error,
        } = block
        else {
            return Ok(());
        };
        if draft.id.is_some() {
            return Err(Error::refused(
                "a result is part of its call in OpenCode's database and has no id of its own",
            ));
        }
        let time = self.next_time(draft.time);
        let status = match is_error {
            true => "error",
            false => "completed",
        };
        let values = vec![
            text(self.session),
            text(call),
            millis(time),
            text(status),
            text(&texts(output)),
            spawned.map_or(SqlValue::Null, |agent| {
                let agent = json::quote(agent.as_str());
                SqlValue::Text(format!(r#"{{"sessionId":{agent}}}"#))
            }),
        ];
        self.row(
            RESULT,
            values,
            "a result belongs to no call without one near the end of the session",
        );
        self.spend(time, Usage::default());
        Ok(())
    }

    fn compact(&mut self, summary: &str) -> Result<()> {
        if self.head.leaf.is_none() {
            return Err(Error::refused(
                "there is nothing to compact: the session has no messages",
            ));
        }
        if summary.trim().is_empty() {
            return Err(Error::refused("the summary is empty"));
        }
        for is_summary in [false, true] {
            let time = self.next_time(None);
            let created = time.as_millisecond();
            let id = OpenCode.new_id("msg", time, self.stamp);
            let own = format!(r#"{{"program":"{PROGRAM}"}}"#);
            let (sql, data, part) = match is_summary {
                false => (
                    PROMPT,
                    format!(
                        r#"{{"role":"user","time":{{"created":{created}}},"agent":"{AGENT}","annals":{own}}}"#
                    ),
                    r#"{"type":"compaction","auto":false}"#.to_owned(),
                ),
                true => {
                    let cwd = json::quote(self.head.cwd.as_deref().unwrap_or("/"));
                    (
                        REPLY,
                        format!(
                            r#"{{"role":"assistant","mode":"compaction","agent":"compaction","summary":true,"path":{{"cwd":{cwd},"root":{cwd}}},"cost":0,"tokens":{},"modelID":"unknown","providerID":"unknown","time":{{"created":{created},"completed":{created}}},"finish":"stop","annals":{own}}}"#,
                            tokens(Usage::default())
                        ),
                        format!(r#"{{"type":"text","text":{}}}"#, json::quote(summary)),
                    )
                }
            };
            self.row(sql, self.message_values(&id, time, data), NOT_WRITTEN);
            self.part(&id, time, part);
            self.spend(time, Usage::default());
            let id = EntryId::new(&id);
            self.plan.leaf = Some(id.clone());
            self.plan.added.push(id);
        }
        Ok(())
    }

    fn message_values(&self, id: &str, time: Timestamp, data: String) -> Vec<SqlValue> {
        vec![
            text(id),
            text(self.session),
            millis(time),
            SqlValue::Text(data),
        ]
    }

    /// Returns the id of the next part. Parts are ordered by their ids.
    fn part_id(&mut self, time: Timestamp) -> String {
        let number = self.rows.len();
        let id = OpenCode.new_id("prt", time, self.stamp);
        let (head, tail) = id.split_at_checked(13).unwrap_or((&id, ""));
        format!("{head}{number:03x}{}", tail.get(3..).unwrap_or_default())
    }

    fn part(&mut self, message: &str, time: Timestamp, data: String) {
        let id = self.part_id(time);
        let values = vec![
            text(&id),
            text(message),
            text(self.session),
            millis(time),
            SqlValue::Text(data),
        ];
        self.row(PART, values, NOT_WRITTEN);
    }

    /// Updates the sums of the session.
    fn spend(&mut self, time: Timestamp, usage: Usage) {
        let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
        let values = vec![
            text(self.session),
            millis(time),
            count(usage.input),
            count(usage.output),
            count(usage.cache_read),
            count(written),
        ];
        self.row(SPEND, values, "the session is not in the database");
    }

    fn check_parent(&self, draft: &Draft) -> Result<()> {
        let leaf = self.plan.leaf.as_ref().or(self.head.leaf.as_ref());
        match &draft.parent {
            Some(parent) if leaf != Some(parent) => Err(Error::refused(format!(
                "an OpenCode session has no branches, and `{parent}` is not its last message"
            ))),
            _ if draft.sidechain => Err(Error::refused("an OpenCode session has no branches")),
            _ => Ok(()),
        }
    }

    /// Returns the time of the next row, in milliseconds.
    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        let time = self.stamp.next_time(&mut self.time, given);
        Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
    }
}

/// Why a session was not inserted.
const NO_PROJECT: &str = "the database has no project for the directory; start OpenCode there once";

/// Why a row was not inserted, where that is not expected.
const NOT_WRITTEN: &str = "the row was not written";

fn part(block: &Block, message: &Message, time: i64) -> Result<String> {
    Ok(match block {
        Block::Text(text) => {
            let is_synthetic = message.role == Role::User && !message.human;
            let synthetic = if is_synthetic {
                r#","synthetic":true"#
            } else {
                ""
            };
            format!(
                r#"{{"type":"text","text":{}{synthetic}}}"#,
                json::quote(text)
            )
        }
        Block::Thinking { text, .. } => format!(
            r#"{{"type":"{REASONING}","text":{},"time":{{"start":{time},"end":{time}}}}}"#,
            json::quote(text)
        ),
        Block::ToolUse { id, name, input } => format!(
            r#"{{"type":"tool","tool":{},"callID":{},"state":{{"status":"running","input":{},"time":{{"start":{time}}}}}}}"#,
            json::quote(name),
            json::quote(id),
            one_line(input)?
        ),
        _ => {
            return Err(Error::refused(
                "images and blocks of other kinds are not written to OpenCode's database",
            ));
        }
    })
}

/// Returns the provider of a model by its name.
fn provider(model: &str) -> &'static str {
    const KNOWN: [(&str, &str); 5] = [
        ("claude", "anthropic"),
        ("gpt", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("gemini", "google"),
    ];
    let known = KNOWN.iter().find(|(prefix, _)| model.starts_with(prefix));
    known.map_or("unknown", |(_, provider)| provider)
}

fn tokens(usage: Usage) -> String {
    let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
    format!(
        r#"{{"input":{},"output":{},"reasoning":0,"cache":{{"read":{},"write":{written}}}}}"#,
        usage.input, usage.output, usage.cache_read
    )
}

fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn text(text: &str) -> SqlValue {
    SqlValue::Text(text.to_owned())
}

fn millis(time: Timestamp) -> SqlValue {
    SqlValue::Integer(time.as_millisecond())
}

fn count(count: u64) -> SqlValue {
    SqlValue::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Writes a number in base 36 with the length of the program's own ids. Hexadecimal digits would not fit,
/// and two ids that differ in the last of them would be one.
fn twenty_six_digits(mut number: u128) -> String {
    let mut digits = [b'0'; 26];
    for digit in digits.iter_mut().rev() {
        let value = (number % 36) as u8;
        *digit = if value < 10 {
            b'0' + value
        } else {
            b'a' + value - 10
        };
        number /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}
