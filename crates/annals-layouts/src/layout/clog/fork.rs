//! Copying a record into another conversation.

use crate::error::{Error, Result};
use crate::json::{self, Raw};
use crate::layout::{ForkEdit, ForkParent, fork_origin};

use super::line::Line;
use super::path;

/// Copies a record, changing only the ids of its conversation and a parent that it names.
pub(super) fn copy_record(record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
    let unreadable = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
    let text = String::from_utf8_lossy(record);
    let mended;
    let text = match serde_json::from_str::<Line<'_>>(&text) {
        Ok(_) => &*text,
        Err(_) => {
            mended = json::sanitize(&text);
            &*mended
        }
    };
    let line: Line<'_> = serde_json::from_str(text).map_err(|_| unreadable())?;
    let conversation = json::quote(&path::conversation_id(graft.to, None));
    let thread = json::quote(graft.requested_id.name());
    let origin = format!(
        r#"{{"conversationId":{},"messageId":{}{}}}"#,
        json::quote(&path::conversation_id(graft.from, None)),
        json::quote(graft.id.as_str()),
        fork_origin::origin_time_member(
            "createdAt",
            line.created,
            line.forked_from,
            graft.time.is_some()
        )
    );
    let mut members = vec![
        ("conversationId", conversation.as_str()),
        ("threadId", thread.as_str()),
        ("forkedFrom", origin.as_str()),
    ];
    let time = graft.time.map(|time| time.as_millisecond().to_string());
    members.extend(time.as_deref().map(|time| ("createdAt", time)));
    let annex = forked_extension(&line, text, graft)?;
    members.extend(annex.as_deref().map(|annex| ("annals", annex)));
    json::set_members(record, &members).ok_or_else(unreadable)
}

json::object! {
    struct OwnExtension<'a> { "annals" => annex: Raw<'a>, }
}

/// Returns the value of `annals` in the fork, if it must change.
///
/// The parent of each record is the one before it, so only a parent that was named must be
/// replaced.
fn forked_extension(line: &Line<'_>, text: &str, graft: &ForkEdit<'_>) -> Result<Option<String>> {
    let own: OwnExtension<'_> = serde_json::from_str(text).unwrap_or_default();
    let annex = &line.annex;
    let mut members: Vec<(&str, String)> = Vec::new();
    if annex.parent.0.is_some() {
        match graft.parent {
            ForkParent::Keep => {}
            ForkParent::None => members.push(("parent", "null".to_owned())),
            ForkParent::Entry(parent) => members.push(("parent", json::quote(parent.as_str()))),
        }
    }
    if line.id.non_empty().is_none() && annex.id.non_empty().is_none() {
        // Its id was its offset, which changes in the copy.
        members.push(("id", json::quote(graft.id.as_str())));
    }
    // In the fork this is the main conversation.
    if annex.sidechain.0 {
        members.push(("sidechain", "false".to_owned()));
    }
    if annex.agent.non_empty().is_some() {
        members.push(("agent", "null".to_owned()));
    }
    if members.is_empty() {
        return Ok(None);
    }
    let members: Vec<(&str, &str)> = members.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let object = own
        .annex
        .0
        .filter(|raw| raw.starts_with('{'))
        .unwrap_or("{}");
    let set = json::set_members(object.as_bytes(), &members);
    let set = set.and_then(|bytes| String::from_utf8(bytes).ok());
    set.map(Some)
        .ok_or_else(|| Error::refused(format!("`{}` cannot be copied", graft.id)))
}
