//! One entry as HTML, for exported files and for pages of other programs.

use std::collections::HashMap;
use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use annals_layouts::model::{Block, Body, Entry, Message, TextEdit};
use annals_layouts::text::{strip_ansi, terminal_text};

use super::markdown::render_markdown;
use super::{escape, escape_block};
use crate::error::Result;
use crate::export::format::{
    CallParts, MAX_MARKDOWN, decoded_len, diff_lines, first_line, format_time, group_thousands,
    pluralize,
};
use crate::export::reading_order::{Heading, Turns};
use crate::export::redact::Redactor;

/// Names of tools by the id of their call.
pub(super) type Tools = HashMap<String, String>;

/// Place of an entry on a page of another program. All texts are parts of attributes and must not
/// need escapes.
#[derive(Clone, Copy, Debug)]
pub struct EntryPlace<'a> {
    /// The anchor of the entry.
    pub anchor: &'a str,
    /// The lasting address of the entry.
    pub address: &'a str,
    /// Where the whole entry is shown, if a part of it is left out.
    pub whole: &'a str,
}

/// Writes entries one after the other as fragments of an HTML page, as exports show them.
///
/// All text is escaped, links are `http`, `https` or `mailto`, and images are data. Nothing but the
/// attributes of [`EntryPlace`] refers to another page.
#[derive(Debug)]
pub struct HtmlEntries {
    session: String,
    zone: TimeZone,
    redactor: Option<Redactor>,
    longest: Option<usize>,
    turns: Turns,
    is_message_open: bool,
}

impl HtmlEntries {
    /// Creates a writer of entries of a session.
    pub fn new(session: &str, zone: TimeZone, redact: bool) -> Result<Self> {
        Ok(HtmlEntries {
            session: session.to_owned(),
            zone,
            redactor: redact.then(Redactor::new).transpose()?,
            longest: None,
            turns: Turns::default(),
            is_message_open: false,
        })
    }

    /// Leaves out what is beyond this number of bytes of a text of a call or result.
    #[must_use]
    pub fn with_longest(self, longest: usize) -> Self {
        HtmlEntries {
            longest: Some(longest),
            ..self
        }
    }

    /// Notes an entry that is not shown: a later one may be the result of its calls.
    pub fn skip(&mut self, entry: &Entry) {
        self.turns.add_calls(entry);
    }

    /// Writes an entry, in the same `<article>` as the one before if the same turn goes on.
    pub fn write(
        &mut self,
        mut entry: Entry,
        place: EntryPlace<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if let Some(redactor) = &mut self.redactor {
            redactor.mask_entry(&mut entry);
        }
        let heading = self.turns.heading(&entry);
        self.turns.add_calls(&entry);
        let mut html = EntryHtml::new(out, &self.zone);
        html.is_message_open = self.is_message_open;
        html.longest = self.longest;
        html.whole = Some(place.whole.to_owned());
        if let Some(heading) = &heading {
            html.heading(heading, place.address, &self.session, &entry)?;
        }
        writeln!(html.out, "<div id=\"{}\">", place.anchor)?;
        html.content(&entry, &self.turns.tools)?;
        writeln!(html.out, "</div>")?;
        self.is_message_open = html.is_message_open;
        Ok(())
    }

    /// Ends the current `<article>`; the next entry has a heading.
    pub fn end_turn(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.turns.end();
        match std::mem::take(&mut self.is_message_open) {
            true => writeln!(out, "</article>"),
            false => Ok(()),
        }
    }
}

/// Writes the parts of entries.
pub(super) struct EntryHtml<'a> {
    pub(super) out: &'a mut dyn Write,
    zone: &'a TimeZone,
    /// An `<article>` is open.
    is_message_open: bool,
    /// Maximum length of texts of calls and results.
    longest: Option<usize>,
    /// Where texts are shown that are longer.
    whole: Option<String>,
}

impl<'a> EntryHtml<'a> {
    pub(super) fn new(out: &'a mut dyn Write, zone: &'a TimeZone) -> Self {
        EntryHtml {
            out,
            zone,
            is_message_open: false,
            longest: None,
            whole: None,
        }
    }

    pub(super) fn time(&self, time: Timestamp) -> String {
        let shown = self.format_time(time);
        format!("<time datetime=\"{time:.0}\">{shown}</time>")
    }

    /// Formats a time for people.
    pub(super) fn format_time(&self, time: Timestamp) -> String {
        format_time(time, self.zone)
    }

    pub(super) fn close_message(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.is_message_open) {
            true => writeln!(self.out, "</article>"),
            false => Ok(()),
        }
    }

    /// Writes the start of a message and its heading, which links to its address.
    pub(super) fn heading(
        &mut self,
        heading: &Heading<'_>,
        address: &str,
        session: &str,
        entry: &Entry,
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
        write!(self.out, " <a class=\"address\" href=\"{address}\"")?;
        if let Some(id) = &entry.id {
            let message = escape(&format!("{session}@{id}"));
            write!(self.out, " title=\"{message}\"")?;
        }
        writeln!(self.out, ">#</a></h3>")
    }

    /// Writes the content of an entry.
    pub(super) fn content(&mut self, entry: &Entry, tools: &Tools) -> io::Result<()> {
        match &entry.body {
            Body::Message(Message { blocks, stored, .. }) => {
                for block in blocks {
                    self.block(block, tools)?;
                }
                if let Some(path) = stored {
                    writeln!(
                        self.out,
                        "<p class=\"aside\">Full output saved in <code>{}</code></p>",
                        escape(path)
                    )?;
                }
                Ok(())
            }
            _ => writeln!(
                self.out,
                "<p class=\"aside\">From here on, the agent sees the summary below instead of the earlier messages.</p>"
            ),
        }
    }

    fn block(&mut self, block: &Block, tools: &Tools) -> io::Result<()> {
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
            } => self.result(tools.get(call), output, *is_error, tools),
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
        match text.len() > self.longest.map_or(MAX_MARKDOWN, |longest| longest * 8) {
            true => self.code(&text)?,
            false => write!(self.out, "{}", render_markdown(&text))?,
        }
        write!(self.out, "</div>")
    }

    /// Writes text verbatim in a `<pre>`, in pieces. A text beyond the limit is cut, which the page
    /// says.
    fn code(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end_matches('\n');
        let shown = self.cut(text);
        // HTML parsers drop the first line break after the tag.
        writeln!(self.out, "<pre>")?;
        for piece in pieces(shown) {
            write!(self.out, "{}", escape_block(piece))?;
        }
        write!(self.out, "</pre>")?;
        self.cut_note(text.len() - shown.len())
    }

    /// Returns the beginning of a text that is shown, whole lines if possible.
    fn cut<'t>(&self, text: &'t str) -> &'t str {
        let Some(longest) = self.longest.filter(|longest| text.len() > *longest) else {
            return text;
        };
        let start = (0..=longest).rev().find_map(|end| text.get(..end));
        let start = start.unwrap_or_default();
        let lines = start.rfind('\n').and_then(|end| text.get(..end));
        lines
            .filter(|lines| lines.len() > longest / 2)
            .unwrap_or(start)
    }

    fn cut_note(&mut self, left: usize) -> io::Result<()> {
        match left {
            0 => Ok(()),
            left => {
                let left = pluralize(left as u64, "more byte");
                let whole = self.whole.as_deref().unwrap_or_default();
                writeln!(
                    self.out,
                    "<p class=\"aside\"><a href=\"{whole}\">{left}</a></p>"
                )
            }
        }
    }

    fn call(&mut self, name: &str, input: &str) -> io::Result<()> {
        let parts = CallParts::new(name, input);
        // What an edit changed is shown; other calls are folded.
        let open = if parts.edits.is_empty() { "" } else { " open" };
        write!(
            self.out,
            "<details class=\"tool\"{open}><summary><b>{}</b>",
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
        tools: &Tools,
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
                other => self.block(other, tools)?,
            }
        }
        writeln!(self.out, "</details>")?;
        pictures
            .into_iter()
            .try_for_each(|picture| self.block(picture, tools))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
