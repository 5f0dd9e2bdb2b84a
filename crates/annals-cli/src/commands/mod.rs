//! The verbs, one file each: `XArgs` and `run`.

mod agents;
mod append;
mod archive;
#[cfg(feature = "browse")]
mod browse;
mod check;
mod choose;
mod chorus;
mod clean;
mod compact;
mod complete;
mod completions;
mod conversations;
mod convert;
mod cost;
mod delete;
mod demo;
mod doctor;
mod documents;

mod export;
mod files;
pub(crate) mod filter;
mod fork;
mod history;
mod import;
mod index;
mod input;
mod keep;
mod man;
#[cfg(feature = "mcp")]
mod mcp;

mod fit;
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
#[cfg(feature = "hub")]
mod push;
mod repair;
mod restore;
mod resume;
mod schema;
mod search;
#[cfg(feature = "serve")]
mod serve;
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

pub(crate) use choose::Cancelled;

/// Result of a command; failures are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Ok,
    /// The input was written. The exit code is 0 even if an unrelated file could not be read: a
    /// caller that retries would write it twice.
    Written,
    /// Nothing was found, or damage was found.
    NotFound,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the directories that sessions ran in
    Projects(projects::ProjectsArgs),
    /// List sessions, most recent first
    #[command(aliases = ["ls", "list"])]
    Sessions(sessions::SessionsArgs),
    /// List conversations: every branch of every session
    Conversations(conversations::ConversationsArgs),
    /// Read a session, a conversation or a sub-agent
    #[command(aliases = ["cat", "log"])]
    Show(show::ShowArgs),
    /// Search messages, notes and titles
    #[command(aliases = ["find", "grep"])]
    Search(search::SearchArgs),
    /// Browse and search all sessions, full screen
    #[cfg(feature = "browse")]
    #[command(alias = "tui")]
    Browse(browse::BrowseArgs),
    /// Follow what agents think and say, live
    Watch(watch::WatchArgs),
    /// Report token usage and cost by day, model, project and more
    Cost(cost::CostArgs),
    /// Draw a session's branches and sub-agents
    Tree(tree::TreeArgs),
    /// List the files a session changed, or get one back
    Files(files::FilesArgs),
    /// List and change todos
    Todos(todos::TodosArgs),
    /// List and add notes on sessions
    Notes(notes::NotesArgs),
    /// List plans, or read one
    Plans(plans::PlansArgs),
    /// List typed prompts, newest first
    History(history::HistoryArgs),
    /// List, read or write the files that belong to no session
    Documents(documents::DocumentsArgs),
    /// List prices of models, or explain one
    Prices(prices::PricesArgs),
    /// Create a session
    New(new::NewArgs),
    /// Add messages to a session
    Append(append::AppendArgs),
    /// Copy a conversation into a new session
    Fork(fork::ForkArgs),
    /// Open a session in its own program, or continue in another one
    Resume(resume::ResumeArgs),
    /// Give a session a title
    Title(title::TitleArgs),
    /// Set a field that a session has in Chorus' list
    Set(set::SetArgs),
    /// Tag a session
    Tag(tag::TagArgs),
    /// Replace the context of a conversation with a summary
    Compact(compact::CompactArgs),
    /// Move sessions to the trash, or restore them
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
    /// Check one or all logs for damage
    Check(check::CheckArgs),
    /// Repair damaged logs and session lists, or undo a repair
    Repair(repair::RepairArgs),
    /// Store sessions compressed, out of the agent's way
    Archive(archive::ArchiveArgs),
    /// Restore archived sessions, byte for byte
    Restore(restore::RestoreArgs),
    /// Mirror everything into the archive; for timers
    Keep(keep::KeepArgs),
    /// Move old sessions to the trash, or empty the trash
    Clean(clean::CleanArgs),
    /// Protect sessions from clean-up
    Pin(pin::PinArgs),
    /// Convert sessions to another layout, and back without loss
    Convert(convert::ConvertArgs),
    /// Export sessions as Markdown, HTML, JSON or JSON lines
    Export(export::ExportArgs),
    /// Import exported sessions into a root
    Import(import::ImportArgs),
    /// Show and change workspaces, agents and settings of Chorus
    Chorus(chorus::ChorusArgs),
    /// Show, update or delete the index
    Index(index::IndexArgs),
    /// Print one line for the status bar of an agent
    Statusline(statusline::StatuslineArgs),
    /// Serve the history to agents, as tools
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpArgs),
    /// Send what grew in the logs to a hub
    #[cfg(feature = "hub")]
    Push(push::PushArgs),
    /// Serve the history as a local web page
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Create a sample history and show what annals does with it
    Demo(demo::DemoArgs),
    /// Show what annals sees on this machine, for a bug report
    Doctor(doctor::DoctorArgs),
    /// Print the JSON Schema of what a command prints with --json
    Schema(schema::SchemaArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the completions of a command line, for the scripts
    #[command(name = "__complete", hide = true)]
    Complete(complete::CompleteArgs),
    /// Write the manual pages of all commands, for packages
    #[command(hide = true)]
    Man(man::ManArgs),
    /// Print the version
    #[command(hide = true)]
    Version,
}

/// Runs a verb of the command line that `build` returns; without one, the overview.
pub(crate) fn run(
    command: Option<Command>,
    build: fn() -> clap::Command,
    context: &mut Context,
) -> Result<Outcome> {
    match command {
        None => overview::run(context),
        Some(Command::Projects(args)) => projects::run(&args, context),
        Some(Command::Sessions(args)) => sessions::run(&args, context),
        Some(Command::Conversations(args)) => conversations::run(&args, context),
        Some(Command::Show(args)) => show::run(&args, context),
        Some(Command::Search(args)) => search::run(&args, context),
        #[cfg(feature = "browse")]
        Some(Command::Browse(args)) => browse::run(&args, context),
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
        Some(Command::Resume(args)) => resume::run(&args, context),
        Some(Command::Title(args)) => title::run(&args, context),
        Some(Command::Set(args)) => set::run(&args, context),
        Some(Command::Tag(args)) => tag::run(&args, context),
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
        Some(Command::Chorus(args)) => chorus::run(&args, context),
        Some(Command::Index(args)) => index::run(&args, context),
        Some(Command::Statusline(args)) => statusline::run(&args, context),
        #[cfg(feature = "mcp")]
        Some(Command::Mcp(args)) => mcp::run(&args, context),
        #[cfg(feature = "hub")]
        Some(Command::Push(args)) => push::run(&args, context),
        #[cfg(feature = "serve")]
        Some(Command::Serve(args)) => serve::run(&args, context),
        Some(Command::Demo(args)) => demo::run(&args, context),
        Some(Command::Doctor(args)) => doctor::run(&args, context),
        Some(Command::Schema(args)) => schema::run(&args, context),
        Some(Command::Completions(args)) => completions::run(&args, build, context),
        Some(Command::Complete(args)) => complete::run(&args, build, context),
        Some(Command::Man(args)) => man::run(&args, build),
        Some(Command::Version) => print_version(context),
    }
}

/// Prints the version, like `--version`.
fn print_version(context: &mut Context) -> Result<Outcome> {
    let version = env!("CARGO_PKG_VERSION");
    if context.json {
        let document = serde_json::json!({ "version": version });
        context.out.json(&document)?;
    } else {
        context.out.line(format_args!("annals {version}"))?;
    }
    Ok(Outcome::Ok)
}
