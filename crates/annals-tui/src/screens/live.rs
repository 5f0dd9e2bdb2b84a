//! Running agents: a row for each agent that wrote, the newest first.

use annals::model::{Block, Body, Entry, Role};
use annals_render::style::{
    ASSISTANT, DIM, PATH, SUCCESS, SYSTEM, THINKING, TIME, TITLE, TOOL, USER,
};
use annals_render::time::Clock;
use annals_render::tool;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Cursor;
use super::list::{draw_lines, short_title};
use crate::protocol::LiveLine;
use crate::text::{fit, lines, plain, spread, styled};

/// Number of lines that are remembered of each agent.
const REMEMBERED: usize = 3;

/// The list of running agents.
#[derive(Debug, Default)]
pub(crate) struct LiveScreen {
    pub(crate) agents: Vec<LiveAgent>,
    pub(crate) cursor: Cursor,
}

/// An agent that writes.
#[derive(Debug)]
pub(crate) struct LiveAgent {
    pub(crate) session: crate::protocol::SessionName,
    pub(crate) project: String,
    pub(crate) agent: Option<String>,
    pub(crate) updated: Option<jiff::Timestamp>,
    /// The last things it wrote.
    said: Vec<(anstyle::Style, String)>,
}

impl LiveScreen {
    /// Takes an entry.
    pub(crate) fn take(&mut self, line: LiveLine) {
        let said = what(&line.entry);
        // Titles, results and states say nothing here.
        if said.is_empty() {
            return;
        }
        let known = self
            .agents
            .iter()
            .position(|agent| agent.session.id == line.session.id && agent.agent == line.agent);
        let selected = self.agents.get(self.cursor.selected);
        let selected = selected.map(|agent| (agent.session.id.clone(), agent.agent.clone()));
        let mut agent = match known {
            Some(at) => self.agents.remove(at),
            None => LiveAgent {
                session: line.session,
                project: line.project,
                agent: line.agent,
                updated: None,
                said: Vec::new(),
            },
        };
        agent.updated = line.entry.time.or(agent.updated);
        agent.said.extend(said);
        let forgotten = agent.said.len().saturating_sub(REMEMBERED);
        agent.said.drain(..forgotten);
        self.agents.insert(0, agent);
        if let Some((session, agent)) = selected {
            let same = |known: &LiveAgent| known.session.id == session && known.agent == agent;
            self.cursor.selected = self.agents.iter().position(same).unwrap_or(0);
        }
    }

    /// The selected agent.
    pub(crate) fn selected(&self) -> Option<&LiveAgent> {
        self.agents.get(self.cursor.selected)
    }

    /// Makes the selected row visible.
    pub(crate) fn arrange(&mut self, height: usize) {
        let agents = &self.agents;
        let height_of = |row: usize| agents.get(row).map_or(1, |agent| agent.said.len() + 2);
        self.cursor.arrange(agents.len(), height, height_of);
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, clock: &Clock) {
        if self.agents.is_empty() {
            let text = [
                "No agent has written since this screen was opened.",
                "",
                "What they think, say and do appears here as it is written.",
            ];
            let lines = text.iter().map(|text| Line::from(styled(DIM, text)));
            return draw_lines(frame, area, lines.collect());
        }
        let width = usize::from(area.width).saturating_sub(1);
        self.cursor.draw(frame, area, self.agents.len(), |at| {
            let Some(agent) = self.agents.get(at) else {
                return Vec::new();
            };
            let is_selected = at == self.cursor.selected;
            let name = agent.project.rsplit('/').next().unwrap_or_default();
            let title = short_title(&agent.session.title, width / 2);
            let mut left = vec![styled(SUCCESS, " ● "), styled(PATH, name), Span::raw("  ")];
            left.push(match is_selected {
                true => styled(TITLE, &title),
                false => plain(&title),
            });
            if let Some(sub) = &agent.agent {
                left.push(styled(TOOL, &format!("  ⚙ {sub}")));
            }
            let time = agent.updated.map(|time| clock.ago(time));
            let time = styled(TIME, &time.unwrap_or_default());
            let mut lines = vec![spread(left, vec![time], width)];
            for (style, text) in &agent.said {
                let text = fit(text, width.saturating_sub(3));
                lines.push(Line::from(vec![Span::raw("   "), styled(*style, &text)]));
            }
            lines.push(Line::default());
            lines
        });
    }
}

/// Returns what an entry says, one line for each block.
fn what(entry: &Entry) -> Vec<(anstyle::Style, String)> {
    let Body::Message(message) = &entry.body else {
        return match &entry.body {
            Body::Compaction { .. } => vec![(SYSTEM, "◆ compacted".to_owned())],
            _ => Vec::new(),
        };
    };
    let line = |text: &str| {
        let line = text.lines().find(|line| !line.trim().is_empty());
        line.map(|line| line.trim().to_owned())
    };
    let block = |block: &Block| match block {
        Block::Text(text) if message.role == Role::Assistant => Some((ASSISTANT, line(text)?)),
        Block::Text(text) => Some((USER, format!("❯ {}", line(text)?))),
        Block::Thinking { text, .. } => Some((THINKING, format!("┆ {}", line(text)?))),
        Block::ToolUse { name, input, .. } => {
            let call = lines(&tool::call(name, input, None)).into_iter().next()?;
            Some((TOOL, call.to_string()))
        }
        Block::ToolResult { is_error: true, .. } => Some((DIM, "✗ failed".to_owned())),
        _ => None,
    };
    message.blocks.iter().filter_map(block).collect()
}
