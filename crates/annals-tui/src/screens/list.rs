//! The list of sessions, and the hits of the query.

use std::collections::{HashMap, HashSet};

use annals::search::Hit;
use annals::service::SessionRow;
use annals_render::style::{DIM, ERROR, ID, MATCH, PATH, SUCCESS, TIME, TITLE, WARNING};
use annals_render::text::safe;
use annals_render::time::Clock;
use annals_render::{money, size};
use jiff::SignedDuration;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::Cursor;
use crate::protocol::{Hits, SearchQuestion, SessionName};
use crate::reader::Reader;
use crate::text::{column, cut, fit, plain, right, spread, styled};

/// Sessions that are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    #[default]
    All,
    Here,
    Live,
    Archived,
}

impl Scope {
    /// All scopes, in the order of the tab key.
    pub(crate) const ALL: [Scope; 4] = [Scope::All, Scope::Here, Scope::Live, Scope::Archived];

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::All => "all",
            Scope::Here => "here",
            Scope::Live => "live",
            Scope::Archived => "archived",
        }
    }

    /// Returns the scope after it, or before it.
    pub(crate) fn step(self, forward: bool) -> Self {
        let at = Scope::ALL.iter().position(|scope| *scope == self);
        let count = Scope::ALL.len();
        let step = if forward { 1 } else { count - 1 };
        let next = (at.unwrap_or(0) + step) % count;
        Scope::ALL.get(next).copied().unwrap_or_default()
    }
}

/// A session is live if it was written to within this time.
const LIVE: SignedDuration = SignedDuration::from_mins(10);
/// Number of letters from which the words of logs are searched.
pub(crate) const SEARCHED_LETTERS: usize = 3;

/// A row of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The session.
    pub(crate) row: usize,
    /// Its first hit.
    pub(crate) hit: Option<usize>,
    /// Number of its hits.
    pub(crate) hits: usize,
}

/// The list of sessions.
#[derive(Debug, Default)]
pub(crate) struct ListScreen {
    pub(crate) query: String,
    pub(crate) scope: Scope,
    /// All sessions, newest first.
    pub(crate) rows: Vec<SessionRow>,
    /// Whether each is of this project.
    pub(crate) here: Vec<bool>,
    pub(crate) is_loaded: bool,
    /// Number of all sessions, of which `rows` may be the newest.
    pub(crate) all: usize,
    /// Text that the first two letters are searched in: titles, projects, tags and ids in lower case.
    texts: Vec<String>,
    by_id: HashMap<String, Vec<usize>>,
    pub(crate) shown: Vec<Shown>,
    pub(crate) cursor: Cursor,
    pub(crate) generation: u64,
    pub(crate) hits: Vec<Hit>,
    pub(crate) total: u64,
    pub(crate) at_least: bool,
    pub(crate) is_searching: bool,
    /// Hits of an earlier query are shown until the first of this one arrive.
    is_stale: bool,
    pub(crate) error: Option<String>,
    pub(crate) preview: Option<Reader>,
    /// Whether the user moved in the list since the query changed.
    pub(crate) has_moved: bool,
}

impl ListScreen {
    /// Takes the list. The selected session stays selected.
    pub(crate) fn take_sessions(&mut self, rows: Vec<SessionRow>, here: Vec<bool>, clock: &Clock) {
        let selected = self.selected().map(|row| row.info.file.clone());
        let text = |row: &SessionRow| {
            let info = &row.info;
            let title = info.title.as_ref().map_or("", |title| title.text.as_str());
            let tag = info.tag.as_deref().unwrap_or_default();
            let project = &info.project.path;
            format!("{title}\n{project}\n{tag}\n{}", info.id).to_lowercase()
        };
        self.texts = rows.iter().map(text).collect();
        self.by_id.clear();
        for (at, row) in rows.iter().enumerate() {
            let known = self.by_id.entry(row.info.id.to_string()).or_default();
            known.push(at);
        }
        self.rows = rows;
        self.here = here;
        self.is_loaded = true;
        self.filter(clock);
        if let Some(file) = selected {
            let is_it = |shown: &Shown| {
                let row = self.rows.get(shown.row);
                row.is_some_and(|row| row.info.file == file)
            };
            if let Some(at) = self.shown.iter().position(is_it) {
                self.cursor.selected = at;
            }
        }
    }

    /// Whether all sessions are listed, and not only the newest.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_loaded && self.rows.len() == self.all
    }

    /// Takes hits. Returns whether the list changed.
    pub(crate) fn take_hits(&mut self, mut hits: Hits, clock: &Clock) -> bool {
        if hits.generation != self.generation {
            return false;
        }
        let is_first = std::mem::replace(&mut self.is_stale, false);
        // The user looks at the rows already: their order stays as it is.
        let keeps_order = self.has_moved && !is_first;
        if is_first || hits.replaces && !keeps_order {
            self.hits.clear();
        }
        if !(hits.replaces && keeps_order) {
            self.hits.append(&mut hits.hits);
        }
        self.total = match hits.done {
            true => hits.total,
            false => self.hits.len() as u64,
        };
        self.at_least = hits.at_least;
        self.is_searching = !hits.done;
        self.error = hits.error;
        self.filter(clock);
        true
    }

    /// Takes a changed query. Returns the search, if the words of logs are searched.
    pub(crate) fn change_query(&mut self, clock: &Clock) -> Option<SearchQuestion> {
        self.generation += 1;
        self.cursor.selected = 0;
        self.has_moved = false;
        self.error = None;
        let is_searched = self.query.trim().chars().count() >= SEARCHED_LETTERS;
        self.is_searching = is_searched;
        // What was found stays until there is something new, so that the list does not flicker.
        self.is_stale = is_searched;
        if !is_searched {
            self.hits.clear();
            self.total = 0;
        }
        self.filter(clock);
        is_searched.then(|| SearchQuestion {
            generation: self.generation,
            query: self.query.trim().to_owned(),
            here: self.scope == Scope::Here,
        })
    }

    /// Adds a condition to the query, or removes it.
    pub(crate) fn toggle_condition(&mut self, condition: &str) {
        let words: Vec<&str> = self.query.split(' ').collect();
        self.query = match words.contains(&condition) {
            true => {
                let others = words.into_iter().filter(|word| *word != condition);
                others.collect::<Vec<_>>().join(" ")
            }
            false => format!("{condition} {}", self.query),
        };
    }

    /// Selects the rows that are shown: those of the scope whose title has the words, then those
    /// with hits.
    pub(crate) fn filter(&mut self, clock: &Clock) {
        let words = self.query.to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        // In a query with conditions, the title is one of the texts that are searched.
        let is_word = |word: &&str| !word.starts_with('-') && !["or", "and", "not"].contains(word);
        let is_plain = !self.query.contains(['"', ':', '(', ')', '*']) && words.iter().all(is_word);
        self.shown.clear();
        let mut listed = HashSet::new();
        for (at, text) in self.texts.iter().enumerate() {
            let has_words = is_plain && words.iter().all(|word| text.contains(word));
            if (words.is_empty() || has_words) && self.is_in_scope(at, clock) {
                listed.insert(at);
                self.shown.push(Shown {
                    row: at,
                    hit: None,
                    hits: 0,
                });
            }
        }
        if words.is_empty() {
            return;
        }
        let mut position: HashMap<usize, usize> = HashMap::new();
        let known = self.shown.iter().enumerate();
        position.extend(known.map(|(at, shown)| (shown.row, at)));
        for (number, hit) in self.hits.iter().enumerate() {
            let Some(row) = self.row_of(hit) else {
                continue;
            };
            if !self.is_in_scope(row, clock) {
                continue;
            }
            let at = *position.entry(row).or_insert_with(|| {
                self.shown.push(Shown {
                    row,
                    hit: None,
                    hits: 0,
                });
                self.shown.len() - 1
            });
            if let Some(shown) = self.shown.get_mut(at) {
                shown.hits += 1;
                // The title is on the line above.
                if hit.role.is_some() || hit.part.is_none() {
                    shown.hit.get_or_insert(number);
                }
            }
        }
    }

    fn row_of(&self, hit: &Hit) -> Option<usize> {
        let known = self.by_id.get(hit.session.as_str())?;
        let exact = known.iter().find(|at| {
            let row = self.rows.get(**at);
            row.is_some_and(|row| row.info.file == hit.file)
        });
        exact.or_else(|| known.first()).copied()
    }

    fn is_in_scope(&self, row: usize, clock: &Clock) -> bool {
        let Some(info) = self.rows.get(row).map(|row| &row.info) else {
            return false;
        };
        match self.scope {
            Scope::All => true,
            Scope::Here => self.here.get(row).copied().unwrap_or(false),
            Scope::Archived => info.archived,
            Scope::Live => is_live(&self.rows, row, clock),
        }
    }

    /// The selected session.
    pub(crate) fn selected(&self) -> Option<&SessionRow> {
        let shown = self.shown.get(self.cursor.selected)?;
        self.rows.get(shown.row)
    }

    /// The name of the selected session.
    pub(crate) fn selected_name(&self) -> Option<SessionName> {
        let row = self.selected()?;
        let known = self.by_id.get(row.info.id.as_str());
        let is_unique = known.is_some_and(|known| known.len() == 1);
        Some(name_of(row, is_unique))
    }

    /// The name of a session with an id.
    pub(crate) fn name(&self, id: &str) -> SessionName {
        let known = self.by_id.get(id);
        let row = known.and_then(|known| self.rows.get(*known.first()?));
        row.map_or_else(
            || SessionName {
                key: id.to_owned(),
                id: id.to_owned(),
                title: String::new(),
            },
            |row| name_of(row, true),
        )
    }

    /// The message of the selected hit.
    pub(crate) fn selected_hit(&self) -> Option<String> {
        let shown = self.shown.get(self.cursor.selected)?;
        let hit = self.hits.get(shown.hit?)?;
        if let Some(entry) = &hit.entry {
            return Some(entry.to_string());
        }
        (hit.line > 0).then(|| format!(":{}", hit.line))
    }

    /// The heading line: query, scopes, counts.
    pub(crate) fn header(&self, width: usize) -> Line<'static> {
        let mut scopes = Vec::new();
        for (at, scope) in Scope::ALL.into_iter().enumerate() {
            if at > 0 {
                scopes.push(styled(DIM, " · "));
            }
            scopes.push(match scope == self.scope {
                true => Span::styled(
                    scope.name(),
                    crate::text::style(MATCH).add_modifier(Modifier::UNDERLINED),
                ),
                false => styled(DIM, scope.name()),
            });
        }
        let counts = self.counts();
        let counts_width = annals_render::width::width(&counts);
        let mut right = scopes;
        if width >= 60 {
            right.push(Span::raw("   "));
            right.push(styled(DIM, &counts));
        } else if width < 40 || counts_width > width / 2 {
            right = vec![styled(DIM, self.scope.name())];
        }
        let mut left = vec![styled(MATCH, " / ")];
        match self.query.is_empty() {
            true => left.push(styled(DIM, "type to search")),
            false => {
                // The end of a long query is visible.
                let right_width: usize = right.iter().map(Span::width).sum();
                let room = width.saturating_sub(right_width + 6);
                left.push(plain(&end_of(&safe(&self.query), room)));
                left.push(Span::styled("▏", crate::text::style(MATCH)));
            }
        }
        spread(left, right, width)
    }

    fn counts(&self) -> String {
        let is_all = self.scope == Scope::All && self.query.trim().is_empty();
        let count = if is_all { self.all } else { self.shown.len() };
        let sessions = size::pluralize(count as u64, "session");
        if self.query.trim().chars().count() < SEARCHED_LETTERS {
            return sessions;
        }
        let more = if self.at_least { "≥" } else { "" };
        let hits = format!("{more}{}", size::pluralize(self.total, "hit"));
        match self.is_searching {
            true if self.is_stale => format!("{sessions} · searching …"),
            true => format!("{sessions} · {hits} …"),
            false => format!("{sessions} · {hits}"),
        }
    }

    /// Makes the selected row visible.
    pub(crate) fn arrange(&mut self, height: usize) {
        let shown = &self.shown;
        let height_of = |row: usize| {
            let hit = shown.get(row).and_then(|shown| shown.hit);
            1 + usize::from(hit.is_some())
        };
        self.cursor.arrange(shown.len(), height, height_of);
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, clock: &Clock) {
        if let Some(error) = &self.error {
            let width = Some(usize::from(area.width).saturating_sub(2));
            let text = annals_render::message::plain_text(error, width);
            let mut lines = vec![Line::from(styled(ERROR, "This query is not valid."))];
            lines.extend(crate::text::lines(&text));
            draw_lines(frame, area, lines);
            return;
        }
        if self.shown.is_empty() {
            draw_lines(frame, area, self.empty_state());
            return;
        }
        let width = usize::from(area.width).saturating_sub(1);
        let projects = self.project_width(width);
        self.cursor.draw(frame, area, self.shown.len(), |at| {
            let Some(shown) = self.shown.get(at) else {
                return Vec::new();
            };
            let Some(row) = self.rows.get(shown.row) else {
                return Vec::new();
            };
            let is_selected = at == self.cursor.selected;
            let mut lines = vec![self.row(shown, row, width, projects, is_selected, clock)];
            if let Some(hit) = shown.hit.and_then(|hit| self.hits.get(hit)) {
                lines.push(snippet(hit, shown.hits, width));
            }
            lines
        });
    }

    /// Width of the column of projects: that of the longest name on the screen.
    fn project_width(&self, width: usize) -> usize {
        let on_screen = self
            .shown
            .iter()
            .skip(self.cursor.top)
            .take(self.cursor.page);
        let names = on_screen.filter_map(|shown| self.rows.get(shown.row));
        let widest = names.map(|row| annals_render::width::width(&safe(project_name(row))));
        widest.max().unwrap_or(0).min(width / 5).min(16)
    }

    fn row(
        &self,
        shown: &Shown,
        row: &SessionRow,
        width: usize,
        projects: usize,
        is_selected: bool,
        clock: &Clock,
    ) -> Line<'static> {
        let info = &row.info;
        let mut left = Vec::new();
        let age = info
            .updated
            .map(|time| age(time, clock))
            .unwrap_or_default();
        left.push(styled(TIME, &right(&age, 6)));
        left.push(Span::raw("  "));
        if width >= 40 {
            left.push(styled(PATH, &column(project_name(row), projects)));
            left.push(Span::raw("  "));
        }
        if is_live(&self.rows, shown.row, clock) {
            left.push(styled(SUCCESS, "● live  "));
        }
        if info.archived {
            left.push(styled(DIM, "† archived  "));
        }
        if info.flaw_counts().errors > 0 {
            left.push(styled(WARNING, "⚠ "));
        }
        let title = info.title.as_ref().map(|title| title.text.as_str());
        let title = title.filter(|title| !title.trim().is_empty());
        left.push(match (title, is_selected) {
            (Some(title), true) => styled(TITLE, title),
            (Some(title), false) => plain(title),
            (None, _) => styled(DIM, "(no title)"),
        });
        if let Some(tag) = &info.tag {
            left.push(styled(ID, &format!("  #{tag}")));
        }
        let mut marks = String::new();
        if info.conversations > 1 {
            marks += &format!("⎇{} ", info.conversations);
        }
        if info.agents > 0 {
            marks += &format!("⚙{} ", info.agents);
        }
        let cost = row.cost.known_cost().map(money::cents).unwrap_or_default();
        let mut end = vec![styled(DIM, &marks)];
        if width >= 48 {
            end.push(styled(DIM, &right(&cost, 8)));
        }
        spread(left, end, width)
    }

    /// Returns what is said instead of rows.
    fn empty_state(&self) -> Vec<Line<'static>> {
        let line = |text: &str| Line::from(styled(DIM, text));
        if !self.is_loaded {
            return vec![line("reading sessions …")];
        }
        if self.rows.is_empty() {
            return vec![
                Line::from(styled(TITLE, "No sessions yet.")),
                line(""),
                line("annals lists the conversations of coding agents on"),
                line("this machine: Claude Code, Codex, pi and others."),
                line(""),
                line("annals demo          try it with a sample history"),
                line("annals --root PATH   read another directory"),
            ];
        }
        if self.is_searching {
            return vec![line("searching …")];
        }
        let mut lines = vec![Line::from(styled(TITLE, "Nothing here."))];
        lines.push(line(""));
        lines.push(match (self.scope, self.query.trim().is_empty()) {
            (Scope::All, _) => line("No session has these words.  ^u clears the query"),
            (Scope::Here, true) => line("No session of this project.  tab shows others"),
            (Scope::Live, true) => line("No agent wrote in the last ten minutes.  tab shows all"),
            (Scope::Archived, true) => line("No archived session: `annals archive` makes one."),
            (_, false) => line("No such session in this scope.  tab shows others"),
        });
        lines
    }
}

/// Returns whether an agent wrote to a session a moment ago.
fn is_live(rows: &[SessionRow], row: usize, clock: &Clock) -> bool {
    let info = rows.get(row).map(|row| &row.info);
    info.is_some_and(|info| {
        let updated = info.updated.filter(|_| !info.archived);
        updated.is_some_and(|time| clock.now.duration_since(time) < LIVE)
    })
}

fn name_of(row: &SessionRow, is_unique: bool) -> SessionName {
    let id = row.info.id.to_string();
    let title = row.info.title.as_ref().map(|title| title.text.clone());
    SessionName {
        key: match is_unique {
            true => id.clone(),
            false => row.info.file.display().to_string(),
        },
        id,
        title: title.unwrap_or_default(),
    }
}

/// The last part of the project's path.
fn project_name(row: &SessionRow) -> &str {
    let path = row.info.project.path.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.is_empty() { "/" } else { name }
}

/// Returns how long ago a time was, in few columns: `3m`, `2h`, `5d`, `9 Nov`, `Nov 24`.
fn age(time: jiff::Timestamp, clock: &Clock) -> String {
    let minutes = clock.now.duration_since(time).as_mins();
    match minutes {
        ..1 => "now".to_owned(),
        1..60 => format!("{minutes}m"),
        60..1_440 => format!("{}h", minutes / 60),
        1_440..10_080 => format!("{}d", minutes / 1_440),
        _ if clock.format(time, "%Y") == clock.format(clock.now, "%Y") => {
            clock.format(time, "%-d %b")
        }
        _ => clock.format(time, "%b %y"),
    }
}

/// The line of a hit, with its matches.
fn snippet(hit: &Hit, hits: usize, width: usize) -> Line<'static> {
    let text = &hit.snippet;
    let mut spans = vec![Span::raw("        ")];
    // The first match is visible.
    let first = hit.highlights.first().map_or(0, |range| range.start);
    let lead = text.get(..first).unwrap_or_default();
    let kept = end_of(lead, width / 4);
    let mut end = lead.len() - kept.len();
    if end > 0 && !kept.starts_with('…') {
        spans.push(styled(DIM, "…"));
    }
    for range in &hit.highlights {
        let before = text.get(end..range.start).unwrap_or_default();
        spans.push(styled(DIM, before));
        let found = text.get(range.clone()).unwrap_or_default();
        spans.push(styled(MATCH, found));
        end = range.end.max(end);
    }
    spans.push(styled(DIM, text.get(end..).unwrap_or_default()));
    let spans: Vec<Span<'static>> = spans.into_iter().filter(|it| it.width() > 0).collect();
    match hits {
        0 | 1 => Line::from(cut(spans, width)),
        hits => spread(spans, vec![styled(DIM, &format!("{hits} hits"))], width),
    }
}

/// Returns the end of a text.
fn end_of(text: &str, max: usize) -> String {
    let all: Vec<&str> = annals_render::width::clusters(text).collect();
    let mut used = 0;
    let mut from = all.len();
    for (at, cluster) in all.iter().enumerate().rev() {
        used += annals_render::width::width(cluster);
        if used > max {
            break;
        }
        from = at;
    }
    all.get(from..).unwrap_or_default().concat()
}

pub(super) fn draw_lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    for (line, y) in lines.into_iter().zip(area.y..area.bottom()) {
        let mut line = line;
        line.spans.insert(0, Span::raw("  "));
        let spans = cut(line.spans, usize::from(area.width));
        let at = Rect {
            y,
            height: 1,
            ..area
        };
        frame.render_widget(Line::from(spans), at);
    }
}

/// Returns a title of at most `max` columns.
pub(super) fn short_title(title: &str, max: usize) -> String {
    match title.trim().is_empty() {
        true => "(no title)".to_owned(),
        false => fit(title, max),
    }
}
