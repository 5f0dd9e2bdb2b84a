//! The content of an entry.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AgentId, EntryId, FlawKind, SessionId, Todo, Usage};

/// The content of an entry. A closed set; records that are not understood are [`Body::Opaque`].
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A message of a person, a model or a tool.
    Message(Message),
    /// A short text that summarises a conversation, tied to its last entry.
    Summary {
        /// The text.
        text: String,
        /// The last entry it covers.
        leaf: Option<EntryId>,
    },
    /// A boundary from which the agent sees a summary instead of the earlier messages.
    Compaction {
        /// The layout's text about it.
        text: String,
    },
    /// A message of the agent program itself.
    System {
        /// Its kind, in the layout's spelling.
        subtype: String,
        /// Its text, if any.
        text: String,
    },
    /// Context that the agent program attached to a prompt.
    Attachment {
        /// Its kind, in the layout's spelling.
        kind: String,
        /// Its text, if any.
        text: String,
    },
    /// The session's title from here on.
    Title {
        /// The title; empty withdraws the earlier one.
        text: String,
        /// The origin of the title.
        source: TitleSource,
    },
    /// A label on the session; empty withdraws it.
    Tag {
        /// The label.
        text: String,
    },
    /// A person's note on the session.
    Note {
        /// The author.
        author: Option<String>,
        /// The text.
        text: String,
    },
    /// The leaf from which the agent program will resume.
    Resume {
        /// The leaf.
        leaf: EntryId,
    },
    /// The list of todos from here on.
    Todos(Vec<Todo>),
    /// Versions of files that were saved before the agent changed them.
    Files(FileChange),
    /// An operation on the agent program's queue of waiting prompts.
    Queue {
        /// The operation, in the layout's spelling: `enqueue`, `dequeue` …
        operation: String,
        /// The prompt, if the record holds it.
        text: String,
    },
    /// A prompt that a person typed, stored outside all sessions.
    TypedPrompt {
        /// The text.
        text: String,
        /// The working directory.
        project: Option<String>,
        /// The session it was sent to.
        session: Option<String>,
        /// Whether more was pasted than is shown.
        pasted: bool,
    },
    /// Settings of the agent program.
    Settings {
        /// The age in days at which it deletes old sessions.
        keep_days: Option<u64>,
    },
    /// Metadata of a sub-agent.
    Agent {
        /// Its kind, such as `Explore`.
        kind: Option<String>,
        /// Its task.
        description: Option<String>,
        /// The tool call that spawned it.
        call: Option<String>,
    },
    /// Rows of a layout's session list.
    SessionList(Vec<ListRow>),
    /// A record that is stored byte for byte but not interpreted.
    Opaque {
        /// Its type in the layout's spelling, if it has one.
        kind: Option<String>,
        /// The reason it could not be read, if it is damaged.
        flaw: Option<FlawKind>,
    },
}

impl Body {
    /// The kind, as in JSON output and filters.
    pub fn kind(&self) -> &'static str {
        match self {
            Body::Message(_) => "message",
            Body::Summary { .. } => "summary",
            Body::Compaction { .. } => "compaction",
            Body::System { .. } => "system",
            Body::Attachment { .. } => "attachment",
            Body::Title { .. } => "title",
            Body::Tag { .. } => "tag",
            Body::Note { .. } => "note",
            Body::Resume { .. } => "resume",
            Body::Todos(_) => "todos",
            Body::Files(_) => "files",
            Body::Queue { .. } => "queue",
            Body::TypedPrompt { .. } => "typed",
            Body::Settings { .. } => "settings",
            Body::Agent { .. } => "agent",
            Body::SessionList(_) => "register",
            Body::Opaque { .. } => "opaque",
        }
    }
}

/// A row of a layout's session list: data on a session or folder that their logs do not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ListRow {
    /// The session or folder.
    pub subject: ListSubject,
    /// The title or the name.
    pub title: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The start time.
    pub started: Option<Timestamp>,
    /// The time of the last write.
    pub updated: Option<Timestamp>,
    /// The number of messages.
    pub messages: Option<u64>,
    /// Further attributes by name, such as a channel or a workspace.
    pub attributes: BTreeMap<String, String>,
}

impl ListRow {
    /// Creates a row with only a subject.
    pub fn new(subject: ListSubject) -> Self {
        ListRow {
            subject,
            title: None,
            cwd: None,
            git_branch: None,
            started: None,
            updated: None,
            messages: None,
            attributes: BTreeMap::new(),
        }
    }
}

/// The subject of a row of a session list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListSubject {
    /// A session of the list's folder.
    Session(SessionId),
    /// A folder and its subfolders.
    Folder(String),
}

/// The origin of a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TitleSource {
    /// None given: the first prompt serves as the title.
    Prompt,
    /// A summary of this conversation.
    Summary,
    /// The model.
    Ai,
    /// A person.
    Custom,
}

/// The model name on errors that the agent program writes in place of a model's reply.
pub const SYNTHETIC: &str = "<synthetic>";

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The role of its author.
    pub role: Role,
    /// Its parts.
    pub blocks: Vec<Block>,
    /// Whether it is a prompt that a person typed, as opposed to tool results, reminders and
    /// commands.
    pub human: bool,
    /// Whether the agent program wrote it in the user's name.
    pub meta: bool,
    /// Whether it is the summary that follows a compaction.
    pub compact_summary: bool,
    /// Whether it is an API error, which the agent program wrote in place of a reply and does not
    /// send again.
    pub api_error: bool,
    /// The model that replied.
    pub model: Option<String>,
    /// The response this is part of; several entries may share one.
    pub response: Option<String>,
    /// The request that the response answers.
    pub request: Option<String>,
    /// The model's stop reason.
    pub stop_reason: Option<String>,
    /// Tokens of the whole response, as far as this entry has them.
    pub usage: Option<Usage>,
    /// The sub-agent that did a call's work, if the result names it.
    pub spawned: Option<AgentId>,
    /// The file that holds a tool's whole output, if the record has only its beginning.
    pub stored: Option<String>,
}

impl Message {
    /// Creates a message with only a role and blocks.
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Message {
            role,
            blocks,
            human: false,
            meta: false,
            compact_summary: false,
            api_error: false,
            model: None,
            response: None,
            request: None,
            stop_reason: None,
            usage: None,
            spawned: None,
            stored: None,
        }
    }
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or tool results in the person's place.
    User,
    /// The model.
    Assistant,
    /// Instructions.
    System,
}

impl Role {
    /// The role, as in layouts and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Plain text, often Markdown.
    Text(String),
    /// The model's reasoning.
    Thinking {
        /// The reasoning; empty if the model does not reveal it.
        text: String,
        /// The vendor's signature, without which a model rejects its own reasoning as input.
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolUse {
        /// The call's id, which its result names.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, as the JSON text of the record.
        input: String,
    },
    /// The result of a tool.
    ToolResult {
        /// The call it answers.
        call: String,
        /// Its parts.
        output: Vec<Block>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A picture.
    Image {
        /// Its MIME type.
        media_type: String,
        /// Its bytes in base64, or their location.
        data: String,
    },
    /// A block that is stored but not interpreted.
    Opaque {
        /// Its type, in the layout's spelling.
        kind: String,
        /// Its JSON text.
        json: String,
    },
}

impl Block {
    /// Calls `visit` with the searchable texts of the block, results included.
    pub fn visit_texts<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        match self {
            Block::Text(text) | Block::Thinking { text, .. } => visit(text),
            Block::ToolUse { name, input, .. } => {
                visit(name);
                visit(input);
            }
            Block::ToolResult { output, .. } => {
                for block in output {
                    // Results hold only flat blocks, so one level is enough.
                    if let Block::Text(text) = block {
                        visit(text);
                    }
                }
            }
            Block::Image { .. } => {}
            Block::Opaque { json, .. } => visit(json),
        }
    }

    /// The block's kind, as in JSON output and filters.
    pub fn kind(&self) -> &'static str {
        match self {
            Block::Text(_) => "text",
            Block::Thinking { .. } => "thinking",
            Block::ToolUse { .. } => "tool_use",
            Block::ToolResult { .. } => "tool_result",
            Block::Image { .. } => "image",
            Block::Opaque { .. } => "opaque",
        }
    }
}

/// Versions of files that were saved at one point of a session.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FileChange {
    /// The message before which the files were saved.
    pub message: Option<EntryId>,
    /// One per file.
    pub backups: Vec<FileBackup>,
}

/// One saved version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileBackup {
    /// The file as in the record: absolute, or relative to `base`.
    pub path: String,
    /// The base directory of a relative path.
    pub base: Option<String>,
    /// The version number.
    pub version: u64,
    /// The name of the stored copy; `None` if the file did not exist yet.
    pub stored: Option<String>,
    /// The time of the copy.
    pub time: Option<Timestamp>,
    /// The operation (`create`, `edit` …), in layouts that record it instead of storing a copy.
    pub operation: Option<String>,
    /// The beginning of the change, in layouts that record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}
