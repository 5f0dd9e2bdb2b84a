//! Markdown for a terminal.
//!
//! Formats headings, lists, quotes, code, tables and links, wrapped to a width. All text, code and
//! URLs are sanitised after parsing, so that `&#27;` is as harmless as an escape byte; HTML is
//! shown, not interpreted. Line breaks inside a paragraph are preserved, because people in a chat
//! intend them.
//!
//! The renderer is a loop over events with an explicit stack, and containers stop indenting at half
//! the width, so the cost is linear in the input for any depth or size.

mod grid;

use super::style::{BOLD, CODE, DIM, HEADING, LINK, PLAIN, paint_safe};
use super::text::safe_block;
use super::width::{Span, expand_tabs, push_spans, spans_text, split_at_width, width, wrap};
use anstyle::Style;
use grid::Grid;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

/// Renders `source` in at most `max` columns, if given; every line ends in `\n`.
pub fn render(source: &str, max: Option<usize>) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer::new(max);
    for event in Parser::new_ext(source, options) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.out
}

struct Renderer {
    out: String,
    max: Option<usize>,
    containers: Vec<Container>,
    /// Number of `containers` that draw a prefix; deeper ones do not.
    drawn: usize,
    indent: usize,
    lists: Vec<List>,
    inline: Vec<Span>,
    styles: Vec<Style>,
    links: Vec<Link>,
    /// The collected code or HTML, which is not wrapped.
    verbatim: Option<String>,
    grid: Option<Grid>,
    /// Whether an empty line is due before the next block.
    gap: bool,
}

enum Container {
    Quote,
    Item {
        marker: Option<String>,
        columns: usize,
    },
}

struct List {
    number: Option<u64>,
    empty: bool,
    loose: bool,
}

struct Link {
    url: String,
    start: usize,
    shown: bool,
}

impl Renderer {
    fn new(max: Option<usize>) -> Renderer {
        Renderer {
            out: String::new(),
            max,
            containers: Vec::new(),
            drawn: 0,
            indent: 0,
            lists: Vec::new(),
            inline: Vec::new(),
            styles: vec![PLAIN],
            links: Vec::new(),
            verbatim: None,
            grid: None,
            gap: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.verbatim {
                Some(lines) => lines.push_str(&text),
                None => self.push(&text, PLAIN),
            },
            Event::Html(html) => match &mut self.verbatim {
                Some(lines) => lines.push_str(&html),
                None => self.push(&html, DIM),
            },
            Event::InlineHtml(html) => self.push(&html, DIM),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => {
                self.push("`", DIM);
                self.push(&code, CODE);
                self.push("`", DIM);
            }
            Event::FootnoteReference(label) => self.push(&format!("[^{label}]"), DIM),
            Event::SoftBreak | Event::HardBreak => match &mut self.grid {
                Some(grid) => grid.push(Span::new(" ", PLAIN)),
                None => self.inline.push(Span::line_break()),
            },
            Event::Rule => {
                let columns = self.room().map_or(RULE, |room| room.min(RULE));
                self.block(vec![Span::new(&"─".repeat(columns), DIM)]);
                self.gap = true;
            }
            Event::TaskListMarker(done) => self.push(if done { "[x] " } else { "[ ] " }, PLAIN),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                self.push(&format!("{} ", "#".repeat(level as usize)), DIM);
                self.styles.push(HEADING);
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.fill_gap();
                self.open(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.fill_gap();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.trim().is_empty()
                {
                    self.bar_line("┌ ", &[Span::new(language.trim(), DIM)]);
                }
                self.verbatim = Some(String::new());
            }
            Tag::HtmlBlock => {
                self.flush();
                self.verbatim = Some(String::new());
            }
            Tag::List(number) => {
                self.flush();
                self.fill_gap();
                self.lists.push(List {
                    number,
                    empty: true,
                    loose: false,
                });
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.flush();
                self.grid = Some(Grid::new(&alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(grid) = &mut self.grid {
                    grid.start_row();
                }
            }
            Tag::TableCell => {
                if let Some(grid) = &mut self.grid {
                    grid.start_cell();
                }
            }
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => {
                self.push("~~", DIM);
                self.styles.push(self.style().strikethrough());
            }
            Tag::Link {
                link_type,
                dest_url,
                ..
            } => {
                let shown = !matches!(link_type, LinkType::Autolink | LinkType::Email);
                self.links.push(Link {
                    url: dest_url.into_string(),
                    start: self.inline.len(),
                    shown,
                });
                self.styles.push(self.style() | LINK.get_effects());
            }
            Tag::Image { dest_url, .. } => {
                self.push("[image: ", DIM);
                self.links.push(Link {
                    url: dest_url.into_string(),
                    start: self.inline.len(),
                    shown: true,
                });
            }
            _ => self.flush(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.gap = true;
                if let (Some(list), Some(Container::Item { .. })) =
                    (self.lists.last_mut(), self.containers.last())
                {
                    list.loose = true;
                }
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.flush();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.close();
                self.gap = true;
            }
            TagEnd::CodeBlock => self.end_code("│ ", CODE),
            TagEnd::HtmlBlock => self.end_code("", DIM),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = true;
            }
            TagEnd::Item => {
                self.flush();
                if matches!(
                    self.containers.last(),
                    Some(Container::Item {
                        marker: Some(_),
                        ..
                    })
                ) {
                    self.block(Vec::new());
                    self.gap = false;
                }
                self.close();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong => _ = self.styles.pop(),
            TagEnd::Strikethrough => {
                self.styles.pop();
                self.push("~~", DIM);
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link();
            }
            TagEnd::Image => {
                self.push("]", DIM);
                self.end_link();
            }
            _ => {}
        }
    }

    fn start_item(&mut self) {
        self.flush();
        let marker = match self.lists.last_mut() {
            Some(list) => {
                if !list.empty && !list.loose {
                    self.gap = false;
                }
                list.empty = false;
                match &mut list.number {
                    Some(number) => {
                        let marker = format!("{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    None => "• ".to_owned(),
                }
            }
            None => "• ".to_owned(),
        };
        self.fill_gap();
        let columns = width(&marker);
        self.open(Container::Item {
            marker: Some(marker),
            columns,
        });
    }

    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else {
            return;
        };
        // Only a short run can equal the URL; the limit keeps nested images linear.
        let spans = self.inline.get(link.start..).unwrap_or_default();
        let same = self.grid.is_none() && spans.len() <= 4 && spans_text(spans) == link.url;
        if link.shown && !same && !link.url.is_empty() {
            self.push(&format!(" ({})", link.url), DIM);
        }
    }

    fn end_code(&mut self, bar: &'static str, style: Style) {
        let code = self.verbatim.take().unwrap_or_default();
        let code = safe_block(&code);
        self.fill_gap();
        let room = self.room().map(|room| room.saturating_sub(width(bar)));
        for line in code.strip_suffix('\n').unwrap_or(&code).split('\n') {
            let expanded = room.map(|_| expand_tabs(line));
            for piece in split_at_width(expanded.as_deref().unwrap_or(line), room) {
                self.prefix();
                push_mark(&mut self.out, DIM, bar);
                if !piece.is_empty() {
                    paint_safe(&mut self.out, style, piece);
                }
                self.end_line();
            }
        }
        self.gap = true;
    }

    fn end_table(&mut self) {
        let Some(grid) = self.grid.take() else {
            return;
        };
        self.fill_gap();
        for line in grid.lines(self.room()) {
            self.prefix();
            push_spans(&mut self.out, &line);
            self.end_line();
        }
        self.gap = true;
    }

    fn push(&mut self, text: &str, style: Style) {
        let style = if style == PLAIN { self.style() } else { style };
        for (n, line) in text.split('\n').enumerate() {
            let span = Span::new(line, style);
            match &mut self.grid {
                Some(grid) => grid.push(span),
                None => {
                    if n > 0 {
                        self.inline.push(Span::line_break());
                    }
                    self.inline.push(span);
                }
            }
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(PLAIN)
    }

    /// Writes the collected text as a block.
    fn flush(&mut self) {
        if !self.inline.is_empty() {
            let spans = std::mem::take(&mut self.inline);
            self.block(spans);
        }
    }

    fn block(&mut self, spans: Vec<Span>) {
        self.fill_gap();
        for line in wrap(&spans, self.room()) {
            self.prefix();
            push_spans(&mut self.out, &line);
            self.end_line();
        }
    }

    fn bar_line(&mut self, bar: &str, spans: &[Span]) {
        let room = self.room().map(|room| room.saturating_sub(width(bar)));
        if let Some(line) = wrap(spans, room).first() {
            self.prefix();
            push_mark(&mut self.out, DIM, bar);
            push_spans(&mut self.out, line);
            self.end_line();
        }
    }

    fn fill_gap(&mut self) {
        if std::mem::take(&mut self.gap) && !self.out.is_empty() {
            self.prefix();
            self.end_line();
        }
    }

    fn prefix(&mut self) {
        for container in self.containers.iter_mut().take(self.drawn) {
            match container {
                Container::Quote => push_mark(&mut self.out, DIM, QUOTE),
                Container::Item { marker, columns } => match marker.take() {
                    Some(marker) => push_mark(&mut self.out, BOLD, &marker),
                    None => self.out.extend(std::iter::repeat_n(' ', *columns)),
                },
            }
        }
    }

    /// Ends a line without trailing spaces.
    fn end_line(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }

    fn open(&mut self, mut container: Container) {
        let columns = match &container {
            Container::Quote => width(QUOTE),
            Container::Item { columns, .. } => *columns,
        };
        let fits = self.indent + columns <= self.max.unwrap_or(UNLIMITED_INDENT * 2) / 2;
        if self.drawn == self.containers.len() && fits {
            self.drawn += 1;
            self.indent += columns;
        } else if let Container::Item { marker, .. } = &mut container {
            *marker = None;
        }
        self.containers.push(container);
    }

    fn close(&mut self) {
        let drawn = self.drawn == self.containers.len();
        let Some(container) = self.containers.pop() else {
            return;
        };
        if drawn {
            self.drawn -= 1;
            self.indent -= match container {
                Container::Quote => width(QUOTE),
                Container::Item { columns, .. } => columns,
            };
        }
    }

    fn room(&self) -> Option<usize> {
        self.max.map(|max| max.saturating_sub(self.indent).max(1))
    }
}

/// Styles a marker but not the space after it, so that trailing space can be removed.
fn push_mark(out: &mut String, style: Style, mark: &str) {
    let glyph = mark.trim_end_matches(' ');
    if !glyph.is_empty() {
        paint_safe(out, style, glyph);
    }
    out.push_str(&mark[glyph.len()..]);
}

const QUOTE: &str = "▎ ";
const RULE: usize = 40;
const UNLIMITED_INDENT: usize = 60;

#[cfg(test)]
mod tests;
