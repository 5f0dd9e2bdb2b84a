//! A session as JSON, in the shape that scripts may rely on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use annals::cost::Charge;
use annals::model::{EntryId, Money, Outline};
use annals::store::Session;
use anyhow::Result;
use schemars::JsonSchema;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use super::{Selection, ShowView};
use crate::context::Context;
use annals::view::{
    ContextFillJson, ConversationJson, EntryJson, FlawJson, PageJson, SessionJson, SessionPage,
};

#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct ShowJson<'a> {
    session: RowOrName<SessionJson<'a>, SessionName<'a>>,
    conversation: Option<RowOrName<ConversationJson<'a>, ConversationName>>,
    #[schemars(with = "Vec<EntryJson>")]
    entries: &'a EntryStream<'a>,
    /// Index of the named entry among the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<usize>,
    flaws: Vec<FlawJson<'a>>,
    #[serde(flatten)]
    page: Option<PageJson>,
}

/// A whole row, or only a name: totals of a log that was not read whole would be wrong.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum RowOrName<Row, Name> {
    Row(Row),
    Name(Name),
}

#[derive(Serialize, JsonSchema)]
struct SessionName<'a> {
    layout: &'a str,
    root: &'a Path,
    id: &'a str,
    file: &'a Path,
    context: Option<ContextFillJson>,
}

#[derive(Serialize, JsonSchema)]
struct ConversationName {
    id: String,
    session: String,
    leaf: String,
}

/// Entries that are read while they are written, so that a long session need not be held in memory.
struct EntryStream<'a> {
    session: &'a Session,
    selection: &'a Selection,
    /// Costs of entries by their index.
    costs: HashMap<usize, Money>,
    /// Error that ended reading early.
    failed: RefCell<Option<annals::Error>>,
}

impl Serialize for EntryStream<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(None)?;
        let mut unwritten = None;
        let mut places = self.selection.entries.iter();
        let span = |at: usize| self.session.log(self.selection.log)?.1.outlines.get(at);
        let read =
            self.session
                .each_entry_of_log(self.selection.log, &self.selection.entries, |entry| {
                    // Entries arrive in order, without those that changed meanwhile.
                    let key = entry.id.as_ref().map(EntryId::key);
                    let is_it = |it: &Outline| (it.span, it.key) == (entry.span, key);
                    let place = places.find(|at| span(**at).is_some_and(is_it));
                    let cost = place.and_then(|at| self.costs.get(at)).copied();
                    let row = EntryJson::for_session(entry, &self.session.files.id).with_cost(cost);
                    unwritten = rows.serialize_element(&row).err();
                    Ok(unwritten.is_none())
                });
        if let Some(error) = unwritten {
            return Err(error);
        }
        if let Err(error) = read {
            *self.failed.borrow_mut() = Some(error);
            return rows.end();
        }
        for spot in &self.selection.outside_records {
            match self.session.read_record(*spot) {
                Ok((_, Some(entry))) => {
                    let row = EntryJson::for_session(entry, &self.session.files.id);
                    rows.serialize_element(&row)?;
                }
                Ok((_, None)) => {}
                Err(error) => *self.failed.borrow_mut() = Some(error),
            }
        }
        rows.end()
    }
}

/// Prints the selection. `whole` is the whole conversation: the cost of a response belongs to its
/// last entry, which may be on another page.
pub(super) fn print_json(
    shown: &ShowView<'_>,
    whole: &[usize],
    context: &mut Context,
) -> Result<()> {
    let ShowView {
        session,
        selection,
        tail_only: end_only,
        pricer,
    } = shown;
    let price = |charge: &Charge| pricer.price(charge);
    let entries = EntryStream {
        session,
        selection,
        costs: session.entry_costs(selection.log, whole, &price),
        failed: RefCell::new(None),
    };
    let info = session.info(None);
    let conversations = session.conversations();
    let conversations: Vec<_> = conversations
        .iter()
        .zip(session.conversation_costs(&price))
        .collect();
    let conversation = selection
        .conversation
        .and_then(|at| conversations.get(at))
        .map(|(conversation, cost)| {
            if *end_only {
                RowOrName::Name(ConversationName {
                    id: conversation.id.clone(),
                    session: conversation.session.to_string(),
                    leaf: conversation.leaf.clone(),
                })
            } else {
                RowOrName::Row(ConversationJson::new(conversation, None, cost))
            }
        });
    let name = SessionName {
        layout: info.layout,
        root: &info.root,
        id: info.id.as_str(),
        file: &info.file,
        context: shown.context_fill().map(ContextFillJson::new),
    };
    let document = ShowJson {
        session: if *end_only {
            RowOrName::Name(name)
        } else {
            let row = SessionJson::new(&info, context.clock.now, &pricer.tally(&info.charges));
            let row = row.with_pinned(context.pins_or_none().contains_session(&info));
            RowOrName::Row(row.with_context_fill(shown.context_fill()))
        },
        conversation,
        entries: &entries,
        at: selection.marked_position(),
        flaws: session
            .flaws()
            .map(|(_, flaw)| FlawJson::new(flaw))
            .collect(),
        page: selection.page.as_ref().map(SessionPage::json),
    };
    let written = context.out.json(&document);
    drop(document);
    if let Some(error) = entries.failed.into_inner() {
        context.warn(&error);
    }
    Ok(written?)
}
