//! Sessions as one self-contained HTML file.
//!
//! The file loads nothing, and its Content-Security-Policy forbids all requests. Only the style and
//! the script of this module are allowed, by digest. The file is readable without the script, which
//! only opens and closes folded blocks and filters messages.
//!
//! All text is escaped (see [`escape`]), and anchors consist of numbers or of an id without special
//! characters after a prefix, so no text of a log can become markup, an attribute or another anchor.

mod markdown;

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::Digest as _;

use annals_layouts::model::{Block, Body, Message, TextEdit, TodoStatus};
use annals_layouts::text::{LineBreaks, strip_ansi, terminal_text, visible};

use super::Cover;
use super::format::{
    CallParts, MAX_MARKDOWN, decoded_len, diff_lines, entry_anchor, first_line, format_time,
    group_thousands, pluralize, section_anchor, token_summary,
};
use super::reading_order::{self, Heading, Section, SectionKind, SessionHeader, ShownEntry};

use markdown::render_markdown;
pub(super) use markdown::safe_url;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Writes the head of the file and the cover. Without a cover, the page writes the head.
pub(super) fn begin(cover: Option<&Cover>, out: &mut dyn Write) -> io::Result<()> {
    let Some(cover) = cover else { return Ok(()) };
    write_head(&cover.title, out)?;
    writeln!(out, "<header><h1>{}</h1></header>", escape(&cover.title))?;
    writeln!(out, "<nav class=\"outline\"><ol>")?;
    for (at, title) in cover.sessions.iter().enumerate() {
        let number = at + 1;
        writeln!(out, "<li><a href=\"#s{number}\">{}</a></li>", escape(title))?;
    }
    writeln!(out, "</ol></nav>\n<main>")
}

/// Ends the file.
pub(super) fn end(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>")
}

fn write_head(title: &str, out: &mut dyn Write) -> io::Result<()> {
    let policy = format!(
        "default-src 'none'; img-src data:; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        csp_digest(STYLE),
        csp_digest(SCRIPT)
    );
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"annals\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <p id=\"folds\" hidden><button type=\"button\">Unfold all</button></p>",
        escape(title)
    )
}

/// Writes one session.
pub(super) struct Page<'a> {
    out: &'a mut dyn Write,
    zone: &'a TimeZone,
    /// The cover and the head of the file are already written; there may be other sessions.
    has_cover: bool,
    has_sections: bool,
    /// An `<article>` is open.
    is_message_open: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(out: &'a mut dyn Write, zone: &'a TimeZone, covered: bool) -> Self {
        Page {
            out,
            zone,
            has_cover: covered,
            has_sections: false,
            is_message_open: false,
        }
    }

    fn time(&self, time: Timestamp) -> String {
        format!(
            "<time datetime=\"{time:.0}\">{}</time>",
            format_time(time, self.zone)
        )
    }

    fn close_message(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.is_message_open) {
            true => writeln!(self.out, "</article>"),
            false => Ok(()),
        }
    }

    fn heading(
        &mut self,
        heading: &Heading<'_>,
        about: &SessionHeader,
        said: &ShownEntry<'_>,
    ) -> io::Result<()> {
        self.close_message()?;
        self.is_message_open = true;
        let speaker = heading.speaker;
        let class = speaker.to_ascii_lowercase();
        write!(self.out, "<article class=\"{class}\"><h3>{speaker}")?;
        if let Some(model) = heading.model {
            write!(self.out, " <small>{}</small>", escape(model))?;
        }
        if let Some(time) = heading.time {
            let time = self.time(time);
            write!(self.out, " <small>{time}</small>")?;
        }
        let anchor = entry_anchor(about, said.anchor);
        write!(self.out, " <a class=\"address\" href=\"#{anchor}\"")?;
        if let Some(id) = &said.entry.id {
            let message = escape(&format!("{}@{id}", about.id));
            write!(self.out, " title=\"{message}\"")?;
        }
        writeln!(self.out, ">#</a></h3>")
    }

    fn block(&mut self, block: &Block, said: &ShownEntry<'_>) -> io::Result<()> {
        match block {
            Block::Text(text) if text.trim().is_empty() => Ok(()),
            Block::Text(text) => {
                self.text(text)?;
                writeln!(self.out)
            }
            Block::Thinking { text, .. } if text.trim().is_empty() => Ok(()),
            Block::Thinking { text, .. } => {
                write!(
                    self.out,
                    "<details class=\"thinking\"><summary>Thinking</summary>"
                )?;
                self.text(text)?;
                writeln!(self.out, "</details>")
            }
            Block::ToolUse { name, input, .. } => self.call(name, input),
            Block::ToolResult {
                call,
                output,
                is_error,
            } => self.result(said.tools.get(call), output, *is_error, said),
            Block::Image { media_type, data } => self.image(media_type, data),
            Block::Opaque { kind, json } => {
                write!(
                    self.out,
                    "<details class=\"tool\"><summary><b>{}</b></summary>",
                    escape(kind)
                )?;
                self.code(json)?;
                writeln!(self.out, "</details>")
            }
        }
    }

    /// Writes message text, as Markdown unless it is too long.
    fn text(&mut self, text: &str) -> io::Result<()> {
        let text = strip_ansi(text);
        write!(self.out, "<div class=\"text\">")?;
        match text.len() > MAX_MARKDOWN {
            true => self.code(&text)?,
            false => write!(self.out, "{}", render_markdown(&text))?,
        }
        write!(self.out, "</div>")
    }

    /// Writes text verbatim in a `<pre>`, in pieces.
    fn code(&mut self, text: &str) -> io::Result<()> {
        // HTML parsers drop the first line break after the tag.
        writeln!(self.out, "<pre>")?;
        for piece in pieces(text.trim_end_matches('\n')) {
            write!(self.out, "{}", escape_block(piece))?;
        }
        write!(self.out, "</pre>")
    }

    fn call(&mut self, name: &str, input: &str) -> io::Result<()> {
        let parts = CallParts::new(name, input);
        write!(
            self.out,
            "<details class=\"tool\"><summary><b>{}</b>",
            escape(name)
        )?;
        if let Some(subject) = &parts.subject {
            write!(self.out, " <code>{}</code>", escape(subject))?;
        }
        if let Some(description) = &parts.description {
            write!(self.out, " <small>{}</small>", escape(description))?;
        }
        write!(self.out, "</summary>")?;
        for edit in &parts.edits {
            self.diff(edit)?;
        }
        for (name, text) in parts.arguments {
            if !name.is_empty() {
                write!(self.out, "<h4>{}</h4>", escape(&name))?;
            }
            self.code(&text)?;
        }
        writeln!(self.out, "</details>")
    }

    /// Writes the lines of an edit, each with its sign.
    fn diff(&mut self, edit: &TextEdit<'_>) -> io::Result<()> {
        writeln!(self.out, "<pre class=\"diff\">")?;
        for (sign, line) in diff_lines(&edit.old, &edit.new) {
            let line = escape_block(line);
            match sign {
                '-' => writeln!(self.out, "<del>- {line}</del>")?,
                '+' => writeln!(self.out, "<ins>+ {line}</ins>")?,
                _ => writeln!(self.out, "  {line}")?,
            }
        }
        write!(self.out, "</pre>")
    }

    fn result(
        &mut self,
        tool: Option<&String>,
        output: &[Block],
        is_error: bool,
        said: &ShownEntry<'_>,
    ) -> io::Result<()> {
        let class = if is_error { "result failed" } else { "result" };
        let what = if is_error { "Error" } else { "Result" };
        let text = output.iter().find_map(|block| match block {
            Block::Text(text) => Some(first_line(&terminal_text(text))),
            _ => None,
        });
        let of = tool.map(|tool| format!(" of {}", escape(tool)));
        writeln!(
            self.out,
            "<details class=\"{class}\"><summary><b>{what}</b>{} <code>{}</code></summary>",
            of.unwrap_or_default(),
            escape(&text.unwrap_or_default())
        )?;
        let mut pictures = Vec::new();
        for block in output {
            match block {
                Block::Text(text) => {
                    self.code(&terminal_text(text))?;
                    writeln!(self.out)?;
                }
                // Images are shown unfolded, below the result.
                Block::Image { .. } => pictures.push(block),
                other => self.block(other, said)?,
            }
        }
        writeln!(self.out, "</details>")?;
        pictures
            .into_iter()
            .try_for_each(|picture| self.block(picture, said))
    }

    fn image(&mut self, media_type: &str, data: &str) -> io::Result<()> {
        let size = group_thousands(decoded_len(data));
        if is_safe_image(media_type, data) {
            return writeln!(
                self.out,
                "<p><img alt=\"Image, {size} bytes\" src=\"data:{media_type};base64,{data}\"></p>"
            );
        }
        let media_type = escape(media_type);
        writeln!(
            self.out,
            "<p class=\"aside\">Image not shown: {media_type}, {size} bytes</p>"
        )
    }

    fn facts(&mut self, about: &SessionHeader) -> io::Result<()> {
        write!(self.out, "<ul class=\"facts\">")?;
        write!(self.out, "<li><code>{}</code></li>", escape(&about.project))?;
        for model in &about.models {
            write!(self.out, "<li>{}</li>", escape(model))?;
        }
        let times = [about.started, about.updated].into_iter().flatten();
        let mut times: Vec<Timestamp> = times.collect();
        times.dedup_by_key(|time| format_time(*time, self.zone));
        let times: Vec<String> = times.into_iter().map(|time| self.time(time)).collect();
        if !times.is_empty() {
            write!(self.out, "<li>{}</li>", times.join(" – "))?;
        }
        write!(
            self.out,
            "<li>{}</li>",
            pluralize(about.messages, "message")
        )?;
        if let Some(tokens) = token_summary(about) {
            write!(self.out, "<li>{tokens}</li>")?;
        }
        if let Some(tag) = &about.tag {
            write!(self.out, "<li class=\"tag\">{}</li>", escape(tag))?;
        }
        if about.flaws.worst().is_some() {
            let flaws = about.flaws;
            write!(self.out, "<li class=\"failed\">{flaws} in its logs</li>")?;
        }
        let id = about.leaf.iter().map(|leaf| format!("@{leaf}"));
        let id: String = std::iter::once(about.id.clone()).chain(id).collect();
        writeln!(self.out, "<li><code>{}</code></li></ul>", escape(&id))?;
        for note in &about.notes {
            writeln!(self.out, "<p class=\"note\">{}</p>", escape_block(note))?;
        }
        for (_, todos) in &about.todos {
            writeln!(self.out, "<ul class=\"todos\">")?;
            for todo in todos {
                let mark = match todo.status {
                    TodoStatus::Completed => "☑",
                    TodoStatus::InProgress => "◐",
                    _ => "☐",
                };
                writeln!(self.out, "<li>{mark} {}</li>", escape(&todo.content))?;
            }
            writeln!(self.out, "</ul>")?;
        }
        Ok(())
    }

    /// Writes links to the conversations and sub-agents of a session and to their prompts; branches
    /// are indented.
    fn outline(&mut self, about: &SessionHeader, sections: &[Section]) -> io::Result<()> {
        /// Maximum number of prompts that are listed unfolded.
        const MOST: usize = 200;
        let prompts: usize = sections.iter().map(|one| one.prompts.len()).sum();
        let folded = prompts > MOST;
        match sections {
            [] => return Ok(()),
            [section] if section.prompts.is_empty() => return Ok(()),
            [section] => {
                write!(self.out, "<nav class=\"outline\">")?;
                self.prompts(about, section, folded)?;
                return writeln!(self.out, "</nav>");
            }
            _ => writeln!(self.out, "<nav class=\"outline\"><ol>")?,
        }
        for section in sections {
            let class = match section.kind {
                SectionKind::Conversation { .. } if section.branch_point.is_none() => "",
                SectionKind::Conversation { .. } | SectionKind::AgentBranch => " class=\"branch\"",
                SectionKind::Agent => " class=\"agent\"",
            };
            write!(self.out, "<li{class}>")?;
            self.link(about, section)?;
            // The title of a section with one prompt is that prompt.
            if section.prompts.len() > 1 {
                self.prompts(about, section, folded)?;
            }
            writeln!(self.out, "</li>")?;
        }
        writeln!(self.out, "</ol></nav>")
    }

    /// Writes links to the prompts of a section.
    fn prompts(
        &mut self,
        about: &SessionHeader,
        section: &Section,
        folded: bool,
    ) -> io::Result<()> {
        if folded {
            let count = pluralize(section.prompts.len() as u64, "prompt");
            write!(self.out, "<details><summary>{count}</summary>")?;
        }
        writeln!(self.out, "<ol>")?;
        for prompt in &section.prompts {
            let anchor = entry_anchor(about, prompt.anchor);
            let text = escape(&prompt.text);
            writeln!(self.out, "<li><a href=\"#{anchor}\">{text}</a></li>")?;
        }
        write!(self.out, "</ol>")?;
        match folded {
            true => write!(self.out, "</details>"),
            false => Ok(()),
        }
    }

    fn link(&mut self, about: &SessionHeader, section: &Section) -> io::Result<()> {
        let anchor = section_anchor(about, section);
        let messages = pluralize(section.messages as u64, "message");
        let resumes = matches!(section.kind, SectionKind::Conversation { resumes: true });
        let mark = if resumes { " · resumes here" } else { "" };
        write!(
            self.out,
            "<a href=\"#{anchor}\">{}</a> <small>{messages}{mark}</small>",
            escape(&section.title)
        )
    }
}

impl reading_order::Page for Page<'_> {
    fn lists_prompts(&self) -> bool {
        true
    }

    fn begin(&mut self, about: &SessionHeader, sections: &[Section]) -> io::Result<()> {
        self.has_sections = sections.len() > 1;
        let title = escape(&about.title);
        let number = about.number + 1;
        if self.has_cover {
            writeln!(self.out, "<header id=\"s{number}\"><h1>{title}</h1>")?;
        } else {
            write_head(&about.title, self.out)?;
            writeln!(self.out, "<header><h1>{title}</h1>")?;
        }
        self.facts(about)?;
        writeln!(self.out, "</header>")?;
        self.outline(about, sections)?;
        match self.has_cover {
            true => Ok(()),
            false => writeln!(self.out, "<main>"),
        }
    }

    fn section(
        &mut self,
        about: &SessionHeader,
        section: &Section,
        sections: &[Section],
    ) -> io::Result<()> {
        let anchor = section_anchor(about, section);
        let class = match section.kind {
            SectionKind::Conversation { .. } => "conversation",
            SectionKind::Agent | SectionKind::AgentBranch => "conversation agent",
        };
        writeln!(self.out, "<section id=\"{anchor}\" class=\"{class}\">")?;
        if !self.has_sections {
            return Ok(());
        }
        let what = match &section.kind {
            SectionKind::Conversation { .. } if section.branch_point.is_none() => "Conversation",
            SectionKind::Conversation { .. } => "Branch",
            SectionKind::Agent => "Sub-agent",
            SectionKind::AgentBranch => "Branch of a sub-agent",
        };
        let title = escape(&section.title);
        writeln!(self.out, "<h2><small>{what}</small> {title}</h2>")?;
        if let Some(from) = section.branch_point
            && let Some(before) = sections.get(from.section)
        {
            let place = from.entry.map(|entry| entry_anchor(about, entry));
            let place = place.unwrap_or_else(|| section_anchor(about, before));
            writeln!(
                self.out,
                "<p class=\"aside\">Branches from <a href=\"#{place}\">here</a> in “{}”</p>",
                escape(&before.title)
            )?;
        }
        if let Some(caller) = section.caller {
            let place = entry_anchor(about, caller);
            writeln!(
                self.out,
                "<p class=\"aside\">Called <a href=\"#{place}\">here</a></p>"
            )?;
        }
        Ok(())
    }

    fn entry(&mut self, about: &SessionHeader, said: &ShownEntry<'_>) -> io::Result<()> {
        if let Some(heading) = &said.heading {
            self.heading(heading, about, said)?;
        }
        let anchor = entry_anchor(about, said.anchor);
        writeln!(self.out, "<div id=\"{anchor}\">")?;
        match &said.entry.body {
            Body::Message(Message { blocks, stored, .. }) => {
                for block in blocks {
                    self.block(block, said)?;
                }
                if let Some(path) = stored {
                    writeln!(
                        self.out,
                        "<p class=\"aside\">Full output saved in <code>{}</code></p>",
                        escape(path)
                    )?;
                }
            }
            _ => writeln!(
                self.out,
                "<p class=\"aside\">From here on, the agent sees the summary below instead of the earlier messages.</p>"
            )?,
        }
        for agent in &said.agents {
            write!(self.out, "<p class=\"called\">↳ sub-agent ")?;
            self.link(about, agent)?;
            writeln!(self.out, "</p>")?;
        }
        writeln!(self.out, "</div>")
    }

    fn forks(&mut self, about: &SessionHeader, forks: &[&Section]) -> io::Result<()> {
        self.close_message()?;
        writeln!(
            self.out,
            "<nav class=\"fork\"><p>The conversation branches here. It continues below and in</p><ul>"
        )?;
        for fork in forks {
            write!(self.out, "<li>")?;
            self.link(about, fork)?;
            writeln!(self.out, "</li>")?;
        }
        writeln!(self.out, "</ul></nav>")
    }

    fn end_section(&mut self) -> io::Result<()> {
        self.close_message()?;
        writeln!(self.out, "</section>")
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes text for HTML content and attributes, on one line.
fn escape(text: &str) -> String {
    escape_markup(&visible(text.trim(), LineBreaks::Spaces))
}

/// Escapes text for HTML content, with line breaks.
fn escape_block(text: &str) -> String {
    escape_markup(&visible(text, LineBreaks::Preserved))
}

fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Splits text into pieces that can be escaped independently: after a line break or a space, if
/// there is one.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 64 << 10;
    std::iter::from_fn(move || {
        let most = (0..=text.len().min(LONGEST)).rev();
        let start = most.into_iter().find_map(|end| text.get(..end))?;
        let end = match start.len() == text.len() {
            true => start.len(),
            false => start.rfind(['\n', ' ']).map_or(start.len(), |at| at + 1),
        };
        if end == 0 {
            return None;
        }
        let (piece, rest) = text.split_at_checked(end)?;
        text = rest;
        Some(piece)
    })
}

/// Returns whether the data is base64 of an image type that browsers show without running anything.
fn is_safe_image(media_type: &str, data: &str) -> bool {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let body = data.trim_end_matches('=');
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    known.contains(&media_type)
        && !body.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - body.len() <= 2
        && body.bytes().all(base64)
}

/// Returns the digest that allows a style or script in the Content-Security-Policy.
fn csp_digest(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = sha2::Sha256::digest(text.as_bytes());
    let mut out = String::from("sha256-");
    for three in digest.chunks(3) {
        let bytes = [0, 1, 2].map(|at| u32::from(three.get(at).copied().unwrap_or(0)));
        let bits = bytes.iter().fold(0, |bits, byte| bits << 8 | byte);
        for at in 0..4 {
            let letter = ALPHABET.get((bits >> (18 - 6 * at)) as usize & 63);
            match letter.filter(|_| at <= three.len()) {
                Some(letter) => out.push(char::from(*letter)),
                None => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csp_digest_matches_openssl() {
        // printf '' | openssl dgst -sha256 -binary | base64
        assert_eq!(
            csp_digest(""),
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
    }

    #[test]
    fn pieces_rejoin_to_the_text_and_end_between_words() {
        for unit in ["", "ab c\r\n", "abc", "aé⟩", "\u{202e}", " x"] {
            let text = unit.repeat((256 << 10) / unit.len().max(1));
            let cut: Vec<&str> = pieces(&text).collect();
            assert_eq!(cut.concat(), text, "{unit:?}");
            let all_but_last = cut.split_last().map_or(&[][..], |(_, before)| before);
            for piece in all_but_last {
                assert!(piece.len() <= 64 << 10 && piece.len() > 63 << 10);
                assert!(piece.ends_with(['\n', ' ']) || !unit.contains(' '));
            }
        }
    }

    #[test]
    fn is_safe_image_accepts_only_known_types_in_base64() {
        for (media_type, data, shown) in [
            ("image/png", "iVBORw0KGgo=", true),
            ("image/webp", "AAAA", true),
            ("image/svg+xml", "AAAA", false),
            ("image/png", "", false),
            ("image/png", "AAA", false),
            ("image/png", "AA\"onerror", false),
            ("image/png", "https://evil.example/x.png", false),
            ("image/png\"", "AAAA", false),
        ] {
            assert_eq!(
                is_safe_image(media_type, data),
                shown,
                "{media_type} {data}"
            );
        }
    }

    #[test]
    fn escape_neutralizes_markup_and_control_characters() {
        let shown = escape("\"><img src=x onerror='x'></title>&\u{202e}\u{7}\n");
        assert_eq!(
            shown,
            "&quot;&gt;&lt;img src=x onerror=&#39;x&#39;&gt;&lt;/title&gt;&amp;⟨U+202E⟩␇"
        );
    }
}
