//! The member `annals` of a record: what a layout's own format cannot express.
//!
//! Chorus, clog and the orchestrator have no links between messages, no thinking signatures and no
//! split of cache writes. A writer stores what the format cannot express in this one member, which
//! other programs skip, and no more than needed. Its values override the rest of the record.
//!
//! ```text
//! {"id":…,"parent":…|null,"agent":…,"sidechain":true,"aside":true,"program":…,"cwd":…,"branch":…,"version":…,
//!  "kind":"compaction"|"system"|"agent"|"assistant","subtype":…,"text":…,"description":…,"call":…,
//!  "blocks":[…],"model":…,"usage":{…},"response":…,"request":…,"stop":…,
//!  "human":bool,"meta":true,"compact":true,"api_error":true,"spawned":…,"stored":…,"time":…}
//! ```
//!
//! The kind `assistant` is the role of a message whose record has that of a user.
//! `aside` marks an entry of a branch that the program does not resume, in layouts without branches.
//! Without `parent`, the parent is the previous record; `null` means no parent.
//!
//! Members of content blocks that `Block` has no field for are kept as JSON (`Draft::raw_blocks`):
//! in `blocks`, or in the block itself if the format has blocks. Readers return them as
//! `Entry::block_members`, and exports keep them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::json::{Flag, Raw, Text, object};
use crate::model::{
    AgentId, Body, Draft, Entry, EntryId, EntryKey, Fact, Link, Message, Outline, OutlineKind,
    Purpose, ResponseKey, Role,
};

use super::content::{self, Content, title_prefix};
use super::usage_fields;

object! {
    struct Extension<'a> {
        "id" => id: Text<'a>,
        "parent" => parent: Raw<'a>,
        "agent" => agent: Text<'a>,
        "sidechain" => sidechain: Flag,
        "aside" => aside: Flag,
        "program" => program: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "branch" => branch: Text<'a>,
        "version" => version: Text<'a>,
        "kind" => kind: Text<'a>,
        "subtype" => subtype: Text<'a>,
        "text" => text: Text<'a>,
        "description" => description: Text<'a>,
        "call" => call: Text<'a>,
        "blocks" => blocks: Raw<'a>,
        "model" => model: Text<'a>,
        "usage" => usage: Raw<'a>,
        "response" => response: Text<'a>,
        "request" => request: Text<'a>,
        "stop" => stop: Text<'a>,
        "human" => human: Raw<'a>,
        "meta" => meta: Flag,
        "compact" => compact: Flag,
        "api_error" => api_error: Flag,
        "spawned" => spawned: Text<'a>,
        "stored" => stored: Text<'a>,
        "time" => time: Raw<'a>,
    }
}

impl Extension<'_> {
    /// Returns the exact time of a record that has only milliseconds. It is ignored if the record's
    /// time was changed since.
    pub(crate) fn exact_time(&self, time: Option<Timestamp>) -> Option<Timestamp> {
        let exact = usage_fields::decode_time(self.time);
        let exact = exact.filter(|exact| Some(usage_fields::truncate_to_millis(*exact)) == time);
        exact.or(time)
    }

    /// Returns the record's link to its parent.
    pub(crate) fn link(&self) -> Link {
        match (self.parent.0, self.parent.text()) {
            (_, Some(parent)) if !parent.is_empty() => Link::Parent(EntryKey::from_text(&parent)),
            (Some("null"), _) => Link::None,
            // Any other value counts as absent.
            _ => Link::Previous,
        }
    }

    /// Overrides the fields of an entry.
    pub(crate) fn apply_to_entry(&self, entry: &mut Entry) {
        let owned = |text: &Text<'_>| text.or_empty().to_owned();
        if let Some(id) = self.id.non_empty() {
            entry.id = Some(EntryId::new(id));
        }
        if let Some(parent) = self.parent.text().filter(|parent| !parent.is_empty()) {
            entry.parent = Some(EntryId::new(&parent));
        }
        if let Some(agent) = self.agent.non_empty().and_then(|id| AgentId::new(id).ok()) {
            entry.agent = Some(agent);
        }
        entry.sidechain |= self.sidechain.0;
        let put = |slot: &mut Option<String>, text: &Text<'_>| {
            if let Some(text) = text.owned() {
                *slot = Some(text);
            }
        };
        put(&mut entry.program, &self.program);
        put(&mut entry.context.cwd, &self.cwd);
        put(&mut entry.context.git_branch, &self.branch);
        put(&mut entry.context.version, &self.version);
        match self.kind.or_empty() {
            "compaction" => {
                entry.body = Body::Compaction {
                    text: owned(&self.text),
                };
            }
            "system" => {
                entry.body = Body::System {
                    subtype: owned(&self.subtype),
                    text: owned(&self.text),
                };
            }
            "agent" => {
                entry.body = Body::Agent {
                    kind: self.subtype.owned(),
                    description: self.description.owned(),
                    call: self.call.owned(),
                };
            }
            _ => {}
        }
        if let Body::Message(message) = &mut entry.body {
            self.apply_to_message(message);
            if self.blocks.is_list() {
                entry.block_members = content::block_members(self.blocks);
            }
            let terms = usage_fields::extra_usage_members(self.usage)
                .filter(|_| message.role == Role::Assistant);
            let terms = terms.map(|terms| (usage_fields::USAGE_MEMBER.to_owned(), terms));
            entry.members.extend(terms);
        }
    }

    fn apply_to_message(&self, message: &mut Message) {
        if self.kind.get() == Some(Role::Assistant.as_str()) {
            message.role = Role::Assistant;
            message.meta = false;
        }
        let put = |slot: &mut Option<String>, text: &Text<'_>| {
            if let Some(text) = text.owned() {
                *slot = Some(text);
            }
        };
        if self.blocks.is_list() {
            message.blocks = content::blocks(self.blocks);
            let content: Content = self.blocks.parse();
            if message.role == Role::User && !content.results {
                message.human = content.prompt.is_some();
            }
        }
        put(&mut message.model, &self.model);
        put(&mut message.response, &self.response);
        put(&mut message.request, &self.request);
        put(&mut message.stop_reason, &self.stop);
        put(&mut message.stored, &self.stored);
        if self.usage.is_some() {
            message.usage = usage_fields::decode_usage(self.usage).0;
        }
        match self.human.0 {
            Some("true") => message.human = true,
            Some("false") => message.human = false,
            _ => {}
        }
        message.meta |= self.meta.0;
        message.compact_summary |= self.compact.0;
        message.api_error |= self.api_error.0;
        message.human &= !message.meta && !message.compact_summary && !self.sidechain.0;
        if let Some(agent) = self
            .spawned
            .non_empty()
            .and_then(|id| AgentId::new(id).ok())
        {
            message.spawned = Some(agent);
        }
    }

    /// Overrides the fields of an outline, including its link. A decoder calls this last.
    pub(crate) fn apply_to_outline(&self, outline: &mut Outline) {
        outline.link = self.link();
        if let Some(id) = self.id.non_empty() {
            set_outline_id(outline, id);
        }
        if let Some(agent) = self.agent.non_empty().and_then(|id| AgentId::new(id).ok()) {
            outline.agent = Some(agent);
        }
        outline.sidechain |= self.sidechain.0;
        let facts = &mut outline.facts;
        facts.extend(self.cwd.non_empty().map(|text| Fact::Cwd(text.into())));
        facts.extend(
            self.branch
                .non_empty()
                .map(|text| Fact::GitBranch(text.into())),
        );
        facts.extend(
            self.version
                .non_empty()
                .map(|text| Fact::Version(text.into())),
        );
        match self.kind.or_empty() {
            "compaction" => {
                outline.kind = OutlineKind::Compaction;
                outline.human = false;
                facts.retain(|fact| !matches!(fact, Fact::Prompt(_)));
            }
            "system" => {
                outline.kind = OutlineKind::Other;
                outline.human = false;
                facts.retain(|fact| !matches!(fact, Fact::Prompt(_)));
            }
            "agent" => {
                outline.kind = OutlineKind::Other;
                outline.link = Link::None;
                facts.push(Fact::Purpose(Box::new(Purpose {
                    kind: self.subtype.non_empty().map(title_prefix),
                    description: self.description.non_empty().map(title_prefix),
                    call: self.call.non_empty().map(EntryKey::from_text),
                })));
            }
            _ => self.apply_to_message_outline(outline),
        }
    }

    fn apply_to_message_outline(&self, outline: &mut Outline) {
        if self.blocks.is_list() {
            let content: Content = self.blocks.parse();
            outline.results.clone_from(&content.answers);
            outline
                .facts
                .retain(|fact| !matches!(fact, Fact::Prompt(_) | Fact::Delegation(_)));
            if outline.kind == OutlineKind::User && !content.results {
                let prompt = content.prompt.clone();
                outline.human = prompt.is_some();
                outline.facts.extend(prompt.map(Fact::Prompt));
            }
            let made = content.delegations.into_iter();
            outline
                .facts
                .extend(made.map(|made| Fact::Delegation(Box::new(made))));
            if let Some(reply) = &mut outline.reply {
                reply.calls = content.calls;
            }
        }
        if let Some(reply) = &mut outline.reply {
            if let Some(model) = self.model.non_empty() {
                reply.model = Some(model.into());
            }
            if let Some(response) = self.response.non_empty() {
                reply.response = Some(ResponseKey::new(response, self.request.or_empty()));
            }
            if self.usage.is_some() {
                let spent = usage_fields::decode_reply_usage(self.usage);
                reply.usage = spent.usage;
                reply.terms = spent.terms;
            }
        }
        if let Some(agent) = self
            .spawned
            .non_empty()
            .and_then(|id| AgentId::new(id).ok())
        {
            outline.facts.push(Fact::Spawned(agent));
        }
        let typed = match self.human.0 {
            Some("true") => true,
            Some("false") => false,
            _ => outline.human,
        };
        outline.human = typed && !self.meta.0 && !self.compact.0 && !self.sidechain.0;
        if !outline.human {
            outline
                .facts
                .retain(|fact| !matches!(fact, Fact::Prompt(_)));
        }
    }
}

/// Sets the id of an outline.
pub(crate) fn set_outline_id(outline: &mut Outline, id: &str) {
    outline.key = Some(EntryKey::from_text(id));
    outline.facts.retain(|fact| !matches!(fact, Fact::Id(_)));
    if !EntryKey::is_canonical_uuid(id) {
        outline.facts.push(Fact::Id(EntryId::new(id)));
    }
}

/// The member as written.
#[derive(Default, Serialize)]
pub(crate) struct ExtensionOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a str>,
    /// `Some(None)` means no parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) sidechain: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) aside: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocks: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) human: Option<bool>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) meta: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) compact: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) api_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spawned: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stored: Option<&'a str>,
    /// Only set if the record's own time is less precise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<String>,
}

/// Returns the members of a compaction's summary, in layouts whose record of it has only a text. Some
/// programs store a summary as a reply.
pub(crate) fn summary_words<'a>(message: &'a Message, draft: &Draft) -> Result<ExtensionOut<'a>> {
    if message.role != Role::Assistant {
        return Ok(ExtensionOut::default());
    }
    let terms = usage_fields::draft_usage_members(&draft.members);
    let usage = message.usage.as_ref();
    let usage = usage.map(|usage| usage_fields::usage_json(usage, terms));
    Ok(ExtensionOut {
        kind: Some(Role::Assistant.as_str()),
        model: message.model.as_deref(),
        response: message.response.as_deref(),
        request: message.request.as_deref(),
        stop: message.stop_reason.as_deref(),
        usage: usage.transpose()?,
        ..ExtensionOut::default()
    })
}

/// Formats a time that is more precise than milliseconds; `None` if it is not.
pub(crate) fn sub_millisecond_time(time: Timestamp) -> Option<String> {
    (time != usage_fields::truncate_to_millis(time)).then(|| usage_fields::format_time(time))
}

fn is_false(flag: &bool) -> bool {
    !flag
}
