//! Sessions and conversations as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use annals_layouts::layout::LAYOUTS;
use annals_layouts::model::{Money, Usage};
use jiff::Timestamp;
use serde::Serialize;

use crate::cost::{ContextFill, Tally};
use crate::store::{ConversationInfo, SessionInfo};

/// Attributes that only some layouts record, by name. A missing one is null, so that all rows of a
/// layout have the same keys.
type Attributes<'a> = BTreeMap<&'a str, Option<&'a str>>;

fn attributes(session: &SessionInfo) -> Attributes<'_> {
    let layout = LAYOUTS
        .iter()
        .find(|layout| layout.name() == session.layout);
    let own = layout.map_or(&[][..], |layout| layout.attributes());
    let names = own.iter().copied().chain(["git_branch"]);
    let known = session.attributes.iter();
    let known = known.map(|(name, value)| (name.as_str(), Some(value.as_str())));
    names.map(|name| (name, None)).chain(known).collect()
}

/// A session as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionJson<'a> {
    layout: &'a str,
    root: &'a Path,
    project: &'a str,
    id: &'a str,
    file: &'a Path,
    title: Option<&'a str>,
    tag: Option<&'a str>,
    #[serde(flatten)]
    attributes: Attributes<'a>,
    pinned: bool,
    state: &'a str,
    started: Option<Timestamp>,
    updated: Option<Timestamp>,
    expires: Option<Timestamp>,
    archived: bool,
    entries: u64,
    messages: u64,
    conversations: usize,
    agents: usize,
    bytes: u64,
    flaws: usize,
    errors: usize,
    warnings: usize,
    models: Vec<&'a str>,
    usage: Usage,
    cost_usd: Option<Money>,
    unpriced: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Option<ContextFillJson>>,
}

impl<'a> SessionJson<'a> {
    /// Converts a session; `cost` is the sum of its charges.
    pub fn new(session: &'a SessionInfo, now: Timestamp, cost: &Tally) -> Self {
        let flaws = session.flaw_counts();
        SessionJson {
            layout: session.layout,
            root: &session.root,
            project: &session.project.path,
            id: session.id.as_str(),
            file: &session.file,
            title: session.title.as_ref().map(|title| title.text.as_str()),
            tag: session.tag.as_deref(),
            attributes: attributes(session),
            pinned: false,
            state: session.state_at(now).as_str(),
            started: session.started,
            updated: session.updated,
            expires: session.expires,
            archived: session.archived,
            entries: session.entries,
            messages: session.messages,
            conversations: session.conversations,
            agents: session.agents,
            bytes: session.bytes,
            flaws: session.flaws,
            errors: flaws.errors,
            warnings: flaws.warnings,
            models: session.models.iter().map(String::as_str).collect(),
            usage: session.usage,
            cost_usd: cost.known_cost(),
            unpriced: cost.unpriced,
            context: None,
        }
    }

    /// Sets whether the session is pinned.
    pub fn with_pinned(self, pinned: bool) -> Self {
        SessionJson { pinned, ..self }
    }

    /// Sets the fill of the context window.
    pub fn with_context_fill(self, fill: Option<ContextFill>) -> Self {
        SessionJson {
            context: Some(fill.map(ContextFillJson::new)),
            ..self
        }
    }
}

/// A conversation as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationJson<'a> {
    id: &'a str,
    session: &'a str,
    leaf: &'a str,
    /// Omitted if the document has the session itself.
    #[serde(flatten)]
    place: Option<LocationJson<'a>>,
    title: Option<&'a str>,
    branch: Option<&'a str>,
    messages: usize,
    started: Option<Timestamp>,
    updated: Option<Timestamp>,
    resumes: bool,
    usage: Usage,
    cost_usd: Option<Money>,
    unpriced: u64,
}

/// Location of a conversation's session.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LocationJson<'a> {
    layout: &'a str,
    root: &'a Path,
    project: &'a str,
    file: &'a Path,
    #[serde(flatten)]
    attributes: Attributes<'a>,
}

impl<'a> ConversationJson<'a> {
    /// Converts a conversation; `session` adds the location of its session.
    pub fn new(
        conversation: &'a ConversationInfo,
        session: Option<&'a SessionInfo>,
        cost: &Tally,
    ) -> Self {
        ConversationJson {
            place: session.map(|session| LocationJson {
                layout: session.layout,
                root: &session.root,
                project: &session.project.path,
                file: &session.file,
                attributes: attributes(session),
            }),
            id: &conversation.id,
            session: conversation.session.as_str(),
            leaf: &conversation.leaf,
            title: conversation.title.as_ref().map(|title| title.text.as_str()),
            branch: conversation.branch.as_deref(),
            messages: conversation.messages,
            started: conversation.started,
            updated: conversation.updated,
            resumes: conversation.resumes,
            usage: conversation.usage,
            cost_usd: cost.known_cost(),
            unpriced: cost.unpriced,
        }
    }
}

/// The fill of a context window as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextFillJson {
    tokens: u64,
    window: Option<u64>,
    share: Option<f64>,
}

impl ContextFillJson {
    /// Converts a fill.
    pub fn new(fill: ContextFill) -> Self {
        // Rounded for display; the counts are exact.
        let rounded = |share: f64| (share * 10_000.0).round() / 10_000.0;
        ContextFillJson {
            tokens: fill.tokens,
            window: fill.window,
            share: fill.share().map(rounded),
        }
    }
}
