//! `annals todos`

use annals::model::{ArtifactKind, Body, SessionId, Todo, TodoStatus};
use annals::store::{Inventory, Session, SessionFiles};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::fit::fit_title;
use super::overview::print_none;
use super::page::Page;
use super::{Outcome, todo};
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::style::{BOLD, DIM, ID, PLAIN, SUCCESS, WARNING, paint};
use annals_render::width::width;

/// Lists open todos, or changes those of a session.
#[derive(Debug, Args)]
#[command(override_usage = "annals todos [OPTIONS] [SESSION]\n       annals todos <COMMAND>")]
#[command(after_help = "\
☐ open   ◐ in progress   ☑ done

Todos of a session are numbered from 1, as `annals todos SESSION --all` shows them.

Examples:
  annals todos                     open todos of all sessions
  annals todos 8c549c46 --all      all todos of one session
  annals todos add 8c549c46 'Write the changelog' 'Tag the release'
  annals todos start 8c549c46 1    marks one as in progress
  annals todos done 8c549c46 1 2   marks two as done
  annals todos -- add              todos of a session whose id begins with `add`")]
pub(crate) struct TodosArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    action: Option<todo::Action>,
}

/// The todos to list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only todos of this session
    session: Option<String>,
    /// Also completed todos, and lists whose session no longer exists
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: Page,
}

/// Todos as JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct TodosJson<'a> {
    todos: Vec<TodoJson<'a>>,
    /// Number of todos before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize, JsonSchema)]
struct TodoJson<'a> {
    session: &'a str,
    agent: &'a str,
    number: usize,
    content: &'a str,
    status: TodoStatus,
    priority: Option<&'a str>,
    active_form: Option<&'a str>,
    id: Option<&'a str>,
    orphaned: bool,
}

/// One agent's todos.
pub(super) struct TodoList {
    session: SessionId,
    title: Option<String>,
    updated: Option<Timestamp>,
    agent: String,
    orphaned: bool,
    /// Todos with their numbers in the whole list.
    todos: Vec<(usize, Todo)>,
}

impl TodoList {
    pub(super) fn new(
        files: &SessionFiles,
        title: Option<String>,
        agent: String,
        todos: Vec<Todo>,
    ) -> Self {
        TodoList {
            session: files.id.clone(),
            title,
            updated: None,
            agent,
            orphaned: false,
            todos: numbered(todos),
        }
    }
}

impl<'a> TodosJson<'a> {
    pub(super) fn new(lists: &'a [TodoList]) -> Self {
        let rows = lists.iter().flat_map(|list| {
            list.todos.iter().map(|(number, todo)| TodoJson {
                session: list.session.as_str(),
                agent: &list.agent,
                number: *number,
                content: &todo.content,
                status: todo.status,
                priority: todo.priority.as_deref(),
                active_form: todo.active_form.as_deref(),
                id: todo.id.as_deref(),
                orphaned: list.orphaned,
            })
        });
        let todos: Vec<TodoJson<'a>> = rows.collect();
        let total = todos.len();
        TodosJson { todos, total }
    }
}

pub(crate) fn run(args: &TodosArgs, context: &mut Context) -> Result<Outcome> {
    let ListArgs { session, all, page } = &args.list;
    match &args.action {
        None => list(&args.list, context),
        Some(_) if session.is_some() || *all || page.is_set() => {
            bail!("an action takes its own session: `annals todos add SESSION TEXT`")
        }
        Some(todo::Action::List(args)) => list(args, context),
        Some(todo::Action::Change(change)) => todo::run(change, context),
    }
}

fn list(args: &ListArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    let short = ShortIds::new(inventory.sessions.iter().map(|files| files.id.as_str()));
    let mut lists = match &args.session {
        Some(id) => {
            let files = context.find_session_to_read(id)?;
            session_lists(&files)?
        }
        None => all_lists(context, &inventory, args.all),
    };
    let mut todos = lists.iter().flat_map(|list| &list.todos);
    let is_any_completed = todos.any(|(_, todo)| todo.status == TodoStatus::Completed);
    if !args.all {
        for list in &mut lists {
            list.todos
                .retain(|(_, todo)| todo.status != TodoStatus::Completed);
        }
    }
    let total = lists.iter().map(|list| list.todos.len()).sum();
    apply_page(&mut lists, args.page);
    lists.retain(|list| !list.todos.is_empty());
    if context.json {
        context.out.json(&TodosJson {
            total,
            ..TodosJson::new(&lists)
        })?;
    } else if lists.is_empty() {
        let text = match (args.all, is_any_completed) {
            (true, _) => "No todos.",
            (false, true) => "No open todos. `--all` shows completed ones.",
            (false, false) => "No open todos.",
        };
        print_none(context, &inventory, text)?;
    } else {
        print_lists(context, &lists, &short)?;
    }
    Ok(if lists.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// Keeps the todos of a page, counted across all lists.
fn apply_page(lists: &mut [TodoList], page: Page) {
    let (mut skip, mut left) = (page.offset, page.limit.unwrap_or(usize::MAX));
    for list in lists {
        let own = Page {
            offset: skip,
            limit: Some(left),
        };
        skip = skip.saturating_sub(own.apply(&mut list.todos));
        left -= list.todos.len();
    }
}

/// Prints lists, each under its session.
pub(super) fn print_lists(
    context: &mut Context,
    lists: &[TodoList],
    short: &ShortIds,
) -> Result<()> {
    for (at, list) in lists.iter().enumerate() {
        if at > 0 {
            context.out.blank()?;
        }
        let id = short.get(list.session.as_str());
        let mut used = width(id) + 2;
        let mut heading = paint(ID, id).to_string();
        if list.agent != list.session.as_str() {
            let agent = format!("sub-agent {}", list.agent);
            used += width(&agent) + 2;
            heading += &format!("  {}", paint(DIM, &agent));
        }
        if let Some(title) = &list.title {
            heading += &format!("  {}", paint(BOLD, &fit_title(title, used, context)));
        }
        if list.orphaned {
            heading += &format!("  {}", paint(WARNING, "(session missing)"));
        }
        context.out.line(heading)?;
        if list.todos.is_empty() {
            context.out.line(paint(DIM, "  (no todos)"))?;
        }
        for (number, todo) in &list.todos {
            let (mark, style) = match todo.status {
                TodoStatus::Pending => ("☐", PLAIN),
                TodoStatus::InProgress => ("◐", BOLD),
                TodoStatus::Completed => ("☑", DIM),
                TodoStatus::Other => ("?", DIM),
            };
            let mark_style = if todo.status == TodoStatus::Completed {
                SUCCESS
            } else {
                style
            };
            let priority = todo
                .priority
                .as_deref()
                .filter(|priority| *priority != "medium");
            let priority = priority.map_or_else(String::new, |priority| format!("  ({priority})"));
            context.out.line(format_args!(
                "{} {} {}{}",
                paint(DIM, &format!("{number:>3}")),
                paint(mark_style, mark),
                paint(style, &todo.content),
                paint(DIM, &priority)
            ))?;
        }
    }
    Ok(())
}

fn session_lists(files: &SessionFiles) -> annals::Result<Vec<TodoList>> {
    let session = Session::read(files.clone())?;
    let title = session.title().map(|title| title.text);
    let updated = session.info(None).updated;
    let lists = session.todos()?.into_iter();
    let listed = lists.map(|(agent, todos)| TodoList {
        updated,
        ..TodoList::new(files, title.clone(), agent, todos)
    });
    Ok(listed.collect())
}

fn all_lists(context: &mut Context, inventory: &Inventory, all: bool) -> Vec<TodoList> {
    let keeps = |files: &&SessionFiles| {
        let kinds = files.attachments.iter().map(|file| file.artifact.kind);
        kinds
            .into_iter()
            .any(|kind| matches!(kind, ArtifactKind::Todos | ArtifactKind::Task))
    };
    let mut lists = Vec::new();
    for files in inventory.sessions.iter().filter(keeps) {
        // Most lists are empty; a log is read only for the title of one that is not.
        let open = Session::read(files.without_logs()).and_then(|session| session.todos());
        match open {
            Ok(lists)
                if lists
                    .iter()
                    .all(|(_, todos)| !todos.iter().any(|todo| is_shown(todo, all))) => {}
            Ok(_) => match session_lists(files) {
                Ok(found) => lists.extend(found),
                Err(error) => context.warn(&error),
            },
            Err(error) => context.warn(&error),
        }
    }
    // Most recent session first; an agent's lists stay together.
    lists.sort_by_key(|list| std::cmp::Reverse(list.updated));
    if all {
        lists.extend(orphaned_lists(context, inventory));
    }
    lists
}

fn is_shown(todo: &Todo, all: bool) -> bool {
    all || todo.status != TodoStatus::Completed
}

/// Returns lists whose session no longer exists.
fn orphaned_lists(context: &mut Context, inventory: &Inventory) -> Vec<TodoList> {
    let mut lists: Vec<TodoList> = Vec::new();
    let files = inventory
        .others
        .iter()
        .filter(|(_, file)| matches!(file.artifact.kind, ArtifactKind::Todos | ArtifactKind::Task));
    for (root, file) in files {
        let Some(session) = &file.artifact.session else {
            continue;
        };
        let entries = match root.entries(file) {
            Ok(entries) => entries,
            Err(error) => {
                context.warn(&error);
                continue;
            }
        };
        let todos: Vec<Todo> = entries
            .into_iter()
            .filter_map(|entry| match entry.body {
                Body::Todos(todos) => Some(todos),
                _ => None,
            })
            .flatten()
            .collect();
        let agent = file
            .artifact
            .agent
            .as_ref()
            .map_or(session.as_str(), |agent| agent.as_str());
        // Tasks are one file each, but one list.
        match lists
            .iter_mut()
            .find(|list| list.session == *session && list.agent == agent)
        {
            Some(list) => {
                let before = list.todos.len();
                list.todos.extend(
                    numbered(todos)
                        .into_iter()
                        .map(|(at, todo)| (before + at, todo)),
                );
            }
            None => lists.push(TodoList {
                session: session.clone(),
                title: None,
                updated: None,
                agent: agent.to_owned(),
                orphaned: true,
                todos: numbered(todos),
            }),
        }
    }
    lists
}

fn numbered(todos: Vec<Todo>) -> Vec<(usize, Todo)> {
    todos
        .into_iter()
        .enumerate()
        .map(|(at, todo)| (at + 1, todo))
        .collect()
}
