//! Renders a small subset of Markdown as HTML. Raw HTML becomes text, images become links.

use std::fmt::Write as _;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{escape_block, escape_markup};
use annals_layouts::text::{LineBreaks, visible};

/// Renders message text. Line breaks inside a paragraph are kept, because they are intended in a
/// chat.
pub(super) fn render_markdown(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let text = visible(text, LineBreaks::Preserved);
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut links: Vec<&str> = Vec::new();
    let mut head = false;
    for event in Parser::new_ext(&text, options) {
        match event {
            Event::Start(tag) => start(tag, &mut out, &mut links, &mut head),
            Event::End(tag) => end(tag, &mut out, &mut links, &mut head),
            Event::Code(code) => _ = write!(out, "<code>{}</code>", escape_block(&code)),
            Event::SoftBreak | Event::HardBreak => out.push_str("<br>\n"),
            Event::Rule => out.push_str("<hr>\n"),
            Event::TaskListMarker(done) => out.push_str(if done { "☑ " } else { "☐ " }),
            // Raw HTML is shown as text.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                out.push_str(&escape_block(&text));
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                out.push_str(&escape_block(&text))
            }
        }
    }
    out
}

/// Returns a web or mail address, escaped for an attribute; `None` for any other scheme.
pub(in crate::export) fn safe_url(address: &str) -> Option<String> {
    let address = address.trim();
    let scheme = address.split_once(':')?.0.to_ascii_lowercase();
    let allowed = matches!(scheme.as_str(), "http" | "https" | "mailto");
    let hidden = |c: char| c.is_control() || c.is_whitespace();
    let sound = allowed && !address.contains(hidden);
    sound.then(|| escape_markup(&visible(address, LineBreaks::Spaces)))
}

fn start(tag: Tag<'_>, out: &mut String, links: &mut Vec<&'static str>, head: &mut bool) {
    match tag {
        Tag::Paragraph => out.push_str("<p>"),
        Tag::Heading { level, .. } => _ = write!(out, "<h{}>", heading_level(level as usize)),
        Tag::BlockQuote(_) => out.push_str("<blockquote>\n"),
        Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
            out.push_str("<pre>\n");
        }
        Tag::List(None) => out.push_str("<ul>\n"),
        Tag::List(Some(first)) => _ = writeln!(out, "<ol start=\"{first}\">"),
        Tag::Item => out.push_str("<li>"),
        Tag::Table(_) => out.push_str("<div class=\"table\"><table>\n"),
        Tag::TableHead => {
            *head = true;
            out.push_str("<tr>");
        }
        Tag::TableRow => out.push_str("<tr>"),
        Tag::TableCell => out.push_str(if *head { "<th>" } else { "<td>" }),
        Tag::Emphasis => out.push_str("<em>"),
        Tag::Strong => out.push_str("<strong>"),
        Tag::Strikethrough => out.push_str("<del>"),
        // A browser would fetch the image, so it becomes a link.
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => match safe_url(&dest_url) {
            Some(address) => {
                _ = write!(
                    out,
                    "<a href=\"{address}\" rel=\"noopener noreferrer nofollow\">"
                );
                links.push("</a>");
            }
            None => {
                out.push_str("<span>");
                links.push("</span>");
            }
        },
        Tag::HtmlBlock => out.push_str("<p class=\"html\">"),
        _ => {}
    }
}

fn end(tag: TagEnd, out: &mut String, links: &mut Vec<&'static str>, head: &mut bool) {
    match tag {
        TagEnd::Paragraph | TagEnd::HtmlBlock => out.push_str("</p>\n"),
        TagEnd::Heading(level) => _ = writeln!(out, "</h{}>", heading_level(level as usize)),
        TagEnd::BlockQuote(_) => out.push_str("</blockquote>\n"),
        TagEnd::CodeBlock => out.push_str("</pre>\n"),
        TagEnd::List(false) => out.push_str("</ul>\n"),
        TagEnd::List(true) => out.push_str("</ol>\n"),
        TagEnd::Item => out.push_str("</li>\n"),
        TagEnd::Table => out.push_str("</table></div>\n"),
        TagEnd::TableHead => {
            *head = false;
            out.push_str("</tr>\n");
        }
        TagEnd::TableRow => out.push_str("</tr>\n"),
        TagEnd::TableCell => out.push_str(if *head { "</th>" } else { "</td>" }),
        TagEnd::Emphasis => out.push_str("</em>"),
        TagEnd::Strong => out.push_str("</strong>"),
        TagEnd::Strikethrough => out.push_str("</del>"),
        TagEnd::Link | TagEnd::Image => out.push_str(links.pop().unwrap_or_default()),
        _ => {}
    }
}

/// Returns the level of a message's heading, lowered below ours.
fn heading_level(level: usize) -> usize {
    (level + 3).min(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_markdown_renders_a_small_subset() {
        for (text, html) in [
            (
                "a *b* **c** `d`",
                "<p>a <em>b</em> <strong>c</strong> <code>d</code></p>\n",
            ),
            ("one\ntwo", "<p>one<br>\ntwo</p>\n"),
            ("# h", "<h4>h</h4>\n"),
            ("```rs\n<b>\n```", "<pre>\n&lt;b&gt;\n</pre>\n"),
            (
                "[a](https://x.y/?q=\"1\"&r)",
                "<p><a href=\"https://x.y/?q=&quot;1&quot;&amp;r\" rel=\"noopener noreferrer nofollow\">a</a></p>\n",
            ),
        ] {
            assert_eq!(render_markdown(text), html);
        }
    }

    #[test]
    fn render_markdown_escapes_hostile_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x](  JaVaScRiPt:alert(1))",
            "[x](data:text/html;base64,AAAA)",
            "[x](java&#10;script:alert(1))",
            "![x](https://evil.example/beacon.png)",
            "<https://x.y/\"onmouseover=alert(1)>",
            "[x](https://x.y/'\"><script>)",
            "`</pre><script>`",
            "```\n</pre><script>\n```",
            "| <script> |\n|---|\n| <b onclick=x> |",
            "&lt;script&gt;",
            "&#27;[31m &#8238;",
            "[x]: javascript:alert(1)\n\n[x]",
        ] {
            let html = render_markdown(text);
            let tags: Vec<&str> = html
                .split('<')
                .skip(1)
                .map(|rest| rest.split(['>', ' ']).next().unwrap_or_default())
                .collect();
            let known = |tag: &&str| {
                let tag = tag.trim_start_matches('/');
                [
                    "p", "a", "br", "pre", "code", "span", "div", "table", "tr", "th", "td",
                ]
                .contains(&tag)
            };
            assert!(tags.iter().all(known), "{text:?}: {html}");
            assert!(!html.contains("<img"), "{html}");
            for (at, _) in html.match_indices("href=\"") {
                let rest = &html[at + 6..];
                assert!(rest.starts_with("http"), "{html}");
            }
            assert!(!html.contains(['\u{1b}', '\u{202e}']), "{html}");
        }
    }
}
