//! A conversation: a window of messages, its branches, and what belongs to it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use annals::export::{EntryPlace, HtmlEntries};
use annals::model::{Block, Body, Entry, Outline, OutlineKind};
use annals::service::{ForkPoint, OpenSession};
use annals::store::{Agent, results_under_calls};
use annals::view::decoded_len;
use annals_render::size;
use askama::Template;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};

use super::side::{Outlined, Side};
use super::{Frame, ListedSession, Parameters, html};
use crate::app::{App, SessionPlace, blocking, lock};
use crate::problem::Problem;
use crate::text::{address, anchor};

/// Number of messages of a window; results of tools do not count.
const WINDOW: usize = 50;

/// Maximum length of texts of calls and results in a window; their own page has them whole.
const LONGEST: usize = 3000;

/// Maximum length of the base64 of an image in a window.
const MAX_IMAGE: usize = 32 << 10;

#[derive(Template)]
#[template(path = "session.html")]
struct Conversation {
    frame: Frame,
    session: ListedSession,
    path: String,
    /// The address for events, if this is the end of the branch that grows.
    follow: String,
    /// The address of windows of this branch.
    part: String,
    heading: String,
    outline: Outlined,
    side: Side,
    body: String,
    window: Window,
    /// Empty at the beginning and at the end.
    older: String,
    newer: String,
    beginning: String,
    end: String,
    /// The message that is shown alone and whole.
    whole: Option<WholeMessage>,
    /// The message at which the form forks.
    fork_at: String,
}

struct WholeMessage {
    back: String,
    raw: String,
}

/// Positions among the shown entries of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: usize,
    end: usize,
    total: usize,
}

/// The entries of one branch or sub-agent.
pub(super) struct Branch {
    pub(super) log: usize,
    /// All entries of the path.
    pub(super) path: Vec<usize>,
    /// Messages and compactions, results after their calls.
    pub(super) shown: Vec<usize>,
    /// It is the one that the agent would resume.
    is_resumed: bool,
    /// Parameters that select it.
    selection: Vec<(&'static str, String)>,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let place = SessionPlace::parse(&root, &id)?;
        let open = app.open(&place)?;
        let open = lock(&open);
        let branch = Branch::select(&open, &given)?;
        let path = place.path();
        let at = position(&open, &branch, given.get("at"))?;
        let whole = at.filter(|_| given.get("whole") == "1");
        let window = match whole {
            Some(at) => branch.message_at(&open, at),
            None => branch.window(&open, at, &given)?,
        };
        let longest = whole.is_none().then_some(LONGEST);
        let body = write_entries(
            app,
            &open,
            &branch,
            &path,
            window.start..window.end,
            longest,
        )?;
        let link = |more: &[(&str, &str)]| branch.address(&path, more);
        let row = app.service.session_row(&open);
        let session = ListedSession::new(app, &row, path.clone(), &app.clock());
        let start = window.start.to_string();
        let end = window.end.to_string();
        let is_end = window.end == window.total;
        let side = Side::new(app, &open, &row, &path)?;
        let heading = branch.heading(app, &open);
        html(&Conversation {
            frame: Frame::new(app, "sessions", session.title.clone()),
            outline: Outlined::new(app, &open, &branch, &path),
            follow: match branch.is_resumed && is_end && whole.is_none() {
                true => address("/events", &[("session", path.trim_start_matches("/s/"))]),
                false => String::new(),
            },
            part: branch.address(&format!("{path}/part"), &[]),
            older: match window.start {
                0 => String::new(),
                _ => link(&[("to", &start)]),
            },
            newer: match is_end {
                true => String::new(),
                false => link(&[("from", &end)]),
            },
            beginning: link(&[("from", "0")]),
            end: link(&[]),
            fork_at: given.given("fork").unwrap_or_default(),
            whole: whole.map(|_| WholeMessage {
                back: link(&[("at", given.get("at"))]),
                raw: raw_address(&open, &branch, window.start, &path),
            }),
            heading,
            session,
            path,
            side,
            body,
            window,
        })
    })
    .await
}

/// A window alone, for the script of the page: from a position, or to one.
pub(super) async fn part(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let place = SessionPlace::parse(&root, &id)?;
        let open = app.open_held(&place)?;
        let open = lock(&open);
        let branch = Branch::select(&open, &given)?;
        let window = branch.window(&open, None, &given)?;
        let path = place.path();
        let range = window.start..window.end;
        let body = write_entries(app, &open, &branch, &path, range, Some(LONGEST))?;
        let Window { start, end, total } = window;
        Ok(Html(format!(
            "<div class=\"window\" data-start=\"{start}\" data-end=\"{end}\" data-total=\"{total}\">\n{body}</div>\n"
        ))
        .into_response())
    })
    .await
}

/// The exact bytes of a line.
pub(super) async fn raw(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let open = app.open(&SessionPlace::parse(&root, &id)?)?;
        let open = lock(&open);
        let line: Option<u64> = given.number("line")?;
        let line = line.ok_or_else(|| Problem::bad_value("`line` is missing."))?;
        let log: usize = given.number("log")?.unwrap_or(0);
        let file = open
            .session
            .files
            .logs()
            .nth(log)
            .ok_or_else(Problem::no_page)?;
        let spots = open.session.records_at_line(&file.path, line)?;
        let spot = spots.into_iter().next().ok_or_else(Problem::no_page)?;
        let bytes = open.session.read_record(spot)?.0;
        let bytes = match app.masks() {
            true => app
                .masked_json(String::from_utf8_lossy(&bytes).into_owned())
                .into_bytes(),
            false => bytes,
        };
        let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        Ok((plain, bytes).into_response())
    })
    .await
}

impl Branch {
    /// Selects the branch of an address: a sub-agent, a conversation, the one through a message, or
    /// the one that the agent would resume.
    pub(super) fn select(open: &OpenSession, given: &Parameters) -> Result<Self, Problem> {
        let session = &open.session;
        let resumed = || session.resumed_entries().0;
        let (log, path, is_resumed, selection) = if let Some(agent) = given.given("agent") {
            let found = session.find_agent(&agent)?;
            let entries = session.agent_entries(found);
            (found.log, entries, false, vec![("agent", agent)])
        } else if let Some(leaf) = given.given("c") {
            let spots = session.find_records(&leaf)?;
            let spot = spots.first().ok_or_else(Problem::no_page)?;
            let path = session.entries_to(spot.log, spot.entry, true);
            let path = path.map(|(path, _)| path).unwrap_or_default();
            let is_resumed = spot.log == 0 && path == resumed();
            (spot.log, path, is_resumed, vec![("c", leaf)])
        } else {
            let path = resumed();
            match given.given("at").filter(|at| !at.starts_with(':')) {
                None => (0, path, true, Vec::new()),
                Some(at) => {
                    let spots = session.find_records(&at)?;
                    let is_on_path = |entry| path.contains(&entry);
                    if spots
                        .iter()
                        .any(|spot| spot.log == 0 && is_on_path(spot.entry))
                    {
                        (0, path, true, Vec::new())
                    } else {
                        let spot = spots.first().ok_or_else(Problem::no_page)?;
                        let found = session.entries_to(spot.log, spot.entry, true);
                        let path = found.map(|(path, _)| path).unwrap_or_default();
                        (spot.log, path, false, vec![("c", at)])
                    }
                }
            }
        };
        let Some((_, scan, _)) = session.log(log) else {
            return Ok(Branch {
                log,
                path: Vec::new(),
                shown: Vec::new(),
                is_resumed,
                selection,
            });
        };
        let is_shown = |at: &usize| {
            let outline = scan.outlines.get(*at);
            outline.is_some_and(|it| it.kind.is_message() || it.kind == OutlineKind::Compaction)
        };
        let shown: Vec<usize> = path.iter().copied().filter(is_shown).collect();
        Ok(Branch {
            log,
            shown: results_under_calls(&scan.outlines, &shown),
            path,
            is_resumed,
            selection,
        })
    }

    /// Returns an address of this branch.
    pub(super) fn address(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut parameters: Vec<(&str, &str)> = self
            .selection
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        parameters.extend(more);
        address(path, &parameters)
    }

    fn outline<'a>(&self, open: &'a OpenSession, position: usize) -> Option<&'a Outline> {
        let (_, scan, _) = open.session.log(self.log)?;
        scan.outlines.get(*self.shown.get(position)?)
    }

    /// Returns the positions of entries that count as messages of a window.
    fn counted(&self, open: &OpenSession) -> Vec<usize> {
        let counts = |position: &usize| {
            let outline = self.outline(open, *position);
            outline.is_none_or(|it| it.results.is_empty() || it.human)
        };
        (0..self.shown.len()).filter(counts).collect()
    }

    /// Returns a window: around a position, from one, to one, or the end.
    fn window(
        &self,
        open: &OpenSession,
        at: Option<usize>,
        given: &Parameters,
    ) -> Result<Window, Problem> {
        let total = self.shown.len();
        let counted = self.counted(open);
        // Index of the first counted position at or after a position.
        let index = |position: usize| counted.partition_point(|known| *known < position);
        let start = match (at, given.number("from")?, given.number("to")?) {
            (Some(at), ..) => counted
                .partition_point(|known| *known <= at)
                .saturating_sub(1 + WINDOW / 2),
            // A part begins exactly where the one before ended.
            (_, Some(from), _) => {
                let from: usize = from;
                let end = counted.get(index(from) + WINDOW).copied().unwrap_or(total);
                return Ok(Window {
                    start: from.min(total),
                    end: end.max(from.min(total)),
                    total,
                });
            }
            (.., Some(to)) => {
                let to: usize = to;
                let start = index(to).saturating_sub(WINDOW);
                let start = if start == 0 {
                    0
                } else {
                    counted.get(start).copied().unwrap_or(0)
                };
                return Ok(Window {
                    start,
                    end: to.min(total),
                    total,
                });
            }
            _ => counted.len().saturating_sub(WINDOW),
        };
        let first = if start == 0 {
            0
        } else {
            counted.get(start).copied().unwrap_or(0)
        };
        let end = counted.get(start + WINDOW).copied().unwrap_or(total);
        Ok(Window {
            start: first,
            end,
            total,
        })
    }

    /// Returns the window of a message with the results of its calls.
    fn message_at(&self, open: &OpenSession, at: usize) -> Window {
        let total = self.shown.len();
        let mut end = at + 1;
        while let Some(outline) = self.outline(open, end) {
            if outline.results.is_empty() || outline.human {
                break;
            }
            end += 1;
        }
        Window {
            start: at,
            end,
            total,
        }
    }

    /// Returns what the branch is, if it is not the only one.
    fn heading(&self, app: &App, open: &OpenSession) -> String {
        match self.selection.first() {
            Some(("agent", agent)) => {
                let found = open.session.find_agent(agent).ok();
                found
                    .map(|agent| agent_name(app, agent))
                    .unwrap_or_default()
            }
            Some(_) if !self.is_resumed => "Another branch".to_owned(),
            _ => String::new(),
        }
    }
}

/// Returns the name of a sub-agent.
pub(super) fn agent_name(app: &App, agent: &Agent) -> String {
    let kind = agent.kind.as_deref().unwrap_or("Sub-agent");
    let name = match agent.description.as_deref() {
        Some(description) => format!("{kind}: {description}"),
        None => kind.to_owned(),
    };
    app.line(&name)
}

/// Returns how addresses name the agent at an index.
pub(super) fn agent_key(agent: &Agent, at: usize) -> String {
    let id = agent.id.as_ref().map(ToString::to_string);
    id.unwrap_or_else(|| format!("#{}", at + 1))
}

/// Returns the position of a message: by its id, or by its line as `:12`.
fn position(open: &OpenSession, branch: &Branch, at: &str) -> Result<Option<usize>, Problem> {
    if at.is_empty() {
        return Ok(None);
    }
    let found = match at.strip_prefix(':') {
        Some(line) => {
            let line: Option<u64> = line.parse().ok();
            let is_it = |position: &usize| {
                let outline = branch.outline(open, *position);
                outline.is_some_and(|it| Some(it.span.line) == line)
            };
            (0..branch.shown.len()).find(is_it)
        }
        None => {
            let spots = open.session.find_records(at)?;
            let entries: HashSet<usize> = spots
                .iter()
                .filter(|spot| spot.log == branch.log)
                .map(|spot| spot.entry)
                .collect();
            branch
                .shown
                .iter()
                .position(|entry| entries.contains(entry))
        }
    };
    Ok(found)
}

/// Returns the name of a message in addresses.
fn message_key(outline: &Outline) -> String {
    let id = outline.id().map(|id| id.to_string());
    id.unwrap_or_else(|| format!(":{}", outline.span.line))
}

fn raw_address(open: &OpenSession, branch: &Branch, position: usize, path: &str) -> String {
    let line = branch.outline(open, position).map_or(0, |it| it.span.line);
    let line = line.to_string();
    let log = branch.log.to_string();
    address(&format!("{path}/raw"), &[("line", &line), ("log", &log)])
}

/// Writes a window as HTML.
fn write_entries(
    app: &App,
    open: &OpenSession,
    branch: &Branch,
    path: &str,
    range: Range<usize>,
    longest: Option<usize>,
) -> Result<String, Problem> {
    let Some((_, scan, _)) = open.session.log(branch.log) else {
        return Ok(String::new());
    };
    let id = open.session.files.id.as_str();
    let mut writer = HtmlEntries::new(id, app.service.zone().clone(), app.masks())?;
    if let Some(longest) = longest {
        writer = writer.with_longest(longest);
    }
    let forks = match branch.log {
        0 => forks_before(open, branch),
        _ => HashMap::new(),
    };
    let mut called: HashMap<usize, Vec<(usize, &Agent)>> = HashMap::new();
    for (at, agent) in open.session.agents.iter().enumerate() {
        if let Some(call) = agent
            .call
            .filter(|call| call.log == branch.log && !agent.warm_up)
        {
            called.entry(call.entry).or_default().push((at, agent));
        }
    }
    let mut out: Vec<u8> = Vec::new();
    let wanted = branch.shown.get(range).unwrap_or_default();
    open.each_at(branch.log, wanted, |at, mut entry| {
        let Some(outline) = scan.outlines.get(at) else {
            return;
        };
        let key = message_key(outline);
        let anchor = anchor(&key);
        let link = branch.address(path, &[("at", &key)]);
        let place = EntryPlace {
            anchor: &anchor,
            address: &escape(&format!("{link}#{anchor}")),
            whole: &escape(&branch.address(path, &[("at", &key), ("whole", "1")])),
        };
        // Writing to memory does not fail.
        if let Some(forks) = forks.get(&at) {
            _ = writer.end_turn(&mut out);
            for fork in forks {
                out.extend(fork_html(fork, path).as_bytes());
            }
        }
        let images = match longest {
            Some(_) => take_large_images(&mut entry),
            None => Vec::new(),
        };
        _ = writer.write(entry, place, &mut out);
        // Only what is in the main log can be copied from there.
        let is_message = outline.results.is_empty() || outline.human;
        if app.options.write && branch.log == 0 && is_message && !key.starts_with(':') {
            let fork = branch.address(path, &[("at", &key), ("fork", &key)]);
            let fork = escape(&format!("{fork}#fork"));
            out.extend(format!("<p class=\"act\"><a href=\"{fork}\">Fork here</a></p>\n").as_bytes());
        }
        for bytes in images {
            let (whole, size) = (place.whole, size::bytes(bytes));
            let link = format!("<p class=\"aside\"><a href=\"{whole}\">Image, {size}</a></p>\n");
            out.extend(link.as_bytes());
        }
        for (number, agent) in called.get(&at).into_iter().flatten() {
            let key = agent_key(agent, *number);
            let href = escape(&address(path, &[("agent", &key)]));
            let name = escape(&agent_name(app, agent));
            let messages = agent.messages;
            out.extend(
                format!("<p class=\"called\"><a href=\"{href}\">{name}</a> <small>{messages} messages</small></p>\n")
                    .as_bytes(),
            );
        }
    })?;
    _ = writer.end_turn(&mut out);
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// Removes images that would make a window large, and returns their sizes.
fn take_large_images(entry: &mut Entry) -> Vec<u64> {
    fn take(blocks: &mut Vec<Block>, taken: &mut Vec<u64>) {
        blocks.retain_mut(|block| match block {
            Block::Image { data, .. } if data.len() > MAX_IMAGE => {
                taken.push(decoded_len(data) as u64);
                false
            }
            Block::ToolResult { output, .. } => {
                take(output, taken);
                true
            }
            _ => true,
        });
    }
    let mut taken = Vec::new();
    if let Body::Message(message) = &mut entry.body {
        take(&mut message.blocks, &mut taken);
    }
    taken
}

/// Returns the fork points before shown entries.
fn forks_before(open: &OpenSession, branch: &Branch) -> HashMap<usize, Vec<ForkPoint>> {
    let mut points: HashMap<Option<usize>, Vec<ForkPoint>> = HashMap::new();
    for point in open.fork_points(&branch.path) {
        points.entry(point.after).or_default().push(point);
    }
    if points.is_empty() {
        return HashMap::new();
    }
    let shown: HashSet<usize> = branch.shown.iter().copied().collect();
    let mut before = HashMap::new();
    let mut waiting = points.remove(&None).unwrap_or_default();
    for at in &branch.path {
        if shown.contains(at) && !waiting.is_empty() {
            before.insert(*at, std::mem::take(&mut waiting));
        }
        waiting.extend(points.remove(&Some(*at)).unwrap_or_default());
    }
    before
}

/// Writes the place of the shown branch among others: `2 of 3`.
fn fork_html(fork: &ForkPoint, path: &str) -> String {
    let link = |at: Option<usize>, name: &str, sign: &str| {
        let leaf = at.and_then(|at| fork.branches.get(at));
        match leaf {
            Some(leaf) => {
                let href = escape(&address(path, &[("c", leaf), ("at", leaf)]));
                format!("<a href=\"{href}\" aria-label=\"{name} branch\">{sign}</a>")
            }
            None => format!("<span aria-hidden=\"true\">{sign}</span>"),
        }
    };
    format!(
        "<nav class=\"fork\" aria-label=\"Branches\">{} <span>branch {} of {}</span> {}</nav>\n",
        link(fork.current.checked_sub(1), "Previous", "‹"),
        fork.current + 1,
        fork.branches.len(),
        link(Some(fork.current + 1), "Next", "›"),
    )
}

/// Escapes text for an attribute or content.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
