//! Rows as JSON, in the shape that scripts may rely on, and short ids for tables.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;

use annals::cost::{ContextFill, Tally};
use annals::layout::LAYOUTS;
use annals::model::{EntryKey, Money, SessionId, Usage};
use annals::store::{ConversationInfo, SessionInfo};
use jiff::Timestamp;
use serde::Serialize;

use super::pricing::{self, ContextFillJson};
use crate::context::Context;
use crate::render::text::safe;
use crate::render::width::truncate_end;

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
#[derive(Serialize)]
pub(crate) struct SessionJson<'a> {
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
    pub(crate) fn new(session: &'a SessionInfo, now: Timestamp, cost: &Tally) -> Self {
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
            cost_usd: pricing::known_cost(cost),
            unpriced: cost.unpriced,
            context: None,
        }
    }

    /// Sets whether the session is pinned.
    pub(crate) fn with_pinned(self, pinned: bool) -> Self {
        SessionJson { pinned, ..self }
    }

    /// Sets the fill of the context window.
    pub(crate) fn with_context_fill(self, fill: Option<ContextFill>) -> Self {
        SessionJson {
            context: Some(fill.map(ContextFillJson::new)),
            ..self
        }
    }
}

/// A conversation as JSON.
#[derive(Serialize)]
pub(crate) struct ConversationJson<'a> {
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
#[derive(Serialize)]
struct LocationJson<'a> {
    layout: &'a str,
    root: &'a Path,
    project: &'a str,
    file: &'a Path,
    #[serde(flatten)]
    attributes: Attributes<'a>,
}

impl<'a> ConversationJson<'a> {
    pub(crate) fn new(
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
            cost_usd: pricing::known_cost(cost),
            unpriced: cost.unpriced,
        }
    }
}

/// Short unique forms of ids: a prefix, or the name after a leading time.
pub(crate) struct ShortIds {
    /// The ids concatenated in order, so that similar ids are neighbours.
    text: String,
    ids: Vec<Range<usize>>,
    /// Number of ids by name, for ids that begin with a time.
    name_counts: OnceCell<HashMap<String, usize>>,
    /// Length of the short form of message ids that are not UUIDs.
    message_lengths: HashMap<Box<str>, usize>,
}

impl ShortIds {
    /// Finds short forms that are unique among `ids`.
    pub(crate) fn new<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut ids: Vec<&str> = ids.collect();
        // The stable sort is fast here: the ids are mostly sorted, in one or several runs.
        ids.sort();
        ids.dedup();
        let text = ids.concat();
        let mut end = 0;
        let place = |id: &str| {
            let start = end;
            end += id.len();
            start..end
        };
        ShortIds {
            ids: ids.into_iter().map(place).collect(),
            text,
            name_counts: OnceCell::new(),
            message_lengths: HashMap::new(),
        }
    }

    /// Finds short forms of message ids. They are always prefixes, and ids that are not UUIDs may
    /// share long ones.
    pub(crate) fn for_messages<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let (uuids, others): (Vec<&str>, Vec<&str>) =
            ids.partition(|id| EntryKey::is_canonical_uuid(id));
        let mut short = ShortIds::new(uuids.into_iter());
        let others: BTreeSet<&str> = others.into_iter().collect();
        let mut alike: HashMap<&str, usize> = HashMap::new();
        for id in &others {
            *alike.entry(short_message_id(id)).or_default() += 1;
        }
        for id in others {
            let end = match alike.get(short_message_id(id)) {
                Some(1) => short_message_id(id).len(),
                _ => id.len(),
            };
            short.message_lengths.insert(id.into(), end);
        }
        short
    }

    /// Returns the short form of an id; an unknown id is returned whole.
    pub(crate) fn get<'a>(&self, id: &'a str) -> &'a str {
        let part = match self.message_lengths.get(id) {
            Some(end) => Some(0..*end),
            None => self.short_range(id),
        };
        part.and_then(|part| id.get(part)).unwrap_or(id)
    }

    fn short_range(&self, id: &str) -> Option<Range<usize>> {
        const SHORTEST: usize = 8;
        const WHOLE: usize = 12;
        let spelled = |place: &Range<usize>| self.text.get(place.clone());
        let at = self.ids.partition_point(|other| spelled(other) < Some(id));
        let known = |at: usize| self.ids.get(at).and_then(spelled);
        known(at).filter(|other| *other == id)?;
        let shared =
            |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let before = at.checked_sub(1).and_then(known);
        let alike = [before, known(at + 1)].into_iter().flatten();
        let longest = alike.map(|other| shared(id, other)).max().unwrap_or(0);
        let session = SessionId::new(id).ok();
        let Some(name) = session
            .as_ref()
            .map(SessionId::name)
            .filter(|name| *name != id)
        else {
            let shown = (longest + 1).max(SHORTEST);
            // An id that is hardly longer, such as a date, is shown whole.
            return Some(0..if id.len() <= WHOLE { id.len() } else { shown });
        };
        let first = self
            .ids
            .partition_point(|other| spelled(other) < Some(name));
        let begins = known(first).is_some_and(|id| id.starts_with(name));
        let named = self.name_counts.get_or_init(|| self.count_names());
        let alone = named.get(&name.to_ascii_lowercase()) == Some(&1) && !begins;
        let start = id.len() - name.len();
        // A part of a time identifies nothing.
        let end = (longest + 1).max(start - 1);
        Some(if alone { start..id.len() } else { 0..end })
    }

    fn count_names(&self) -> HashMap<String, usize> {
        let mut named = HashMap::new();
        let ids = self.ids.iter();
        let ids = ids.filter_map(|place| self.text.get(place.clone()));
        for id in ids.filter_map(|id| SessionId::new(id).ok()) {
            *named.entry(id.name().to_ascii_lowercase()).or_default() += 1;
        }
        named
    }
}

/// Returns a session id for a hint: eight characters of a UUID, else the whole id.
pub(crate) fn short_id(id: &str) -> &str {
    if EntryKey::is_canonical_uuid(id) {
        id_prefix(id, 8)
    } else {
        id
    }
}

/// Returns a short message id: eight characters of a UUID, more of other ids, which may be numbered
/// and differ only at the end.
pub(crate) fn short_message_id(id: &str) -> &str {
    id_prefix(
        id,
        if EntryKey::is_canonical_uuid(id) {
            8
        } else {
            24
        },
    )
}

/// Cuts a line to the width of the terminal.
pub(crate) fn fit_line(text: &str, context: &Context) -> String {
    match context.out.width() {
        Some(width) => truncate_end(text, width),
        None => text.to_owned(),
    }
}

/// Cuts a title to the room that `used` columns leave on its line.
pub(crate) fn fit_title(title: &str, used: usize, context: &Context) -> String {
    /// Width of titles without a terminal.
    const MAX_WIDTH: usize = 100;
    let width = context.out.width();
    let room = width.map_or(MAX_WIDTH, |width| width.saturating_sub(used).max(12));
    truncate_end(&safe(title), room)
}

/// Returns the first `len` bytes of an id, or all of it.
pub(crate) fn id_prefix(id: &str, len: usize) -> &str {
    id.get(..len).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_unique_and_show_dates_whole() {
        let ids = [
            "2026-03-01",
            "5f0c9f62-1111-4000-8000-000000000001",
            "agent-session-one",
            "agent-session-two",
        ];
        let short = ShortIds::new(ids.into_iter());
        let shown = ids.map(|id| short.get(id));
        assert_eq!(
            shown,
            [
                "2026-03-01",
                "5f0c9f62",
                "agent-session-o",
                "agent-session-t"
            ]
        );
    }
}
