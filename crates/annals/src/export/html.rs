//! Sessions as one self-contained HTML file.
//!
//! The file loads nothing, and its Content-Security-Policy forbids all requests. Only the style and
//! the script of this module are allowed, by digest. The file is readable without the script, which
//! only opens and closes folded blocks and filters messages.
//!
//! All text is escaped (see [`escape`]), and anchors consist of numbers or of an id without special
//! characters after a prefix, so no text of a log can become markup, an attribute or another anchor.

mod entry;
mod markdown;

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::Digest as _;

use annals_layouts::model::TodoStatus;
use annals_layouts::text::{LineBreaks, visible};

use super::Cover;
use super::format::{entry_anchor, pluralize, section_anchor, token_summary};
use super::reading_order::{self, Section, SectionKind, SessionHeader, ShownEntry};

use entry::EntryHtml;
pub use entry::{EntryPlace, HtmlEntries};
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
    html: EntryHtml<'a>,
    /// The cover and the head of the file are already written; there may be other sessions.
    has_cover: bool,
    has_sections: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(out: &'a mut dyn Write, zone: &'a TimeZone, covered: bool) -> Self {
        Page {
            html: EntryHtml::new(out, zone),
            has_cover: covered,
            has_sections: false,
        }
    }

    fn facts(&mut self, about: &SessionHeader) -> io::Result<()> {
        write!(self.html.out, "<ul class=\"facts\">")?;
        write!(
            self.html.out,
            "<li><code>{}</code></li>",
            escape(&about.project)
        )?;
        for model in &about.models {
            write!(self.html.out, "<li>{}</li>", escape(model))?;
        }
        let times = [about.started, about.updated].into_iter().flatten();
        let mut times: Vec<Timestamp> = times.collect();
        times.dedup_by_key(|time| self.html.format_time(*time));
        let times: Vec<String> = times.into_iter().map(|time| self.html.time(time)).collect();
        if !times.is_empty() {
            write!(self.html.out, "<li>{}</li>", times.join(" – "))?;
        }
        write!(
            self.html.out,
            "<li>{}</li>",
            pluralize(about.messages, "message")
        )?;
        if let Some(tokens) = token_summary(about) {
            write!(self.html.out, "<li>{tokens}</li>")?;
        }
        if let Some(tag) = &about.tag {
            write!(self.html.out, "<li class=\"tag\">{}</li>", escape(tag))?;
        }
        if about.flaws.worst().is_some() {
            let flaws = about.flaws;
            write!(
                self.html.out,
                "<li class=\"failed\">{flaws} in its logs</li>"
            )?;
        }
        let id = about.leaf.iter().map(|leaf| format!("@{leaf}"));
        let id: String = std::iter::once(about.id.clone()).chain(id).collect();
        writeln!(self.html.out, "<li><code>{}</code></li></ul>", escape(&id))?;
        for note in &about.notes {
            writeln!(
                self.html.out,
                "<p class=\"note\">{}</p>",
                escape_block(note)
            )?;
        }
        for (_, todos) in &about.todos {
            writeln!(self.html.out, "<ul class=\"todos\">")?;
            for todo in todos {
                let mark = match todo.status {
                    TodoStatus::Completed => "☑",
                    TodoStatus::InProgress => "◐",
                    _ => "☐",
                };
                writeln!(self.html.out, "<li>{mark} {}</li>", escape(&todo.content))?;
            }
            writeln!(self.html.out, "</ul>")?;
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
                write!(self.html.out, "<nav class=\"outline\">")?;
                self.prompts(about, section, folded)?;
                return writeln!(self.html.out, "</nav>");
            }
            _ => writeln!(self.html.out, "<nav class=\"outline\"><ol>")?,
        }
        for section in sections {
            let class = match section.kind {
                SectionKind::Conversation { .. } if section.branch_point.is_none() => "",
                SectionKind::Conversation { .. } | SectionKind::AgentBranch => " class=\"branch\"",
                SectionKind::Agent => " class=\"agent\"",
            };
            write!(self.html.out, "<li{class}>")?;
            self.link(about, section)?;
            // The title of a section with one prompt is that prompt.
            if section.prompts.len() > 1 {
                self.prompts(about, section, folded)?;
            }
            writeln!(self.html.out, "</li>")?;
        }
        writeln!(self.html.out, "</ol></nav>")
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
            write!(self.html.out, "<details><summary>{count}</summary>")?;
        }
        writeln!(self.html.out, "<ol>")?;
        for prompt in &section.prompts {
            let anchor = entry_anchor(about, prompt.anchor);
            let text = escape(&prompt.text);
            writeln!(self.html.out, "<li><a href=\"#{anchor}\">{text}</a></li>")?;
        }
        write!(self.html.out, "</ol>")?;
        match folded {
            true => write!(self.html.out, "</details>"),
            false => Ok(()),
        }
    }

    fn link(&mut self, about: &SessionHeader, section: &Section) -> io::Result<()> {
        let anchor = section_anchor(about, section);
        let messages = pluralize(section.messages as u64, "message");
        let resumes = matches!(section.kind, SectionKind::Conversation { resumes: true });
        let mark = if resumes { " · resumes here" } else { "" };
        write!(
            self.html.out,
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
            writeln!(self.html.out, "<header id=\"s{number}\"><h1>{title}</h1>")?;
        } else {
            write_head(&about.title, self.html.out)?;
            writeln!(self.html.out, "<header><h1>{title}</h1>")?;
        }
        self.facts(about)?;
        writeln!(self.html.out, "</header>")?;
        self.outline(about, sections)?;
        match self.has_cover {
            true => Ok(()),
            false => writeln!(self.html.out, "<main>"),
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
        writeln!(self.html.out, "<section id=\"{anchor}\" class=\"{class}\">")?;
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
        writeln!(self.html.out, "<h2><small>{what}</small> {title}</h2>")?;
        if let Some(from) = section.branch_point
            && let Some(before) = sections.get(from.section)
        {
            let place = from.entry.map(|entry| entry_anchor(about, entry));
            let place = place.unwrap_or_else(|| section_anchor(about, before));
            writeln!(
                self.html.out,
                "<p class=\"aside\">Branches from <a href=\"#{place}\">here</a> in “{}”</p>",
                escape(&before.title)
            )?;
        }
        if let Some(caller) = section.caller {
            let place = entry_anchor(about, caller);
            writeln!(
                self.html.out,
                "<p class=\"aside\">Called <a href=\"#{place}\">here</a></p>"
            )?;
        }
        Ok(())
    }

    fn entry(&mut self, about: &SessionHeader, said: &ShownEntry<'_>) -> io::Result<()> {
        let anchor = entry_anchor(about, said.anchor);
        if let Some(heading) = &said.heading {
            let address = format!("#{anchor}");
            self.html
                .heading(heading, &address, &about.id, said.entry)?;
        }
        writeln!(self.html.out, "<div id=\"{anchor}\">")?;
        self.html.content(said.entry, said.tools)?;
        for agent in &said.agents {
            write!(self.html.out, "<p class=\"called\">↳ sub-agent ")?;
            self.link(about, agent)?;
            writeln!(self.html.out, "</p>")?;
        }
        writeln!(self.html.out, "</div>")
    }

    fn forks(&mut self, about: &SessionHeader, forks: &[&Section]) -> io::Result<()> {
        self.html.close_message()?;
        writeln!(
            self.html.out,
            "<nav class=\"fork\"><p>The conversation branches here. It continues below and in</p><ul>"
        )?;
        for fork in forks {
            write!(self.html.out, "<li>")?;
            self.link(about, fork)?;
            writeln!(self.html.out, "</li>")?;
        }
        writeln!(self.html.out, "</ul></nav>")
    }

    fn end_section(&mut self) -> io::Result<()> {
        self.html.close_message()?;
        writeln!(self.html.out, "</section>")
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
    fn escape_neutralizes_markup_and_control_characters() {
        let shown = escape("\"><img src=x onerror='x'></title>&\u{202e}\u{7}\n");
        assert_eq!(
            shown,
            "&quot;&gt;&lt;img src=x onerror=&#39;x&#39;&gt;&lt;/title&gt;&amp;⟨U+202E⟩␇"
        );
    }
}
