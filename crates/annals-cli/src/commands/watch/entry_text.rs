//! Text of followed entries.

use std::collections::VecDeque;

use annals::model::{
    AgentId, Block, Body, Entry, EntryId, Framing, Message, Project, Role, SessionId,
};
use annals::watch::FollowedEntry;
use anstyle::Style;

use super::WatchArgs;
use super::totals::Total;
use crate::commands::pricing;
use crate::context::Context;
use annals_render::style::{BOLD, DIM, NameStyles, paint};
use annals_render::text::safe;
use annals_render::width::truncate_end;
use annals_render::{message, size, tool};

/// Level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Thinking and prompts.
    Thinking,
    /// Replies too, and a line for each tool call.
    Default,
    /// Tool calls in full, and their results.
    Tools,
}

impl View {
    pub(super) fn from_args(args: &WatchArgs) -> Self {
        match (args.thinking, args.tools) {
            (true, _) => View::Thinking,
            (_, true) => View::Tools,
            _ => View::Default,
        }
    }
}

/// Returns true if any part of an entry is shown.
pub(super) fn is_entry_shown(view: View, entry: &Entry) -> bool {
    match &entry.body {
        Body::Message(message) => {
            let mut blocks = message.blocks.iter();
            blocks.any(|block| is_block_shown(view, entry, message, block))
        }
        Body::Compaction { .. } => view != View::Thinking,
        _ => false,
    }
}

fn is_block_shown(view: View, entry: &Entry, message: &Message, block: &Block) -> bool {
    match block {
        Block::Thinking { text, .. } => !text.trim().is_empty(),
        Block::Text(text) if text.trim().is_empty() => false,
        Block::Text(_) => match message.role {
            Role::User => message.human || is_agent_task(entry, message),
            Role::Assistant => view != View::Thinking,
            Role::System => view == View::Tools,
        },
        Block::ToolUse { .. } | Block::Image { .. } => view != View::Thinking,
        Block::ToolResult { .. } | Block::Opaque { .. } => view == View::Tools,
    }
}

/// Keeps only thinking and prompts in an entry, if the view has only those.
pub(super) fn retain_shown_blocks(view: View, entry: &mut Entry) {
    if view != View::Thinking {
        return;
    }
    let Body::Message(message) = &entry.body else {
        return;
    };
    let blocks = message.blocks.iter();
    let shown = blocks.filter(|block| is_block_shown(view, entry, message, block));
    let shown: Vec<Block> = shown.cloned().collect();
    if let Body::Message(message) = &mut entry.body {
        message.blocks = shown;
    }
}

/// Returns true for a task that one agent gives to another.
fn is_agent_task(entry: &Entry, message: &Message) -> bool {
    let result = |block: &Block| matches!(block, Block::ToolResult { .. });
    entry.sidechain && !message.meta && !message.blocks.iter().any(result)
}

/// Number of messages of which more may follow.
const MAX_GROWING: usize = 256;

/// State of the output that the next entry depends on.
#[derive(Default)]
pub(super) struct Screen {
    speaker: Option<Speaker>,
    /// Session, id and blocks of the last messages of logs in which messages grow.
    growing: VecDeque<(SessionId, EntryId, Vec<Block>)>,
    hues: NameStyles,
    /// True once something was shown.
    has_output: bool,
}

/// Speaker of an entry: the entries of one reply share a heading.
#[derive(PartialEq)]
struct Speaker {
    session: SessionId,
    agent: Option<AgentId>,
    role: &'static str,
    response: Option<String>,
}

impl Screen {
    /// Makes the next entry start with a heading.
    pub(super) fn reset_speaker(&mut self) {
        self.speaker = None;
    }

    /// Removes what an earlier state of a message has shown.
    pub(super) fn retain_new_blocks(&mut self, fresh: &mut FollowedEntry) {
        if fresh.log.artifact.framing == Framing::Lines {
            return;
        }
        let (Body::Message(message), Some(id)) = (&mut fresh.entry.body, &fresh.entry.id) else {
            return;
        };
        let blocks = message.blocks.clone();
        let is_it =
            |known: &(SessionId, EntryId, Vec<Block>)| (&known.0, &known.1) == (&fresh.session, id);
        let known = self.growing.iter().position(is_it);
        if let Some((_, _, before)) = known.and_then(|at| self.growing.remove(at)) {
            message.blocks = new_blocks(&before, &blocks);
        }
        if self.growing.len() >= MAX_GROWING {
            self.growing.pop_front();
        }
        let known = (fresh.session.clone(), id.clone(), blocks);
        self.growing.push_back(known);
    }

    /// Renders an entry, each line after a bar in the colour of its session.
    pub(super) fn render_entry(
        &mut self,
        fresh: FollowedEntry,
        project: &str,
        view: View,
        context: &Context,
    ) -> String {
        let width = context.out.width();
        let room = width.map(|width| width.saturating_sub(2).max(1));
        let entry = fresh.entry;
        let (role, response) = match &entry.body {
            Body::Message(message) => (role(&entry, message), message.response.clone()),
            _ => ("system", None),
        };
        let speaker = Speaker {
            session: fresh.session.clone(),
            agent: fresh.agent.clone(),
            role,
            response,
        };
        let mut lines = String::new();
        match &entry.body {
            Body::Message(message) => {
                for block in &message.blocks {
                    if is_block_shown(view, &entry, message, block) {
                        lines.push_str(&render(block, view, room));
                    }
                }
            }
            _ => lines.push_str(&message::thinking("compacted", room)),
        }
        let style = self.hues.style_for(&color_name(&speaker));
        let goes_on = self.speaker.as_ref() == Some(&speaker);
        let mut page = String::new();
        if !goes_on {
            if self.has_output {
                page.push('\n');
            }
            // Entries of today, which are the most, have no date.
            let clock = &context.clock;
            let today = |time| clock.date(time) == clock.date(clock.now);
            let time = entry.time.map(|time| match today(time) {
                true => clock.format(time, "%H:%M:%S"),
                false => clock.full(time),
            });
            let heading = message::heading(role, time.as_deref().unwrap_or_default(), &[]);
            let label = label(project, &speaker, style);
            page.push_str(&format!("{label}  {heading}"));
        }
        let bar = paint(style, "▌").to_string();
        for line in lines.lines() {
            page.push_str(&bar);
            if !line.is_empty() {
                page.push(' ');
                page.push_str(line);
            }
            page.push('\n');
        }
        self.speaker = Some(speaker);
        self.has_output = true;
        page
    }

    /// Returns the line about earlier entries of a session that are left out.
    pub(super) fn left_out_line(&mut self, session: &SessionId, count: u64) -> String {
        self.reset_speaker();
        let verb = if count == 1 { "is" } else { "are" };
        let earlier = size::pluralize(count, "earlier entry");
        let text = format!("{}  {earlier} {verb} left out", short_session_id(session));
        format!(
            "{} {}",
            paint(self.hues.style_for(session.as_str()), "…"),
            paint(DIM, &text)
        )
    }

    /// Returns the line with the totals of a session.
    pub(super) fn total_line(&mut self, total: &Total) -> String {
        self.reset_speaker();
        let usage = &total.tally.usage;
        let name = short_session_id(&total.session);
        format!(
            "{} {}",
            paint(self.hues.style_for(total.session.as_str()), "Σ"),
            paint(
                DIM,
                &format!(
                    "{name}  {} in · {} out · {}",
                    size::compact(usage.context()),
                    size::compact(usage.output),
                    pricing::cost_text_or_zero(&total.tally),
                )
            )
        )
    }
}

/// Returns the blocks that are not in `before`. Of a text that has grown, only the new end.
fn new_blocks(before: &[Block], now: &[Block]) -> Vec<Block> {
    let added = |(at, block): (usize, &Block)| match (before.get(at), block) {
        (Some(known), block) if known == block => None,
        (Some(Block::Text(known)), Block::Text(text)) => {
            let end = text.strip_prefix(known.as_str()).unwrap_or(text);
            Some(Block::Text(end.to_owned()))
        }
        (Some(Block::Thinking { text: known, .. }), Block::Thinking { text, signature }) => {
            let end = text.strip_prefix(known.as_str()).unwrap_or(text);
            Some(Block::Thinking {
                text: end.to_owned(),
                signature: signature.clone(),
            })
        }
        (_, block) => (!before.contains(block)).then(|| block.clone()),
    };
    now.iter().enumerate().filter_map(added).collect()
}

fn role(entry: &Entry, message: &Message) -> &'static str {
    match message.role {
        Role::User if message.compact_summary => "summary",
        Role::User if message.human => "user",
        Role::User if is_agent_task(entry, message) => "task",
        Role::User => "tool",
        role => role.as_str(),
    }
}

/// Formats a project, a session, and maybe a sub-agent, in few columns.
fn label(project: &str, speaker: &Speaker, style: Style) -> String {
    let project = Project {
        path: project.to_owned(),
        guessed: false,
    };
    let project = truncate_end(&safe(project.name()), 20);
    let mut label = format!(
        "{} {}",
        paint(BOLD, &project),
        paint(style, short_session_id(&speaker.session))
    );
    if let Some(agent) = &speaker.agent {
        let agent = annals::view::id_prefix(agent.as_str(), 8);
        label.push_str(&format!(" {}", paint(style, &format!("⑂{agent}"))));
    }
    label
}

fn short_session_id(session: &SessionId) -> &str {
    annals::view::short_id(session.name())
}

fn color_name(speaker: &Speaker) -> String {
    match &speaker.agent {
        None => speaker.session.to_string(),
        Some(agent) => format!("{}/{agent}", speaker.session),
    }
}

fn render(block: &Block, view: View, width: Option<usize>) -> String {
    const RESULT_LINES: usize = 12;
    match block {
        Block::Text(text) => truncate(text, |text| message::plain_text(text, width)),
        Block::Thinking { text, .. } => truncate(text, |text| message::thinking(text, width)),
        Block::ToolUse { name, input, .. } => {
            let call = tool::call(name, input, width);
            match view {
                View::Tools => call,
                _ => call.split_inclusive('\n').take(1).collect(),
            }
        }
        Block::ToolResult {
            output, is_error, ..
        } => {
            let mut parts = String::new();
            let blank =
                |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
            if *is_error {
                // Do not rely on colour alone.
                parts.push_str(&message::failure_line(output.iter().all(blank)));
            }
            for block in output.iter().filter(|block| !*is_error || !blank(block)) {
                parts.push_str(&match block {
                    Block::Text(text) => message::tool_result(text, *is_error, width, RESULT_LINES),
                    other => render(other, view, width),
                });
            }
            parts
        }
        Block::Image { media_type, data } => {
            message::image(media_type, annals::view::decoded_len(data) as u64)
        }
        Block::Opaque { kind, json } => tool::call(kind, json, width),
        // A kind that the library added later.
    }
}

/// Renders at most 40 rows of a text, with the size of the rest.
fn truncate(text: &str, render: impl Fn(&str) -> String) -> String {
    const LINES: usize = 40;
    // Bound for lines that are not wrapped.
    const BYTES: usize = 16 << 10;
    let text = text.trim_matches(['\n', '\r']);
    let lines: usize = text.split_inclusive('\n').take(LINES).map(str::len).sum();
    let mut shown = text_prefix(text, lines.min(BYTES));
    let mut page = render(shown);
    loop {
        let rows = page.lines().count();
        if rows <= LINES {
            break;
        }
        shown = text_prefix(shown, shown.len() * LINES / rows);
        page = render(shown);
    }
    let left = text.len() - shown.len();
    if left > 0 {
        let note = format!("… {} more", size::bytes(left as u64));
        page.push_str(&format!("{}\n", paint(DIM, &note)));
    }
    page
}

/// Returns the longest prefix of at most `most` bytes.
fn text_prefix(text: &str, most: usize) -> &str {
    let ends = text
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= most).last();
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    fn render_text(text: &str, width: Option<usize>) -> String {
        strip_str(&truncate(text, |text| message::plain_text(text, width))).to_string()
    }

    #[test]
    fn only_new_blocks_of_a_message_are_shown() {
        let text = |text: &str| Block::Text(text.to_owned());
        let call = |input: &str| Block::ToolUse {
            id: "c1".to_owned(),
            name: "bash".to_owned(),
            input: input.to_owned(),
        };
        let new = |before: &[Block], now: &[Block]| new_blocks(before, now);
        assert_eq!(new(&[], &[text("one")]), [text("one")]);
        assert_eq!(new(&[text("one")], &[text("one")]), []);
        assert_eq!(new(&[text("one")], &[text("one two")]), [text(" two")]);
        assert_eq!(new(&[text("one")], &[text("other")]), [text("other")]);
        let grown = [text("one"), call("{}")];
        assert_eq!(new(&[text("one")], &grown), [call("{}")]);
        // The input was incomplete.
        let later = [text("one"), call("{\"a\":1}"), text("two")];
        assert_eq!(new(&grown, &later), [call("{\"a\":1}"), text("two")]);
        // A block that was inserted moves the others.
        assert_eq!(
            new(&[text("two")], &[call("{}"), text("two")]),
            [call("{}")]
        );
    }

    #[test]
    fn render_text_leaves_short_text_whole() {
        let text = "a line\n".repeat(40);
        assert_eq!(render_text(&text, Some(80)), text);
        assert_eq!(render_text(&text, None), text);
    }

    #[test]
    fn render_text_truncates_long_text() {
        let lines = render_text(&"a line\n".repeat(100_000), Some(80));
        assert_eq!(lines.lines().count(), 41);
        assert!(lines.ends_with("… 699.7 kB more\n"), "{lines}");
        for text in ["word ".repeat(1_000_000), "日本".repeat(1_000_000)] {
            let wrapped = render_text(&text, Some(80));
            assert!((30..=41).contains(&wrapped.lines().count()), "{wrapped}");
            assert!(wrapped.ends_with(" MB more\n"));
            assert!(render_text(&text, None).len() < 20_000);
        }
    }
}
