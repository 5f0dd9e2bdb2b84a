//! Entries that are not yet written.

use jiff::Timestamp;

use super::{AgentId, Block, Body, EntryId, Members, Message, RawBlocks, Role, Usage};

/// An entry not yet written. The layout's writer fills in what is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The content.
    pub body: Body,
    /// Its id; a fresh one if `None`.
    pub id: Option<EntryId>,
    /// The parent; the session's leaf if `None`.
    pub parent: Option<EntryId>,
    /// The time of the entry; now if `None`.
    pub time: Option<Timestamp>,
    /// Whether it is sub-agent traffic in the main agent's log.
    pub sidechain: bool,
    /// The sub-agent of such traffic.
    pub agent: Option<AgentId>,
    /// Members of the record that are specific to its layout; [`WriterSpec::draft_members`] lists their
    /// names.
    ///
    /// [`WriterSpec::draft_members`]: crate::layout::WriterSpec::draft_members
    pub members: Members,
    /// The JSON of blocks with more members than [`Block`] has, by index in the message. Only
    /// layouts that store blocks write it.
    pub raw_blocks: RawBlocks,
}

impl Draft {
    /// Creates a draft with only a body.
    pub fn new(body: Body) -> Self {
        Draft {
            body,
            id: None,
            parent: None,
            time: None,
            sidechain: false,
            agent: None,
            members: Members::new(),
            raw_blocks: RawBlocks::new(),
        }
    }

    /// Creates a prompt.
    pub fn user(text: impl Into<String>) -> Self {
        let mut message = Message::new(Role::User, vec![Block::Text(text.into())]);
        message.human = true;
        Draft::new(Body::Message(message))
    }

    /// Creates an answer of blocks, in the model's order.
    pub fn assistant(blocks: impl Into<Vec<Block>>) -> Self {
        Draft::new(Body::Message(Message::new(Role::Assistant, blocks.into())))
    }

    /// Creates an answer of one text.
    pub fn reply(text: impl Into<String>) -> Self {
        Draft::assistant([Block::Text(text.into())])
    }

    /// Creates a message of neither a person nor a model.
    pub fn system(text: impl Into<String>) -> Self {
        let blocks = vec![Block::Text(text.into())];
        Draft::new(Body::Message(Message::new(Role::System, blocks)))
    }

    /// Creates a tool result.
    pub fn tool_result(call: impl Into<String>, output: impl Into<String>) -> Self {
        let result = Block::ToolResult {
            call: call.into(),
            output: vec![Block::Text(output.into())],
            is_error: false,
        };
        Draft::new(Body::Message(Message::new(Role::User, vec![result])))
    }

    /// Creates a person's note on the session, which the agent never sees.
    pub fn note(text: impl Into<String>) -> Self {
        Draft::new(Body::Note {
            author: None,
            text: text.into(),
        })
    }

    /// Sets the id, so that a retry is refused instead of written twice.
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the parent; an inner entry as parent starts a branch.
    pub fn with_parent(mut self, parent: EntryId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Sets the time.
    pub fn with_time(mut self, time: Timestamp) -> Self {
        self.time = Some(time);
        self
    }

    /// Adds a layout-specific member, as JSON text.
    pub fn member(mut self, name: impl Into<String>, json: impl Into<String>) -> Self {
        self.members.push((name.into(), json.into()));
        self
    }

    /// Adds a tool call to an answer; the input is JSON text.
    pub fn call(
        mut self,
        id: impl Into<String>,
        tool: impl Into<String>,
        input: impl Into<String>,
    ) -> Self {
        if let Body::Message(message) = &mut self.body {
            message.blocks.push(Block::ToolUse {
                id: id.into(),
                name: tool.into(),
                input: input.into(),
            });
        }
        self
    }

    /// Sets the model that answered.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        if let Body::Message(message) = &mut self.body {
            message.model = Some(model.into());
        }
        self
    }

    /// Sets the usage of the answer.
    pub fn usage(mut self, usage: Usage) -> Self {
        if let Body::Message(message) = &mut self.body {
            message.usage = Some(usage);
        }
        self
    }
}
