//! Writing rows of the database, as the program writes them.
//!
//! | change | statements |
//! |---|---|
//! | a session | a row of `session`, in the project that has its directory |
//! | a message | a row of `message`, and one of `part` for each text, reasoning and call |
//! | a result | the `state` of the call's part |
//! | a compaction | a prompt with a `compaction` part, and a reply with `summary` |
//! | a title | `session.title` |
//!
//! Each message updates the sums of its session. `message.data` has a member `annals` with what the
//! format cannot express; the program ignores it. The tables of events are not written: the program
//! does not need them. No statement changes the schema.
//!
//! Reasoning is a part of a type that the program skips: it sends that of another model as text.
//!
//! The program orders messages by time, so each is later than the one before.

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::one_line;
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, NewSession, PROGRAM, PlanContext, Writer,
    WriterSpec,
};
use crate::model::{
    AgentId, Artifact, Block, Body, Draft, EntryId, EntryKey, Message, Role, RowEdit, SqlValue,
    TitleSource, Usage,
};

use super::decode::REASONING;
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

/// `?1` id, `?2` directory, `?3` title, `?4` time. The project is the one with the longest worktree
/// above the directory: without a repository, `global` with `/`.
const BEGIN: &str = "\
    INSERT INTO session (id, project_id, slug, directory, path, title, version, agent, time_created, time_updated) \
    SELECT ?1, p.id, 'annals-' || lower(hex(randomblob(4))), ?2, \
    ltrim(substr(?2, length(rtrim(p.worktree, '/')) + 1), '/'), ?3, ?5, ?6, ?4, ?4 FROM project p \
    WHERE p.id = 'global' OR p.worktree = ?2 OR substr(?2, 1, length(p.worktree) + 1) = p.worktree || '/' \
    ORDER BY length(p.worktree) DESC, p.id LIMIT 1";

/// `?1` id, `?2` session, `?3` time, `?4` data. The model is that of the session's last prompt, or that of
/// the newest session, so that the program can go on with it.
const PROMPT: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT ?1, ?2, ?3, ?3, CASE WHEN model IS NULL THEN ?4 ELSE json_set(?4, '$.model', json(model)) END FROM (\
    SELECT coalesce(\
    (SELECT json_extract(m.data, '$.model') FROM message m WHERE m.session_id = ?2 AND json_valid(m.data) \
    AND json_extract(m.data, '$.role') = 'user' ORDER BY m.time_created DESC, m.id DESC LIMIT 1), \
    (SELECT json_object('providerID', json_extract(s.model, '$.providerID'), 'modelID', json_extract(s.model, '$.id')) \
    FROM session s WHERE json_valid(s.model) AND json_extract(s.model, '$.id') IS NOT NULL ORDER BY s.time_updated DESC LIMIT 1)) AS model)";

/// `?1` id, `?2` session, `?3` time, `?4` data. Its parent is the last prompt.
const REPLY: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT ?1, ?2, ?3, ?3, CASE WHEN prompt IS NULL THEN ?4 ELSE json_set(?4, '$.parentID', prompt) END FROM (\
    SELECT (SELECT m.id FROM message m WHERE m.session_id = ?2 AND json_valid(m.data) \
    AND json_extract(m.data, '$.role') = 'user' ORDER BY m.time_created DESC, m.id DESC LIMIT 1) AS prompt)";

/// `?1` id, `?2` message, `?3` session, `?4` time, `?5` data.
const PART: &str = "\
    INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) \
    VALUES (?1, ?2, ?3, ?4, ?4, ?5)";

/// `?1` session, `?2` call, `?3` time, `?4` status, `?5` text. Only calls of the newest messages have no
/// result.
const RESULT: &str = "\
    UPDATE part SET time_updated = ?3, data = json_set(data, '$.state.status', ?4, \
    CASE ?4 WHEN 'error' THEN '$.state.error' ELSE '$.state.output' END, ?5, \
    '$.state.title', '', '$.state.metadata', json('{}'), '$.state.time.end', ?3) \
    WHERE session_id = ?1 AND message_id IN (SELECT id FROM message WHERE session_id = ?1 \
    ORDER BY time_created DESC, id DESC LIMIT 64) \
    AND json_valid(data) AND json_extract(data, '$.type') = 'tool' AND json_extract(data, '$.callID') = ?2 \
    AND json_extract(data, '$.state.status') IN ('pending', 'running')";

/// `?1` session, `?2` time, `?3` to `?7` tokens.
const SPEND: &str = "\
    UPDATE session SET time_updated = max(time_updated, ?2), tokens_input = tokens_input + ?3, \
    tokens_output = tokens_output + ?4, tokens_cache_read = tokens_cache_read + ?5, \
    tokens_cache_write = tokens_cache_write + ?6 WHERE id = ?1";

/// `?1` session, `?2` title.
const TITLE: &str = "UPDATE session SET title = ?2 WHERE id = ?1";

impl Writer for OpenCode {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        let id = match new.unnamed {
            true => crate::model::SessionId::new(&self.new_id("ses", stamp.now, stamp))?,
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

    fn new_agent_log(&self, _: &AppendState, _: &AgentId) -> Result<Artifact> {
        Err(Error::refused(
            "sub-agents are not written to OpenCode's database",
        ))
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        if head.agent.is_some() {
            return Err(Error::refused(
                "sub-agents are not written to OpenCode's database",
            ));
        }
        let mut builder = RowBuilder {
            session: head.session.as_str(),
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
            Change::Fork { .. } | Change::SetTodos(_) | Change::Spawn(_) => {
                return Err(Error::refused(
                    "forks, todos and sub-agents are not written to OpenCode's database; \
                     `opencode --session ID --fork` forks a session",
                ));
            }
        }
        Ok(builder.finish())
    }

    fn valid_id(&self, id: &str) -> String {
        let is_id = id.starts_with("ses_") && !id.contains(crate::layout::AGENT_SEPARATOR);
        match is_id {
            true => id.to_owned(),
            false => {
                let uuid = EntryKey::from_text(id).derived_uuid().replace('-', "");
                format!("ses_{}", uuid.get(..26).unwrap_or(&uuid))
            }
        }
    }

    fn copy_record(&self, _: &[u8], _: &ForkEdit<'_>) -> Result<Vec<u8>> {
        Err(Error::refused(
            "records of OpenCode's database are not copied; `opencode --session ID --fork` forks a session",
        ))
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
            refusal,
        });
    }

    fn begin(&mut self) {
        let title = self.head.writer_state.get(AppendState::TITLE).cloned();
        let title = title.unwrap_or_else(|| {
            let now = self.stamp.now;
            format!("New session - {now:.3}")
        });
        let values = vec![
            text(self.session),
            text(self.head.cwd.as_deref().unwrap_or("/")),
            text(&title),
            millis(self.stamp.now),
            text(VERSION),
            text(AGENT),
        ];
        self.row(
            BEGIN,
            values,
            "the database has no project for the directory; start OpenCode there once",
        );
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
            _ => Err(Error::refused(
                "OpenCode's database has no place for this: annals writes messages and titles to it",
            )),
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        self.check_parent(draft)?;
        let is_result = |block: &&Block| matches!(block, Block::ToolResult { .. });
        for block in message.blocks.iter().filter(is_result) {
            self.result(block, draft)?;
        }
        let blocks: Vec<&Block> = message.blocks.iter().filter(|it| !is_result(it)).collect();
        if blocks.is_empty() && !message.blocks.is_empty() {
            return Ok(());
        }
        let time = self.next_time(draft.time);
        let id = draft.id.as_ref().map(|id| id.as_str().to_owned());
        let id = id.unwrap_or_else(|| OpenCode.new_id("msg", time, self.stamp));
        let created = time.as_millisecond();
        let own = format!(r#"{{"program":"{PROGRAM}"}}"#);
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
    fn result(&mut self, block: &Block, draft: &Draft) -> Result<()> {
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

    fn part(&mut self, message: &str, time: Timestamp, data: String) {
        // Parts are ordered by their ids.
        let number = self.rows.len();
        let id = OpenCode.new_id("prt", time, self.stamp);
        let (head, tail) = id.split_at_checked(13).unwrap_or((&id, ""));
        let id = format!("{head}{number:03x}{}", tail.get(3..).unwrap_or_default());
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
