//! Entries that are not yet written.

use jiff::Timestamp;

use super::{AgentId, Block, Body, EntryId, Members, Message, RawBlocks, Role, Usage};

/// An entry not yet written. What it leaves open, the layout's writer fills in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Draft {
    /// What it says.
    pub body: Body,
    /// Its id; a fresh one if `None`.
    pub id: Option<EntryId>,
    /// What it hangs from; the session's leaf if `None`.
    pub parent: Option<EntryId>,
    /// When it was said; now if `None`.
    pub time: Option<Timestamp>,
    /// Traffic of a sub-agent that stands in the main agent's log.
    pub sidechain: bool,
    /// The sub-agent that such traffic is of.
    pub agent: Option<AgentId>,
    /// Members of the record that only its layout knows; [`Writer::draft_members`] lists their names.
    ///
    /// [`Writer::draft_members`]: crate::layout::Writer::draft_members
    pub members: Members,
    /// The JSON of blocks that have more members than a [`Block`] has, by their place in the message.
    /// Layouts write it where they keep blocks.
    pub raw_blocks: RawBlocks,
}

impl Draft {
    /// A draft with everything left open.
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

    /// A prompt.
    pub fn user(text: impl Into<String>) -> Self {
        let mut message = Message::new(Role::User, vec![Block::Text(text.into())]);
        message.human = true;
        Draft::new(Body::Message(message))
    }

    /// An answer made of blocks, in the order in which the model gave them.
    pub fn assistant(blocks: impl Into<Vec<Block>>) -> Self {
        Draft::new(Body::Message(Message::new(Role::Assistant, blocks.into())))
    }

    /// An answer of one text.
    pub fn reply(text: impl Into<String>) -> Self {
        Draft::assistant([Block::Text(text.into())])
    }

    /// A message of neither a person nor a model.
    pub fn system(text: impl Into<String>) -> Self {
        let blocks = vec![Block::Text(text.into())];
        Draft::new(Body::Message(Message::new(Role::System, blocks)))
    }

    /// What a tool gave back.
    pub fn tool_result(call: impl Into<String>, output: impl Into<String>) -> Self {
        let result = Block::ToolResult {
            call: call.into(),
            output: vec![Block::Text(output.into())],
            is_error: false,
        };
        Draft::new(Body::Message(Message::new(Role::User, vec![result])))
    }

    /// A person's remark about the session, which the agent never sees.
    pub fn note(text: impl Into<String>) -> Self {
        Draft::new(Body::Note {
            author: None,
            text: text.into(),
        })
    }

    /// Gives it an id, so that a second try is refused instead of written twice.
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// Hangs it from an inner entry, which makes a branch.
    pub fn with_parent(mut self, parent: EntryId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Says when it was said.
    pub fn with_time(mut self, time: Timestamp) -> Self {
        self.time = Some(time);
        self
    }

    /// Adds a member that only the session's layout knows, as JSON text.
    pub fn member(mut self, name: impl Into<String>, json: impl Into<String>) -> Self {
        self.members.push((name.into(), json.into()));
        self
    }

    /// Adds a call of a tool to an answer; the input is JSON text.
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

    /// Says which model answered.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        if let Body::Message(message) = &mut self.body {
            message.model = Some(model.into());
        }
        self
    }

    /// Says what the answer used.
    pub fn usage(mut self, usage: Usage) -> Self {
        if let Body::Message(message) = &mut self.body {
            message.usage = Some(usage);
        }
        self
    }
}
