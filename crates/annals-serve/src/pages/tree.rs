//! The branches and sub-agents of a session, as a picture.

use std::collections::HashMap;
use std::sync::Arc;

use annals::model::OutlineKind;
use annals::service::OpenSession;
use annals::tree::{Segment, shorten};
use annals_render::size;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::session::{agent_key, agent_name};
use super::{Frame, ListedSession, cost_text, html};
use crate::app::{App, SessionPlace, blocking, lock};
use crate::problem::Problem;
use crate::text::address;

/// Height of a row and width of a lane, in pixels.
const ROW: usize = 46;
const LANE: usize = 26;

/// Maximum number of rows.
const MAX_ROWS: usize = 2000;

#[derive(Template)]
#[template(path = "tree.html")]
struct TreePage {
    frame: Frame,
    session: ListedSession,
    path: String,
    rows: Vec<Row>,
    height: usize,
    left_out: usize,
}

/// A branch or a sub-agent.
struct Row {
    href: String,
    text: String,
    note: String,
    class: &'static str,
    x: usize,
    y: usize,
    /// The line from the row that it branches off.
    line: String,
    text_x: usize,
}

/// The picture while it is built.
struct Picture<'a> {
    app: &'a App,
    open: &'a OpenSession,
    path: &'a str,
    segments: Vec<Segment>,
    /// Cost and whether it would be resumed, by conversation.
    ends: Vec<(String, bool)>,
    rows: Vec<Row>,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let place = SessionPlace::parse(&root, &id)?;
        let open = app.open(&place)?;
        let open = lock(&open);
        let path = place.path();
        let row = app.service.session_row(&open);
        let session = ListedSession::new(app, &row, path.clone(), &app.clock());
        let mut rows = Picture::draw(app, &open, &path);
        let left_out = rows.len().saturating_sub(MAX_ROWS);
        rows.truncate(MAX_ROWS);
        html(&TreePage {
            frame: Frame::new(app, "sessions", format!("Tree of {}", session.title)),
            height: rows.len() * ROW + 16,
            session,
            path,
            rows,
            left_out,
        })
    })
    .await
}

impl Picture<'_> {
    fn draw(app: &App, open: &OpenSession, path: &str) -> Vec<Row> {
        let tree = open.session.tree();
        let ends = app.service.conversations_of(open);
        let ends = ends
            .iter()
            .map(|row| (cost_text(&row.cost), row.info.resumes));
        let mut picture = Picture {
            app,
            open,
            path,
            segments: tree.map(|tree| tree.segments()).unwrap_or_default(),
            ends: ends.collect(),
            rows: Vec::new(),
        };
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        let mut leads_on: Vec<bool> = vec![false; picture.segments.len()];
        for (at, segment) in picture.segments.iter().enumerate().rev() {
            let leads = segment.conversation.is_some() || leads_on.get(at) == Some(&true);
            let parent = segment.parent.and_then(|parent| leads_on.get_mut(parent));
            if let Some(parent) = parent {
                *parent |= leads;
            }
            if leads {
                children.entry(segment.parent).or_default().insert(0, at);
            }
        }
        // Depth first, without recursion: a log may branch at every message.
        let roots = children.get(&None).cloned().unwrap_or_default();
        let mut waiting: Vec<(usize, usize, Option<usize>)> = Vec::new();
        waiting.extend(roots.iter().rev().map(|at| (*at, 0, None)));
        while let Some((at, lane, parent)) = waiting.pop() {
            let row = picture.segment(at, lane, parent);
            let below = children.get(&Some(at)).map_or(&[][..], Vec::as_slice);
            // The last branch goes on in the lane; the others stand beside it.
            for (number, child) in below.iter().enumerate().rev() {
                let lane = if number + 1 == below.len() {
                    lane
                } else {
                    lane + 1
                };
                waiting.insert(waiting.len(), (*child, lane, Some(row)));
            }
        }
        picture.agents_of(None, 0);
        picture.rows
    }

    /// Adds the row of a segment and of the sub-agents that it called.
    fn segment(&mut self, at: usize, lane: usize, parent: Option<usize>) -> usize {
        let (mut messages, mut compactions): (u64, u64) = (0, 0);
        let (mut prompt, mut key) = (None, None);
        let segment = self.segments.get(at);
        let entries = segment.map(|it| it.entries.clone()).unwrap_or_default();
        let outlines = self
            .open
            .session
            .main_log()
            .map(|(_, scan, _)| &scan.outlines);
        for entry in &entries {
            let Some(outline) = outlines.and_then(|outlines| outlines.get(*entry)) else {
                continue;
            };
            messages += u64::from(outline.kind.is_message());
            compactions += u64::from(outline.kind == OutlineKind::Compaction);
            prompt = prompt.or_else(|| outline.prompt());
            if outline.kind.is_message() {
                key = outline.id();
            }
        }
        let end = segment.and_then(|it| self.ends.get(it.conversation?));
        let mut note = size::pluralize(messages, "message");
        if compactions > 0 {
            note += &format!(" · {}", size::pluralize(compactions, "compaction"));
        }
        if let Some((cost, resumes)) = end {
            note += &format!(" {}{cost}", if cost.is_empty() { "" } else { "· " });
            note += if *resumes { " · resumes here" } else { "" };
        }
        let text = match prompt {
            Some(prompt) => shorten(&self.app.line(prompt), 100).to_string(),
            None => "goes on".to_owned(),
        };
        let key = key.map(|id| id.to_string()).unwrap_or_default();
        let href = address(self.path, &[("c", &key), ("at", &key)]);
        let class = match end {
            Some((_, true)) => "resumed",
            Some(_) => "leaf",
            None => "inner",
        };
        let row = self.push(lane, parent, href, text, note, class);
        self.agents_of(Some(&entries), lane + 1);
        row
    }

    /// Adds the sub-agents that entries called, or those whose call is not known.
    fn agents_of(&mut self, entries: Option<&[usize]>, lane: usize) {
        let parent = entries.and_then(|_| self.rows.len().checked_sub(1));
        let open = self.open;
        for (at, agent) in open.session.agents.iter().enumerate() {
            let is_here = match (agent.call, entries) {
                (Some(call), Some(entries)) => call.log == 0 && entries.contains(&call.entry),
                (Some(call), None) => call.log != 0,
                (None, entries) => entries.is_none(),
            };
            if agent.warm_up || !is_here {
                continue;
            }
            let href = address(self.path, &[("agent", &agent_key(agent, at))]);
            let text = shorten(&agent_name(self.app, agent), 100).to_string();
            let note = size::pluralize(agent.messages as u64, "message");
            self.push(lane, parent, href, text, note, "agent");
        }
    }

    fn push(
        &mut self,
        lane: usize,
        parent: Option<usize>,
        href: String,
        text: String,
        note: String,
        class: &'static str,
    ) -> usize {
        let number = self.rows.len();
        // Very deep trees stay on the page.
        let x = 16 + lane.min(20) * LANE;
        let y = number * ROW + ROW / 2;
        let from = parent.and_then(|parent| self.rows.get(parent));
        let line = from.map(|from| match from.x == x {
            true => format!("M{x} {}V{}", from.y + 7, y - 7),
            false => format!(
                "M{} {}V{}Q{} {y} {} {y}H{}",
                from.x,
                from.y + 7,
                y - 12,
                from.x,
                from.x + 12,
                x - 7
            ),
        });
        self.rows.push(Row {
            href,
            text,
            note,
            class,
            x,
            y,
            line: line.unwrap_or_default(),
            text_x: x + 16,
        });
        number
    }
}
