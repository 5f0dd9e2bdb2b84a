//! `annals append`

mod follow;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::path::Path;

use annals::jsonl::Durability;
use annals::layout::{Layout, Spawn};
use annals::model::{AgentId, Block, Body, Draft, Entry, EntryId, EntryKey, Message, Role};
use annals::store::{MissingLog, RootFile, Session, SessionFiles, SessionWriter, WriteOptions};
use annals::text::shell_word;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::context::Context;
use annals::draft_json;
use annals_render::command::quoted_command;
use annals_render::size::pluralize;
use annals_render::style::{DIM, ID, paint};

/// Adds messages to a session.
#[derive(Debug, Args)]
#[command(after_help = "\
Without -m, messages come from standard input, one JSON object a line, as in the \
Messages API:
  {\"role\": \"user\", \"content\": \"Run it.\"}
  {\"role\": \"assistant\", \"model\": \"…\", \"content\": [
   {\"type\": \"thinking\", \"thinking\": \"…\"}, {\"type\": \"tool_use\",
   \"id\": \"toolu_1\", \"name\": \"Bash\", \"input\": {\"command\": \"make\"}}]}
  {\"role\": \"user\", \"content\": [{\"type\": \"tool_result\",
   \"tool_use_id\": \"toolu_1\", \"content\": \"ok\"}]}
  {\"role\": \"system\", \"content\": \"Session started\"}
  {\"role\": \"error\", \"content\": \"The connection was lost\"}
(each on one line). Tool calls and their results are blocks, even if the \
layout stores them on separate lines. \
A message may also have id, parent and timestamp; a reply also usage, stop_reason, \
message_id and request_id. Counts in usage may be spelled as in the Messages API, \
without `input_`, or in camelCase. Other members belong to the layout: `channel` \
for clog, `sessionId` for Chorus, `metadata` for the orchestrator. A member that \
the layout lacks is refused, and so is an id that exists already, which makes a \
retry safe. A timestamp has a zone (2025-11-16T10:00:00.123456+00:00) and is \
stored with all its digits, in UTC. \
All lines are checked first; then all are written, or none. Each block \
becomes an entry.

With --raw, lines are records of the session's layout and are written byte for \
byte: each must be of a type that the layout knows, name this session or none, \
have a new id, and continue from the end of the session.

With --follow, lines are written as they arrive. Each is answered with one line \
of JSON, after it is safe on the disk:
  {\"line\":1,\"ok\":true,\"session\":\"8c…\",\"entries\":[{\"id\":\"…\",…}]}
  {\"line\":2,\"ok\":false,\"error\":\"…\"}
A line that is refused writes nothing, and the next one is read. A line may name \
another \"session\" and a sub-agent (\"agent\": \"a753668\", created if it does not \
exist). \"new\": {\"id\", \"cwd\", \"title\", \"agent\", …} creates a session, or uses \
the existing one with that id; the line is refused if the two differ. \
\"raw\": {…} replaces the message and is a record as with --raw. The exit code is 2 \
if a line was refused, or its session could not be read or written.

Examples:
  annals append 8c549c46 -m 'And on Windows?'
  annals append latest -m 'the session of this directory that was used last'
  annals append 8c549c46 --role assistant --model claude-sonnet-4-5 -m 'Yes.'
  annals append 8c549c46 --at 1405c20a -m 'Asked differently'   makes a branch
  annals append 8c549c46 --agent a753668 --kind Explore -m 'Look for callers'
  annals append 8c549c46 < messages.jsonl
  annals append ~/src/my-app/2026-11-16 -m 'Go on.'     a day of an orchestrator
  annals append --follow < lines-of-many-sessions")]
pub(crate) struct AppendArgs {
    /// The session; SESSION@MESSAGE means --at MESSAGE
    session: Option<String>,
    /// The text of one message; `-` takes all of standard input as text
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// Role of the message
    #[arg(long, value_enum, default_value = "user", requires = "message")]
    role: RoleArg,
    /// The model that answered
    #[arg(long, value_name = "MODEL", requires = "message")]
    model: Option<String>,
    /// Thinking of the model before its answer
    #[arg(
        long,
        value_name = "TEXT",
        requires = "message",
        allow_hyphen_values = true
    )]
    thinking: Option<String>,
    /// Parent of the first message; makes a branch
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,
    /// Write to the log of the sub-agent with this exact id; creates it if it does not exist
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The kind of a new sub-agent, such as Explore
    #[arg(long, value_name = "KIND", requires = "agent")]
    kind: Option<String>,
    /// The purpose of a new sub-agent
    #[arg(long, value_name = "TEXT", requires = "agent")]
    description: Option<String>,
    /// The tool call that a new sub-agent works for
    #[arg(long, value_name = "ID", requires = "agent")]
    call: Option<String>,
    /// Write lines of standard input unchanged, as records of the layout
    #[arg(long, conflicts_with_all = ["message", "role", "model", "thinking", "at"])]
    raw: bool,
    /// Write each line of standard input as it arrives, and acknowledge it
    #[arg(long, conflicts_with_all = ["message", "role", "model", "thinking", "at", "kind", "description", "call"])]
    follow: bool,
    /// When a message counts as written: handed to the system, or safe on the disk
    #[arg(long, value_enum, default_value = "disk")]
    durability: DurabilityArg,
    /// Write even if another program is writing to the session right now
    #[arg(long)]
    live: bool,
}

/// Role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    User,
    Assistant,
    System,
    Error,
}

/// When a message counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    Os,
    Disk,
}

#[derive(Serialize)]
struct AppendJson<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    /// True if this append created the session or the sub-agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    began: bool,
    file: &'a Path,
    entries: Vec<WrittenEntryJson<'a>>,
}

/// A written entry as JSON.
#[derive(Serialize)]
pub(crate) struct WrittenEntryJson<'a> {
    id: Option<&'a str>,
    parent: Option<&'a str>,
    role: Option<&'a str>,
}

impl<'a> WrittenEntryJson<'a> {
    pub(crate) fn new(entry: &'a Entry) -> Self {
        WrittenEntryJson {
            id: entry.id.as_ref().map(EntryId::as_str),
            parent: entry.parent.as_ref().map(EntryId::as_str),
            role: match &entry.body {
                Body::Message(message) => Some(message.role.as_str()),
                Body::System { subtype, .. } if subtype == draft_json::ERROR_ROLE => {
                    Some(draft_json::ERROR_ROLE)
                }
                _ => None,
            },
        }
    }
}

pub(crate) fn run(args: &AppendArgs, context: &mut Context) -> Result<Outcome> {
    if args.follow {
        return follow::run(args, context);
    }
    // The terminal is free for a choice only if the message is an argument.
    let is_bare = args.session.is_none() && args.message.is_none();
    if is_bare && choose::can_ask(context) {
        bail!("no session given; name one, and give its message with -m or on standard input");
    }
    let named = choose::session(args.session.as_deref(), context)?;
    let named = named.as_str();
    let Some(log) = missing_log(named, context)? else {
        return append(args, named, None, false, context);
    };
    // The input is read first, and the new log discarded on failure: bad input creates no session.
    let content = read_content(args)?;
    let begun = log.create(&context.store, context.write_options())?;
    let done = append(args, named, Some(content), begun.is_new(), context);
    match done {
        Err(_) => begun.discard()?,
        Ok(_) => {
            let directory = Path::new(&log.new.cwd);
            let warning = input::missing_directory(&log.root, directory);
            warning.iter().for_each(|it| context.print_warning(it));
        }
    }
    done
}

/// Appends to a session, which was created just now if `is_new`.
fn append(
    args: &AppendArgs,
    named: &str,
    content: Option<Content>,
    is_new: bool,
    context: &mut Context,
) -> Result<Outcome> {
    let inventory = context.inventory_of_log_or_all(named, args.agent.as_deref());
    let mut target = context.find_to_write_in(&inventory, named)?;
    let mut agent = args.agent.clone();
    if let Some(log) = target.agent_log().cloned() {
        if agent.is_some() {
            bail!("sub-agent given twice: by its log and with --agent");
        }
        agent = log.artifact.agent.as_ref().map(ToString::to_string);
        // Only this log, even if two sub-agents have the same id.
        target.files.agents = vec![log];
    }
    let at = match (&args.at, &target.message) {
        (Some(_), Some(_)) => {
            bail!("parent given twice: `@MESSAGE` and --at")
        }
        (given, named) => given.as_ref().or(named.as_ref()),
    };
    if args.raw && at.is_some() {
        bail!("a raw record has its own parent; leave out `@MESSAGE`");
    }
    let content = match content {
        Some(content) => content,
        None => read_content(args)?,
    };
    let content = match content {
        Content::Drafts(mut drafts, lines) => {
            check_members(&target.files, &drafts, &lines)?;
            let at = at.map(String::as_str);
            place(&target.files, agent.as_deref(), at, &mut drafts, &lines)?;
            Content::Drafts(drafts, lines)
        }
        raw => raw,
    };
    let (writer, began) = open_log(args, agent.as_deref(), &target.files, context)?;
    let written = match content {
        Content::Drafts(drafts, lines) => {
            writer.check_tools(&drafts)?;
            let written = writer.append_all(drafts);
            written.map_err(|error| with_line(error, &lines))?
        }
        Content::Raw(records) => writer.append_raw(records)?,
    };
    print_written(&writer, is_new, began, &written, context)?;
    Ok(Outcome::Written)
}

/// Adds the line of standard input to the error about a draft.
fn with_line(error: annals::Error, lines: &[usize]) -> annals::Error {
    match error {
        annals::Error::RefusedDraft { index, why } => match lines.get(index) {
            Some(line) => annals::Error::Refused(format!(
                "standard input, line {line}: {why}; nothing was written"
            )),
            None => annals::Error::Refused(why),
        },
        error => error,
    }
}

/// The input of an append: drafts or raw records.
enum Content {
    /// Drafts, and the line number of each on standard input.
    Drafts(Vec<Draft>, Vec<usize>),
    /// Records of the layout.
    Raw(Vec<Vec<u8>>),
}

fn read_content(args: &AppendArgs) -> Result<Content> {
    match &args.message {
        Some(text) => Ok(Content::Drafts(
            vec![draft_from_args(args, text)?],
            Vec::new(),
        )),
        None if args.raw => Ok(Content::Raw(raw_lines()?)),
        None => read_stdin(),
    }
}

/// Returns the log that a directory and a date name, if it does not exist and the date is today.
/// For another date, the error contains the command that creates the log.
fn missing_log(named: &str, context: &Context) -> Result<Option<MissingLog>> {
    let missing = MissingLog::find(&context.store, named, context.write_options())?;
    let log = match missing {
        Some(log) if !log.today => log,
        missing => return Ok(missing),
    };
    let place = format!("{}:{}", log.root.layout.name(), log.root.path.display());
    let words = [("--root", place.as_str()), ("--cwd", &log.new.cwd)];
    let words = words.map(|(option, word)| format!(" {option} {}", shell_word(word)));
    let command = format!("annals new{} --id", words.concat());
    bail!(
        "there is no log `{named}`; `append` creates only today's log. To create this one: {}",
        quoted_command(&command, log.new.id.as_str(), "")
    )
}

/// Opens the log to append to, and creates the sub-agent if needed. The flag is true if it was
/// created.
fn open_log(
    args: &AppendArgs,
    agent: Option<&str>,
    files: &SessionFiles,
    context: &Context,
) -> Result<(SessionWriter, bool)> {
    let options = write_options(args, context);
    let Some(agent) = agent else {
        return Ok((context.store.open_writer(files, options)?, false));
    };
    match SessionWriter::open_agent(&context.store, files, agent, options) {
        Err(annals::Error::NotFound { .. }) => {}
        opened => {
            let given = [&args.kind, &args.description, &args.call];
            if given.into_iter().any(Option::is_some) {
                bail!(
                    "sub-agent {agent} exists already; --kind, --description and --call apply only to a new one"
                );
            }
            return Ok((opened?, false));
        }
    }
    let name = draft_json::AgentSpec {
        id: agent.to_owned(),
        kind: args.kind.clone(),
        description: args.description.clone(),
        call: args.call.clone(),
    };
    open_or_spawn_agent(&name, files, options, context)
}

/// Opens a sub-agent by its exact id, or creates it.
fn open_or_spawn_agent(
    name: &draft_json::AgentSpec,
    files: &SessionFiles,
    options: WriteOptions,
    context: &Context,
) -> Result<(SessionWriter, bool)> {
    let spawn = spawn_from_spec(name)?;
    Ok(SessionWriter::open_or_spawn_agent(
        &context.store,
        files,
        &spawn,
        options,
    )?)
}

fn spawn_from_spec(name: &draft_json::AgentSpec) -> Result<Spawn> {
    let mut spawn = Spawn::new(
        AgentId::new(&name.id)?,
        name.kind.clone().unwrap_or_default(),
        name.description.clone().unwrap_or_default(),
    );
    spawn.call.clone_from(&name.call);
    Ok(spawn)
}

fn write_options(args: &AppendArgs, context: &Context) -> WriteOptions {
    WriteOptions {
        durability: match args.durability {
            DurabilityArg::Os => Durability::Os,
            DurabilityArg::Disk => Durability::Disk,
        },
        live: args.live,
        ..context.write_options()
    }
}

fn print_written(
    writer: &SessionWriter,
    is_new: bool,
    began: bool,
    written: &[Entry],
    context: &mut Context,
) -> Result<()> {
    let session = writer.session();
    let agent = writer.agent();
    if context.json {
        let entries = written.iter().map(WrittenEntryJson::new).collect();
        context.out.json(&AppendJson {
            session: session.as_str(),
            agent: agent.as_ref().map(AgentId::as_str),
            began: began || is_new,
            file: &writer.path(),
            entries,
        })?;
        return Ok(());
    }
    if is_new {
        context.out.line(format_args!(
            "created session {}",
            paint(ID, session.as_str())
        ))?;
    }
    if let Some(agent) = agent.filter(|_| began) {
        context.out.line(format_args!(
            "created sub-agent {}",
            paint(ID, agent.as_str())
        ))?;
    }
    let count = pluralize(written.len() as u64, "entry");
    context.out.line(format_args!(
        "{count} added to {}",
        paint(ID, session.as_str())
    ))?;
    for entry in written {
        let row = WrittenEntryJson::new(entry);
        let role = row.role.unwrap_or_default();
        context.out.line(format_args!(
            "  {}  {}",
            paint(ID, row.id.unwrap_or_default()),
            paint(DIM, role)
        ))?;
    }
    Ok(())
}

fn draft_from_args(args: &AppendArgs, text: &str) -> Result<Draft> {
    let text = if text == "-" {
        input::text(text, "message")?
    } else {
        input::non_empty(text, "message")?.to_owned()
    };
    if args.role != RoleArg::Assistant && (args.model.is_some() || args.thinking.is_some()) {
        bail!("--model and --thinking need --role assistant");
    }
    match args.role {
        RoleArg::User => return Ok(Draft::user(text)),
        RoleArg::System => {
            let message = Message::new(Role::System, vec![Block::Text(text)]);
            return Ok(Draft::new(Body::Message(message)));
        }
        RoleArg::Error => return Ok(draft_json::error_draft(text)),
        RoleArg::Assistant => {}
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

fn read_stdin() -> Result<Content> {
    if std::io::stdin().is_terminal() {
        bail!(
            "nothing to append: give a message with -m TEXT, or messages as JSON lines on standard input (see --help)"
        );
    }
    let drafts = draft_json::parse_lines(&input::read_stdin("messages")?)
        .map_err(|error| anyhow!("standard input, {error}; nothing was written"))?;
    let (lines, drafts): (Vec<usize>, Vec<Draft>) = drafts.into_iter().unzip();
    if drafts.is_empty() {
        bail!(
            "nothing to append: standard input is empty; give a message with -m TEXT, or JSON lines (see --help)"
        );
    }
    Ok(Content::Drafts(drafts, lines))
}

/// Returns the lines of standard input unchanged, without blank ones.
fn raw_lines() -> Result<Vec<Vec<u8>>> {
    let text = input::read_stdin("records")?;
    let lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let lines: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
    if lines.is_empty() {
        bail!("nothing to append: no records on standard input");
    }
    Ok(lines)
}

/// Refuses members that the session's layout does not support; the error has the line number.
fn check_members(files: &SessionFiles, drafts: &[Draft], lines: &[usize]) -> Result<()> {
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(why) = unknown_member(files.root.layout, draft) {
            let line = lines.get(at).copied().unwrap_or(1);
            bail!("standard input, line {line}: {why}; nothing was written");
        }
    }
    Ok(())
}

/// Returns an error text if a draft has a member that the layout does not support.
fn unknown_member(layout: &dyn Layout, draft: &Draft) -> Option<String> {
    let known = layout
        .writer()
        .map_or(&[][..], |writer| writer.draft_members());
    let mut members = draft.members.iter();
    let (name, json) = members.find(|(name, _)| !known.contains(&name.as_str()))?;
    let more = known.iter().filter(|name| **name != "usage");
    let more: String = more.map(|name| format!(", {name}")).collect();
    let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
    let layout = layout.name();
    Some(match name.as_str() {
        // The common counts were parsed already; these are the members that need a layout.
        "usage" => {
            let terms: serde_json::Map<_, _> = serde_json::from_str(json).unwrap_or_default();
            let names = terms.keys().map(|name| format!("`usage.{name}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            format!("{names} is not supported in messages of layout {layout}; leave it out")
        }
        _ => format!(
            "`{name}` is not supported in messages of layout {layout}; supported: {}{more}",
            draft_json::KNOWN_MEMBERS
        ),
    })
}

/// Resolves the parents of drafts, and refuses ids that exist.
///
/// Reads the log only if a draft names an entry, and mostly only its end: otherwise an append costs
/// only its record.
fn place(
    files: &SessionFiles,
    agent: Option<&str>,
    at: Option<&str>,
    drafts: &mut [Draft],
    lines: &[usize],
) -> Result<()> {
    if let (Some(at), Some(first)) = (at, drafts.first_mut()) {
        if first.parent.is_some() {
            bail!("parent given twice: in the first message and with --at");
        }
        first.parent = Some(EntryId::new(at));
    }
    let is_log = |file: &RootFile| match (agent, &file.artifact.agent) {
        (None, None) => true,
        (Some(wanted), Some(agent)) => agent.as_str() == wanted,
        _ => false,
    };
    // A missing sub-agent is handled when its log is opened.
    let Some((log, file)) = files.logs().enumerate().find(|(_, file)| is_log(file)) else {
        return Ok(());
    };
    let named = |draft: &Draft| draft.parent.is_some() || draft.id.is_some();
    if !drafts.iter().any(named) {
        return Ok(());
    }
    let entries = Entries::new(files, log, file, drafts)?;
    let mut known: HashSet<EntryId> = HashSet::new();
    for (at, draft) in drafts.iter_mut().enumerate() {
        let place = || match lines.get(at) {
            Some(line) => format!("nothing was written: standard input, line {line}"),
            None => "nothing was written".to_owned(),
        };
        if let Some(parent) = draft.parent.take() {
            draft.parent = Some(match known.contains(&parent) {
                true => parent,
                false => entries.find(&parent).with_context(place)?,
            });
        }
        if let Some(id) = &draft.id
            && (!known.insert(id.clone()) || entries.has(id)?)
        {
            bail!("{}: an entry with id {id} exists already", place());
        }
    }
    Ok(())
}

/// The entries of a log. Its end is read first, and all of it only for what is not there.
struct Entries<'a> {
    files: &'a SessionFiles,
    /// The log, and its index in the session.
    file: &'a RootFile,
    log: usize,
    /// The session with only the end of the log.
    tail: Session,
    whole: OnceCell<(Session, HashSet<EntryKey>)>,
    /// True if it costs less to read the log once than to search its bytes for each id.
    has_many_ids: bool,
}

impl<'a> Entries<'a> {
    fn new(
        files: &'a SessionFiles,
        log: usize,
        file: &'a RootFile,
        drafts: &[Draft],
    ) -> Result<Self> {
        const MAX_SEARCHES: usize = 8;
        let mut only = files.clone();
        only.log = Some(file.clone());
        only.agents.clear();
        Ok(Entries {
            files,
            file,
            log,
            tail: Session::read_tail(only, 0)?,
            whole: OnceCell::new(),
            has_many_ids: drafts.iter().filter(|it| it.id.is_some()).count() > MAX_SEARCHES,
        })
    }

    fn whole(&self) -> Result<&(Session, HashSet<EntryKey>)> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let session = Session::read(self.files.clone())?;
        let outlines = session.log(self.log).map(|(_, scan, _)| &scan.outlines);
        let outlines = outlines.into_iter().flatten();
        let keys = outlines.filter_map(|outline| outline.key).collect();
        Ok(self.whole.get_or_init(|| (session, keys)))
    }

    /// Returns the id of the entry that a parent names: by its id, or by a unique prefix.
    fn find(&self, parent: &EntryId) -> Result<EntryId> {
        let recent = self.tail.main_log().and_then(|(_, scan, tree)| {
            let at = self.index_near_end(parent)?;
            tree.path_to(at)?;
            scan.outlines.get(at)?.id()
        });
        match recent {
            Some(id) => Ok(id),
            None => Ok(input::entry(&self.whole()?.0, self.log, parent.as_str())?.1),
        }
    }

    fn has(&self, id: &EntryId) -> Result<bool> {
        let may_have = || self.file.may_have_entry(&self.files.root, id.as_str());
        Ok(self.index_near_end(id).is_some()
            || (self.has_many_ids || may_have()?) && self.whole()?.1.contains(&id.key()))
    }

    /// Returns the index of an entry at the end of the log.
    fn index_near_end(&self, id: &EntryId) -> Option<usize> {
        let (_, scan, _) = self.tail.main_log()?;
        let key = Some(id.key());
        scan.outlines.iter().rposition(|outline| outline.key == key)
    }
}
