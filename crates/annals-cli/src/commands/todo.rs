//! `annals todo`

use std::collections::BTreeMap;
use std::path::Path;

use annals::layout::Spawn;
use annals::model::{AgentId, ArtifactKind, Todo, TodoStatus};
use annals::store::{SessionFiles, SessionWriter, WriteOptions};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::session_json::ShortIds;
use super::todos::{self, TodoList, TodosJson};
use super::{Outcome, input};
use crate::context::Context;

/// Changes a session's todos.
#[derive(Debug, Args)]
#[command(after_help = "\
Todos are numbered from 1, in the order in which `annals todos SESSION --all` shows them.

Examples:
  annals todo 8c549c46 add 'Write the changelog' 'Tag the release'
  annals todo 8c549c46 add -- '-v prints more'    text that begins with a dash
  annals todo 8c549c46 add --priority high 'Fix the build'
  annals todo 8c549c46 start 1
  annals todo 8c549c46 done 1
  echo '[{\"content\": \"Ship it\", \"status\": \"pending\"}]' | annals todo 8c549c46 set -")]
pub(crate) struct TodoArgs {
    /// The session
    session: String,
    /// The list of this sub-agent instead of the main agent's; begins it if there is none of that id
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add todos at the end
    Add {
        /// What is to be done, one todo per argument
        #[arg(required = true)]
        text: Vec<String>,
        /// How urgent they are: low, medium or high
        #[arg(long, value_name = "PRIORITY")]
        priority: Option<Priority>,
    },
    /// Mark todos as being done
    Start {
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Mark todos as done
    Done {
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Take todos off the list
    Remove {
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Empty the list
    Clear,
    /// Replace the list
    Set {
        /// `-`: a JSON array of {content, status, priority, activeForm} on standard input
        #[arg(value_name = "-")]
        source: String,
    },
}

/// How urgent a todo is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Priority {
    Low,
    Medium,
    High,
}

impl Priority {
    fn name(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Medium => "medium",
            Priority::High => "high",
        }
    }
}

pub(crate) fn run(args: &TodoArgs, context: &mut Context) -> Result<Outcome> {
    let set = match &args.action {
        Action::Set { source } => Some(parse_todos(source)?),
        _ => None,
    };
    let files = context.find_session(&args.session)?;
    let agent = find_agent(&files, args.agent.as_deref())?;
    if files
        .attachments
        .iter()
        .any(|file| file.artifact.kind == ArtifactKind::Task)
        && agent.is_none()
    {
        bail!(
            "session {} keeps a task list of its agent's own, which annals only reads",
            files.id
        );
    }
    let session = open_writer(context, &files, agent.as_ref())?;
    let list = session.edit_todos(|path, document, list| {
        let list = match &args.action {
            Action::Clear => Vec::new(),
            Action::Set { .. } => set.clone().unwrap_or_default(),
            action => {
                refuse_unknown_members(path, document)?;
                apply_action(action, list)?
            }
        };
        Ok::<_, anyhow::Error>(list)
    })?;
    let owner = agent.map_or_else(|| files.id.to_string(), |agent| agent.to_string());
    let lists = [TodoList::new(&files, None, owner, list)];
    if context.json {
        context.out.json(&TodosJson::new(&lists))?;
    } else {
        todos::print_lists(
            context,
            &lists,
            &ShortIds::new([files.id.as_str()].into_iter()),
        )?;
    }
    Ok(Outcome::Written)
}

/// The sub-agent that is meant.
fn find_agent(files: &SessionFiles, wanted: Option<&str>) -> Result<Option<AgentId>> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let mut found: Vec<AgentId> = files
        .files()
        .filter_map(|file| file.artifact.agent.clone())
        .filter(|agent| agent.as_str() != files.id.as_str() && agent.as_str().starts_with(wanted))
        .collect();
    found.sort();
    found.dedup();
    if let Some(exact) = found.iter().find(|agent| agent.as_str() == wanted) {
        return Ok(Some(exact.clone()));
    }
    match found.as_slice() {
        // One that has done nothing yet: it begins with its list.
        [] => Ok(Some(AgentId::new(wanted)?)),
        [only] => Ok(Some(only.clone())),
        many => {
            let candidates = many.iter().map(ToString::to_string).collect();
            let id = wanted.to_owned();
            Err(annals::Error::Ambiguous {
                what: "sub-agent",
                id,
                candidates,
            }
            .into())
        }
    }
}

/// What an action makes of a list.
fn apply_action(action: &Action, mut list: Vec<Todo>) -> Result<Vec<Todo>> {
    match action {
        Action::Add { text, priority } => {
            for text in text {
                let mut todo = Todo::pending(input::non_empty(text, "todo")?.trim());
                todo.priority = priority.map(|priority| priority.name().to_owned());
                list.push(todo);
            }
        }
        Action::Start { number } => set_status(&mut list, number, TodoStatus::InProgress)?,
        Action::Done { number } => set_status(&mut list, number, TodoStatus::Completed)?,
        Action::Remove { number } => {
            check_numbers(&list, number)?;
            let mut at = 0;
            list.retain(|_| {
                at += 1;
                !number.contains(&at)
            });
        }
        Action::Clear | Action::Set { .. } => {}
    }
    Ok(list)
}

/// A list is written anew, so what the model has no word for would be lost.
fn refuse_unknown_members(path: &Path, document: &[u8]) -> Result<()> {
    const KNOWN_MEMBERS: [&str; 5] = ["content", "status", "priority", "activeForm", "id"];
    let items: Option<Vec<BTreeMap<String, serde_json::Value>>> =
        serde_json::from_slice(document).ok();
    let strange = match &items {
        None if document.trim_ascii().is_empty() => None,
        None => Some("something that is no list of todos".to_owned()),
        Some(items) => items.iter().find_map(|item| {
            let member = item
                .keys()
                .find(|key| !KNOWN_MEMBERS.contains(&key.as_str()));
            let status = item.get("status").and_then(|status| status.as_str());
            match (member, status) {
                (Some(member), _) => Some(format!("the member `{}`", member.escape_debug())),
                (_, Some("pending" | "in_progress" | "completed")) => None,
                (_, status) => Some(format!(
                    "the status `{}`",
                    status.unwrap_or("(none)").escape_debug()
                )),
            }
        }),
    };
    match strange {
        Some(what) => bail!(
            "{} holds {what}, which would be lost; `annals todo SESSION set -` replaces the whole list",
            path.display()
        ),
        None => Ok(()),
    }
}

fn open_writer(
    context: &Context,
    files: &SessionFiles,
    agent: Option<&AgentId>,
) -> Result<SessionWriter> {
    // Todos lie beside the log, so another program may write to it meanwhile.
    let options = WriteOptions {
        live: true,
        ..context.write_options()
    };
    Ok(match agent {
        Some(agent) => {
            let spawn = Spawn::new(agent.clone(), "", "");
            context.store.open_or_spawn_agent(files, &spawn, options)?.0
        }
        None => context.store.open_writer(files, options)?,
    })
}

fn set_status(list: &mut [Todo], numbers: &[usize], status: TodoStatus) -> Result<()> {
    check_numbers(list, numbers)?;
    for number in numbers {
        if let Some(todo) = list.get_mut(number - 1) {
            todo.status = status;
        }
    }
    Ok(())
}

fn check_numbers(list: &[Todo], numbers: &[usize]) -> Result<()> {
    match numbers
        .iter()
        .find(|number| **number == 0 || **number > list.len())
    {
        Some(number) if list.is_empty() => bail!("there is no todo {number}: the list is empty"),
        Some(number) => bail!(
            "there is no todo {number}; they are numbered 1 to {}",
            list.len()
        ),
        None => Ok(()),
    }
}

fn parse_todos(source: &str) -> Result<Vec<Todo>> {
    if source != "-" {
        bail!("`set` takes `-` and reads a JSON array from standard input");
    }
    let text = input::read_stdin("list")?;
    let list: Vec<Todo> = serde_json::from_str(&text).with_context(|| {
        "standard input is not a list of todos ([{\"content\": …, \"status\": \"pending\", \"in_progress\" or \"completed\"}]); nothing was written"
    })?;
    if list.iter().any(|todo| todo.content.trim().is_empty()) {
        bail!("a todo is empty; nothing was written");
    }
    if list.iter().any(|todo| todo.status == TodoStatus::Other) {
        bail!("a status is neither pending, in_progress nor completed; nothing was written");
    }
    Ok(list)
}
