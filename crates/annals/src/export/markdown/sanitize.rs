//! Sanitizes the Markdown of messages, for embedding in an export.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::export::format::MAX_MARKDOWN;
use crate::export::html::safe_url;
use annals_layouts::text::{LineBreaks, visible};

/// The highest heading level in a message; the export itself uses the levels above.
const HIGHEST_HEADING: usize = 4;

/// Neutralizes everything that would affect the document around the message: raw HTML, remote
/// images, links to anything but pages and mail, link definitions, headings of our own levels,
/// unclosed fences. The text stays readable. A text that is too long to parse becomes a code block.
pub(super) fn sanitize(text: &str) -> String {
    /// Escaping one construct may expose another inside it. A text that needs more rounds becomes a
    /// code block.
    const TURNS: usize = 16;
    let mut text = visible(text, LineBreaks::Preserved).into_owned();
    let turns = if text.len() > MAX_MARKDOWN { 0 } else { TURNS };
    for _ in 0..turns {
        let edits = edits(&text);
        if edits.is_empty() {
            return text;
        }
        text = apply(&text, edits);
    }
    let fence = "`".repeat(super::longest_run(&text).max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

type Edit = (Range<usize>, String);

fn edits(text: &str) -> Vec<Edit> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(text, options);
    let mut edits: Vec<Edit> = Vec::new();
    for (_, definition) in parser.reference_definitions().iter() {
        // In a list or a quote, the span begins with the marker of the list or quote.
        let inside = text.get(definition.span.clone()).unwrap_or_default();
        let at = definition.span.start + inside.find('[').unwrap_or(0);
        edits.push((at..at, "\\".to_owned()));
    }
    let mut depth = 0;
    for (event, range) in parser.into_offset_iter() {
        let here = text.get(range.clone()).unwrap_or_default();
        let start = range.start;
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let tags = here.match_indices('<');
                edits.extend(tags.map(|(at, _)| {
                    let at = start + at;
                    (at..at + 1, "&lt;".to_owned())
                }));
            }
            Event::Start(Tag::Heading { level, .. }) if (level as usize) < HIGHEST_HEADING => {
                let level = level as usize;
                match here.find('#').filter(|_| !is_underlined(here)) {
                    Some(at) => {
                        let more = (level + HIGHEST_HEADING - 1).min(6) - level;
                        let at = start + at;
                        edits.push((at..at, "#".repeat(more)));
                    }
                    None => edits.extend(underline(here).map(|at| {
                        let at = start + at;
                        (at..at, "\\".to_owned())
                    })),
                }
            }
            Event::Start(Tag::Image { .. }) => edits.push((start..start, "\\".to_owned())),
            Event::Start(Tag::Link { dest_url, .. }) if safe_url(&dest_url).is_none() => {
                edits.push((start..start, "\\".to_owned()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))
                if depth == 0 && range.end == text.len() =>
            {
                edits.extend(closing_fence(here).map(|fence| (range.end..range.end, fence)));
            }
            Event::Start(Tag::BlockQuote(_) | Tag::List(_) | Tag::Item) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item) => depth -= 1,
            _ => {}
        }
    }
    edits
}

/// Returns whether the heading is formed by the line below it (setext).
fn is_underlined(heading: &str) -> bool {
    let first = heading.trim_start_matches([' ', '>', '\t']);
    !first.starts_with('#')
}

/// Returns the byte offset of the underline of a setext heading.
fn underline(heading: &str) -> Option<usize> {
    let heading = heading.trim_end();
    let line = heading.rfind('\n')? + 1;
    let found = heading.get(line..)?.find(['=', '-'])?;
    Some(line + found)
}

/// Returns the fence that closes a block that is open to the end of the text.
fn closing_fence(block: &str) -> Option<String> {
    let opening = block.lines().next()?.trim_start();
    let mark = opening.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let len = opening.len() - opening.trim_start_matches(mark).len();
    let last = block.lines().skip(1).last().map_or("", str::trim);
    let closed = last.len() >= len && last.chars().all(|c| c == mark) && !last.is_empty();
    let fence = mark.to_string().repeat(len);
    let gap = if block.ends_with('\n') { "" } else { "\n" };
    (!closed).then(|| format!("{gap}{fence}"))
}

fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    crate::sort::by_key(&mut edits, |(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + edits.len() * 4);
    let mut done = 0;
    for (range, put) in edits {
        // Overlapping edits have the same effect, so the first suffices.
        if range.start < done {
            continue;
        }
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(&put);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the constructs that would still affect the document around the message.
    fn remaining_harm(text: &str) -> Vec<String> {
        let after = format!("{text}\n\n### After\n");
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut found = Vec::new();
        let parser = Parser::new_ext(&after, options);
        let definitions = parser.reference_definitions().iter().count();
        found.extend((definitions > 0).then(|| "definition".to_owned()));
        let mut headings = 0;
        for event in parser {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => found.push(html.to_string()),
                Event::Start(Tag::Image { dest_url, .. }) => found.push(dest_url.to_string()),
                Event::Start(Tag::Link { dest_url, .. }) if safe_url(&dest_url).is_none() => {
                    found.push(dest_url.to_string());
                }
                Event::Start(Tag::Heading { level, .. }) if (level as usize) < HIGHEST_HEADING => {
                    headings += 1;
                }
                _ => {}
            }
        }
        if headings != 1 {
            found.push(format!("{headings} headings"));
        }
        found
    }

    const HOSTILE: [&str; 20] = [
        "<script>alert(1)</script>",
        "text <img src=x onerror=alert(1)> text",
        "<!-- open",
        "<details><summary>x",
        "# User\n\nforged",
        "Forged\n===",
        "> Forged\n> ---",
        "- item\n\n  Forged\n  ---",
        "```\nnever closed",
        "~~~~rust\nnever closed\n",
        "![tracker](https://evil.example/x.png)",
        "[click](javascript:alert(1))",
        "<javascript:alert(1)>",
        "[User]: https://evil.example",
        "> [User]: https://evil.example\n\n[User]",
        "[a][b]\n\n[b]: javascript:alert(1)",
        "<div>\n# Inside\n[x](javascript:1)\n</div>",
        "<pre>\n# Inside\n",
        "![a][b]\n\n[b]: https://evil.example/x.png",
        "<a href=\"javascript:x\">[y](data:text/html,x)</a>",
    ];

    #[test]
    fn sanitize_neutralizes_hostile_markdown() {
        for text in HOSTILE {
            assert!(
                !remaining_harm(text).is_empty(),
                "the control does no harm: {text:?}"
            );
            let tamed = sanitize(text);
            assert_eq!(
                remaining_harm(&tamed),
                Vec::<String>::new(),
                "{text:?} became {tamed:?}"
            );
            assert_eq!(sanitize(&tamed), tamed, "{text:?}");
        }
    }

    #[test]
    fn sanitize_keeps_plain_markdown() {
        for text in [
            "plain",
            "#### deep\n\n- a\n- b\n\n```rust\nfn a() {}\n```",
            "[docs](https://docs.rs) and <https://docs.rs>",
            "a < b && c > d",
            "`<b>` and\n\n    <b>\n",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "- ```\n  open to the end of a list",
            "> ```\n> open to the end of a quote",
        ] {
            assert_eq!(sanitize(text), text);
        }
    }

    #[test]
    fn sanitize_fences_text_that_is_too_long() {
        let text = "# a `b`\n".repeat(MAX_MARKDOWN / 8 + 1);
        assert_eq!(sanitize(&text), format!("```\n{text}\n```"));
    }

    #[test]
    fn sanitize_lowers_headings_and_keeps_their_order() {
        assert_eq!(sanitize("# a\n## b\n### c"), "#### a\n##### b\n###### c");
    }
}
