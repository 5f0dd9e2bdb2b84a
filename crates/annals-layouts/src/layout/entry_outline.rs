//! Outlines made from entries, for layouts whose logs are small: both depths agree by construction.

use crate::model::{
    Block, Body, Delegation, Entry, EntryKey, Fact, Link, Message, Money, Outline, OutlineKind,
    Reply, ResponseKey, Role,
};

use super::content::{delegation, title_prefix};
use super::extension::set_outline_id;
use super::{Decoded, Record, usage_fields};
use crate::json::Raw;

/// Outlines an entry. `recorded` is the cost that the program recorded for it.
pub(crate) fn outline(entry: &Entry, recorded: Option<Money>) -> Outline {
    let mut outline = Outline::new(entry.span);
    if let Some(id) = &entry.id {
        set_outline_id(&mut outline, id.as_str());
    }
    outline.time = entry.time;
    outline.agent.clone_from(&entry.agent);
    outline.sidechain = entry.sidechain;
    let parent = entry.parent.as_ref().map(|id| id.key());
    outline.link = parent.map_or(Link::None, Link::Parent);
    let facts = &mut outline.facts;
    let text = |text: &Option<String>| text.as_deref().map(Box::from);
    facts.extend(text(&entry.session).map(Fact::Session));
    facts.extend(text(&entry.context.cwd).map(Fact::Cwd));
    facts.extend(text(&entry.context.git_branch).map(Fact::GitBranch));
    facts.extend(text(&entry.context.version).map(Fact::Version));
    match &entry.body {
        Body::Message(message) => {
            outline_message(message, recorded, &mut outline);
            if let Some(reply) = &mut outline.reply {
                reply.copied = entry.copied;
                let terms = usage_fields::draft_usage_members(&entry.members);
                reply.terms = usage_fields::decode_reply_usage(Raw(terms)).terms;
            }
        }
        Body::Compaction { .. } => {
            outline.kind = OutlineKind::Compaction;
            outline.link = parent.map_or(Link::None, Link::Continues);
        }
        Body::Title { text, source } => facts.push(Fact::Title(title_prefix(text), *source)),
        Body::Tag { text } => facts.push(Fact::Tag(title_prefix(text))),
        Body::Note { text, .. } => facts.push(Fact::Note(title_prefix(text))),
        Body::Summary { text, leaf } => {
            let leaf = leaf.as_ref().map(|leaf| leaf.key());
            facts.push(Fact::Summary(title_prefix(text), leaf));
        }
        Body::Agent {
            kind,
            description,
            call,
        } => facts.push(Fact::Purpose(Box::new(crate::model::Purpose {
            kind: kind.as_deref().map(title_prefix),
            description: description.as_deref().map(title_prefix),
            call: call.as_deref().map(EntryKey::from_text),
        }))),
        _ => {}
    }
    outline
}

/// Adds the entries of a record. A record without any is damaged, and becomes an opaque entry with the
/// first flaw found since there were `flaws`.
pub(crate) fn push_entries(
    record: &Record<'_>,
    flaws: usize,
    entries: impl IntoIterator<Item = Entry>,
    out: &mut Decoded<Entry>,
) {
    let before = out.items.len();
    out.items.extend(entries);
    if out.items.len() == before && !record.is_blank() {
        let flaw = out.flaws.get(flaws).map(|flaw| flaw.kind);
        let body = Body::Opaque { kind: None, flaw };
        out.items.push(Entry::new(record.span, body));
    }
}

fn outline_message(message: &Message, recorded: Option<Money>, outline: &mut Outline) {
    let key = |id: &String| (!id.is_empty()).then(|| EntryKey::from_text(id));
    let blocks = message.blocks.iter();
    outline.human = message.human;
    match message.role {
        Role::System => outline.kind = OutlineKind::System,
        Role::User => {
            outline.kind = OutlineKind::User;
            outline.results = blocks
                .clone()
                .filter_map(|block| match block {
                    Block::ToolResult { call, .. } => key(call),
                    _ => None,
                })
                .collect();
            let prompt = blocks.clone().find_map(|block| match block {
                Block::Text(text) => Some(title_prefix(text)),
                _ => None,
            });
            let facts = &mut outline.facts;
            facts.extend(prompt.filter(|_| message.human).map(Fact::Prompt));
            facts.extend(message.spawned.clone().map(Fact::Spawned));
        }
        Role::Assistant => {
            outline.kind = OutlineKind::Assistant;
            let calls = blocks.filter_map(|block| match block {
                Block::ToolUse { id, name, input } => Some((key(id)?, name, input)),
                _ => None,
            });
            let made = |(call, name, input): (EntryKey, &String, &String)| -> Option<Delegation> {
                delegation(call, name, Raw(Some(input)))
            };
            let made = calls.clone().filter_map(made);
            let made = made.map(|made| Fact::Delegation(Box::new(made)));
            outline.facts.extend(made);
            let response = message.response.as_deref();
            let request = message.request.as_deref().unwrap_or_default();
            outline.reply = Some(Box::new(Reply {
                response: response.map(|id| ResponseKey::new(id, request)),
                model: message.model.as_deref().map(Into::into),
                usage: message.usage,
                recorded,
                calls: calls.map(|(call, _, _)| call).collect(),
                ..Reply::default()
            }));
        }
    }
}
