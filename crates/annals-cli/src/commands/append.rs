//! `annals append`

use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::path::Path;

use annals::jsonl::Durability;
use annals::model::{Block, Body, Draft, Entry, EntryId, Message, Role};
use annals::store::{Session, SessionFiles, WriteOptions};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Outcome, draft, input};
use crate::context::Context;
use crate::render::size::plural;
use crate::render::style::{DIM, ID, paint};

/// Adds messages to a session.
#[derive(Debug, Args)]
#[command(after_help = "\
Without -m, messages come from standard input, one JSON object a line, as in the Messages API:
  {\"role\": \"user\", \"content\": \"Run it.\"}
  {\"role\": \"assistant\", \"model\": \"…\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"…\"},
   {\"type\": \"tool_use\", \"id\": \"toolu_1\", \"name\": \"Bash\", \"input\": {\"command\": \"make\"}}]}
  {\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"toolu_1\", \"content\": \"ok\"}]}
  {\"role\": \"system\", \"content\": \"Session started\"}
  {\"role\": \"error\", \"content\": \"The connection was lost\"}
Calls of tools and their results are blocks, also where the layout keeps them on lines of their own.
What a layout has no words for it refuses.
A message may also say usage, stop_reason, message_id, request_id, timestamp, id and parent.
All lines are checked first and written in one go, or nothing is. Each block becomes an entry.

Examples:
  annals append 8c549c46 -m 'And on Windows?'
  annals append 8c549c46 --role assistant --model claude-sonnet-4-5 -m 'There too.'
  annals append 8c549c46 --at 1405c20a -m 'Asked differently'      makes a branch
  annals append 8c549c46 < messages.jsonl")]
pub(crate) struct AppendArgs {
    /// The session; SESSION@MESSAGE means --at MESSAGE
    session: String,
    /// The text of one message; `-` takes all of standard input as text
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// Who says it
    #[arg(long, value_enum, default_value = "user", requires = "message")]
    role: Speaker,
    /// The model that answered
    #[arg(long, value_name = "MODEL", requires = "message")]
    model: Option<String>,
    /// What the model thought before it answered
    #[arg(
        long,
        value_name = "TEXT",
        requires = "message",
        allow_hyphen_values = true
    )]
    thinking: Option<String>,
    /// Hang the first message from this one, which makes a branch
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,
    /// Write to the log of this sub-agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// When a message counts as written: handed to the system, or safe on the disk
    #[arg(long, value_enum, default_value = "disk")]
    durability: Safety,
    /// Write even if another program is writing to the session right now
    #[arg(long)]
    live: bool,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Speaker {
    User,
    Assistant,
    System,
    Error,
}

/// When a message counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Safety {
    Os,
    Disk,
}

#[derive(Serialize)]
struct Document<'a> {
    session: &'a str,
    file: &'a Path,
    entries: Vec<EntryRow<'a>>,
}

/// A written entry as JSON.
#[derive(Serialize)]
pub(crate) struct EntryRow<'a> {
    id: Option<&'a str>,
    parent: Option<&'a str>,
    role: Option<&'a str>,
}

impl<'a> EntryRow<'a> {
    pub(crate) fn of(entry: &'a Entry) -> Self {
        EntryRow {
            id: entry.id.as_ref().map(EntryId::as_str),
            parent: entry.parent.as_ref().map(EntryId::as_str),
            role: match &entry.body {
                Body::Message(message) => Some(message.role.as_str()),
                Body::System { subtype, .. } if subtype == draft::ERROR => Some(draft::ERROR),
                _ => None,
            },
        }
    }
}

pub(crate) fn run(args: &AppendArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = match args.agent {
        None => context.inventory_at(&args.session),
        Some(_) => context.inventory(),
    };
    let mut target = context.store.find(&inventory, &args.session)?;
    let mut agent = args.agent.clone();
    if let Some(log) = target.agent_log().cloned() {
        if agent.is_some() {
            bail!("the sub-agent is given twice, by its log and with --agent");
        }
        agent = log.artifact.agent.as_ref().map(ToString::to_string);
        // That log and no other, even if two sub-agents have one id.
        target.files.agents = vec![log];
    }
    let at = match (&args.at, &target.message) {
        (Some(_), Some(_)) => {
            bail!("the message to hang from is given twice, after `@` and with --at")
        }
        (given, named) => given.as_ref().or(named.as_ref()),
    };
    let (mut drafts, lines) = match &args.message {
        Some(text) => (vec![one(args, text)?], Vec::new()),
        None => from_stdin()?,
    };
    place(
        &target.files,
        agent.as_deref(),
        at.map(String::as_str),
        &mut drafts,
        &lines,
    )?;
    let options = WriteOptions {
        durability: match args.durability {
            Safety::Os => Durability::Os,
            Safety::Disk => Durability::Disk,
        },
        live: args.live,
        ..context.writing()
    };
    let writer = match &agent {
        Some(agent) => context.store.write_agent(&target.files, agent, options)?,
        None => context.store.write(&target.files, options)?,
    };
    let written = writer.append_all(drafts)?;
    let session = writer.session();
    if context.json {
        let entries = written.iter().map(EntryRow::of).collect();
        context.out.json(&Document {
            session: session.as_str(),
            file: &writer.path(),
            entries,
        })?;
        return Ok(Outcome::Fine);
    }
    let count = plural(written.len() as u64, "entry");
    context.out.line(format_args!(
        "{count} added to {}",
        paint(ID, session.as_str())
    ))?;
    for entry in &written {
        let row = EntryRow::of(entry);
        let role = row.role.unwrap_or_default();
        context.out.line(format_args!(
            "  {}  {}",
            paint(ID, row.id.unwrap_or_default()),
            paint(DIM, role)
        ))?;
    }
    Ok(Outcome::Fine)
}

fn one(args: &AppendArgs, text: &str) -> Result<Draft> {
    let text = if text == "-" {
        input::text(text, "message")?
    } else {
        input::filled(text, "message")?.to_owned()
    };
    if args.role != Speaker::Assistant && (args.model.is_some() || args.thinking.is_some()) {
        bail!("only the assistant has a model and thinks; add --role assistant");
    }
    match args.role {
        Speaker::User => return Ok(Draft::user(text)),
        Speaker::System => {
            let message = Message::new(Role::System, vec![Block::Text(text)]);
            return Ok(Draft::new(Body::Message(message)));
        }
        Speaker::Error => return Ok(draft::error(text)),
        Speaker::Assistant => {}
    }
    let thinking = args.thinking.iter().map(|text| Block::Thinking {
        text: text.clone(),
        signature: None,
    });
    let blocks: Vec<Block> = thinking.chain([Block::Text(text)]).collect();
    let mut draft = Draft::assistant(blocks);
    if let Some(model) = &args.model {
        draft = draft.model(model);
    }
    Ok(draft)
}

/// Drafts, and the line that each stands on.
fn from_stdin() -> Result<(Vec<Draft>, Vec<usize>)> {
    if std::io::stdin().is_terminal() {
        bail!(
            "nothing to append: give a message with -m TEXT, or messages as JSON lines on standard input (see --help)"
        );
    }
    let drafts = draft::parse(&input::stdin("messages")?)?;
    let (lines, drafts): (Vec<usize>, Vec<Draft>) = drafts.into_iter().unzip();
    if drafts.is_empty() {
        bail!(
            "nothing to append: standard input is empty; give a message with -m TEXT, or JSON lines (see --help)"
        );
    }
    Ok((drafts, lines))
}

/// Finds the entries that drafts hang from, and refuses ids that are taken.
///
/// The log is read only if something names an entry: else an append costs what the record costs.
fn place(
    files: &SessionFiles,
    agent: Option<&str>,
    at: Option<&str>,
    drafts: &mut [Draft],
    lines: &[usize],
) -> Result<()> {
    if let (Some(at), Some(first)) = (at, drafts.first_mut()) {
        if first.parent.is_some() {
            bail!("the first message names its own parent, so --at makes no sense");
        }
        first.parent = Some(EntryId::new(at));
    }
    if drafts
        .iter()
        .all(|draft| draft.parent.is_none() && draft.id.is_none())
    {
        return Ok(());
    }
    let session = Session::read(files.clone())?;
    let log = session
        .files
        .logs()
        .position(|file| match (agent, &file.artifact.agent) {
            (None, None) => true,
            (Some(wanted), Some(agent)) => agent.as_str().starts_with(wanted),
            _ => false,
        });
    // A sub-agent that is not there is told when its log is opened.
    let Some(log) = log else { return Ok(()) };
    let mut known: HashSet<EntryId> = HashSet::new();
    for (at, draft) in drafts.iter_mut().enumerate() {
        let place = || match lines.get(at) {
            Some(line) => format!("nothing was written: standard input, line {line}"),
            None => "nothing was written".to_owned(),
        };
        if let Some(parent) = draft.parent.take() {
            draft.parent = Some(match known.contains(&parent) {
                true => parent,
                false => {
                    let found = input::entry(&session, log, parent.as_str());
                    found.with_context(place)?.1
                }
            });
        }
        if let Some(id) = &draft.id
            && (!known.insert(id.clone()) || has(&session, log, id))
        {
            bail!("{}: there is an entry with the id {id} already", place());
        }
    }
    Ok(())
}

fn has(session: &Session, log: usize, id: &EntryId) -> bool {
    let Some((_, scan, _)) = session.log(log) else {
        return false;
    };
    scan.outlines
        .iter()
        .any(|outline| outline.key == Some(id.key()))
}
