//! What an entry says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AgentId, EntryId, FlawKind, SessionId, Todo, Usage};

/// What an entry says. A closed set; [`Body::Opaque`] is everything that is kept but not understood.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// Something said by a person, a model or a tool.
    Message(Message),
    /// A short text that stands for a conversation, tied to the entry it ends at.
    Summary {
        /// The text.
        text: String,
        /// The last entry it covers.
        leaf: Option<EntryId>,
    },
    /// From here on the agent sees a summary instead of what came before.
    Compaction {
        /// What the layout says about it.
        text: String,
    },
    /// Something the agent program noted.
    System {
        /// Its kind, in the layout's own words.
        subtype: String,
        /// Its text, if any.
        text: String,
    },
    /// Context that the agent program attached to a prompt.
    Attachment {
        /// Its kind, in the layout's own words.
        kind: String,
        /// Its text, if any.
        text: String,
    },
    /// The session's title from here on.
    Title {
        /// The title; empty takes an earlier one back.
        text: String,
        /// Who gave it.
        source: TitleSource,
    },
    /// A label on the session; empty takes it back.
    Tag {
        /// The label.
        text: String,
    },
    /// A person's remark about the session.
    Note {
        /// Who wrote it.
        author: Option<String>,
        /// The remark.
        text: String,
    },
    /// The leaf at which the agent program will go on.
    Resume {
        /// The leaf.
        leaf: EntryId,
    },
    /// The list of todos from here on.
    Todos(Vec<Todo>),
    /// Versions of files that were saved before the agent changed them.
    Files(FileChange),
    /// What the agent program did with its queue of prompts that wait for their turn.
    Queue {
        /// What was done, in the layout's own words: `enqueue`, `dequeue` …
        operation: String,
        /// The prompt, where the record holds it.
        text: String,
    },
    /// Something a person typed, kept beside all sessions.
    TypedPrompt {
        /// What was typed.
        text: String,
        /// The working directory.
        project: Option<String>,
        /// The session it went to.
        session: Option<String>,
        /// More was pasted than is shown.
        pasted: bool,
    },
    /// Settings of the agent program.
    Settings {
        /// After how many days it deletes old sessions.
        keep_days: Option<u64>,
    },
    /// What is known about a sub-agent.
    Agent {
        /// Its kind, such as `Explore`.
        kind: Option<String>,
        /// What it is for.
        description: Option<String>,
        /// The tool call that spawned it.
        call: Option<String>,
    },
    /// What a document tells of sessions and of the folders they lie in.
    SessionList(Vec<ListRow>),
    /// Kept byte for byte, not understood or not of interest.
    Opaque {
        /// Its type in the layout's own words, if it says one.
        kind: Option<String>,
        /// Why it could not be read, if it is damaged.
        flaw: Option<FlawKind>,
    },
}

impl Body {
    /// The kind as JSON output and filters spell it.
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

/// What a document tells of a session or of a folder, beside their logs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListRow {
    /// What it tells of.
    pub subject: ListSubject,
    /// The title or the name.
    pub title: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it was last written to.
    pub updated: Option<Timestamp>,
    /// How many messages it has.
    pub messages: Option<u64>,
    /// What else a list of sessions tells, by name; see [`SessionInfo::attributes`].
    ///
    /// [`SessionInfo::attributes`]: crate::store::SessionInfo::attributes
    pub attributes: BTreeMap<String, String>,
}

impl ListRow {
    /// Of which nothing is told yet.
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

/// What a register tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListSubject {
    /// A session of the register's folder.
    Session(SessionId),
    /// A folder, and those below it.
    Folder(String),
}

/// Who gave a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TitleSource {
    /// Nobody: it is the first thing that was asked.
    Prompt,
    /// A summary of this conversation.
    Summary,
    /// The model.
    Ai,
    /// A person.
    Custom,
}

/// The model that answers where none was asked: the agent program itself, with an error.
pub const SYNTHETIC: &str = "<synthetic>";

/// Something said.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// Its parts.
    pub blocks: Vec<Block>,
    /// A prompt that a person typed, as opposed to tool results, reminders and commands.
    pub human: bool,
    /// Written by the agent program in the user's name.
    pub meta: bool,
    /// The summary that follows a compaction.
    pub compact_summary: bool,
    /// An error of the API, which the agent program wrote in a reply's place and does not send again.
    pub api_error: bool,
    /// The model that answered.
    pub model: Option<String>,
    /// The response this is part of; several entries may share one.
    pub response: Option<String>,
    /// The request that the response answers.
    pub request: Option<String>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Tokens of the whole response, as far as this entry knows.
    pub usage: Option<Usage>,
    /// The sub-agent that did a call's work, where its result says so.
    pub spawned: Option<AgentId>,
    /// The file that holds a tool's whole output where the record has only its beginning.
    pub stored: Option<String>,
}

impl Message {
    /// A message of which only the words are known.
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

/// Who speaks.
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
    /// The role's name as layouts and flags spell it.
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
#[non_exhaustive]
pub enum Block {
    /// Plain text, often Markdown.
    Text(String),
    /// The model's reasoning.
    Thinking {
        /// The reasoning itself; empty where the model keeps it to itself.
        text: String,
        /// The vendor's seal, without which a model refuses to read its reasoning again.
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolUse {
        /// The call's id, which its result names.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, as the JSON text that stands in the record.
        input: String,
    },
    /// What a tool gave back.
    ToolResult {
        /// The call it answers.
        call: String,
        /// Its parts.
        output: Vec<Block>,
        /// The tool failed.
        is_error: bool,
    },
    /// A picture.
    Image {
        /// Its MIME type.
        media_type: String,
        /// Its bytes in base64, or where they can be had.
        data: String,
    },
    /// Kept, not understood.
    Opaque {
        /// Its type in the layout's own words.
        kind: String,
        /// Its JSON text.
        json: String,
    },
}

impl Block {
    /// The text a reader would want to find this block by, results included.
    pub fn visit_texts<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        match self {
            Block::Text(text) | Block::Thinking { text, .. } => visit(text),
            Block::ToolUse { name, input, .. } => {
                visit(name);
                visit(input);
            }
            Block::ToolResult { output, .. } => {
                for block in output {
                    // Results hold only flat blocks, so this goes one level deep.
                    if let Block::Text(text) = block {
                        visit(text);
                    }
                }
            }
            Block::Image { .. } => {}
            Block::Opaque { json, .. } => visit(json),
        }
    }

    /// The block's kind as JSON output and filters spell it.
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
#[non_exhaustive]
pub struct FileChange {
    /// The message before which the files were saved.
    pub message: Option<EntryId>,
    /// One per file.
    pub backups: Vec<FileBackup>,
}

/// One saved version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileBackup {
    /// The file, as the record spells it: absolute, or relative to `base`.
    pub path: String,
    /// The directory that a relative path starts from.
    pub base: Option<String>,
    /// The version's number.
    pub version: u64,
    /// The name of the stored copy; `None` means that the file did not exist yet.
    pub stored: Option<String>,
    /// When it was saved.
    pub time: Option<Timestamp>,
    /// What was done, where the layout says so (`create`, `edit` …) instead of storing a copy.
    pub operation: Option<String>,
    /// The beginning of what was changed, where the layout keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}
