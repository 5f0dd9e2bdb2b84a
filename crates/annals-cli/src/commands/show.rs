//! `annals show`

mod entry_text;
pub(super) mod json;
mod paging;
mod target;

use std::collections::HashMap;

use annals::cost::{Charge, ContextFill};
use annals::model::{Block, Body, Entry, EntryId, EntryKey, Message, Role, Span};
use annals::store::{
    Agent, ConversationInfo, FolderHints, MessageFilter, RecordRef, Session, results_under_calls,
};
use anyhow::Result;
use clap::{Args, ValueEnum};

use super::filter::Period;
use super::pricing::{self, Pricer};
use super::{Outcome, choose};
use crate::context::Context;
use annals::view::{SessionPage, short_id};
use annals_render::severity::flaw_line;
use annals_render::size;
use annals_render::style::{DIM, ID, TITLE, paint};
use annals_render::width::width;

/// Reads a session.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a message, the conversation that the agent would resume is shown. With \
one, the messages up to it are shown; -C shows later ones too. The message is marked, and on a \
terminal the page opens there. The ids that `annals search` prints work here, in a sub-agent's log as \
well, and with a line (SESSION@:LINE, FILE:LINE) if a record has no id. A message's id alone, or a \
unique prefix of it, finds the session that contains it. `latest` is the session of the current \
directory that was written to last, or of all if this directory has none.

Examples:
  annals show 8c549c46                      a session
  annals show latest                        the last session of this directory
  annals show 1405c20a                      the branch that ends at a message
  annals show 8c549c46 --last 20            its last twenty messages
  annals show 8c549c46 --offset 40 --limit 20
  annals show 8c549c46 --budget 8000        its last 8,000 tokens
  annals show 8c549c46@1405c20a             the branch that ends at a message
  annals show 8c549c46@1405c20a -C 5        five messages before and after it
  annals show 8c549c46 --agent a318         a sub-agent
  annals show 8c549c46 --kind thinking      only the reasoning
  annals show 8c549c46 --grep 'panic' --json
  annals show ~/.claude/projects/x/y.jsonl  a log by its path")]
pub(crate) struct ShowArgs {
    /// SESSION, SESSION@MESSAGE, MESSAGE, `latest`, part of a title, the path of a log, or FILE:LINE
    id: Option<String>,
    /// Only the named message and N messages on either side
    #[arg(long, short = 'C', value_name = "N", conflicts_with = "last")]
    context: Option<usize>,
    /// Only the last N messages
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    paging: paging::Paging,
    /// A sub-agent instead of the main agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only messages of this role
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleArg>,
    /// Only this kind of content
    #[arg(long, value_name = "KIND")]
    kind: Option<KindArg>,
    /// Only messages with this text, ignoring case
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    #[command(flatten)]
    period: Period,
    /// Every record of the log in file order: all branches, and records of the agent program; with a
    /// message, every record that leads to it
    #[arg(long)]
    all: bool,
    /// Show tool results in full
    #[arg(long, short)]
    full: bool,
    /// Print the exact bytes of the records
    #[arg(long, conflicts_with_all = ["kind", "full"])]
    raw: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    User,
    Assistant,
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Text of messages
    Text,
    /// Typed prompts
    Prompt,
    /// The model's reasoning
    Thinking,
    /// Tool calls and their results
    Tool,
    /// Images
    Image,
}

/// Selected entries of one log of a session.
struct Selection {
    log: usize,
    entries: Vec<usize>,
    conversation: Option<usize>,
    /// The page of the selection, if paging was asked for.
    page: Option<SessionPage>,
    /// The named entry.
    named_entry: Option<usize>,
    /// Named records that are not part of the conversation.
    outside_records: Vec<RecordRef>,
}

impl Selection {
    fn new(log: usize, entries: Vec<usize>, conversation: Option<usize>) -> Self {
        Selection {
            log,
            entries,
            conversation,
            page: None,
            named_entry: None,
            outside_records: Vec::new(),
        }
    }

    /// Adds the named records that are not shown.
    fn add_outside_records(&mut self, named: &[RecordRef]) {
        for spot in named {
            let shown = spot.log == self.log && self.entries.contains(&spot.entry);
            if !shown && !self.outside_records.contains(spot) {
                self.outside_records.push(*spot);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.outside_records.is_empty()
    }

    /// Returns the position of the first named record among the shown ones.
    fn marked_position(&self) -> Option<usize> {
        let among = |at: usize| self.entries.iter().position(|entry| *entry == at);
        let apart = (!self.outside_records.is_empty()).then_some(self.entries.len());
        self.named_entry.and_then(among).or(apart)
    }
}

pub(crate) fn run(args: &ShowArgs, context: &mut Context) -> Result<Outcome> {
    let name = choose::session(args.id.as_deref(), context)?;
    let inventory = match args.last {
        Some(_) if args.agent.is_none() => context.inventory_of_log_or_all(&name, None),
        _ => context.inventory(),
    };
    let asked = target::ShowTarget::parse(&name, &inventory, context)?;
    asked.check_args(&name, args)?;
    // The end of a log is enough for its last messages, unless there is a filter.
    let end_only = args.last.filter(|_| {
        let main = asked.record.is_none() && args.agent.is_none() && asked.agent_log.is_none();
        main && args.role.is_none()
            && args.kind.is_none()
            && args.grep.is_none()
            && args.period.since.is_none()
            && args.period.until.is_none()
    });
    let mut session = match end_only {
        Some(last) => Session::read_tail(asked.files.clone(), last)?,
        None => Session::read(asked.files.clone())?,
    };
    if end_only.is_none() {
        session.apply_folder_hints(&FolderHints::new(&inventory.sessions));
    }
    let agent = match (&args.agent, &asked.agent_log) {
        (Some(wanted), _) => Some(session.find_agent(wanted)?),
        (None, Some(path)) => Some(session.agent_at_path(path)?),
        (None, None) => None,
    };
    let (mut selection, agent) = match &asked.record {
        Some(record) => {
            let spots = record.find_records(&session)?;
            let selection = target::select_around(&session, &spots, args.context);
            let agent = target::agent_of_records(&session, &spots);
            (selection, agent)
        }
        None => (select_conversation(&session, agent), agent),
    };
    // A sub-agent may share the log of the main agent.
    let owns_log = agent.map_or(session.main_log().is_some(), |agent| {
        agent.sidechain.is_none()
    });
    if args.all && asked.record.is_none() && owns_log {
        select_all(&session, &mut selection);
    }
    let whole = selection.entries.clone();
    apply_filters(&session, &mut selection, args, context)?;
    if let (Some(record), Some(_)) = (&asked.record, args.context) {
        selection.add_outside_records(&record.find_records(&session)?);
    }
    if args.raw {
        print_raw(&session, &selection, context)?;
    } else {
        let shown = ShowView {
            pricer: Pricer::new(context)?,
            session: &session,
            selection: &selection,
            tail_only: end_only.is_some(),
        };
        match context.json {
            true => json::print_json(&shown, &whole, context)?,
            false => print_selection(&shown, agent, args, context)?,
        }
    }
    Ok(if selection.is_empty() && !session.files.is_unwritten() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// A selection to show, with prices.
struct ShowView<'a> {
    session: &'a Session,
    selection: &'a Selection,
    /// True if only the end of the log was read.
    tail_only: bool,
    pricer: Pricer,
}

impl ShowView<'_> {
    /// Returns the fill of the context window at the last turn of the conversation shown, or of the
    /// one that would be resumed.
    fn context_fill(&self) -> Option<ContextFill> {
        let tree = self.session.tree()?;
        let at = self.selection.conversation.or(tree.resume)?;
        let last = self.session.last_response(tree.conversations.get(at)?)?;
        self.pricer.context_fill(&last)
    }
}

fn select_conversation(session: &Session, agent: Option<&Agent>) -> Selection {
    if let Some(agent) = agent {
        return Selection::new(agent.log, session.agent_entries(agent), None);
    }
    let (entries, conversation) = session.resumed_entries();
    Selection::new(0, entries, conversation)
}

/// Selects every record of a log, in file order.
fn select_all(session: &Session, selection: &mut Selection) {
    let Some((_, scan, tree)) = session.log(selection.log) else {
        return;
    };
    selection.entries = (0..scan.outlines.len()).collect();
    // Records of several conversations do not form one.
    if tree.conversations.len() > 1 {
        selection.conversation = None;
    }
}

/// Keeps only the entries that the arguments ask for.
fn apply_filters(
    session: &Session,
    selection: &mut Selection,
    args: &ShowArgs,
    context: &Context,
) -> Result<()> {
    let Some((_, scan, _)) = session.log(selection.log) else {
        return Ok(());
    };
    if !args.all {
        let named = selection.named_entry;
        let said = |at: &usize| {
            // A named entry is shown whatever its kind.
            Some(*at) == named
                || scan.outlines.get(*at).is_some_and(|outline| {
                    outline.kind.is_message()
                        || outline.kind == annals::model::OutlineKind::Compaction
                })
        };
        selection.entries.retain(said);
    }
    let (since, until) = args.period.resolve(context)?;
    let filter = MessageFilter {
        role: args.role.map(|role| match role {
            RoleArg::User => Role::User,
            RoleArg::Assistant => Role::Assistant,
            RoleArg::System => Role::System,
        }),
        since,
        until,
        text: args.grep.clone(),
        ..MessageFilter::default()
    };
    let filtered =
        filter.role.is_some() || since.is_some() || until.is_some() || filter.text.is_some();
    if filtered || args.kind.is_some() {
        let mut kept = Vec::new();
        // A record may have several entries.
        let index: HashMap<(Span, Option<EntryKey>), usize> = selection
            .entries
            .iter()
            .filter_map(|&at| scan.outlines.get(at).map(|it| ((it.span, it.key), at)))
            .collect();
        session.each_entry_of_log(selection.log, &selection.entries, |entry| {
            let wanted =
                filter.accepts(&entry) && args.kind.is_none_or(|kind| has_kind(&entry, kind));
            let place = (entry.span, entry.id.as_ref().map(EntryId::key));
            if let Some(at) = index.get(&place).filter(|_| wanted) {
                kept.push(*at);
            }
            Ok(true)
        })?;
        selection.entries = kept;
    }
    if let Some(last) = args.last {
        let start = selection.entries.len().saturating_sub(last);
        selection.entries.drain(..start);
    }
    if let (Some(around), Some(at)) = (args.context, selection.marked_position()) {
        selection
            .entries
            .truncate(at.saturating_add(around).saturating_add(1));
        selection
            .entries
            .drain(..at.saturating_sub(around).min(selection.entries.len()));
    }
    selection.page = args.paging.apply(session, selection)?;
    Ok(())
}

fn has_kind(entry: &Entry, kind: KindArg) -> bool {
    let Body::Message(message) = &entry.body else {
        return false;
    };
    message
        .blocks
        .iter()
        .any(|block| is_kind(message, block, kind))
}

fn is_kind(message: &Message, block: &Block, kind: KindArg) -> bool {
    match (kind, block) {
        (KindArg::Text, Block::Text(_)) => true,
        (KindArg::Prompt, Block::Text(_)) => message.human,
        (KindArg::Thinking, Block::Thinking { .. }) => true,
        (KindArg::Tool, Block::ToolUse { .. } | Block::ToolResult { .. }) => true,
        (KindArg::Image, Block::Image { .. }) => true,
        (KindArg::Image, Block::ToolResult { output, .. }) => output
            .iter()
            .any(|block| matches!(block, Block::Image { .. })),
        _ => false,
    }
}

fn print_raw(session: &Session, selection: &Selection, context: &mut Context) -> Result<()> {
    for bytes in session.raw_records(selection.log, &selection.entries)? {
        context.out.raw(&bytes?)?;
        context.out.raw(b"\n")?;
    }
    for spot in &selection.outside_records {
        context.out.raw(&session.read_record(*spot)?.0)?;
        context.out.raw(b"\n")?;
    }
    Ok(())
}

fn print_selection(
    shown: &ShowView<'_>,
    agent: Option<&Agent>,
    args: &ShowArgs,
    context: &mut Context,
) -> Result<()> {
    let ShowView {
        session, selection, ..
    } = shown;
    print_header(shown, args, context)?;
    if let Some(agent) = agent {
        print_agent_header(shown, agent, context)?;
        context.out.blank()?;
    }
    if selection.is_empty() {
        let is_empty = || !shown.tail_only && session.info(None).messages == 0;
        let line = match session.files.is_unwritten() || is_empty() {
            true => "It has no messages yet.",
            false => "No message matches.",
        };
        context.out.line(line)?;
        return print_flaw_counts(session, context);
    }
    let marked = selection.marked_position().is_some();
    if marked {
        context.out.await_mark();
    }
    let named = selection.named_entry.and_then(|at| {
        let outline = session.log(selection.log)?.1.outlines.get(at)?;
        Some((outline.span, outline.id()))
    });
    let entries = match session.log(selection.log).filter(|_| !args.all) {
        Some((_, scan, _)) => results_under_calls(&scan.outlines, &selection.entries),
        None => selection.entries.clone(),
    };
    let spawned = agents_by_entry(session, selection.log);
    let mut before = entry_text::PrecedingEntries::default();
    let mut first = true;
    let mut pages = Vec::new();
    session.each_entry_of_log(selection.log, &entries, |entry| {
        let offset = entry.span.offset;
        let marked = named
            .as_ref()
            .is_some_and(|(span, id)| *span == entry.span && *id == entry.id);
        let page = entry_text::page(
            entry,
            args,
            session,
            context,
            &mut before,
            entry_text::EntryOptions {
                is_first: first,
                is_marked: marked,
            },
        );
        if marked {
            context.out.mark_page_start();
        }
        if page.has_heading && !first {
            pages.push("\n".to_owned());
        }
        first = false;
        pages.push(page.text);
        for agent in spawned.get(&offset).into_iter().flatten() {
            pages.push(agent_line(session, agent));
        }
        // One entry at a time, so that a long session need not be held in memory.
        for page in pages.drain(..) {
            context
                .out
                .text(page)
                .map_err(|error| annals::Error::io("write", "output", error))?;
        }
        Ok(true)
    })?;
    print_outside_records(shown, args, first, context)?;
    if let Some(more) = selection.page.as_ref().and_then(paging::more_line) {
        context.out.blank()?;
        context.out.line(paint(DIM, &more))?;
    }
    print_flaw_counts(session, context)
}

/// Prints the number of errors and warnings in the session, and how to list them.
fn print_flaw_counts(session: &Session, context: &mut Context) -> Result<()> {
    let flaws = session.flaws().map(|(_, flaw)| (flaw.kind, 1)).collect();
    let check = format!(": annals check {}", session.files.id);
    if let Some(line) = flaw_line(flaws, &check) {
        context.out.blank()?;
        context.out.line(line)?;
    }
    Ok(())
}

/// Prints named records outside of the selection: notes, or others of the same id.
fn print_outside_records(
    shown: &ShowView<'_>,
    args: &ShowArgs,
    mut first: bool,
    context: &mut Context,
) -> Result<()> {
    let ShowView {
        session, selection, ..
    } = shown;
    if !first && !selection.outside_records.is_empty() {
        context.out.blank()?;
        let text = "Other records have the same id:";
        context.out.line(paint(DIM, text))?;
    }
    for spot in &selection.outside_records {
        let Some(entry) = session.read_record(*spot)?.1 else {
            continue;
        };
        let manner = entry_text::EntryOptions {
            is_first: true,
            is_marked: true,
        };
        let page = entry_text::page(
            entry,
            args,
            session,
            context,
            &mut entry_text::PrecedingEntries::default(),
            manner,
        );
        context.out.mark_page_start();
        if !first {
            context.out.blank()?;
        }
        first = false;
        context.out.text(page.text)?;
    }
    Ok(())
}

/// Prints the kind, description and cost of a sub-agent.
fn print_agent_header(shown: &ShowView<'_>, agent: &Agent, context: &mut Context) -> Result<()> {
    let what: Vec<&str> = [agent.kind.as_deref(), agent.description.as_deref()]
        .into_iter()
        .flatten()
        .filter(|text| !text.trim().is_empty())
        .collect();
    let name = agent_name(shown.session, agent);
    let price = |charge: &Charge| shown.pricer.price(charge);
    let cost = shown.session.agent_cost(agent, &price);
    let cost = pricing::text(&cost);
    let facts = cost
        .into_iter()
        .chain(agent.archived.then(|| "archived".to_owned()));
    let facts: Vec<String> = facts.collect();
    let mut line = format!("{} {}", paint(DIM, "sub-agent"), paint(ID, &name));
    if !what.is_empty() {
        line.push_str(&format!("  {}", paint(TITLE, &what.join(": "))));
    }
    if !facts.is_empty() {
        let facts = format!("· {}", facts.join(" · "));
        line.push_str(&format!(" {}", paint(DIM, &facts)));
    }
    context.out.line(line)?;
    Ok(())
}

fn print_header(shown: &ShowView<'_>, args: &ShowArgs, context: &mut Context) -> Result<()> {
    let ShowView {
        session, selection, ..
    } = shown;
    let id = session.files.id.as_str();
    let filled = shown
        .context_fill()
        .map(|fill| pricing::format_context_fill(&fill));
    if shown.tail_only {
        let facts: Vec<String> = ["end of the log".to_owned()]
            .into_iter()
            .chain(filled)
            .collect();
        context.out.line(format_args!(
            "{}  {}",
            paint(ID, id),
            paint(DIM, &facts.join(" · "))
        ))?;
        return Ok(context.out.blank()?);
    }
    let title = session
        .title()
        .map(|title| title.text)
        .unwrap_or_else(|| "(no title)".to_owned());
    let title = crate::commands::fit::fit_title(&title, width(id) + 2, context);
    context
        .out
        .line(format_args!("{}  {}", paint(ID, id), paint(TITLE, &title)))?;
    let info = session.info(None);
    let mut facts = vec![info.project.path.clone()];
    facts.extend(info.started.map(|time| context.clock.full(time)));
    facts.push(size::pluralize(info.messages, "message"));
    let facts = crate::commands::fit::fit_line(&facts.join(" · "), context);
    context.out.line(paint(DIM, &facts))?;
    let mut facts = Vec::new();
    if !info.usage.is_zero() {
        facts.push(format!("{} tokens", size::compact(info.usage.total())));
    }
    facts.extend(pricing::text(&shown.pricer.tally(&info.charges)));
    facts.extend(filled);
    facts.extend(info.models.iter().cloned());
    if !facts.is_empty() {
        let facts = crate::commands::fit::fit_line(&facts.join(" · "), context);
        context.out.line(paint(DIM, &facts))?;
    }
    let conversations = session.conversations();
    if args.all && selection.conversation.is_none() && conversations.len() > 1 {
        let count = size::pluralize(conversations.len() as u64, "conversation");
        let text = format!("{count}: annals conversations {}", short_id(id));
        context.out.line(paint(DIM, &text))?;
    } else if let Some(conversation) = selection.conversation.and_then(|at| conversations.get(at))
        && conversations.len() > 1
    {
        let text = format!(
            "conversation {} of {}{}: annals conversations {}",
            selection.conversation.map_or(0, |at| at + 1),
            conversations.len(),
            branch_label(conversation),
            short_id(id),
        );
        context.out.line(paint(DIM, &text))?;
    }
    Ok(context.out.blank()?)
}

fn branch_label(conversation: &ConversationInfo) -> String {
    let branch = conversation.branch.as_deref();
    branch
        .map(|prompt| format!(" (“{prompt}”)"))
        .unwrap_or_default()
}

/// Returns the sub-agents that each entry of a log spawned, by the entry's offset.
fn agents_by_entry(session: &Session, log: usize) -> HashMap<u64, Vec<&Agent>> {
    let mut found: HashMap<u64, Vec<&Agent>> = HashMap::new();
    for agent in &session.agents {
        let Some(call) = agent.call.filter(|call| call.log == log) else {
            continue;
        };
        let outline = session
            .logs
            .get(log)
            .and_then(|scan| scan.outlines.get(call.entry));
        if let Some(outline) = outline {
            found.entry(outline.span.offset).or_default().push(agent);
        }
    }
    found
}

fn agent_line(session: &Session, agent: &Agent) -> String {
    let name = agent_name(session, agent);
    let text = format!(
        "  ↳ sub-agent {}, {}: annals show {} --agent {name}\n",
        agent
            .kind
            .as_deref()
            .filter(|text| !text.trim().is_empty())
            .or(agent.description.as_deref())
            .filter(|text| !text.trim().is_empty())
            .unwrap_or("of this call"),
        match (
            size::pluralize(agent.messages as u64, "message"),
            agent.archived
        ) {
            (messages, true) => format!("{messages}, archived"),
            (messages, false) => messages,
        },
        short_id(session.files.id.as_str()),
    );
    format!("{}\n", paint(DIM, text.trim_end()))
}

/// Returns the name of a sub-agent for the command line.
pub(crate) fn agent_name(session: &Session, agent: &Agent) -> String {
    match &agent.id {
        Some(id) => id.to_string(),
        None => {
            let at = session
                .agents
                .iter()
                .position(|other| other == agent)
                .unwrap_or(0);
            format!("'#{}'", at + 1)
        }
    }
}
