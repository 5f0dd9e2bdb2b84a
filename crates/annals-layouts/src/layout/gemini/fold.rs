//! Derives lines from the files of a session: applies patches, and finds the parent of each message.
//!
//! A derived line:
//!
//! | member | meaning |
//! |---|---|
//! | `session` | the session's id |
//! | `metadata` | metadata of the session that the line sets |
//! | `messages` | messages that stand first in this line |
//! | `messages[].id` | id of the message; made from the line number if it has none |
//! | `messages[].parent` | id of the message before it when it was added |
//! | `messages[].message` | its last content, verbatim |
//! | `messages[].first` | its first content, if it differs |
//! | `messages[].results` | id for an entry with the results in `toolCalls`, if no message has them |
//! | `messages[].spawned` | sub-agent whose work the message reports |
//! | `resumes` | `id` and `parent` of the entry at which the program resumes, if the newest messages were rewound; in the last line, and in one that annals wrote after it |
//! | `leaf` | the message at which the program would resume, in a line that it does not send |
//! | `note` | the line, if it is a note |
//! | `own` | the metadata is written by annals |
//! | `expires` | the log says when it was last changed, so the program deletes it some time later; in the first line with metadata |
//! | `document` | the file is one document, so nothing can be appended to it; in the same line |
//!
//! Lines have the numbers that they have in a `.jsonl` file: a line that adds nothing becomes empty.
//! A line that cannot be parsed is kept as it is, and the decoder reports it.

use std::collections::{HashMap, HashSet};

use crate::json::{Flag, Pairs, Raw, Text, object, quote};
use crate::layout::PROGRAM;
use crate::layout::salvage::whole_objects;
use crate::model::DocumentFormat;

/// A log of patches.
pub(super) static PATCHES: DocumentFormat = DocumentFormat {
    name: "gemini-patches",
    keeps_lines: true,
    base_session: None,
    to_lines: |bytes| {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let first = lines.first().map(|line| line.trim_ascii());
        if first == Some(b"{") {
            // A document of an older version, under the name of a log.
            return (DOCUMENT.to_lines)(bytes);
        }
        Fold::default().lines(&lines)
    },
};

/// One document with a list of messages.
pub(super) static DOCUMENT: DocumentFormat = DocumentFormat {
    name: "gemini-document",
    keeps_lines: false,
    base_session: None,
    to_lines: |bytes| {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let lines = document_lines(bytes);
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let fold = Fold {
            is_document: true,
            ..Fold::default()
        };
        fold.lines(&lines)
    },
};

/// An array of prompts.
pub(super) static PROMPTS: DocumentFormat = DocumentFormat {
    name: "gemini-prompts",
    keeps_lines: false,
    base_session: None,
    to_lines: |bytes| {
        let mut out = Vec::new();
        let mut done = 0;
        for within in whole_objects(bytes) {
            let Some(object) = bytes.get(within.clone()).filter(|_| within.start >= done) else {
                continue;
            };
            push_line(&mut out, object);
            done = within.end;
        }
        push_rest(&mut out, bytes.get(done..).unwrap_or_default(), b"]");
        out
    },
};

object! {
    struct Patch<'a> {
        "$set" => set: Raw<'a>,
        "$rewindTo" => rewind: Text<'a>,
        "id" => id: Text<'a>,
        "type" => kind: Text<'a>,
        "sessionId" => session: Text<'a>,
        "note" => note: Raw<'a>,
        "annals" => annex: Annex<'a>,
    }
}

object! {
    struct Annex<'a> {
        "program" => program: Text<'a>,
        "id" => id: Text<'a>,
        "parent" => parent: Raw<'a>,
        "aside" => aside: Flag,
    }
}

object! {
    struct Message<'a> {
        "id" => id: Text<'a>,
        "content" => content: Raw<'a>,
        "toolCalls" => calls: Raw<'a>,
        "annals" => annex: Annex<'a>,
    }
}

object! {
    struct Call<'a> {
        "id" => id: Text<'a>,
        "result" => result: Raw<'a>,
        "agentId" => agent: Text<'a>,
    }
}

object! {
    struct Part<'a> { "functionResponse" => response: Answer<'a>, }
}

object! {
    struct Answer<'a> { "id" => id: Text<'a>, }
}

/// Suffix of the id of the entry at which the program resumes after a rewind.
const RESUMED: &str = "-resumed";

/// Suffix of the id of the entry with the results of a message's calls.
const RESULTS: &str = "-results";

/// Returns whether an object is a line of a log and not part of one.
pub(super) fn is_record(object: &str) -> bool {
    let patch: Patch<'_> = Raw(Some(object)).parse();
    let is_message = patch.kind.get().is_some() && patch.id.get().is_some();
    let is_own = patch.annex.program.get() == Some(PROGRAM);
    let is_metadata = patch.session.get().is_some();
    is_message || is_own || is_metadata || patch.set.is_some() || patch.rewind.get().is_some()
}

/// Returns the metadata, the messages and the rest of a document as lines of a log.
fn document_lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let line = |text: &str| {
        let mut line = Vec::with_capacity(text.len() + 1);
        push_line(&mut line, text.as_bytes());
        line
    };
    if let Ok(Pairs(members)) = serde_json::from_str::<Pairs<'_>>(&text) {
        let metadata = line(&metadata(&members).unwrap_or_default());
        let messages = members.iter().filter(|(name, _)| name == "messages");
        let messages = messages.flat_map(|(_, list)| list.list());
        let messages = messages.filter_map(|message| message.0.map(line));
        return std::iter::once(metadata).chain(messages).collect();
    }
    // The document is torn or damaged: whole messages in it are kept.
    let mut lines = Vec::new();
    let mut done = 0;
    if let Some((head, _)) = text.split_once("\"messages\"") {
        let closed = format!("{}}}", head.trim_end().trim_end_matches(','));
        if let Ok(Pairs(members)) = serde_json::from_str::<Pairs<'_>>(&closed) {
            lines.extend(metadata(&members).map(|metadata| line(&metadata)));
            done = head.len();
        }
    }
    let text = text.as_bytes();
    for within in whole_objects(text) {
        let object = text.get(within.clone()).filter(|_| within.start >= done);
        let object = object.and_then(|object| std::str::from_utf8(object).ok());
        let is_message = |object: &&str| {
            let patch = serde_json::from_str::<Patch<'_>>(object);
            patch.is_ok_and(|patch| patch.id.get().is_some() && patch.kind.get().is_some())
        };
        if let Some(object) = object.filter(is_message) {
            lines.push(line(object));
            done = within.end;
        }
    }
    let mut rest = Vec::new();
    push_rest(&mut rest, text.get(done..).unwrap_or_default(), b"]}");
    lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
    lines
}

/// Appends the rest of a torn document as a line without an end, unless only `closing` brackets are
/// left.
fn push_rest(out: &mut Vec<u8>, rest: &[u8], closing: &[u8]) {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
    let is_closing = |byte: &u8| byte.is_ascii_whitespace() || closing.contains(byte);
    let brackets = rest.iter().filter(|byte| closing.contains(byte));
    if rest.iter().all(is_closing) && brackets.count() == closing.len() {
        return;
    }
    let start = rest.iter().position(|byte| !is_between(byte));
    let rest = start.and_then(|start| rest.get(start..));
    push_line(
        out,
        rest.filter(|rest| !rest.iter().all(is_closing))
            .unwrap_or(b"{"),
    );
    out.pop();
}

/// Appends a line, with spaces in place of line breaks.
fn push_line(out: &mut Vec<u8>, bytes: &[u8]) {
    let flat = |byte: &u8| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    };
    out.extend(bytes.iter().map(flat));
    out.push(b'\n');
}

/// Returns the members without the messages and the time of the last change as an object; `None` if
/// there are no others.
fn metadata(members: &[(std::borrow::Cow<'_, str>, Raw<'_>)]) -> Option<String> {
    let members = members.iter().filter_map(|(name, value)| {
        let kept = !matches!(&**name, "messages" | "lastUpdated");
        kept.then(|| format!("{}:{}", quote(name), value.0.unwrap_or("null")))
    });
    let members: Vec<String> = members.collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

/// A message, in the line that has its id first.
struct Slot<'a> {
    id: String,
    parent: Parent,
    first: &'a str,
    last: &'a str,
    is_aside: bool,
}

/// The parent of a message.
enum Parent {
    /// The message that was the last one.
    Last(Option<usize>),
    /// The entry that annals named; `None` if it has none.
    Named(Option<String>),
}

/// Effect of a line on the conversation.
enum Line<'a> {
    Kept(&'a [u8]),
    Derived {
        session: Option<String>,
        metadata: Option<String>,
        slots: Vec<usize>,
        /// Whether annals wrote the line.
        is_own: bool,
        note: Option<&'a str>,
        /// The entry after a rewind that the line continues.
        resumed: Option<String>,
        /// The message at which the program resumes, if it does not send those of the line.
        leaf: Option<usize>,
    },
}

/// State of a session while its lines are applied.
#[derive(Default)]
struct Fold<'a> {
    session: Option<String>,
    slots: Vec<Slot<'a>>,
    by_id: HashMap<String, usize>,
    /// The messages that the program would show now.
    current: Vec<usize>,
    is_document: bool,
    /// Whether the log says when it was last changed.
    expires: bool,
}

impl<'a> Fold<'a> {
    fn lines(mut self, lines: &[&'a [u8]]) -> Vec<u8> {
        let derived: Vec<(Line<'a>, bool)> = lines
            .iter()
            .enumerate()
            .map(|(number, line)| {
                let (text, ends) = match line.strip_suffix(b"\n") {
                    Some(text) => (text, true),
                    None => (*line, false),
                };
                (self.apply(number, text), ends)
            })
            .collect();
        let tools = Tools::new(&self.slots);
        // Records before the session's own name belong to it too.
        let mut names = derived.iter().filter_map(|(line, _)| match line {
            Line::Derived { session, .. } => session.clone(),
            Line::Kept(_) => None,
        });
        let first = names.next();
        let resumes = self.resumes(&tools);
        let is_derived = |(line, _): &(Line<'a>, bool)| matches!(line, Line::Derived { .. });
        let last = derived.iter().rposition(is_derived);
        let mut out = Vec::new();
        let mut is_first = true;
        for (number, (line, ends)) in derived.iter().enumerate() {
            match line {
                Line::Kept(bytes) => push_line(&mut out, bytes),
                Line::Derived {
                    session,
                    metadata,
                    slots,
                    is_own,
                    note,
                    resumed,
                    leaf,
                } => {
                    let mut members = Vec::new();
                    let resumes = resumes.as_ref().filter(|_| Some(number) == last);
                    let resumes = resumes.or(resumed.as_ref());
                    let has_entries = metadata.is_some() || !slots.is_empty() || note.is_some();
                    if has_entries || resumes.is_some() {
                        let session = session.as_ref().or(first.as_ref());
                        members.extend(session.map(|id| member("session", &quote(id))));
                        members.extend(metadata.as_ref().map(|text| member("metadata", text)));
                    }
                    if metadata.is_some() {
                        let is_first = std::mem::take(&mut is_first);
                        let flags = [
                            ("own", *is_own),
                            ("expires", is_first && self.expires),
                            ("document", is_first && self.is_document),
                        ];
                        let flags = flags.iter().filter(|(_, is)| *is);
                        members.extend(flags.map(|(name, _)| member(name, "true")));
                    }
                    members.extend(note.map(|line| member("note", line)));
                    let leaf = leaf.and_then(|at| self.last_id(at, &tools));
                    members.extend(leaf.map(|id| member("leaf", &quote(id))));
                    if !slots.is_empty() {
                        let slots = slots.iter().filter_map(|at| self.slot(*at, &tools));
                        let slots: Vec<String> = slots.collect();
                        members.push(member("messages", &format!("[{}]", slots.join(","))));
                    }
                    members.extend(resumes.map(|entry| member("resumes", entry)));
                    match members.is_empty() {
                        true => out.push(b'\n'),
                        false => {
                            push_line(&mut out, format!("{{{}}}", members.join(",")).as_bytes())
                        }
                    }
                }
            }
            if !ends && out.last() == Some(&b'\n') {
                out.pop();
            }
        }
        out
    }

    /// Returns the entry at which the program resumes if that is not the newest message: what comes
    /// after it was rewound.
    fn resumes(&self, tools: &Tools) -> Option<String> {
        let newest = self.slots.iter().rposition(|slot| !slot.is_aside)?;
        let last = self.current.last().copied();
        if last == Some(newest) {
            return None;
        }
        let name = last.and_then(|at| self.slots.get(at));
        let name = name.map_or("start", |slot| slot.id.as_str());
        let parent = last.and_then(|at| self.last_id(at, tools));
        Some(resumed_entry(name, parent.map(String::as_str)))
    }

    /// Returns the id of the last entry of a message: its own, or that of its results.
    fn last_id<'s>(&'s self, at: usize, tools: &'s Tools) -> Option<&'s String> {
        let slot = self.slots.get(at)?;
        Some(tools.results.get(&at).unwrap_or(&slot.id))
    }

    /// Applies a line.
    fn apply(&mut self, number: usize, bytes: &'a [u8]) -> Line<'a> {
        let text = std::str::from_utf8(bytes).ok();
        let parsed = text.filter(|text| text.trim_start().starts_with('{'));
        let parsed =
            parsed.and_then(|text| Some((text, serde_json::from_str::<Patch<'_>>(text).ok()?)));
        let Some((text, patch)) = parsed else {
            return Line::Kept(bytes);
        };
        let mut slots = Vec::new();
        let mut set = None;
        let mut is_list = false;
        let mut note = None;
        let mut resumed = None;
        let mut leaf = None;
        let is_own = patch.annex.program.get() == Some(PROGRAM);
        if let Some(id) = patch.rewind.get() {
            let at = self.by_id.get(id);
            let at = at.and_then(|at| self.current.iter().position(|known| known == at));
            self.current.truncate(at.unwrap_or(0));
        } else if patch.set.is_some() {
            let Ok(Pairs(members)) = serde_json::from_str(patch.set.0.unwrap_or_default()) else {
                return Line::Kept(bytes);
            };
            set = Some(members);
            is_list = true;
        } else if is_own && patch.note.is_some() {
            note = Some(text.trim());
        } else if patch.kind.get().is_some() {
            resumed = self.resumed(&patch.annex);
            let last = self.current.last().copied();
            slots.extend(self.add(number, 0, text));
            leaf = last.filter(|_| patch.annex.aside.0 && is_own);
        } else {
            let Ok(Pairs(members)) = serde_json::from_str(text) else {
                return Line::Kept(bytes);
            };
            set = Some(members);
        }
        let set: Vec<(std::borrow::Cow<'a, str>, Raw<'a>)> = set.unwrap_or_default();
        for (name, value) in &set {
            match (&**name, value.text()) {
                ("sessionId", Some(id)) if !id.is_empty() => self.session = Some(id.into_owned()),
                ("lastUpdated", _) => self.expires = true,
                ("messages", _) if value.is_list() => {
                    // Those of metadata are added.
                    if is_list || self.is_document {
                        self.current.clear();
                    }
                    let list = value.list();
                    let list = list.iter().enumerate();
                    for (at, message) in list.filter_map(|(at, raw)| Some((at, raw.0?))) {
                        slots.extend(self.add_listed(number, at, message));
                    }
                }
                _ => {}
            }
        }
        let patched = metadata(&set);
        // A program that resumes writes the id again.
        let known = patch.set.is_some() && patched.as_deref().is_some_and(is_only_session);
        Line::Derived {
            session: self.session.clone(),
            metadata: patched.filter(|_| !known),
            slots,
            is_own,
            note,
            resumed,
            leaf,
        }
    }

    /// Returns the entry after a rewind that a message of annals continues. It would otherwise be gone,
    /// because the message is the newest one.
    fn resumed(&self, annex: &Annex<'_>) -> Option<String> {
        let parent = annex.parent.text()?;
        let name = parent.strip_suffix(RESUMED)?;
        if self.by_id.contains_key(&*parent) {
            return None;
        }
        let last = self.current.last().and_then(|at| self.slots.get(*at));
        let last = last.map(|slot| slot.id.as_str());
        let is_it = last.unwrap_or("start") == name;
        is_it.then(|| resumed_entry(name, last))
    }

    /// Adds a message, or replaces the content of a known one. Returns a new message.
    fn add(&mut self, number: usize, at: usize, raw: &'a str) -> Option<usize> {
        let (slot, is_new) = self.slot_of(number, at, raw);
        if !is_new && let Some(slot) = self.slots.get_mut(slot) {
            slot.last = raw;
        }
        let is_aside = self.slots.get(slot).is_some_and(|slot| slot.is_aside);
        if !is_aside && (is_new || !self.current.contains(&slot)) {
            self.current.push(slot);
        }
        is_new.then_some(slot)
    }

    /// Adds a message of a list. A known one keeps its content, which the program may have stripped.
    fn add_listed(&mut self, number: usize, at: usize, raw: &'a str) -> Option<usize> {
        let (slot, is_new) = self.slot_of(number, at, raw);
        self.current.push(slot);
        is_new.then_some(slot)
    }

    /// Returns the slot of a message, and whether it is new.
    fn slot_of(&mut self, number: usize, at: usize, raw: &'a str) -> (usize, bool) {
        let message: Message<'_> = Raw(Some(raw)).parse();
        let annex = &message.annex;
        let is_own = annex.program.get() == Some(PROGRAM);
        let own_id = annex.id.non_empty().filter(|_| is_own);
        let id = match message.id.non_empty().or(own_id) {
            Some(id) => id.to_owned(),
            None => format!("at-{}", (number + 1) * 10_000 + at),
        };
        if let Some(slot) = self.by_id.get(&id) {
            return (*slot, false);
        }
        let slot = self.slots.len();
        self.by_id.insert(id.clone(), slot);
        // An entry after a rewind is only there if the line before a message says so.
        let is_there = |id: &str| !id.ends_with(RESUMED) || self.is_known(id);
        let named = annex.parent.text().filter(|id| is_there(id));
        let parent = match (named, annex.parent.0) {
            (Some(id), _) => Parent::Named(Some(id.into_owned())),
            (None, Some("null")) => Parent::Named(None),
            _ => Parent::Last(self.current.last().copied()),
        };
        self.slots.push(Slot {
            id,
            parent,
            first: raw,
            last: raw,
            is_aside: is_own && annex.aside.0,
        });
        (slot, true)
    }

    /// Returns whether there is, or was, an entry with the id after a rewind.
    fn is_known(&self, id: &str) -> bool {
        let message = id.strip_suffix(RESUMED).unwrap_or(id);
        message == "start" || self.by_id.contains_key(id) || self.by_id.contains_key(message)
    }

    /// Returns a message as a member of a derived line.
    fn slot(&self, at: usize, tools: &Tools) -> Option<String> {
        let slot = self.slots.get(at)?;
        let mut members = vec![member("id", &quote(&slot.id))];
        let parent = match &slot.parent {
            Parent::Last(last) => last.and_then(|at| self.last_id(at, tools)),
            Parent::Named(id) => id.as_ref(),
        };
        members.extend(parent.map(|parent| member("parent", &quote(parent))));
        members.push(member("message", slot.last));
        if slot.first != slot.last {
            members.push(member("first", slot.first));
        }
        let results = tools.results.get(&at);
        members.extend(results.map(|id| member("results", &quote(id))));
        let spawned = answers(slot.last)
            .into_iter()
            .find_map(|call| tools.agents.get(&call));
        members.extend(spawned.map(|agent| member("spawned", &quote(agent))));
        Some(format!("{{{}}}", members.join(",")))
    }
}

/// Tool calls of all messages.
struct Tools {
    /// Ids of entries with the results in `toolCalls`, by message, if no other message has them.
    results: HashMap<usize, String>,
    /// Sub-agents by call.
    agents: HashMap<String, String>,
}

impl Tools {
    fn new(slots: &[Slot<'_>]) -> Self {
        let answered = slots.iter().flat_map(|slot| answers(slot.last));
        let answered: HashSet<String> = answered.collect();
        let mut tools = Tools {
            results: HashMap::new(),
            agents: HashMap::new(),
        };
        for (at, slot) in slots.iter().enumerate() {
            let message: Message<'_> = Raw(Some(slot.last)).parse();
            for call in message.calls.list().into_iter().map(Raw::parse::<Call<'_>>) {
                let id = call.id.or_empty();
                if call.result.is_list() && !answered.contains(id) {
                    tools.results.insert(at, format!("{}{RESULTS}", slot.id));
                }
                if let Some(agent) = call.agent.owned() {
                    tools.agents.insert(id.to_owned(), agent);
                }
            }
        }
        tools
    }
}

/// Returns the entry at which the program resumes after a rewind, with the last message that is left.
fn resumed_entry(name: &str, parent: Option<&str>) -> String {
    let id = member("id", &quote(&format!("{name}{RESUMED}")));
    let parent = parent.map(|parent| member("parent", &quote(parent)));
    let members: Vec<String> = std::iter::once(id).chain(parent).collect();
    format!("{{{}}}", members.join(","))
}

fn member(name: &str, json: &str) -> String {
    format!("\"{name}\":{json}")
}

/// Returns whether metadata consists of the session's id.
fn is_only_session(metadata: &str) -> bool {
    let members = serde_json::from_str::<Pairs<'_>>(metadata);
    members.is_ok_and(|Pairs(members)| members.iter().all(|(name, _)| name == "sessionId"))
}

/// Returns the ids of the calls that a message answers.
fn answers(message: &str) -> Vec<String> {
    let message: Message<'_> = Raw(Some(message)).parse();
    let parts = message.content.list().into_iter();
    let parts = parts.map(|part| part.parse::<Part<'_>>());
    parts.filter_map(|part| part.response.id.owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the id and parent of each message, with the number of its line.
    fn links(log: &str) -> Vec<(usize, String, Option<String>)> {
        let lines = (PATCHES.to_lines)(log.as_bytes());
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(
            lines.lines().count(),
            log.lines().count(),
            "line numbers stay"
        );
        let mut found = Vec::new();
        for (number, line) in lines.lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            for message in line["messages"].as_array().into_iter().flatten() {
                let text = |name: &str| message[name].as_str().map(str::to_owned);
                found.push((number + 1, text("id").unwrap(), text("parent")));
            }
        }
        found
    }

    fn said(id: &str) -> String {
        format!(r#"{{"id":"{id}","type":"user","content":"{id}"}}"#)
    }

    fn check(log: &[String], expected: &[(usize, &str, Option<&str>)]) {
        let links = links(&(log.join("\n") + "\n"));
        let links: Vec<_> = links
            .iter()
            .map(|(line, id, parent)| (*line, id.as_str(), parent.as_deref()))
            .collect();
        assert_eq!(links, expected);
    }

    #[test]
    fn rewind_continues_before_the_removed_message() {
        check(
            &[
                said("a"),
                said("b"),
                said("c"),
                r#"{"$rewindTo":"b"}"#.into(),
                said("d"),
            ],
            &[
                (1, "a", None),
                (2, "b", Some("a")),
                (3, "c", Some("b")),
                (5, "d", Some("a")),
            ],
        );
    }

    #[test]
    fn rewind_to_an_unknown_message_starts_a_new_tree() {
        check(
            &[said("a"), r#"{"$rewindTo":"x"}"#.into(), said("b")],
            &[(1, "a", None), (3, "b", None)],
        );
    }

    #[test]
    fn replaced_list_continues_at_its_end_and_adds_only_new_messages() {
        let list = format!(r#"{{"$set":{{"messages":[{},{}]}}}}"#, said("a"), said("s"));
        check(
            &[said("a"), said("b"), list, said("c")],
            &[
                (1, "a", None),
                (2, "b", Some("a")),
                (3, "s", Some("a")),
                (4, "c", Some("s")),
            ],
        );
    }

    #[test]
    fn message_written_again_keeps_its_place_and_the_first_tokens() {
        let first = r#"{"id":"a","type":"gemini","content":"x","tokens":{"input":1}}"#;
        let again = r#"{"id":"a","type":"gemini","content":"x","toolCalls":[]}"#;
        let lines = (PATCHES.to_lines)(format!("{first}\n{again}\n{}\n", said("b")).as_bytes());
        let lines = String::from_utf8(lines).unwrap();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            lines[0],
            format!(r#"{{"messages":[{{"id":"a","message":{again},"first":{first}}}]}}"#)
        );
        assert_eq!(lines[1], "");
        assert!(lines[2].contains(r#""parent":"a""#), "{}", lines[2]);
    }

    #[test]
    fn results_stored_with_calls_are_added_only_if_no_message_has_them() {
        let call = r#"{"id":"g","type":"gemini","toolCalls":[{"id":"c","result":[{}]}]}"#;
        let answer = r#"{"id":"u","type":"user","content":[{"functionResponse":{"id":"c"}}]}"#;
        let lines = |log: String| String::from_utf8((PATCHES.to_lines)(log.as_bytes())).unwrap();
        let alone = lines(format!("{call}\n{}\n", said("b")));
        assert!(alone.contains(r#""results":"g-results""#), "{alone}");
        assert!(alone.contains(r#""parent":"g-results""#), "{alone}");
        let answered = lines(format!("{call}\n{answer}\n"));
        assert!(!answered.contains("g-results"), "{answered}");
    }

    #[test]
    fn any_bytes_give_lines() {
        let deep = "{\"messages\":[".repeat(100_000);
        for format in [&PATCHES, &DOCUMENT, &PROMPTS] {
            for bytes in [
                deep.as_bytes(),
                &b""[..],
                b"\n\n",
                b"{",
                b"[]",
                b"]]}}",
                b"\xff\xfe\n{}",
                b"{\"messages\":[{\"id\":1},2,null]}",
                b"{\"$set\":{\"messages\":{}},\"$rewindTo\":7}\n",
                b"{\"$set\":[]}\n{\"id\":{},\"type\":\"user\"}\n",
            ] {
                let lines = (format.to_lines)(bytes);
                assert!(lines.len() <= 4 * bytes.len() + 100, "{bytes:?}");
            }
        }
    }
}
