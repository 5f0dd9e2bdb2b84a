//! `annals conversations`

use std::collections::HashSet;
use std::path::Path;

use annals::cost::{Charge, Tally};
use annals::model::SessionId;
use annals::store::{ConversationInfo, Neighbours, Session};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::filter::SessionFilter;
use super::price::{self, Pricer};
use super::row::{ConversationRow, Short};
use crate::context::Context;
use crate::render::size;
use crate::render::style::{DIM, ID, SUCCESS};
use crate::render::table::{Cell, Column, Table};

/// Lists conversations.
#[derive(Debug, Args)]
#[command(after_help = "\
A conversation is one path from the first message to a last one: editing a prompt or asking for
another reply makes a second one. ➤ marks where the agent itself would go on.

Examples:
  annals conversations 8c549c46        the branches of one session
  annals conversations -p my-app       of a whole project
  annals show 8c549c46@1405c20a        read one of them")]
pub(crate) struct ConversationsArgs {
    /// Only of this session
    session: Option<String>,
    #[command(flatten)]
    filter: SessionFilter,
    /// Only sessions that branch
    #[arg(long)]
    branched: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    conversations: Vec<ConversationRow<'a>>,
}

pub(crate) fn run(args: &ConversationsArgs, context: &mut Context) -> Result<Outcome> {
    let mut found = find(args, context)?;
    found.sort_by_key(|(row, _)| std::cmp::Reverse(row.updated));
    found.truncate(args.filter.limit.unwrap_or(usize::MAX));
    if context.json {
        let rows = found
            .iter()
            .map(|(info, cost)| ConversationRow::of(info, cost))
            .collect();
        context.out.json(&Document {
            conversations: rows,
        })?;
    } else if found.is_empty() {
        super::overview::nothing(context, true, "conversation")?;
    } else {
        let table = table(&found, context);
        context.out.text(table)?;
    }
    Ok(if found.is_empty() {
        Outcome::Nothing
    } else {
        Outcome::Fine
    })
}

/// The conversations that are wanted, with what each comes to.
fn find(args: &ConversationsArgs, context: &mut Context) -> Result<Vec<(ConversationInfo, Tally)>> {
    let pricer = Pricer::new(context)?;
    let inventory = context.inventory();
    let price = |charge: &Charge| pricer.price(charge);
    let Some(id) = &args.session else {
        let all = context.sessions(&inventory);
        args.filter.tell_unknown(&all, context);
        let filter = SessionFilter {
            limit: None,
            ..args.filter.clone()
        };
        let mut rows = filter.apply(context, all)?;
        rows.retain(|row| !args.branched || row.conversations > 1);
        let rows: HashSet<(&Path, &SessionId)> = rows
            .iter()
            .map(|row| (row.file.as_path(), &row.id))
            .collect();
        let sessions = inventory.sessions.iter().enumerate();
        let wanted = sessions.filter(|(_, files)| rows.contains(&(files.main_path(), &files.id)));
        let wanted: Vec<usize> = wanted.map(|(at, _)| at).collect();
        return Ok(context.conversations(&inventory, &wanted, &price));
    };
    let target = context.store.find(&inventory, id)?;
    target.refuse_agent()?;
    let mut session = match Session::read(target.files) {
        Ok(session) => session,
        Err(error) => {
            context.warn(&error);
            return Ok(Vec::new());
        }
    };
    session.find_summaries(&Neighbours::of(&inventory.sessions));
    let costs = session.conversation_costs(&price);
    Ok(session.conversations().into_iter().zip(costs).collect())
}

fn table(conversations: &[(ConversationInfo, Tally)], context: &Context) -> String {
    let sessions = Short::of(conversations.iter().map(|(row, _)| row.session.as_str()));
    let leaves = Short::of_messages(conversations.iter().map(|(row, _)| row.leaf.as_str()));
    let mut table = Table::new([
        Column::new("CONVERSATION").style(ID).priority(250),
        Column::new("UPDATED").style(DIM).priority(80),
        Column::new("MSGS").right().priority(70),
        Column::new("COST").right().priority(65),
        Column::new("").style(SUCCESS).priority(220),
        Column::new("TITLE").min(12).priority(200),
        Column::new("BRANCH").min(12).priority(60),
    ]);
    for (row, cost) in conversations {
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
            price::cell(cost),
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
