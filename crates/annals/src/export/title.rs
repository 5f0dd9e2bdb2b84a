//! Titles of exports, masked before they are cut.

use std::borrow::Cow;

use crate::error::Result;
use crate::store::Session;
use annals_layouts::layout::MAX_TITLE_CHARS;
use annals_layouts::model::{Block, Body, Outline};
use annals_layouts::tree::{one_line, shorten};

use super::redact::Redactor;

/// Maximum length of a heading, in characters.
pub(super) const MAX_HEADING_CHARS: usize = 80;

/// Returns a title as a heading: masked if there is a redactor, then shortened.
pub(super) fn heading(
    session: &Session,
    log: usize,
    title: &str,
    redactor: Option<&mut Redactor>,
) -> Result<String> {
    let title = match redactor {
        Some(redactor) => Cow::Owned(mask_title(session, log, title, redactor)?),
        None => Cow::Borrowed(title),
    };
    Ok(shorten_masked(&title, MAX_HEADING_CHARS))
}

/// Masks a title. A title that was cut from a very long prompt is cut again from the masked prompt,
/// because the rest of a cut secret may match no rule.
pub(super) fn mask_title(
    session: &Session,
    log: usize,
    title: &str,
    redactor: &mut Redactor,
) -> Result<String> {
    let prompt = match title.ends_with('…') {
        true => whole_prompt(session, log, title)?,
        false => None,
    };
    Ok(match prompt {
        Some(prompt) => shorten_masked(&redactor.mask_text(&prompt), MAX_TITLE_CHARS),
        None => redactor.mask_text(title).into_owned(),
    })
}

/// Shortens a masked text. A mask that does not fit is left out as a whole.
pub(super) fn shorten_masked(text: &str, max: usize) -> String {
    let line = one_line(text);
    let short = shorten(&line, max);
    let kept = match short.strip_suffix('…') {
        Some(kept) if short != line => kept.len(),
        _ => return short,
    };
    let is_cut = |start: &usize| {
        let mask = line.get(*start..).unwrap_or_default();
        let end = mask.find(']').map(|at| start + at);
        *start < kept && end.is_none_or(|end| end >= kept)
    };
    let mut masks = line.match_indices(MASK).map(|(start, _)| start);
    match masks.find(is_cut).and_then(|start| line.get(..start)) {
        Some(head) => format!("{}…", head.trim_end()),
        None => short,
    }
}

/// Beginning of a mask.
const MASK: &str = "[redacted:";

/// Returns the prompt that a title was cut from.
fn whole_prompt(session: &Session, log: usize, title: &str) -> Result<Option<String>> {
    let Some((_, scan, _)) = session.log(log) else {
        return Ok(None);
    };
    let first = title.chars().next();
    let is_source = |outline: &&Outline| {
        let prompt = outline.prompt();
        prompt.is_some_and(|prompt| prompt.chars().next() == first && one_line(prompt) == title)
    };
    let Some(at) = scan.outlines.iter().position(|one| is_source(&one)) else {
        return Ok(None);
    };
    let opening = scan.outlines.get(at).and_then(Outline::prompt);
    let opening = opening.and_then(|opening| opening.strip_suffix('…'));
    let mut whole = None;
    session.each_entry_of_log(log, &[at], |entry| {
        if let Body::Message(message) = entry.body {
            let texts = message.blocks.into_iter().filter_map(|block| match block {
                Block::Text(text) => Some(text),
                _ => None,
            });
            let is_prompt = |text: &String| {
                let text = text.trim_start();
                opening.is_some_and(|opening| text.starts_with(opening))
            };
            whole = texts.into_iter().find(is_prompt);
        }
        Ok(true)
    })?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_kept_whole_or_left_out() {
        for (text, short) in [
            ("use [redacted:x] now", "use [redacted:x] now"),
            ("use [redacted:token] and", "use [redacted:token]…"),
            ("uses [redacted:token] and", "uses…"),
            ("a [redacted:x] [redacted:y]", "a [redacted:x]…"),
            ("[redacted:generic-secret] x", "…"),
            ("open [redacted: for ever and ever", "open…"),
            ("a plain text that is too long", "a plain text that is…"),
        ] {
            assert_eq!(shorten_masked(text, 20), short);
        }
    }
}
