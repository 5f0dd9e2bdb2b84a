//! `outline`

use annals::model::{Block, Body};
use annals::view::ContextFillJson;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sessions::short_cost;
use super::{MAX_TITLE, counted, minute};
use crate::answer::{Answer, Row, fit_lists};
use crate::arguments::{budget_bytes, parse};
use crate::server::{Server, describe};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    budget: Option<u64>,
}

pub(super) fn call(server: &Server, arguments: Value) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let budget = budget_bytes(arguments.budget)?;
    let open = server.open(&arguments.session)?;
    let session = server.service.session_row(&open);
    let info = &session.info;
    let mut prompts = Vec::new();
    let mut compactions = 0;
    let (entries, _) = open.session.resumed_entries();
    let failed = |error: annals::Error| describe(&error);
    open.each_at(0, &entries, |_, entry| {
        let text = match &entry.body {
            Body::Message(message) if message.human => {
                let texts = message.blocks.iter().filter_map(|block| match block {
                    Block::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                texts.collect::<Vec<_>>().join(" ")
            }
            Body::Compaction { .. } => {
                compactions += 1;
                return;
            }
            _ => return,
        };
        let id = entry.id.as_ref().map(|id| format!("{}@{id}", info.id));
        let text = server.line(&text, MAX_TITLE);
        let line = format!("{} {}", minute(entry.time), text);
        let value = json!({ "id": id, "time": entry.time, "text": text });
        let line = format!("{} {line}", id.as_deref().unwrap_or_default());
        prompts.push(row(value, line));
    })
    .map_err(failed)?;
    let branches = server.service.conversations_of(&open).into_iter();
    let branches = branches.map(|one| {
        let title = one
            .info
            .title
            .as_ref()
            .map(|it| server.line(&it.text, MAX_TITLE));
        let resumes = if one.info.resumes {
            ", resumes here"
        } else {
            ""
        };
        let line = format!(
            "{} {} ({}{resumes})",
            one.info.leaf,
            title.as_deref().unwrap_or_default(),
            counted(one.info.messages as u64, "message")
        );
        let value = json!({
            "leaf": one.info.leaf,
            "title": title,
            "messages": one.info.messages,
            "resumes": one.info.resumes,
        });
        row(value, line)
    });
    let agents = open.agents().into_iter().map(|agent| {
        let task = agent
            .description
            .as_deref()
            .map(|text| server.line(text, MAX_TITLE));
        let kind = agent
            .kind
            .as_deref()
            .map(|kind| server.line(kind, MAX_TITLE));
        let line = format!(
            "{} {} {} ({})",
            agent.id.as_deref().unwrap_or_default(),
            kind.as_deref().unwrap_or_default(),
            task.as_deref().unwrap_or_default(),
            counted(agent.messages as u64, "message")
        );
        let value = json!({
            "id": agent.id,
            "kind": kind,
            "description": task,
            "messages": agent.messages,
            "cost_usd": agent.cost_usd,
        });
        row(value, line)
    });
    let files = open.files().map_err(failed)?.into_iter().map(|file| {
        let path = server.line(&file.path, 2 * MAX_TITLE);
        let line = format!(
            "{path} ({})",
            counted(file.versions.len() as u64, "version")
        );
        row(
            json!({ "path": path, "versions": file.versions.len() }),
            line,
        )
    });
    let todos = open.todos().map_err(failed)?;
    let todos = todos.iter().flat_map(|(_, todos)| todos);
    let todos = todos.map(|todo| {
        let text = server.line(&todo.content, MAX_TITLE);
        let status = json!(todo.status);
        let line = format!("[{}] {text}", status.as_str().unwrap_or_default());
        row(json!({ "content": text, "status": status }), line)
    });
    let lists = vec![
        ("prompts", prompts),
        ("branches", branches.collect()),
        ("agents", agents.collect()),
        ("files", files.collect()),
        ("todos", todos.collect()),
    ];
    let title = info
        .title
        .as_ref()
        .map(|it| server.line(&it.text, MAX_TITLE));
    let project = server.line(&info.project.path, MAX_TITLE);
    let cost = session.cost.known_cost();
    let members = json!({
        "session": info.id.as_str(),
        "title": title,
        "project": project,
        "updated": info.updated,
        "messages": info.messages,
        "compactions": compactions,
        "cost_usd": cost,
        "context": open.context_fill().map(ContextFillJson::new),
    });
    let cost = cost.map(|cost| format!(", ${}", short_cost(&cost.to_string())));
    let heading = format!(
        "{} {} in {project}: {}, {}{}",
        info.id,
        title.as_deref().unwrap_or("(no title)"),
        counted(info.messages, "message"),
        counted(compactions, "compaction"),
        cost.unwrap_or_default()
    );
    let members = members.as_object().cloned().unwrap_or_default();
    fit_lists(budget, members, &heading, lists)
}

fn row(value: Value, line: String) -> Row {
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}
