//! `annals conversations`

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use annals::cost::{Charge, Tally};
use annals::model::SessionId;
use annals::store::{ConversationInfo, FolderHints, Session, SessionFiles, SessionInfo};
use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::filter::SessionFilter;
use super::page::Page;
use super::pricing::{self, Pricer};
use super::{Outcome, input};
use crate::context::Context;
use annals::view::{ConversationJson, ShortIds};
use annals_render::size;
use annals_render::style::{DIM, ID, SUCCESS};
use annals_render::table::{Cell, Column, Table};

/// Lists conversations.
#[derive(Debug, Args)]
#[command(after_help = "\
A conversation is one path from the first message to a last one: editing a prompt or asking for \
another reply makes a second one. ➤ marks the one that the agent would resume.

Examples:
  annals conversations 8c549c46        the branches of one session
  annals conversations -p my-app       of a whole project
  annals show 8c549c46@1405c20a        read one of them")]
pub(crate) struct ConversationsArgs {
    /// Only conversations of this session
    session: Option<String>,
    #[command(flatten)]
    filter: SessionFilter,
    /// Only sessions that branch
    #[arg(long)]
    branched: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ConversationsJson<'a> {
    conversations: Vec<ConversationJson<'a>>,
    /// Number of conversations before `-n` and `--offset`.
    total: usize,
}

/// A conversation, its session, and its cost.
struct ListedConversation {
    info: ConversationInfo,
    session: Option<Arc<SessionInfo>>,
    cost: Tally,
}

pub(crate) fn run(args: &ConversationsArgs, context: &mut Context) -> Result<Outcome> {
    let mut found = select_conversations(args, context)?;
    found.sort_by_key(|row| std::cmp::Reverse(row.info.updated));
    let total = args.filter.page.apply(&mut found);
    if context.json {
        let rows = found
            .iter()
            .map(|row| ConversationJson::new(&row.info, row.session.as_deref(), &row.cost));
        context.out.json(&ConversationsJson {
            conversations: rows.collect(),
            total,
        })?;
    } else if found.is_empty() {
        let has_sessions = !context.inventory().sessions.is_empty();
        super::overview::print_nothing(context, has_sessions, "conversation")?;
    } else {
        let table = table(&found, context);
        context.out.text(table)?;
    }
    Ok(if found.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// Returns the selected conversations with their costs.
fn select_conversations(
    args: &ConversationsArgs,
    context: &mut Context,
) -> Result<Vec<ListedConversation>> {
    let pricer = Pricer::new(context)?;
    let inventory = context.inventory();
    let price = |charge: &Charge| pricer.price(charge);
    let Some(id) = &args.session else {
        let all = context.sessions(&inventory);
        args.filter.warn_unknown_project(&all, context);
        let filter = SessionFilter {
            page: Page::default(),
            ..args.filter.clone()
        };
        let mut rows = filter.apply(context, all)?;
        rows.retain(|row| !args.branched || row.conversations > 1);
        let rows = sessions_by_log(rows);
        let of = |files: &SessionFiles| {
            rows.get(&(files.main_path().to_owned(), files.id.clone()))
                .cloned()
        };
        let sessions = inventory.sessions.iter().enumerate();
        let wanted = sessions.filter(|(_, files)| of(files).is_some());
        let wanted: Vec<usize> = wanted.map(|(at, _)| at).collect();
        let found = context.conversations(&inventory, &wanted, &price);
        let listed = found
            .into_iter()
            .map(|(at, info, cost)| ListedConversation {
                info,
                session: inventory.sessions.get(at).and_then(of),
                cost,
            });
        return Ok(listed.collect());
    };
    let target = context.find_in(&inventory, id)?;
    target.refuse_agent()?;
    let place = (target.files.main_path().to_owned(), target.files.id.clone());
    // Only JSON output has the session's row.
    let about = match context.json {
        true => sessions_by_log(context.sessions(&inventory)).remove(&place),
        false => None,
    };
    let mut session = match Session::read(target.files) {
        Ok(session) => session,
        Err(error) => {
            context.warn(&error);
            return Ok(Vec::new());
        }
    };
    session.apply_folder_hints(&FolderHints::new(&inventory.sessions));
    let through = match &target.message {
        Some(message) => Some(input::entry(&session, 0, message)?.0),
        None => None,
    };
    let costs = session.conversation_costs(&price);
    let found = session.conversations().into_iter().zip(costs).enumerate();
    let found = found.filter(|(at, _)| through.is_none_or(|entry| contains(&session, *at, entry)));
    let listed = found.map(|(_, (info, cost))| ListedConversation {
        info,
        session: about.clone(),
        cost,
    });
    Ok(listed.collect())
}

/// Returns true if an entry is on the path of a conversation, given by index.
fn contains(session: &Session, conversation: usize, entry: usize) -> bool {
    session.tree().is_some_and(|tree| {
        let conversation = tree.conversations.get(conversation);
        conversation.is_some_and(|conversation| tree.path(conversation).contains(&entry))
    })
}

/// Indexes sessions by log and id: a log may hold several sessions, and an id may exist twice.
fn sessions_by_log(sessions: Vec<SessionInfo>) -> HashMap<(PathBuf, SessionId), Arc<SessionInfo>> {
    let sessions = sessions.into_iter();
    sessions
        .map(|it| ((it.file.clone(), it.id.clone()), Arc::new(it)))
        .collect()
}

fn table(conversations: &[ListedConversation], context: &Context) -> String {
    let rows = || conversations.iter().map(|listed| &listed.info);
    let sessions = ShortIds::new(rows().map(|row| row.session.as_str()));
    let leaves = ShortIds::for_messages(rows().map(|row| row.leaf.as_str()));
    let mut table = Table::new([
        Column::new("CONVERSATION").style(ID).priority(250),
        Column::new("UPDATED").style(DIM).priority(80),
        Column::new("MSGS").right().priority(70),
        Column::new("COST").right().priority(65),
        Column::new("").style(SUCCESS).priority(220),
        Column::title("TITLE").priority(200),
        Column::title("BRANCH").priority(60),
    ]);
    for ListedConversation {
        info: row, cost, ..
    } in conversations
    {
        let id = format!(
            "{}@{}",
            sessions.get(row.session.as_str()),
            leaves.get(&row.leaf)
        );
        table.row([
            Cell::new(id),
            Cell::new(
                row.updated
                    .map(|time| context.clock.ago(time))
                    .unwrap_or_default(),
            ),
            Cell::new(size::count(row.messages as u64)),
            pricing::cost_cell(cost),
            Cell::new(if row.resumes { "➤" } else { "" }),
            match &row.title {
                Some(title) => Cell::new(&title.text),
                None => Cell::styled("(no title)", DIM),
            },
            Cell::new(row.branch.as_deref().unwrap_or_default()),
        ]);
    }
    table.render(context.out.width())
}
