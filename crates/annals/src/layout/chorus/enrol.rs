//! Keeping the index of conversations up to date.
//!
//! A row is changed where it stands and only in what it must say; all else keeps its bytes. A
//! missing or damaged index is made again from the logs and from the rows that are still whole in it.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json::{self, Pairs, Raw, Text, object};
use crate::layout::annex::Words;
use crate::layout::field::{milliseconds, spell_time, timestamp};
use crate::layout::{Enrolled, Row};
use crate::model::{Artifact, ArtifactKind};

use super::line::SESSION_ID;
use super::list::{self, Fate, List, is_tall, unmarked};
use super::path;
use super::register::{CONVERSATIONS, UNTITLED, salvage};

/// How far the rows of an index are indented.
const DEPTH: usize = 4;

object! {
    struct Known<'a> {
        "id" => id: Text<'a>,
        "title" => title: Raw<'a>,
        "updatedAt" => updated: Raw<'a>,
        "messageCount" => messages: Raw<'a>,
    }
}

/// The members of a row that a session may be given, beside its title.
pub(super) const MEMBERS: &[&str] = &[
    SESSION_ID,
    "sessionCreatedAt",
    "branchName",
    "worktreePath",
    "settings",
];

/// Refuses a value that the program could not use.
pub(super) fn check_member(name: &str, json: &str) -> Result<()> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| Error::refused(format!("`{name}` is not JSON: {error}")))?;
    let (sound, wanted) = match name {
        "settings" => (value.is_object() || value.is_null(), "an object or null"),
        "sessionCreatedAt" => (
            value.is_null() || timestamp(Raw(Some(json.trim()))).is_some(),
            "a time or null",
        ),
        _ => (value.is_string() || value.is_null(), "a text or null"),
    };
    match sound {
        true => Ok(()),
        false => Err(Error::refused(format!("`{name}` must be {wanted}"))),
    }
}

/// The index that lists a log.
pub(super) fn register(log: &Artifact) -> Option<Artifact> {
    let listed = matches!(log.kind, ArtifactKind::SessionLog | ArtifactKind::AgentLog);
    log.folder
        .as_ref()
        .filter(|_| listed)
        .map(|folder| Artifact {
            folder: Some(folder.clone()),
            ..Artifact::of(ArtifactKind::Register)
        })
}

pub(super) fn enrol(
    register: &Artifact,
    old: Option<&[u8]>,
    rows: &[Row],
    whole: bool,
) -> Result<Enrolled> {
    let Some((workspace, agent)) = folder(register) else {
        return Ok(Enrolled::Same);
    };
    let sound = old.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let sound = sound.filter(|text| List::of(unmarked(text).1, CONVERSATIONS).is_some());
    let made;
    let document = match (sound, old) {
        (Some(text), _) => text,
        (None, _) if !whole => return Ok(Enrolled::NeedsAll),
        (None, None) if rows.iter().all(|row| row.gone) => return Ok(Enrolled::Same),
        (None, old) => {
            made = fresh(&salvage(old.unwrap_or_default()));
            made.as_str()
        }
    };
    let (mark, body) = unmarked(document);
    let Some(list) = List::of(body, CONVERSATIONS) else {
        return Err(Error::refused("an index could not be made"));
    };
    let mut index = Index::of(&list, is_tall(body), workspace, agent);
    for row in rows {
        index.take(row);
    }
    let bytes = format!("{mark}{}", list.edited(&index.fates, &index.added, DEPTH)).into_bytes();
    if old == Some(bytes.as_slice()) {
        return Ok(Enrolled::Same);
    }
    Ok(Enrolled::Changed {
        bytes,
        damaged: old.is_some() && sound.is_none(),
        removed: index.removed,
    })
}

/// Whether an index has neither rows nor anything else that would be lost with it.
pub(super) fn lists_nothing(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).map_or("", |text| unmarked(text).1);
    let pairs: Pairs<'_> = serde_json::from_str(text).unwrap_or_default();
    let list = List::of(text, CONVERSATIONS);
    pairs.0.len() == 1 && list.is_some_and(|list| list.rows().next().is_none())
}

/// The workspace and the agent whose conversations an index lists.
fn folder(register: &Artifact) -> Option<(&str, &str)> {
    let folder = register.folder.as_deref()?;
    let indexed = register.kind == ArtifactKind::Register;
    folder.split_once('/').filter(|_| indexed)
}

/// An index of these rows and no others, as the program would write it.
fn fresh(rows: &[String]) -> String {
    let empty = "{\n  \"conversations\": []\n}";
    match List::of(empty, CONVERSATIONS) {
        Some(list) => list.edited(&[], rows, DEPTH),
        None => empty.to_owned(),
    }
}

/// An index in the making.
struct Index<'a> {
    rows: Vec<&'a str>,
    /// Where the rows of each id stand.
    by_id: HashMap<String, Vec<usize>>,
    fates: Vec<Fate>,
    added: Vec<String>,
    removed: Vec<String>,
    tall: bool,
    workspace: &'a str,
    agent: &'a str,
}

impl<'a> Index<'a> {
    fn of(list: &List<'a>, tall: bool, workspace: &'a str, agent: &'a str) -> Self {
        let rows: Vec<&str> = list.rows().collect();
        let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            let known: Known<'_> = serde_json::from_str(row).unwrap_or_default();
            if let Some(id) = known.id.owned() {
                by_id.entry(id).or_default().push(at);
            }
        }
        Index {
            fates: vec![Fate::Keep; rows.len()],
            rows,
            by_id,
            added: Vec::new(),
            removed: Vec::new(),
            tall,
            workspace,
            agent,
        }
    }

    fn take(&mut self, row: &Row) {
        let Some(log) = &row.log else { return };
        let id = path::stem(log);
        let at = self.by_id.get(&id).cloned().unwrap_or_default();
        if row.gone {
            for at in at {
                self.removed
                    .extend(self.rows.get(at).map(|row| (*row).to_owned()));
                self.put(at, Fate::Drop);
            }
            return;
        }
        // Of two rows with one id the later one counts; the other is left as it is.
        match (
            at.last(),
            row.text.as_deref().filter(|text| is_row_of(text, &id)),
        ) {
            (Some(_), Some(_)) => {}
            (None, Some(text)) => self.added.push(text.to_owned()),
            (Some(&at), None) => {
                let old = self.rows.get(at).copied().unwrap_or_default();
                if let Some(new) = brought_up(old, row) {
                    self.put(at, Fate::Put(new));
                }
            }
            (None, None) => {
                let new = self.row(&id, row);
                self.added.push(new);
            }
        }
    }

    fn put(&mut self, at: usize, fate: Fate) {
        if let Some(slot) = self.fates.get_mut(at) {
            *slot = fate;
        }
    }

    /// The row of a log that has none.
    fn row(&self, id: &str, row: &Row) -> String {
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
            ("createdAt", json::quote(&spell(started))),
            ("updatedAt", json::quote(&spell(updated))),
            ("messageCount", row.messages.to_string()),
        ];
        // Not as `worktreePath`: the program may clear away a worktree with its conversation.
        let words = Words {
            cwd: row.cwd.as_deref(),
            branch: row.git_branch.as_deref(),
            ..Words::default()
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
        list::object(&members, self.tall, DEPTH)
    }
}

/// A row with what its log says now; `None` if it says that already.
fn brought_up(old: &str, row: &Row) -> Option<String> {
    let known: Known<'_> = serde_json::from_str(old).unwrap_or_default();
    let mut members: Vec<(&str, String)> = Vec::new();
    let named = known.title.text();
    let wanted = match (&row.title, named.as_deref()) {
        (Some(title), named) => Some(title.clone()).filter(|title| named != Some(title)),
        (None, Some(UNTITLED | "")) | (None, None) => {
            Some(title(row)).filter(|title| title != UNTITLED)
        }
        (None, Some(_)) => None,
    };
    members.extend(wanted.map(|title| ("title", json::quote(&title))));
    // The program notes when it wrote the index, which is a little later than the message.
    let behind = |updated: &Timestamp| timestamp(known.updated).is_none_or(|old| old < *updated);
    let updated = row.updated.map(milliseconds).filter(behind);
    members.extend(updated.map(|time| ("updatedAt", json::quote(&spell(time)))));
    // Who looked at the log earlier than the index says may have seen less of it.
    let listed = known.messages.count().ok().flatten();
    let earlier = row.updated.map(milliseconds) < timestamp(known.updated);
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

/// What the index spells of a time.
fn spell(time: Timestamp) -> String {
    spell_time(milliseconds(time))
}

/// The title of a conversation: what was given, what a sub-agent is for, or the first prompt once
/// something answered it.
fn title(row: &Row) -> String {
    if let Some(title) = row.title.as_ref().or(row.first_title.as_ref()) {
        return title.clone();
    }
    let prompt = row.prompt.as_deref().filter(|_| row.answered);
    match row.purpose.as_deref().or(prompt).map(shortened) {
        Some(title) if !title.is_empty() => title,
        _ => UNTITLED.to_owned(),
    }
}

/// A prompt as the program makes a title of it.
fn shortened(prompt: &str) -> String {
    let line = prompt.replace("\r\n", " ").replace(['\n', '\r'], " ");
    let line = line.trim();
    if line.chars().count() <= 50 {
        return line.to_owned();
    }
    let head: String = line.chars().take(47).collect();
    format!("{head}...")
}

/// Whether a text is a whole row of that id, so that it can be put back.
fn is_row_of(text: &str, id: &str) -> bool {
    let known: Option<Known<'_>> = serde_json::from_str(text).ok();
    known.is_some_and(|known| known.id.get() == Some(id)) && text.trim_start().starts_with('{')
}
