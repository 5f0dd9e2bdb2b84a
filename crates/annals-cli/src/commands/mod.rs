//! The verbs, one file each: `XArgs` and `run`.

mod check;
mod completions;
mod conversations;
mod entry;
mod filter;
mod overview;
mod projects;
mod row;
mod sessions;
mod show;
mod tree;

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;

/// How a command ended; failures are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it should.
    Fine,
    /// It found nothing, or found damage.
    Nothing,
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
    /// Draw a session's branches and sub-agents
    Tree(tree::TreeArgs),
    /// Look for damage in one file or in all
    Check(check::CheckArgs),
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
        Some(Command::Tree(args)) => tree::run(&args, context),
        Some(Command::Check(args)) => check::run(&args, context),
        Some(Command::Completions(args)) => completions::run(&args, context),
    }
}
