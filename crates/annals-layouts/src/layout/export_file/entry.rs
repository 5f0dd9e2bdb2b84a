//! One entry as JSON, lossless: an entry that is written and read back is equal, except for its
//! span and for whether its id was derived from the span.
//!
//! Members have the same names as in `annals show --json`. Empty members are omitted. JSON inside
//! an entry (a tool's arguments, an opaque block, the entry's record) is embedded verbatim. If it is
//! invalid or contains line breaks, its text is stored in `input_text`, `json_text` or `record_text`
//! instead.
//!
//! Every struct of the model is destructured here field by field, so a new field does not compile
//! until it has a name in the export.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::describe_json_error;
use crate::model::{
    AgentId, Block, BlockMembers, Body, Entry, EntryContext, EntryId, FileBackup, FileChange,
    FlawKind, Members, Message, Money, Role, Span, TitleSource, Todo, Usage,
};

/// Writes an entry as one line of JSON, without its ending.
pub fn write_entry(entry: &Entry, out: &mut dyn Write) -> io::Result<()> {
    write_json(&EntryJson::new(entry), out)
}

/// Reads an entry that [`write_entry`] wrote.
pub fn read_entry(json: &str) -> Result<Entry> {
    let row: EntryJson<'_> =
        serde_json::from_str(json).map_err(|error| Error::refused(describe_json_error(&error)))?;
    row.entry().map_err(Error::Refused)
}

/// Writes a value as JSON on one line.
pub fn write_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

type Text<'a> = Cow<'a, str>;

/// Defines a struct whose members are all optional.
macro_rules! members {
    ($(#[$doc:meta])* $vis:vis struct $name:ident<$life:lifetime> { $($(#[$attr:meta])* $member:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize, Default)]
        #[serde(default)]
        $vis struct $name<$life> {
            $($(#[$attr])* #[serde(skip_serializing_if = "Option::is_none")] $member: Option<$kind>,)*
        }
    };
}

members! {
    /// The members of an entry, whatever its kind.
    pub struct EntryJson<'a> {
        #[serde(rename = "type")]
        line: Text<'a>,
        id: Text<'a>,
        parent: Text<'a>,
        time: Timestamp,
        agent: Text<'a>,
        sidechain: bool,
        program: Text<'a>,
        copied: bool,
        cwd: Text<'a>,
        git_branch: Text<'a>,
        version: Text<'a>,
        channel: Text<'a>,
        named_session: Text<'a>,
        kind: Text<'a>,
        subtype: Text<'a>,
        text: Text<'a>,
        role: Role,
        model: Text<'a>,
        blocks: Vec<BlockJson<'a>>,
        human: bool,
        meta: bool,
        compact_summary: bool,
        api_error: bool,
        response: Text<'a>,
        request: Text<'a>,
        stop_reason: Text<'a>,
        usage: Usage,
        spawned: Text<'a>,
        stored: Text<'a>,
        leaf: Text<'a>,
        source: TitleSource,
        author: Text<'a>,
        todos: Cow<'a, [Todo]>,
        message: Text<'a>,
        backups: Cow<'a, [FileBackup]>,
        project: Text<'a>,
        session: Text<'a>,
        pasted: bool,
        operation: Text<'a>,
        keep_days: u64,
        description: Text<'a>,
        call: Text<'a>,
        flaw: FlawKind,
        members: BTreeMap<Text<'a>, Cow<'a, RawValue>>,
        record: Cow<'a, RawValue>,
        record_text: Text<'a>,
        offset: u64,
        same_record: bool,
        repeated_id: bool,
        recorded_cost: Text<'a>,
    }
}

/// The record of an exported entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportedRecord {
    /// The export does not have it.
    None,
    /// Its text, and its offset in the log.
    Text(String, u64),
    /// It is the record of the entry before this one.
    Continued,
}

members! {
    /// The members of a block, whatever its kind.
    struct BlockJson<'a> {
        kind: Text<'a>,
        text: Text<'a>,
        signature: Text<'a>,
        id: Text<'a>,
        name: Text<'a>,
        input: Cow<'a, RawValue>,
        input_text: Text<'a>,
        call: Text<'a>,
        output: Vec<BlockJson<'a>>,
        is_error: bool,
        media_type: Text<'a>,
        data: Text<'a>,
        json: Cow<'a, RawValue>,
        json_text: Text<'a>,
        members: BTreeMap<Text<'a>, Cow<'a, RawValue>>,
    }
}

/// Reason why a row is not a valid entry.
type Fault = String;

impl<'a> EntryJson<'a> {
    /// Converts an entry. The patterns are exhaustive, so a new field of the model does not compile
    /// here.
    pub fn new(entry: &'a Entry) -> Self {
        let Entry {
            span: _,
            id,
            derived_id: _,
            parent,
            time,
            session,
            agent,
            sidechain,
            program,
            copied,
            context: place,
            members,
            block_members,
            body,
        } = entry;
        let EntryContext {
            cwd,
            git_branch,
            version,
            channel,
        } = place;
        let mut row = EntryJson {
            id: id.as_ref().map(|id| id.as_str().into()),
            parent: parent.as_ref().map(|id| id.as_str().into()),
            time: *time,
            agent: agent.as_ref().map(|id| id.as_str().into()),
            sidechain: set(*sidechain),
            program: text(program),
            copied: set(*copied),
            cwd: text(cwd),
            git_branch: text(git_branch),
            version: text(version),
            channel: text(channel),
            named_session: text(session),
            members: (!members.is_empty())
                .then(|| encode_members(members.iter().map(|(name, json)| (name, json)))),
            ..EntryJson::default()
        };
        row.set_body(body);
        for (at, block) in row.blocks.iter_mut().flatten().enumerate() {
            let members = block_members.get(&at);
            block.members = members.map(|members| encode_members(members.iter()));
        }
        row
    }

    /// Marks the row as an entry in JSON lines.
    pub fn with_line_type(mut self) -> Self {
        self.line = Some("entry".into());
        self
    }

    /// Adds the cost that the program recorded for a reply.
    pub fn with_recorded_cost(mut self, cost: Option<Money>) -> Self {
        self.recorded_cost = cost.map(|cost| cost.to_string().into());
        self
    }

    /// Returns the cost that the program recorded for a reply.
    pub(super) fn recorded_cost(&self) -> Option<Money> {
        Money::parse(self.recorded_cost.as_deref()?)
    }

    /// Sets whether an earlier entry of the log has the same id, in a layout where both count.
    pub fn with_repeated_id(mut self, is_repeated: bool) -> Self {
        self.repeated_id = set(is_repeated);
        self
    }

    /// Returns whether an earlier entry of the log has the same id, and both count.
    pub(super) fn has_repeated_id(&self) -> bool {
        self.repeated_id == Some(true)
    }

    /// Adds the record of the entry and its offset in the log, from which a layout may make ids. Bytes
    /// that are not UTF-8 are left out.
    pub fn with_record(mut self, record: &'a [u8], offset: u64) -> Self {
        if let Ok(text) = std::str::from_utf8(record) {
            (self.record, self.record_text) = raw(text);
            self.offset = Some(offset);
        }
        self
    }

    /// Marks the entry as one of the record that the entry before it has.
    pub fn of_same_record(mut self) -> Self {
        self.same_record = Some(true);
        self
    }

    /// Returns the record of the entry as it was in its log.
    pub fn take_record(&mut self) -> ExportedRecord {
        let text = self.record_text.take().map(Cow::into_owned);
        let record = self.record.take();
        match record.map(|record| record.get().to_owned()).or(text) {
            Some(record) => ExportedRecord::Text(record, self.offset.unwrap_or_default()),
            None if self.same_record == Some(true) => ExportedRecord::Continued,
            None => ExportedRecord::None,
        }
    }

    fn set_body(&mut self, body: &'a Body) {
        self.kind = Some(body.kind().into());
        match body {
            Body::Message(message) => {
                self.set_message(message);
            }
            Body::Summary { text, leaf } => {
                self.text = Some(text.into());
                self.leaf = leaf.as_ref().map(|id| id.as_str().into());
            }
            Body::Compaction { text } => {
                self.text = Some(text.into());
            }
            Body::System { subtype, text } => {
                self.subtype = Some(subtype.into());
                self.text = Some(text.into());
            }
            Body::Attachment { kind, text } => {
                self.subtype = Some(kind.into());
                self.text = Some(text.into());
            }
            Body::Title { text, source } => {
                self.text = Some(text.into());
                self.source = Some(*source);
            }
            Body::Tag { text } => {
                self.text = Some(text.into());
            }
            Body::Note { author, text } => {
                self.author = self::text(author);
                self.text = Some(text.into());
            }
            Body::Resume { leaf } => {
                self.leaf = Some(leaf.as_str().into());
            }
            Body::Todos(todos) => {
                self.todos = Some(todos.into());
            }
            Body::Files(FileChange { message, backups }) => {
                self.message = message.as_ref().map(|id| id.as_str().into());
                self.backups = Some(backups.into());
            }
            Body::Queue { operation, text } => {
                self.operation = Some(operation.into());
                self.text = Some(text.into());
            }
            Body::TypedPrompt {
                text,
                project,
                session,
                pasted,
            } => {
                self.text = Some(text.into());
                self.project = self::text(project);
                self.session = self::text(session);
                self.pasted = set(*pasted);
            }
            Body::Settings { keep_days } => {
                self.keep_days = *keep_days;
            }
            Body::Agent {
                kind,
                description,
                call,
            } => {
                self.subtype = text(kind);
                self.description = text(description);
                self.call = text(call);
            }
            // A session list is stored in a document, never in a log.
            Body::SessionList(_) => {}
            Body::Opaque { kind, flaw } => {
                self.subtype = text(kind);
                self.flaw = *flaw;
            }
        }
    }

    fn set_message(&mut self, message: &'a Message) {
        let Message {
            role,
            blocks,
            human,
            meta,
            compact_summary,
            api_error,
            model,
            response,
            request,
            stop_reason,
            usage,
            spawned,
            stored,
        } = message;
        self.role = Some(*role);
        self.blocks = Some(blocks.iter().map(BlockJson::new).collect());
        self.human = set(*human);
        self.meta = set(*meta);
        self.compact_summary = set(*compact_summary);
        self.api_error = set(*api_error);
        self.model = text(model);
        self.response = text(response);
        self.request = text(request);
        self.stop_reason = text(stop_reason);
        self.usage = *usage;
        self.spawned = spawned.as_ref().map(|id| id.as_str().into());
        self.stored = text(stored);
    }

    /// Converts the row back to an entry.
    pub fn entry(mut self) -> Result<Entry, Fault> {
        let block_members = self.block_members();
        let body = self.body()?;
        Ok(Entry {
            span: Span::default(),
            id: self.id.map(|id| EntryId::new(&id)),
            derived_id: false,
            parent: self.parent.map(|id| EntryId::new(&id)),
            time: self.time,
            session: owned(self.named_session),
            agent: agent(self.agent)?,
            sidechain: self.sidechain.unwrap_or_default(),
            program: owned(self.program),
            copied: self.copied.unwrap_or_default(),
            context: EntryContext {
                cwd: owned(self.cwd),
                git_branch: owned(self.git_branch),
                version: owned(self.version),
                channel: owned(self.channel),
            },
            members: self.members.map(decode_members).unwrap_or_default(),
            block_members,
            body,
        })
    }

    fn block_members(&mut self) -> BlockMembers {
        let blocks = self.blocks.iter_mut().flatten().enumerate();
        let given = blocks.filter_map(|(at, block)| Some((at, block.members.take()?)));
        let given = given.map(|(at, members)| (at, decode_members(members).into_iter().collect()));
        given.collect()
    }

    fn body(&mut self) -> Result<Body, Fault> {
        let kind = require(self.kind.take(), "an entry", "kind")?;
        let what = || format!("an entry of kind {kind}");
        let mut text = || require(self.text.take(), &what(), "text");
        Ok(match &*kind {
            "message" => Body::Message(self.message()?),
            "summary" => Body::Summary {
                text: text()?,
                leaf: self.leaf.take().map(|id| EntryId::new(&id)),
            },
            "compaction" => Body::Compaction { text: text()? },
            "system" => Body::System {
                text: text()?,
                subtype: require(self.subtype.take(), &what(), "subtype")?,
            },
            "attachment" => Body::Attachment {
                text: text()?,
                kind: require(self.subtype.take(), &what(), "subtype")?,
            },
            "title" => Body::Title {
                text: text()?,
                source: self.source.ok_or_else(|| missing(&what(), "source"))?,
            },
            "tag" => Body::Tag { text: text()? },
            "note" => Body::Note {
                text: text()?,
                author: owned(self.author.take()),
            },
            "resume" => Body::Resume {
                leaf: EntryId::new(&require(self.leaf.take(), &what(), "leaf")?),
            },
            "todos" => Body::Todos(
                self.todos
                    .take()
                    .ok_or_else(|| missing(&what(), "todos"))?
                    .into_owned(),
            ),
            "files" => Body::Files(FileChange {
                message: self.message.take().map(|id| EntryId::new(&id)),
                backups: self.backups.take().unwrap_or_default().into_owned(),
            }),
            "queue" => Body::Queue {
                operation: owned(self.operation.take()).unwrap_or_default(),
                text: owned(self.text.take()).unwrap_or_default(),
            },
            "typed" => Body::TypedPrompt {
                text: text()?,
                project: owned(self.project.take()),
                session: owned(self.session.take()),
                pasted: self.pasted.unwrap_or_default(),
            },
            "settings" => Body::Settings {
                keep_days: self.keep_days,
            },
            "register" => Body::SessionList(Vec::new()),
            "agent" => Body::Agent {
                kind: owned(self.subtype.take()),
                description: owned(self.description.take()),
                call: owned(self.call.take()),
            },
            "opaque" => Body::Opaque {
                kind: owned(self.subtype.take()),
                flaw: self.flaw,
            },
            _ => return Err(format!("unknown entry kind `{kind}`")),
        })
    }

    fn message(&mut self) -> Result<Message, Fault> {
        let blocks = self.blocks.take();
        let blocks = blocks.ok_or_else(|| missing("a message", "blocks"))?;
        Ok(Message {
            role: self.role.ok_or_else(|| missing("a message", "role"))?,
            blocks: blocks
                .into_iter()
                .map(BlockJson::block)
                .collect::<Result<_, _>>()?,
            human: self.human.unwrap_or_default(),
            meta: self.meta.unwrap_or_default(),
            compact_summary: self.compact_summary.unwrap_or_default(),
            api_error: self.api_error.unwrap_or_default(),
            model: owned(self.model.take()),
            response: owned(self.response.take()),
            request: owned(self.request.take()),
            stop_reason: owned(self.stop_reason.take()),
            usage: self.usage,
            spawned: agent(self.spawned.take())?,
            stored: owned(self.stored.take()),
        })
    }
}

impl<'a> BlockJson<'a> {
    fn new(block: &'a Block) -> Self {
        let mut row = BlockJson {
            kind: Some(block.kind().into()),
            ..BlockJson::default()
        };
        match block {
            Block::Text(text) => row.text = Some(text.into()),
            Block::Thinking { text, signature } => {
                row.text = Some(text.into());
                row.signature = self::text(signature);
            }
            Block::ToolUse { id, name, input } => {
                row.id = Some(id.into());
                row.name = Some(name.into());
                (row.input, row.input_text) = raw(input);
            }
            Block::ToolResult {
                call,
                output,
                is_error,
            } => {
                row.call = Some(call.into());
                row.output = Some(output.iter().map(BlockJson::new).collect());
                row.is_error = set(*is_error);
            }
            Block::Image { media_type, data } => {
                row.media_type = Some(media_type.into());
                row.data = Some(data.into());
            }
            Block::Opaque { kind, json } => {
                row.name = Some(kind.into());
                (row.json, row.json_text) = raw(json);
            }
        }
        row
    }

    fn block(self) -> Result<Block, Fault> {
        let kind = require(self.kind, "a block", "kind")?;
        let what = format!("a block of kind {kind}");
        Ok(match &*kind {
            "text" => Block::Text(require(self.text, &what, "text")?),
            "thinking" => Block::Thinking {
                text: require(self.text, &what, "text")?,
                signature: owned(self.signature),
            },
            "tool_use" => Block::ToolUse {
                id: require(self.id, &what, "id")?,
                name: require(self.name, &what, "name")?,
                input: raw_or_text(self.input, self.input_text, &what, "input")?,
            },
            "tool_result" => Block::ToolResult {
                call: require(self.call, &what, "call")?,
                output: self
                    .output
                    .unwrap_or_default()
                    .into_iter()
                    .map(BlockJson::block)
                    .collect::<Result<_, _>>()?,
                is_error: self.is_error.unwrap_or_default(),
            },
            "image" => Block::Image {
                media_type: require(self.media_type, &what, "media_type")?,
                data: require(self.data, &what, "data")?,
            },
            "opaque" => Block::Opaque {
                kind: require(self.name, &what, "name")?,
                json: raw_or_text(self.json, self.json_text, &what, "json")?,
            },
            _ => return Err(format!("unknown block kind `{kind}`")),
        })
    }
}

fn text(text: &Option<String>) -> Option<Text<'_>> {
    text.as_deref().map(Cow::Borrowed)
}

fn owned(text: Option<Text<'_>>) -> Option<String> {
    text.map(Cow::into_owned)
}

/// Returns `None` for an unset flag, so that it is omitted.
fn set(flag: bool) -> Option<bool> {
    flag.then_some(true)
}

/// Returns JSON verbatim, or as text if it is invalid or contains line breaks. `null` becomes text,
/// because it would read back as a missing member.
fn raw(json: &str) -> (Option<Cow<'_, RawValue>>, Option<Text<'_>>) {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(raw) if raw.get() == json && json != "null" && !json.contains(['\n', '\r']) => {
            (Some(Cow::Borrowed(raw)), None)
        }
        _ => (None, Some(json.into())),
    }
}

fn raw_or_text(
    raw: Option<Cow<'_, RawValue>>,
    text: Option<Text<'_>>,
    what: &str,
    name: &str,
) -> Result<String, Fault> {
    match (raw, text) {
        (Some(raw), _) => Ok(raw.get().to_owned()),
        (None, text) => require(text, what, name),
    }
}

fn require(text: Option<Text<'_>>, what: &str, name: &str) -> Result<String, Fault> {
    owned(text).ok_or_else(|| missing(what, name))
}

fn missing(what: &str, name: &str) -> Fault {
    format!("{what} needs `{name}`")
}

/// Encodes members as JSON. A value that is invalid or contains line breaks becomes a string.
fn encode_members<'a>(
    members: impl Iterator<Item = (&'a String, &'a String)>,
) -> BTreeMap<Text<'a>, Cow<'a, RawValue>> {
    let row = members.filter_map(|(name, json)| {
        let whole = Some(json).filter(|json| !json.contains(['\n', '\r']));
        let raw = whole.and_then(|json| RawValue::from_string(json.clone()).ok());
        let raw = raw.or_else(|| serde_json::value::to_raw_value(json).ok())?;
        Some((Cow::Borrowed(name.as_str()), Cow::Owned(raw)))
    });
    row.collect()
}

fn decode_members(row: BTreeMap<Text<'_>, Cow<'_, RawValue>>) -> Members {
    let members = row.into_iter();
    members
        .map(|(name, json)| (name.into_owned(), json.get().to_owned()))
        .collect()
}

fn agent(id: Option<Text<'_>>) -> Result<Option<AgentId>, Fault> {
    id.map(|id| AgentId::new(&id))
        .transpose()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(body: Body) -> Body {
        let entry = Entry {
            span: Span::default(),
            id: Some(EntryId::new("e1")),
            derived_id: false,
            parent: None,
            time: "2026-01-02T03:04:05.123456789Z".parse().ok(),
            session: None,
            agent: None,
            sidechain: true,
            program: Some("cli".to_owned()),
            copied: true,
            context: EntryContext::default(),
            members: vec![
                ("a".to_owned(), r#"{"b": 1e5}"#.to_owned()),
                ("channel".to_owned(), r#""tui""#.to_owned()),
            ],
            block_members: match &body {
                Body::Message(_) => BlockMembers::from([(
                    0,
                    [("caller".to_owned(), r#"{"type": "direct"}"#.to_owned())].into(),
                )]),
                _ => BlockMembers::new(),
            },
            body,
        };
        let mut json = Vec::new();
        write_entry(&entry, &mut json).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.contains('\n'), "{json}");
        let read = read_entry(&json).unwrap();
        assert_eq!(read, entry, "{json}");
        read.body
    }

    #[test]
    fn entry_json_preserves_invalid_and_multiline_input() {
        for input in [
            "{\"a\": 1e5, \"a\":\"\\u00e9\\/\"}",
            "null",
            "",
            "not json",
            "{\n\"a\":1}",
            " {}",
            "\"\\ud800\"",
        ] {
            let call = Block::ToolUse {
                id: "t".to_owned(),
                name: "T".to_owned(),
                input: input.to_owned(),
            };
            let opaque = Block::Opaque {
                kind: "k".to_owned(),
                json: input.to_owned(),
            };
            round_trip(Body::Message(Message::new(
                Role::Assistant,
                vec![call, opaque],
            )));
        }
    }

    #[test]
    fn read_entry_error_names_the_missing_member() {
        for (json, why) in [
            ("{}", "an entry needs `kind`"),
            (r#"{"kind":"song"}"#, "unknown entry kind `song`"),
            (r#"{"kind":"message"}"#, "a message needs `blocks`"),
            (
                r#"{"kind":"message","role":"user","blocks":[{"kind":"text"}]}"#,
                "a block of kind text needs `text`",
            ),
            (r#"{"kind":"tag"}"#, "an entry of kind tag needs `text`"),
            (r#"{"kind":"tag","text":"a","agent":"../x"}"#, "an agent id"),
        ] {
            let error = read_entry(json).unwrap_err().to_string();
            assert!(error.contains(why), "{json}: {error}");
        }
    }
}
