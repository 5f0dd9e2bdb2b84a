//! Sessions as Markdown.
//!
//! Messages stay Markdown, sanitized: their headings are lowered below ours, and raw HTML, remote
//! images, unsafe links and open fences are neutralized. Everything else is put into fences and
//! code spans that are longer than any run of backticks inside.

mod sanitize;

use std::io::{self, Write};

use jiff::tz::TimeZone;

use annals_layouts::model::{Block, Body, Message, TodoStatus};
use annals_layouts::text::{LineBreaks, strip_ansi, terminal_text, visible};

use super::Cover;
use super::format::{
    CallParts, decoded_len, diff_lines, entry_anchor, format_time, group_thousands, pluralize,
    section_anchor, token_summary,
};
use super::reading_order::{self, Heading, Section, SectionKind, SessionHeader, ShownEntry};

use sanitize::sanitize;

/// Writes the cover of a document with several sessions.
pub(super) fn begin(cover: Option<&Cover>, out: &mut dyn Write) -> io::Result<()> {
    let Some(cover) = cover else { return Ok(()) };
    writeln!(out, "# {}\n", escape_line(&cover.title))?;
    for (at, title) in cover.sessions.iter().enumerate() {
        writeln!(out, "{}. [{}](#s{})", at + 1, escape_line(title), at + 1)?;
    }
    Ok(())
}

/// Writes one session.
pub(super) struct Page<'a> {
    out: &'a mut dyn Write,
    zone: &'a TimeZone,
    /// The document has a cover; there may be other sessions.
    has_cover: bool,
    /// The session has more than one section.
    has_sections: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(out: &'a mut dyn Write, zone: &'a TimeZone, covered: bool) -> Self {
        Page {
            out,
            zone,
            has_cover: covered,
            has_sections: false,
        }
    }

    fn heading(&mut self, heading: &Heading<'_>) -> io::Result<()> {
        let mut parts = vec![heading.speaker.to_owned()];
        parts.extend(heading.model.map(escape_line));
        parts.extend(heading.time.map(|time| format_time(time, self.zone)));
        writeln!(self.out, "\n### {}", parts.join(" · "))
    }

    fn block(&mut self, block: &Block, said: &ShownEntry<'_>) -> io::Result<()> {
        match block {
            Block::Text(text) if text.trim().is_empty() => Ok(()),
            Block::Text(text) => {
                let text = sanitize(&strip_ansi(text));
                writeln!(self.out, "\n{}", text.trim_end())
            }
            Block::Thinking { text, .. } if text.trim().is_empty() => Ok(()),
            Block::Thinking { text, .. } => {
                writeln!(self.out, "\n> **Thinking**\n>")?;
                for text in sanitize(text).trim_end().lines() {
                    writeln!(self.out, "> {text}")?;
                }
                Ok(())
            }
            Block::ToolUse { name, input, .. } => self.call(name, input),
            Block::ToolResult {
                call,
                output,
                is_error,
            } => {
                let what = if *is_error { "Error" } else { "Result" };
                match said.tools.get(call) {
                    Some(tool) => writeln!(self.out, "\n**{what}** of {}", code_span(tool))?,
                    None => writeln!(self.out, "\n**{what}**")?,
                }
                for block in output {
                    match block {
                        Block::Text(text) => self.fenced(&terminal_text(text), "")?,
                        other => self.block(other, said)?,
                    }
                }
                Ok(())
            }
            Block::Image { media_type, data } => writeln!(
                self.out,
                "\n*Image: {}, {} bytes*",
                escape_line(media_type),
                group_thousands(decoded_len(data))
            ),
            Block::Opaque { kind, json } => {
                writeln!(self.out, "\n**{}**", escape_line(kind))?;
                self.fenced(json, "json")
            }
        }
    }

    fn call(&mut self, name: &str, input: &str) -> io::Result<()> {
        const SHORT: usize = 100;
        let parts = CallParts::new(name, input);
        write!(self.out, "\n**Call** of {}", code_span(name))?;
        match &parts.subject {
            Some(subject) => writeln!(self.out, ": {}", code_span(subject))?,
            None => writeln!(self.out)?,
        }
        for edit in &parts.edits {
            let lines = diff_lines(&edit.old, &edit.new);
            let lines = lines.iter().map(|(sign, line)| format!("{sign}{line}\n"));
            self.fenced(&lines.collect::<String>(), "diff")?;
        }
        // The subject was shown whole.
        let is_subject = |text: &str| parts.subject.as_deref() == Some(text);
        let arguments = parts.arguments.into_iter();
        let arguments = arguments.filter(|(_, text)| !is_subject(text));
        let short = |text: &str| text.len() <= SHORT && !text.contains('\n');
        let (inline, blocks): (Vec<_>, Vec<_>) =
            arguments.partition(|(name, text)| short(text) && !name.is_empty());
        if !inline.is_empty() {
            writeln!(self.out)?;
        }
        for (name, text) in inline {
            writeln!(self.out, "- {}: {}", escape_line(&name), code_span(&text))?;
        }
        for (name, text) in blocks {
            if !name.is_empty() {
                writeln!(self.out, "\n{}:", escape_line(&name))?;
            }
            self.fenced(&text, "")?;
        }
        Ok(())
    }

    fn fenced(&mut self, text: &str, language: &str) -> io::Result<()> {
        let text = visible(text, LineBreaks::Preserved);
        let fence = "`".repeat(longest_run(&text).max(2) + 1);
        let text = text.trim_end_matches('\n');
        writeln!(self.out, "\n{fence}{language}\n{text}\n{fence}")
    }

    fn contents(&mut self, about: &SessionHeader, sections: &[Section]) -> io::Result<()> {
        writeln!(self.out)?;
        for section in sections {
            writeln!(
                self.out,
                "{}. [{}](#{}) · {}{}",
                section.number + 1,
                escape_line(&label(section)),
                section_anchor(about, section),
                pluralize(section.messages as u64, "message"),
                resume_mark(section)
            )?;
        }
        Ok(())
    }
}

impl reading_order::Page for Page<'_> {
    fn begin(&mut self, about: &SessionHeader, sections: &[Section]) -> io::Result<()> {
        self.has_sections = sections.len() > 1;
        if self.has_cover {
            writeln!(self.out, "\n<a id=\"s{}\"></a>\n", about.number + 1)?;
        }
        writeln!(self.out, "# {}\n", escape_line(&about.title))?;
        writeln!(self.out, "- Project: {}", code_span(&about.project))?;
        writeln!(self.out, "- Session: {}", code_span(&about.id))?;
        if let Some(leaf) = &about.leaf {
            writeln!(self.out, "- Conversation: up to {}", code_span(leaf))?;
        }
        if let Some(tag) = &about.tag {
            writeln!(self.out, "- Tag: {}", code_span(tag))?;
        }
        if !about.models.is_empty() {
            let models: Vec<String> = about.models.iter().map(|model| code_span(model)).collect();
            writeln!(self.out, "- Models: {}", models.join(", "))?;
        }
        let times = [about.started, about.updated].into_iter().flatten();
        let mut times: Vec<String> = times.map(|time| format_time(time, self.zone)).collect();
        times.dedup();
        if !times.is_empty() {
            writeln!(self.out, "- Time: {}", times.join(" to "))?;
        }
        let mut size = vec![pluralize(about.messages, "message")];
        size.extend(token_summary(about));
        writeln!(self.out, "- Size: {}", size.join(", "))?;
        if about.flaws.worst().is_some() {
            writeln!(self.out, "- Damage: {} in its logs", about.flaws)?;
        }
        for note in &about.notes {
            writeln!(self.out, "- Note: {}", escape_line(note))?;
        }
        for (_, todos) in &about.todos {
            writeln!(self.out, "\n**Todos**\n")?;
            for todo in todos {
                let done = todo.status == TodoStatus::Completed;
                let mark = if done { 'x' } else { ' ' };
                writeln!(self.out, "- [{mark}] {}", escape_line(&todo.content))?;
            }
        }
        match self.has_sections {
            true => self.contents(about, sections),
            false => Ok(()),
        }
    }

    fn section(
        &mut self,
        about: &SessionHeader,
        section: &Section,
        sections: &[Section],
    ) -> io::Result<()> {
        if !self.has_sections {
            return Ok(());
        }
        let anchor = section_anchor(about, section);
        writeln!(self.out, "\n<a id=\"{anchor}\"></a>\n")?;
        let number = section.number + 1;
        let title = escape_line(&label(section));
        writeln!(self.out, "## {number}. {title}{}", resume_mark(section))?;
        if let Some(from) = section.branch_point
            && let Some(before) = sections.get(from.section)
        {
            let anchor = section_anchor(about, before);
            let place = from.entry.map(|entry| entry_anchor(about, entry));
            writeln!(
                self.out,
                "\n*Branches from [{}](#{anchor}) [after this](#{}).*",
                before.number + 1,
                place.unwrap_or(anchor.clone())
            )?;
        }
        if let Some(caller) = section.caller {
            let place = entry_anchor(about, caller);
            writeln!(self.out, "\n*Called [here](#{place}).*")?;
        }
        Ok(())
    }

    fn entry(&mut self, about: &SessionHeader, said: &ShownEntry<'_>) -> io::Result<()> {
        if let Some(heading) = &said.heading {
            self.heading(heading)?;
        }
        if said.linked {
            let anchor = entry_anchor(about, said.anchor);
            writeln!(self.out, "\n<a id=\"{anchor}\"></a>")?;
        }
        match &said.entry.body {
            Body::Message(Message { blocks, stored, .. }) => {
                for block in blocks {
                    self.block(block, said)?;
                }
                if let Some(path) = stored {
                    writeln!(self.out, "\n*Full output saved in {}.*", code_span(path))?;
                }
            }
            _ => writeln!(
                self.out,
                "\n*From here on, the agent sees the summary below instead of the earlier messages.*"
            )?,
        }
        for agent in &said.agents {
            let anchor = section_anchor(about, agent);
            let title = escape_line(&agent.title);
            let messages = pluralize(agent.messages as u64, "message");
            writeln!(self.out, "\n↳ sub-agent [{title}](#{anchor}) · {messages}")?;
        }
        Ok(())
    }

    fn forks(&mut self, about: &SessionHeader, forks: &[&Section]) -> io::Result<()> {
        writeln!(
            self.out,
            "\n> **The conversation branches here.** It continues below and in"
        )?;
        for fork in forks {
            let anchor = section_anchor(about, fork);
            let number = fork.number + 1;
            writeln!(
                self.out,
                "> - [{number}. {}](#{anchor})",
                escape_line(&fork.title)
            )?;
        }
        Ok(())
    }

    fn end_section(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn label(section: &Section) -> String {
    match &section.kind {
        SectionKind::Conversation { .. } => section.title.clone(),
        SectionKind::Agent => format!("Sub-agent {}", section.title),
        SectionKind::AgentBranch => format!("Branch of a sub-agent: {}", section.title),
    }
}

fn resume_mark(section: &Section) -> &'static str {
    match section.kind {
        SectionKind::Conversation { resumes: true } => " · resumes here",
        _ => "",
    }
}

/// Escapes text for Markdown, on one line.
fn escape_line(text: &str) -> String {
    let text = visible(text.trim(), LineBreaks::Spaces);
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let inside = before.is_alphanumeric() && chars.peek().is_some_and(|c| c.is_alphanumeric());
        let means = match c {
            // Literal between letters or digits.
            '_' => !inside,
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '!' | '&' => true,
            _ => false,
        };
        if means {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}

/// Returns text as a code span, on one line.
fn code_span(text: &str) -> String {
    let text = visible(text, LineBreaks::Spaces);
    let ticks = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() {
        " "
    } else {
        ""
    };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`');
    runs.map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fenced(text: &str) -> String {
        let mut out = Vec::new();
        let zone = TimeZone::UTC;
        Page::new(&mut out, &zone, false).fenced(text, "").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fences_are_longer_than_any_backtick_run_inside() {
        for (text, fence) in [
            ("plain", "```"),
            ("```\ncode\n```", "````"),
            ("a ````` b", "``````"),
            ("``", "```"),
        ] {
            let block = fenced(text);
            assert!(block.starts_with(&format!("\n{fence}\n")), "{block}");
            assert!(block.ends_with(&format!("\n{fence}\n")), "{block}");
        }
    }

    #[test]
    fn code_span_and_escape_line_handle_any_text() {
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("a`b"), "``a`b``");
        assert_eq!(code_span("`"), "`` ` ``");
        assert_eq!(code_span("one\ntwo"), "`one two`");
        assert_eq!(
            escape_line("# <b>[x](y)\u{202e}"),
            r"\# \<b\>\[x\](y)⟨U+202E⟩"
        );
    }
}
