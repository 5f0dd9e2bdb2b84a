//! Titles of exports, masked before they are cut.

use crate::error::Result;
use crate::model::{Block, Body, Outline};
use crate::store::Session;
use crate::tree::shorten;

use super::redact::Redactor;

/// Masks a title. One that was cut from a prompt of the log is cut again, from the masked prompt: the
/// rest of a secret that was cut has no shape by which it could be found.
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
        Some(prompt) => shorten(&redactor.mask_text(&prompt)),
        None => redactor.mask_text(title).into_owned(),
    })
}

/// The prompt that a title was cut from.
fn whole_prompt(session: &Session, log: usize, title: &str) -> Result<Option<String>> {
    let Some((_, scan, _)) = session.log(log) else {
        return Ok(None);
    };
    let first = title.chars().next();
    let is_source = |outline: &&Outline| {
        let prompt = outline.prompt().map(str::trim_start);
        prompt.is_some_and(|prompt| prompt.chars().next() == first && shorten(prompt) == title)
    };
    let Some(at) = scan.outlines.iter().position(|one| is_source(&one)) else {
        return Ok(None);
    };
    let opening = scan.outlines.get(at).and_then(Outline::prompt);
    let mut whole = None;
    session.each_entry_of_log(log, &[at], |entry| {
        if let Body::Message(message) = entry.body {
            let texts = message.blocks.into_iter().filter_map(|block| match block {
                Block::Text(text) => Some(text),
                _ => None,
            });
            let is_prompt = |text: &String| opening.is_some_and(|start| text.starts_with(start));
            whole = texts.into_iter().find(is_prompt);
        }
        Ok(true)
    })?;
    Ok(whole)
}
