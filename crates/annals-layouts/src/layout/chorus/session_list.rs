//! Updates of the session list (`conversations.json`).
//!
//! A row is changed in place and only where needed; everything else keeps its bytes. A missing or
//! damaged list is rebuilt from the logs and from the rows that are still whole in it.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json::{self, Pairs, Raw, Text, describe_json_error, object};
use crate::layout::extension::ExtensionOut;
use crate::layout::usage_fields::{decode_time, format_time, truncate_to_millis};
use crate::layout::{ListUpdate, RowUpdate};
use crate::model::{Artifact, ArtifactKind};

use super::documents::{CONVERSATIONS, UNTITLED, salvage};
use super::json_array::{self, JsonArray, RowEdit, is_multiline, split_bom};
use super::line::SESSION_ID;
use super::path;

/// Indentation of the rows.
const DEPTH: usize = 4;

object! {
    struct RowMembers<'a> {
        "id" => id: Text<'a>,
        "title" => title: Raw<'a>,
        "updatedAt" => updated: Raw<'a>,
        "messageCount" => messages: Raw<'a>,
    }
}

/// Members of a row that a session may have in addition to its title.
pub(super) const MEMBERS: &[&str] = &[
    SESSION_ID,
    "sessionCreatedAt",
    "branchName",
    "worktreePath",
    "settings",
];

/// Rejects a value that the program could not use.
pub(super) fn check_member(name: &str, json: &str) -> Result<()> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| Error::refused(format!("`{name}` is {}", describe_json_error(&error))))?;
    let (sound, wanted) = match name {
        "settings" => (value.is_object() || value.is_null(), "an object or null"),
        "sessionCreatedAt" => (
            value.is_null() || decode_time(Raw(Some(json.trim()))).is_some(),
            "a time or null",
        ),
        _ => (value.is_string() || value.is_null(), "a string or null"),
    };
    match sound {
        true => Ok(()),
        false => Err(Error::refused(format!("`{name}` must be {wanted}"))),
    }
}

/// Returns the session list that contains a log.
pub(super) fn session_list(log: &Artifact) -> Option<Artifact> {
    let listed = matches!(log.kind, ArtifactKind::SessionLog | ArtifactKind::AgentLog);
    log.folder
        .as_ref()
        .filter(|_| listed)
        .map(|folder| Artifact {
            folder: Some(folder.clone()),
            ..Artifact::new(ArtifactKind::SessionList)
        })
}

pub(super) fn update(
    session_list: &Artifact,
    old: Option<&[u8]>,
    rows: &[RowUpdate],
    whole: bool,
) -> Result<ListUpdate> {
    let Some((workspace, agent)) = folder(session_list) else {
        return Ok(ListUpdate::Unchanged);
    };
    let sound = old.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let sound = sound.filter(|text| JsonArray::find(split_bom(text).1, CONVERSATIONS).is_some());
    let made;
    let document = match (sound, old) {
        (Some(text), _) => text,
        (None, _) if !whole => return Ok(ListUpdate::NeedsAllRows),
        (None, None) if rows.iter().all(|row| row.removed) => return Ok(ListUpdate::Unchanged),
        (None, old) => {
            made = format_list(&salvage(old.unwrap_or_default()));
            made.as_str()
        }
    };
    let (mark, body) = split_bom(document);
    let Some(list) = JsonArray::find(body, CONVERSATIONS) else {
        return Err(Error::refused("cannot create the session list"));
    };
    let mut index = ListEditor::new(&list, is_multiline(body), workspace, agent);
    for row in rows {
        index.update_row(row);
    }
    let bytes = format!("{mark}{}", list.apply(&index.edits, &index.added, DEPTH)).into_bytes();
    if old == Some(bytes.as_slice()) {
        return Ok(ListUpdate::Unchanged);
    }
    Ok(ListUpdate::Changed {
        bytes,
        damaged: old.is_some() && sound.is_none(),
        removed: index.removed,
    })
}

/// Returns whether a session list has neither rows nor anything else that would be lost with it.
pub(super) fn is_empty(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).map_or("", |text| split_bom(text).1);
    let pairs: Pairs<'_> = serde_json::from_str(text).unwrap_or_default();
    let list = JsonArray::find(text, CONVERSATIONS);
    pairs.0.len() == 1 && list.is_some_and(|list| list.rows().next().is_none())
}

/// Returns the workspace and the agent of a session list.
fn folder(session_list: &Artifact) -> Option<(&str, &str)> {
    let folder = session_list.folder.as_deref()?;
    let indexed = session_list.kind == ArtifactKind::SessionList;
    folder.split_once('/').filter(|_| indexed)
}

/// Formats a session list of these rows as the program would write it.
fn format_list(rows: &[String]) -> String {
    let empty = "{\n  \"conversations\": []\n}";
    match JsonArray::find(empty, CONVERSATIONS) {
        Some(list) => list.apply(&[], rows, DEPTH),
        None => empty.to_owned(),
    }
}

/// Pending edits of a session list.
struct ListEditor<'a> {
    rows: Vec<&'a str>,
    /// Indices of the rows with each id.
    by_id: HashMap<String, Vec<usize>>,
    edits: Vec<RowEdit>,
    added: Vec<String>,
    removed: Vec<String>,
    multiline: bool,
    workspace: &'a str,
    agent: &'a str,
}

impl<'a> ListEditor<'a> {
    fn new(list: &JsonArray<'a>, tall: bool, workspace: &'a str, agent: &'a str) -> Self {
        let rows: Vec<&str> = list.rows().collect();
        let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            let known: RowMembers<'_> = serde_json::from_str(row).unwrap_or_default();
            if let Some(id) = known.id.owned() {
                by_id.entry(id).or_default().push(at);
            }
        }
        ListEditor {
            edits: vec![RowEdit::Keep; rows.len()],
            rows,
            by_id,
            added: Vec::new(),
            removed: Vec::new(),
            multiline: tall,
            workspace,
            agent,
        }
    }

    fn update_row(&mut self, row: &RowUpdate) {
        let Some(log) = &row.log else { return };
        let id = path::stem(log);
        let at = self.by_id.get(&id).cloned().unwrap_or_default();
        if row.removed {
            for at in at {
                self.removed
                    .extend(self.rows.get(at).map(|row| (*row).to_owned()));
                self.set_edit(at, RowEdit::Remove);
            }
            return;
        }
        // Of two rows with the same id the later takes precedence; the other is left unchanged.
        match (
            at.last(),
            row.restored_text
                .as_deref()
                .filter(|text| is_row_with_id(text, &id)),
        ) {
            (Some(_), Some(_)) => {}
            (None, Some(text)) => self.added.push(text.to_owned()),
            (Some(&at), None) => {
                let old = self.rows.get(at).copied().unwrap_or_default();
                if let Some(new) = updated_row(old, row) {
                    self.set_edit(at, RowEdit::Replace(new));
                }
            }
            (None, None) => {
                let new = self.new_row(&id, row);
                self.added.push(new);
            }
        }
    }

    fn set_edit(&mut self, at: usize, fate: RowEdit) {
        if let Some(slot) = self.edits.get_mut(at) {
            *slot = fate;
        }
    }

    /// Formats the row of a log that has none.
    fn new_row(&self, id: &str, row: &RowUpdate) -> String {
        let started = row.started.or(row.updated).unwrap_or(Timestamp::UNIX_EPOCH);
        let updated = row.updated.unwrap_or(started);
        let mut members = vec![
            ("id", json::quote(id)),
            (
                SESSION_ID,
                row.session_id
                    .as_deref()
                    .map_or("null".to_owned(), json::quote),
            ),
            ("agentId", json::quote(self.agent)),
            ("workspaceId", json::quote(self.workspace)),
            ("title", json::quote(&title(row))),
            ("createdAt", json::quote(&format_millis(started))),
            ("updatedAt", json::quote(&format_millis(updated))),
            ("messageCount", row.messages.to_string()),
        ];
        // Not as `worktreePath`: the program may delete a worktree with its conversation.
        let words = ExtensionOut {
            cwd: row.cwd.as_deref(),
            branch: row.git_branch.as_deref(),
            ..ExtensionOut::default()
        };
        let words = serde_json::to_string(&words).ok();
        let words = words.filter(|words| words != "{}");
        members.extend(words.map(|words| ("annals", words)));
        for (name, value) in &row.members {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => old.clone_from(value),
                None => members.push((name, value.clone())),
            }
        }
        json_array::object(&members, self.multiline, DEPTH)
    }
}

/// Returns a row updated from its log; `None` if it is up to date.
fn updated_row(old: &str, row: &RowUpdate) -> Option<String> {
    let known: RowMembers<'_> = serde_json::from_str(old).unwrap_or_default();
    let mut members: Vec<(&str, String)> = Vec::new();
    let named = known.title.text();
    let wanted = match (&row.title, named.as_deref()) {
        (Some(title), named) => Some(title.clone()).filter(|title| named != Some(title)),
        (None, Some(UNTITLED | "")) | (None, None) => {
            Some(title(row)).filter(|title| title != UNTITLED)
        }
        // Another writer may have listed the log, with the title that a log without a given one has.
        (None, Some(named)) => {
            let first = row.first_title.as_ref();
            first.filter(|_| named == automatic_title(row)).cloned()
        }
    };
    members.extend(wanted.map(|title| ("title", json::quote(&title))));
    // The program stores the time at which it wrote the list, slightly later than the message.
    let behind = |updated: &Timestamp| decode_time(known.updated).is_none_or(|old| old < *updated);
    let updated = row.updated.map(truncate_to_millis).filter(behind);
    members.extend(updated.map(|time| ("updatedAt", json::quote(&format_millis(time)))));
    // An update from before the row's time may have counted fewer messages.
    let listed = known.messages.count().ok().flatten();
    let earlier = row.updated.map(truncate_to_millis) < decode_time(known.updated);
    let fewer = listed.is_some_and(|listed| row.messages < listed);
    if listed != Some(row.messages) && !(earlier && fewer) {
        members.push(("messageCount", row.messages.to_string()));
    }
    for (name, value) in &row.members {
        let same = json::member(old, name).is_some_and(|old| old == value);
        members.extend((!same).then(|| (name.as_str(), value.clone())));
    }
    if members.is_empty() {
        return None;
    }
    let members: Vec<(&str, &str)> = members
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let new = json::set_members(old.as_bytes(), &members)?;
    String::from_utf8(new).ok()
}

/// Formats a time as in the session list.
fn format_millis(time: Timestamp) -> String {
    format_time(truncate_to_millis(time))
}

/// Returns the title of a conversation: the given one, a sub-agent's purpose, or the first prompt
/// once it was answered.
fn title(row: &RowUpdate) -> String {
    let given = row.title.as_ref().or(row.first_title.as_ref());
    given.cloned().unwrap_or_else(|| automatic_title(row))
}

fn automatic_title(row: &RowUpdate) -> String {
    let prompt = row.prompt.as_deref().filter(|_| row.answered);
    match row.purpose.as_deref().or(prompt).map(title_from_prompt) {
        Some(title) if !title.is_empty() => title,
        _ => UNTITLED.to_owned(),
    }
}

/// Shortens a prompt to a title as the program does.
fn title_from_prompt(prompt: &str) -> String {
    let line = prompt.replace("\r\n", " ").replace(['\n', '\r'], " ");
    let line = line.trim();
    if line.chars().count() <= 50 {
        return line.to_owned();
    }
    let head: String = line.chars().take(47).collect();
    format!("{head}...")
}

/// Returns whether a text is a whole row with this id, so that it can be restored.
fn is_row_with_id(text: &str, id: &str) -> bool {
    let known: Option<RowMembers<'_>> = serde_json::from_str(text).ok();
    known.is_some_and(|known| known.id.get() == Some(id)) && text.trim_start().starts_with('{')
}
