//! The column next to a conversation: prompts, branches, sub-agents; cost, files, todos, notes.

use annals::model::{Body, OutlineKind, TodoStatus};
use annals::service::{OpenSession, SessionRow};
use annals::tree::shorten;
use annals_render::size;

use super::session::{Branch, agent_key, agent_name};
use super::{cost_text, short_model};
use crate::app::App;
use crate::problem::Problem;
use crate::text::{address, anchor};

/// Maximum number of prompts, files and branches that are listed.
const MAX_LISTED: usize = 200;

/// Maximum length of a prompt in the list.
const MAX_PROMPT: usize = 90;

/// The outline of a session.
pub(super) struct Outlined {
    pub(super) prompts: Vec<Link>,
    pub(super) more_prompts: usize,
    pub(super) branches: Vec<Link>,
    pub(super) agents: Vec<Link>,
    pub(super) compactions: Vec<Link>,
}

/// A link with a remark.
pub(super) struct Link {
    pub(super) href: String,
    pub(super) text: String,
    pub(super) note: String,
    pub(super) is_current: bool,
}

/// Files, todos and notes of a session.
pub(super) struct Side {
    pub(super) facts: Vec<(&'static str, String)>,
    /// Tokens in the context window, its size, and the fill in percent.
    pub(super) context: Option<(String, String, u64)>,
    pub(super) files: Vec<Link>,
    pub(super) todos: Vec<(&'static str, &'static str, String)>,
    pub(super) notes: Vec<(String, String)>,
    pub(super) pinned: bool,
    pub(super) tag: String,
    pub(super) is_archived: bool,
}

impl Outlined {
    pub(super) fn new(app: &App, open: &OpenSession, branch: &Branch, path: &str) -> Self {
        let outlines = open
            .session
            .log(branch.log)
            .map(|(_, scan, _)| &scan.outlines);
        let (mut prompts, mut compactions) = (Vec::new(), Vec::new());
        for at in &branch.path {
            let Some(outline) = outlines.and_then(|outlines| outlines.get(*at)) else {
                continue;
            };
            let id = outline.id().map(|id| id.to_string());
            let key = id.unwrap_or_else(|| format!(":{}", outline.span.line));
            let link = |text: String| Link {
                href: format!("{}#{}", branch.address(path, &[("at", &key)]), anchor(&key)),
                text,
                note: String::new(),
                is_current: false,
            };
            if outline.kind == OutlineKind::Compaction {
                let time = outline.time.map(|time| app.clock().ago(time));
                compactions.push(link(format!("Compaction {}", time.unwrap_or_default())));
            } else if let Some(prompt) = outline.prompt() {
                let text = app.line(prompt);
                prompts.push(link(shorten(&text, MAX_PROMPT).to_string()));
            }
        }
        let more_prompts = prompts.len().saturating_sub(MAX_LISTED);
        prompts.drain(..more_prompts);
        let leaf = branch.path.iter().rev();
        let leaf = leaf.filter_map(|at| outlines?.get(*at)?.id());
        let leaves: Vec<String> = leaf.take(8).map(|id| id.to_string()).collect();
        let conversations = app.service.conversations_of(open);
        let is_only = conversations.len() < 2;
        let branches = conversations.iter().filter(|_| !is_only).map(|row| {
            let info = &row.info;
            let title = info.branch.as_deref();
            let title = title.or(info.title.as_ref().map(|title| title.text.as_str()));
            let resumes = if info.resumes { " · resumes" } else { "" };
            let cost = cost_text(&row.cost);
            Link {
                href: match info.resumes {
                    true => path.to_owned(),
                    false => address(path, &[("c", &info.leaf)]),
                },
                text: shorten(&app.line(title.unwrap_or("branch")), MAX_PROMPT).to_string(),
                note: format!(
                    "{} {cost}{resumes}",
                    size::pluralize(info.messages as u64, "message")
                ),
                is_current: branch.log == 0 && leaves.contains(&info.leaf),
            }
        });
        let agents = open.session.agents.iter().enumerate();
        let agents = agents
            .filter(|(_, agent)| !agent.warm_up)
            .map(|(at, agent)| {
                let key = agent_key(agent, at);
                Link {
                    is_current: branch.log == agent.log && agent.log != 0,
                    href: address(path, &[("agent", &key)]),
                    text: shorten(&agent_name(app, agent), MAX_PROMPT).to_string(),
                    note: size::pluralize(agent.messages as u64, "message"),
                }
            });
        Outlined {
            more_prompts,
            prompts,
            branches: branches.take(MAX_LISTED).collect(),
            agents: agents.take(MAX_LISTED).collect(),
            compactions,
        }
    }
}

impl Side {
    pub(super) fn new(
        app: &App,
        open: &OpenSession,
        row: &SessionRow,
        path: &str,
    ) -> Result<Self, Problem> {
        let clock = app.clock();
        let info = &row.info;
        let mut facts = vec![("Project", app.line(&info.project.path))];
        let mut add = |name, value: String| {
            if !value.is_empty() {
                facts.push((name, value));
            }
        };
        add("Program", info.layout.to_owned());
        let models: Vec<String> = info.models.iter().map(|model| short_model(model)).collect();
        add("Models", app.line(&models.join(", ")));
        add(
            "Started",
            info.started
                .map(|time| clock.format(time, "%Y-%m-%d %H:%M"))
                .unwrap_or_default(),
        );
        add(
            "Updated",
            info.updated.map(|time| clock.ago(time)).unwrap_or_default(),
        );
        add("Messages", size::count(info.messages));
        add("Cost", cost_text(&row.cost));
        let tokens = info.usage.total();
        add(
            "Tokens",
            if tokens > 0 {
                size::compact(tokens)
            } else {
                String::new()
            },
        );
        add("Size", size::bytes(info.bytes));
        let flaws = info.flaw_counts();
        add(
            "Damage",
            if flaws.errors > 0 {
                size::pluralize(flaws.errors as u64, "error")
            } else {
                String::new()
            },
        );
        let context = open.context_fill().map(|fill| {
            let share = fill.share().unwrap_or(0.0);
            let window = fill.window.map(size::compact).unwrap_or_default();
            (
                size::compact(fill.tokens),
                window,
                (share * 100.0).round().clamp(0.0, 100.0) as u64,
            )
        });
        let files = open.files()?;
        let files = files
            .iter()
            .enumerate()
            .take(MAX_LISTED)
            .map(|(number, file)| Link {
                href: format!("{path}/files/{number}"),
                text: app.line(file.path.rsplit('/').next().unwrap_or(&file.path)),
                note: size::pluralize(file.versions.len() as u64, "version"),
                is_current: false,
            });
        let todos = open.todos()?;
        let todos = todos.iter().flat_map(|(_, list)| list).take(MAX_LISTED);
        let todos = todos.map(|todo| {
            let (mark, state) = match todo.status {
                TodoStatus::Completed => ("☑", "done"),
                TodoStatus::InProgress => ("◐", "in progress"),
                _ => ("☐", "open"),
            };
            (mark, state, app.line(&todo.content))
        });
        let notes = open.session.notes()?;
        let notes = notes.into_iter().filter_map(|entry| match entry.body {
            Body::Note { author, text } => {
                let time = entry.time.map(|time| clock.ago(time));
                let by = [author, time].into_iter().flatten().collect::<Vec<_>>();
                Some((app.block(&text), app.line(&by.join(", "))))
            }
            _ => None,
        });
        Ok(Side {
            files: files.collect(),
            todos: todos.collect(),
            notes: notes.collect(),
            pinned: row.pinned,
            tag: info
                .tag
                .as_deref()
                .map(|tag| app.line(tag))
                .unwrap_or_default(),
            is_archived: info.archived,
            facts,
            context,
        })
    }
}
