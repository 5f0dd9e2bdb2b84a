//! Export of sessions: Markdown and HTML to read, JSON and JSON lines to store and to import.
//!
//! Markdown and HTML follow the tree: one section per conversation, which begins at its branch
//! point, and one per sub-agent. JSON follows the logs and has every entry with all fields of the
//! model, and its record. An export is a root of the layout `export-file`, and
//! [`import`](crate::convert::Importer) writes it into any root with a writable layout.
//!
//! Output goes to a writer, piece by piece. This module creates no files and prints nothing. Text
//! from logs is treated as hostile: in Markdown and HTML it can neither become markup of the
//! document nor hide, and a viewer makes no network requests. Complete control sequences of
//! terminals are removed from messages and tool output after secrets are masked.

mod format;
mod html;
mod json;
mod markdown;
mod reading_order;
mod redact;
mod title;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use jiff::tz::TimeZone;

use crate::error::{Error, Result};
use crate::store::Session;

pub use annals_layouts::layout::export_file::{ExportProblem, read_entry, write_entry};
pub use html::{EntryPlace, HtmlEntries};
pub use reading_order::ExportPart;
pub use redact::{MaskedSecrets, Redactor};
use title::{MAX_HEADING_CHARS, shorten_masked};

/// Format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Markdown, for people.
    Markdown,
    /// One self-contained HTML file, for people.
    Html,
    /// One JSON document.
    Json,
    /// JSON lines: the same data, one object per line.
    Jsonl,
}

impl Format {
    /// Returns the format for the extension of a file name.
    pub fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "md" | "markdown" => Some(Format::Markdown),
            "html" | "htm" => Some(Format::Html),
            "json" => Some(Format::Json),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        }
    }

    /// Returns the file name extension.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Markdown => "md",
            Format::Html => "html",
            Format::Json => "json",
            Format::Jsonl => "jsonl",
        }
    }

    /// Returns whether the format is made for people, who may share it.
    pub(crate) fn is_human_readable(self) -> bool {
        matches!(self, Format::Markdown | Format::Html)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Markdown => "Markdown",
            Format::Html => "HTML",
            Format::Json => "JSON",
            Format::Jsonl => "JSON lines",
        })
    }
}

/// Options for an export.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The format.
    pub(crate) format: Format,
    /// Whether secrets are masked.
    pub redact: bool,
    /// Time zone for Markdown and HTML; JSON uses UTC.
    pub(crate) zone: TimeZone,
}

impl ExportOptions {
    /// Creates options with times in UTC. Secrets are masked in formats made for people.
    pub fn new(format: Format) -> Self {
        ExportOptions {
            format,
            redact: format.is_human_readable(),
            zone: TimeZone::UTC,
        }
    }

    /// Sets whether secrets are masked.
    pub fn redact(mut self, redact: bool) -> Self {
        self.redact = redact;
        self
    }

    /// Sets the time zone for Markdown and HTML.
    pub fn zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }
}

/// Front matter of a document with several sessions. A single session has only its own title.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    /// Title of the document.
    pub title: String,
    /// Titles of the sessions, in the order in which they are written.
    pub sessions: Vec<String>,
}

/// Writes sessions one after the other into one document.
///
/// ```
/// use annals::export::{ExportOptions, ExportPart, Exporter, Format};
/// # use annals::{model::Draft, store::{Root, Store}};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::new(vec![Root::claude_code(dir.path())]);
/// # let writer = store.begin("/home/me/app")?;
/// # writer.append(Draft::user("Why does the build fail?"))?;
/// let session = store.session(writer.session().as_str())?;
/// let mut page = Vec::new();
/// let mut exporter = Exporter::begin(ExportOptions::new(Format::Markdown), None, &mut page)?;
/// exporter.session(&session, &ExportPart::Whole)?;
/// exporter.finish()?;
/// assert!(String::from_utf8(page)?.contains("Why does the build fail?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Exporter<'a> {
    out: &'a mut dyn Write,
    options: ExportOptions,
    redactor: Option<Redactor>,
    /// A cover was written.
    has_cover: bool,
    /// Sessions written so far.
    sessions: usize,
    problems: Vec<ExportProblem>,
}

impl<'a> Exporter<'a> {
    /// Begins the document.
    pub fn begin(
        options: ExportOptions,
        cover: Option<&Cover>,
        out: &'a mut dyn Write,
    ) -> Result<Self> {
        let redactor = options.redact.then(Redactor::new).transpose()?;
        let mut exporter = Exporter {
            out,
            options,
            redactor,
            has_cover: cover.is_some(),
            sessions: 0,
            problems: Vec::new(),
        };
        let cover = cover.map(|cover| exporter.masked_cover(cover));
        let begun = match exporter.options.format {
            Format::Markdown => markdown::begin(cover.as_ref(), exporter.out),
            Format::Html => html::begin(cover.as_ref(), exporter.out),
            Format::Json => json::begin(exporter.out),
            Format::Jsonl => Ok(()),
        };
        begun.map_err(write_error)?;
        Ok(exporter)
    }

    /// Adds something that could not be read to the end of JSON and JSON lines.
    pub fn add_problem(&mut self, problem: ExportProblem) {
        self.problems.push(problem);
    }

    /// Writes one session, or a part of it. After an error, [`Self::finish`] still ends a valid JSON
    /// document, in which the rest of the session is missing.
    pub fn session(&mut self, session: &Session, part: &ExportPart) -> Result<()> {
        let number = self.sessions;
        self.sessions += 1;
        match self.options.format {
            Format::Json | Format::Jsonl => {
                let lines = self.options.format == Format::Jsonl;
                let mut pen = json::JsonWriter::new(self.out, lines, number);
                pen.write_session(session, part, self.redactor.as_mut())
            }
            Format::Markdown => {
                let mut page = markdown::Page::new(self.out, &self.options.zone, self.has_cover);
                reading_order::write_page(session, part, number, self.redactor.as_mut(), &mut page)
            }
            Format::Html => {
                let mut page = html::Page::new(self.out, &self.options.zone, self.has_cover);
                reading_order::write_page(session, part, number, self.redactor.as_mut(), &mut page)
            }
        }
    }

    /// Ends the document and returns what was masked.
    pub fn finish(self) -> Result<MaskedSecrets> {
        let ended = match self.options.format {
            Format::Html => html::end(self.out),
            Format::Json => json::end(&self.problems, self.out),
            Format::Jsonl => json::end_lines(&self.problems, self.out),
            Format::Markdown => Ok(()),
        };
        ended.and_then(|()| self.out.flush()).map_err(write_error)?;
        let masked = self.redactor.map(|redactor| redactor.masked().clone());
        Ok(masked.unwrap_or_default())
    }

    fn masked_cover(&mut self, cover: &Cover) -> Cover {
        let mut mask = |text: &str| match &mut self.redactor {
            Some(redactor) => redactor.mask_text(text).into_owned(),
            None => text.to_owned(),
        };
        Cover {
            title: mask(&cover.title),
            sessions: cover
                .sessions
                .iter()
                .map(|title| shorten_masked(&mask(title), MAX_HEADING_CHARS))
                .collect(),
        }
    }
}

impl fmt::Debug for Exporter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("options", &self.options)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

fn write_error(error: io::Error) -> Error {
    Error::io("write", "the export", error)
}
