//! A conversation of an open session: its entries without their text.

use std::collections::HashMap;
use std::sync::Arc;

use annals::Result;
use annals::model::{Entry, Money, Outline, OutlineKind};
use annals::service::OpenSession;
use annals::store::results_under_calls;

use super::sessions::Opened;
use crate::protocol::{AgentLine, Conversation, ConversationRef, Item, ItemKind, OpenQuestion};

/// Number of messages that are sent with a conversation.
const FIRST_PAGE: usize = 80;

/// Entries of a log, and where they are in the tree.
struct Selected {
    log: usize,
    entries: Vec<usize>,
    conversation: Option<usize>,
    /// The entry that was named.
    at: Option<usize>,
}

/// Returns the conversation that was asked for, with the messages that are shown first.
pub(super) fn conversation(opened: &Opened, question: &OpenQuestion) -> Result<Conversation> {
    let open = &opened.open;
    let session = &open.session;
    let selected = select(open, question)?;
    let log = selected.log;
    let Some((_, scan, tree)) = session.log(log) else {
        return Ok(Conversation {
            session: question.session.clone(),
            stamp: opened.stamp,
            is_whole: true,
            ..Conversation::default()
        });
    };
    let mut entries = results_under_calls(&scan.outlines, &selected.entries);
    entries.retain(|at| {
        let outline = scan.outlines.get(*at);
        outline.is_some_and(|it| it.kind.is_message() || it.kind == OutlineKind::Compaction)
    });
    let costs = match opened.is_whole {
        true => open.entry_costs(log, &entries),
        // The beginning of the first response may be missing.
        false => HashMap::new(),
    };
    let mut agents = HashMap::new();
    for (number, agent) in session.agents.iter().enumerate() {
        let call = agent.call.filter(|call| call.log == log);
        agents.extend(call.map(|call| (call.entry, number as u32)));
    }
    let items = items(&scan.outlines, &entries, &costs, &agents);
    let at = selected.at.map(|at| {
        let exact = items.iter().position(|item| item.outline == at);
        exact.unwrap_or_else(|| items.partition_point(|item| item.outline < at))
    });
    let at = at.map(|at| at.min(items.len().saturating_sub(1)));
    let is_main = log == 0;
    let number = selected.conversation.or_else(|| {
        let last = *selected.entries.last()?;
        tree.conversation_at(last)
    });
    let branch = number.filter(|_| is_main && opened.is_whole);
    let mut conversation = Conversation {
        session: question.session.clone(),
        which: question.which.clone(),
        stamp: opened.stamp,
        is_whole: opened.is_whole,
        log,
        branch: branch.map(|number| (number + 1, tree.conversations.len())),
        agents: Arc::new(agent_lines(open)),
        cost: opened.is_whole.then(|| open.cost()).flatten(),
        fill: is_main.then(|| open.context_fill()).flatten(),
        at,
        entries: Vec::new(),
        items,
    };
    if conversation.session.title.is_empty()
        && let Some(title) = session.title()
    {
        conversation.session.title = title.text;
    }
    let count = conversation.items.len();
    let first = match at {
        Some(at) => at.saturating_sub(FIRST_PAGE / 2),
        None => count.saturating_sub(FIRST_PAGE),
    };
    let page = conversation.items.iter().skip(first).take(FIRST_PAGE);
    let page: Vec<usize> = page.map(|item| item.outline).collect();
    conversation.entries = load(open, log, &page)?;
    Ok(conversation)
}

/// Reads entries.
pub(super) fn load(
    open: &OpenSession,
    log: usize,
    wanted: &[usize],
) -> Result<Vec<(usize, Entry)>> {
    let mut entries = Vec::with_capacity(wanted.len());
    open.each_at(log, wanted, |at, entry| entries.push((at, entry)))?;
    Ok(entries)
}

fn select(open: &OpenSession, question: &OpenQuestion) -> Result<Selected> {
    let session = &open.session;
    let resumed = || {
        let (entries, conversation) = session.resumed_entries();
        Selected {
            log: 0,
            entries,
            conversation,
            at: None,
        }
    };
    let mut selected = match &question.which {
        ConversationRef::Resumed => resumed(),
        ConversationRef::Branch(number) => match session.tree() {
            Some(tree) => match tree.conversations.get(*number) {
                Some(conversation) => Selected {
                    log: 0,
                    entries: tree.path(conversation),
                    conversation: Some(*number),
                    at: None,
                },
                None => resumed(),
            },
            None => resumed(),
        },
        ConversationRef::Through(message) => {
            let spot = session.find_records(message)?.into_iter().next();
            // A note is in a log of its own.
            let spot = spot.filter(|spot| spot.log < session.logs.len());
            let through = spot.and_then(|spot| {
                let (entries, conversation) = session.entries_to(spot.log, spot.entry, true)?;
                Some(Selected {
                    log: spot.log,
                    entries,
                    conversation,
                    at: Some(spot.entry),
                })
            });
            through.unwrap_or_else(resumed)
        }
        ConversationRef::Agent(number) => match session.agents.get(*number) {
            Some(agent) => Selected {
                log: agent.log,
                entries: session.agent_entries(agent),
                conversation: None,
                at: None,
            },
            None => resumed(),
        },
    };
    if let (None, Some(at)) = (selected.at, &question.at) {
        let spots = session.find_records(at).unwrap_or_default();
        let spot = spots.into_iter().find(|spot| spot.log == selected.log);
        selected.at = spot.map(|spot| spot.entry);
    }
    Ok(selected)
}

/// Describes entries, in order.
fn items(
    outlines: &[Outline],
    entries: &[usize],
    costs: &HashMap<usize, Money>,
    agents: &HashMap<usize, u32>,
) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::with_capacity(entries.len());
    let mut response = None;
    let mut start = 0;
    for &at in entries {
        let Some(outline) = outlines.get(at) else {
            continue;
        };
        let kind = match outline.kind {
            OutlineKind::Compaction => ItemKind::Compaction,
            OutlineKind::Assistant => ItemKind::Assistant,
            _ if !outline.results.is_empty() => ItemKind::Result,
            OutlineKind::User if outline.human => ItemKind::Prompt,
            _ => ItemKind::Other,
        };
        let own = outline.reply.as_ref().and_then(|reply| reply.response);
        let continues = match kind {
            ItemKind::Result => true,
            ItemKind::Assistant => own.is_some() && own == response,
            _ => false,
        };
        let starts = !continues || items.is_empty();
        if starts {
            start = items.len();
        }
        match kind {
            ItemKind::Assistant => response = own,
            ItemKind::Result => {}
            _ => response = None,
        }
        items.push(Item {
            outline: at,
            offset: outline.span.offset,
            kind,
            starts,
            cost: None,
            agent: agents.get(&at).copied(),
        });
        // The cost of a response is known at its last entry, and shown where it starts.
        if let Some(cost) = costs.get(&at)
            && let Some(item) = items.get_mut(start)
        {
            item.cost = Some(item.cost.map_or(*cost, |known| known + *cost));
        }
    }
    items
}

fn agent_lines(open: &OpenSession) -> Vec<AgentLine> {
    let agents = open.session.agents.iter();
    agents
        .map(|agent| AgentLine {
            kind: agent.kind.clone(),
            description: agent.description.clone(),
            messages: agent.messages,
        })
        .collect()
}
