//! The verbs, one file each: `XArgs` and `run`.

mod agents;
mod append;
mod archive;
mod check;
mod clean;
mod compact;
mod completions;
mod conversations;
mod convert;
mod cost;
mod delete;
mod demo;
mod documents;
mod entry_json;
mod export;
mod files;
pub(crate) mod filter;
mod fork;
mod history;
mod import;
mod index;
mod input;
mod keep;
mod message_input;
mod new;
mod note;
mod notes;
mod output_file;
mod overview;
mod page;
mod pin;
mod plans;
mod prices;
mod pricing;
mod projects;
mod repair;
mod restore;
mod search;
mod session_json;
mod sessions;
mod set;
mod settings;
mod show;
mod statusline;
mod tag;
mod title;
mod todo;
mod todos;
mod tree;
mod watch;
mod workspaces;

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;

pub(crate) use cost::ModeArg;

/// How a command ended; failures are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it should.
    Ok,
    /// It wrote what it was given. The exit code is 0 even if an unrelated file could not be read: a
    /// caller that tries again would write it twice.
    Written,
    /// It found nothing, or found damage.
    NotFound,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the directories that sessions ran in
    Projects(projects::ProjectsArgs),
    /// List sessions, the most recent first
    Sessions(sessions::SessionsArgs),
    /// List conversations: every branch of every session
    Conversations(conversations::ConversationsArgs),
    /// Read a session, a conversation or a sub-agent
    Show(show::ShowArgs),
    /// Look for a text in all messages and notes
    Search(search::SearchArgs),
    /// Follow what agents think and say, as they do
    Watch(watch::WatchArgs),
    /// Say what it all cost, by day, model, project and more
    Cost(cost::CostArgs),
    /// Draw a session's branches and sub-agents
    Tree(tree::TreeArgs),
    /// List the files that a session changed, and give back earlier versions
    Files(files::FilesArgs),
    /// List what agents still have to do
    Todos(todos::TodosArgs),
    /// List the remarks that people made on sessions
    Notes(notes::NotesArgs),
    /// List plans, or read one
    Plans(plans::PlansArgs),
    /// List what people typed, the newest first
    History(history::HistoryArgs),
    /// List, read or write the files that belong to no session
    Documents(documents::DocumentsArgs),
    /// List what models cost, or explain the price of one
    Prices(prices::PricesArgs),
    /// Begin a session
    New(new::NewArgs),
    /// Add messages to a session
    Append(append::AppendArgs),
    /// Copy a conversation into a session of its own
    Fork(fork::ForkArgs),
    /// Give a session a title
    Title(title::TitleArgs),
    /// Set a member of a session's row in its layout's session list
    Set(set::SetArgs),
    /// Label a session
    Tag(tag::TagArgs),
    /// Add a remark to a session, which its agent never sees
    Note(note::NoteArgs),
    /// Change a session's todos
    Todo(todo::TodoArgs),
    /// Replace what the agent sees of a conversation by a summary
    Compact(compact::CompactArgs),
    /// Move sessions to the trash, or back
    Delete(delete::DeleteArgs),
    /// Look for damage in one file or in all
    Check(check::CheckArgs),
    /// Mend damaged logs and indexes, and put originals back
    Repair(repair::RepairArgs),
    /// Keep sessions compressed in annals' own store, and check what is there
    Archive(archive::ArchiveArgs),
    /// Put archived sessions back, byte for byte
    Restore(restore::RestoreArgs),
    /// Mirror everything into the archive and check it; made for timers
    Keep(keep::KeepArgs),
    /// Move sessions that are old to the trash, and empty it
    Clean(clean::CleanArgs),
    /// Keep sessions whatever their age
    Pin(pin::PinArgs),
    /// Write sessions in another layout, and back without loss
    Convert(convert::ConvertArgs),
    /// Write sessions as Markdown, HTML, JSON or JSON lines
    Export(export::ExportArgs),
    /// Write exported sessions into a root
    Import(import::ImportArgs),
    /// List and change the workspaces of Chorus
    Workspaces(workspaces::WorkspacesArgs),
    /// List and change the agents of Chorus
    Agents(agents::AgentsArgs),
    /// Show and change the settings of Chorus
    Settings(settings::SettingsArgs),
    /// Say what annals remembers of logs, bring it up to date, or drop it
    Index(index::IndexArgs),
    /// Print one line for the status bar of an agent
    Statusline(statusline::StatuslineArgs),
    /// Make a sample history and show what can be done with it
    Demo(demo::DemoArgs),
    /// Print a script that completes annals' arguments in a shell
    Completions(completions::CompletionsArgs),
}

/// Runs a verb; without one, the overview.
pub(crate) fn run(command: Option<Command>, context: &mut Context) -> Result<Outcome> {
    match command {
        None => overview::run(context),
        Some(Command::Projects(args)) => projects::run(&args, context),
        Some(Command::Sessions(args)) => sessions::run(&args, context),
        Some(Command::Conversations(args)) => conversations::run(&args, context),
        Some(Command::Show(args)) => show::run(&args, context),
        Some(Command::Search(args)) => search::run(&args, context),
        Some(Command::Watch(args)) => watch::run(&args, context),
        Some(Command::Cost(args)) => cost::run(&args, context),
        Some(Command::Tree(args)) => tree::run(&args, context),
        Some(Command::Files(args)) => files::run(&args, context),
        Some(Command::Todos(args)) => todos::run(&args, context),
        Some(Command::Notes(args)) => notes::run(&args, context),
        Some(Command::Plans(args)) => plans::run(&args, context),
        Some(Command::History(args)) => history::run(&args, context),
        Some(Command::Documents(args)) => documents::run(&args, context),
        Some(Command::Prices(args)) => prices::run(&args, context),
        Some(Command::New(args)) => new::run(&args, context),
        Some(Command::Append(args)) => append::run(&args, context),
        Some(Command::Fork(args)) => fork::run(&args, context),
        Some(Command::Title(args)) => title::run(&args, context),
        Some(Command::Set(args)) => set::run(&args, context),
        Some(Command::Tag(args)) => tag::run(&args, context),
        Some(Command::Note(args)) => note::run(&args, context),
        Some(Command::Todo(args)) => todo::run(&args, context),
        Some(Command::Compact(args)) => compact::run(&args, context),
        Some(Command::Delete(args)) => delete::run(&args, context),
        Some(Command::Check(args)) => check::run(&args, context),
        Some(Command::Repair(args)) => repair::run(&args, context),
        Some(Command::Archive(args)) => archive::run(&args, context),
        Some(Command::Restore(args)) => restore::run(&args, context),
        Some(Command::Keep(args)) => keep::run(&args, context),
        Some(Command::Clean(args)) => clean::run(&args, context),
        Some(Command::Pin(args)) => pin::run(&args, context),
        Some(Command::Convert(args)) => convert::run(&args, context),
        Some(Command::Export(args)) => export::run(&args, context),
        Some(Command::Import(args)) => import::run(&args, context),
        Some(Command::Workspaces(args)) => workspaces::run(&args, context),
        Some(Command::Agents(args)) => agents::run(&args, context),
        Some(Command::Settings(args)) => settings::run(&args, context),
        Some(Command::Index(args)) => index::run(&args, context),
        Some(Command::Statusline(args)) => statusline::run(&args, context),
        Some(Command::Demo(args)) => demo::run(&args, context),
        Some(Command::Completions(args)) => completions::run(&args, context),
    }
}
