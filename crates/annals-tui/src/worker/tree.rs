//! The tree of a session as rows.

use std::collections::HashMap;

use annals::model::{Outline, OutlineKind};
use annals::service::{OpenSession, Service};
use annals::store::SavedFile;

use crate::protocol::{ConversationRef, FileRow, TreeKind, TreeRow};

/// Maximum indentation of branches; deeper ones are drawn at this depth.
const MAX_DEPTH: usize = 16;

/// Returns the rows of a tree, as `annals tree` draws it.
pub(super) fn rows(service: &Service, open: &OpenSession) -> Vec<TreeRow> {
    let session = &open.session;
    let Some((_, scan, tree)) = session.main_log() else {
        return Vec::new();
    };
    let conversations = service.conversations_of(open);
    let costs = open.agents();
    let segments = tree.segments();
    let mut children = vec![Vec::new(); segments.len()];
    let mut pending: Vec<(usize, String, String)> = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        match segment.parent.and_then(|parent| children.get_mut(parent)) {
            Some(siblings) => siblings.push(at),
            None => pending.push((at, String::new(), String::new())),
        }
    }
    pending.reverse();
    let mut called: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for (number, agent) in session.agents.iter().enumerate() {
        if let Some(call) = agent.call {
            called
                .entry((call.log, call.entry))
                .or_default()
                .push(number);
        }
    }
    let agent_row = |number: usize, prefix: String| {
        let agent = session.agents.get(number)?;
        let what = [agent.kind.as_deref(), agent.description.as_deref()];
        let what = what
            .into_iter()
            .flatten()
            .filter(|text| !text.trim().is_empty());
        let what: Vec<&str> = what.collect();
        Some(TreeRow {
            prefix,
            kind: TreeKind::Agent,
            text: match what.is_empty() {
                true => "sub-agent".to_owned(),
                false => what.join(": "),
            },
            messages: agent.messages,
            cost: costs.get(number).and_then(|row| row.cost_usd),
            which: ConversationRef::Agent(number),
            ..TreeRow::default()
        })
    };
    let (files, failed) = match open.files() {
        Ok(files) => (files, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut changed: HashMap<&str, Vec<TreeRow>> = HashMap::new();
    for file in &files {
        for (at, version) in file.versions.iter().enumerate() {
            if let Some(message) = version.message.as_deref() {
                changed.entry(message).or_default().push(file_row(file, at));
            }
        }
    }
    let mut rows = Vec::new();
    while let Some((at, prefix, first_prefix)) = pending.pop() {
        let Some(segment) = segments.get(at) else {
            continue;
        };
        let mut first = Some(first_prefix);
        for &entry in &segment.entries {
            let Some(outline) = scan.outlines.get(entry) else {
                continue;
            };
            if outline.human || outline.kind == OutlineKind::Compaction {
                let left = first.take().unwrap_or_else(|| prefix.clone());
                rows.push(mark(outline, left));
            }
            for number in called.get(&(0, entry)).into_iter().flatten() {
                rows.extend(agent_row(*number, format!("{prefix}  ")));
            }
            let id = outline.id().map(|id| id.to_string());
            for row in id
                .and_then(|id| changed.remove(id.as_str()))
                .into_iter()
                .flatten()
            {
                rows.push(TreeRow {
                    prefix: format!("{prefix}  "),
                    ..row
                });
            }
        }
        let end = segment
            .conversation
            .and_then(|at| Some((at, conversations.get(at)?)));
        if let Some((number, row)) = end {
            let info = &row.info;
            let what = match info.messages {
                0 => "end".to_owned(),
                _ => format!("end of branch {} of {}", number + 1, conversations.len()),
            };
            rows.push(TreeRow {
                prefix: first.take().unwrap_or_else(|| prefix.clone()),
                kind: TreeKind::Leaf,
                time: info.updated,
                text: what,
                messages: info.messages,
                cost: row.cost.known_cost(),
                resumes: info.resumes,
                which: ConversationRef::Branch(number),
                message: Some(info.leaf.clone()),
                file: None,
            });
        }
        let below = children.get(at).map(Vec::as_slice).unwrap_or_default();
        let is_deep = prefix.chars().count() / 2 >= MAX_DEPTH;
        for (number, &child) in below.iter().enumerate().rev() {
            let is_last = number + 1 == below.len();
            let (fork, bar) = if is_last {
                ("╰─", "  ")
            } else {
                ("├─", "│ ")
            };
            let bar = if is_deep { "" } else { bar };
            pending.push((child, format!("{prefix}{bar}"), format!("{prefix}{fork}")));
        }
    }
    // Sub-agents that no call of the main agent made.
    let mut drawn: Vec<usize> = Vec::new();
    for row in &rows {
        if let ConversationRef::Agent(number) = row.which {
            drawn.push(number);
        }
    }
    for (number, agent) in session.agents.iter().enumerate() {
        if !drawn.contains(&number) && !agent.warm_up {
            rows.extend(agent_row(number, String::new()));
        }
    }
    rows.extend(failed.map(|error| TreeRow {
        kind: TreeKind::File,
        text: error.to_string(),
        ..TreeRow::default()
    }));
    rows
}

/// The row of a file of which a version was saved before a message changed it.
fn file_row(file: &SavedFile, saved: usize) -> TreeRow {
    let number = |at: usize| file.versions.get(at).map_or(0, |version| version.version);
    let (new, versions) = match saved + 1 < file.versions.len() {
        true => (
            saved + 1,
            format!("v{} → v{}", number(saved), number(saved + 1)),
        ),
        false => (saved, format!("v{} saved", number(saved))),
    };
    TreeRow {
        kind: TreeKind::File,
        text: format!("{}  {versions}", file.path),
        file: Some((FileRow::from(file), new)),
        ..TreeRow::default()
    }
}

/// The row of a prompt or a compaction.
fn mark(outline: &Outline, prefix: String) -> TreeRow {
    let id = outline.id().map(|id| id.to_string());
    let (kind, text) = match outline.kind {
        OutlineKind::Compaction => (TreeKind::Compaction, "compacted"),
        _ => (TreeKind::Prompt, outline.prompt().unwrap_or_default()),
    };
    TreeRow {
        prefix,
        kind,
        time: outline.time,
        text: text.replace(['\n', '\r'], " "),
        which: id
            .clone()
            .map_or(ConversationRef::Resumed, ConversationRef::Through),
        message: id,
        ..TreeRow::default()
    }
}
