//! Queries over messages: filter, count, token totals, ancestry.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::model::{Body, Entry, ResponseKey, ResponseResolver, Role, SYNTHETIC, Usage};

use super::log_reader;
use super::session::Session;

/// Filter for messages. An unset field matches all messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Role of the message.
    pub role: Option<Role>,
    /// Kind of at least one block (`text`, `thinking`, `tool_use`, `tool_result`, `image`).
    pub kind: Option<String>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Latest time.
    pub until: Option<Timestamp>,
    /// Text that the message contains, ignoring case.
    pub text: Option<String>,
    /// Prefix of the sub-agent's id; `main` means the main agent.
    pub agent: Option<String>,
}

impl MessageFilter {
    /// Matches only messages with this role.
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Matches only messages with a block of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Matches only messages at or after this time.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.since = Some(time);
        self
    }

    /// Matches only messages at or before this time.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.until = Some(time);
        self
    }

    /// Matches only messages that contain this text, ignoring case.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Matches only messages of the sub-agent with this id prefix; `main` means the main agent.
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Returns whether all messages match.
    pub fn is_empty(&self) -> bool {
        let MessageFilter {
            role,
            kind,
            since,
            until,
            text,
            agent,
        } = self;
        let no_time = since.is_none() && until.is_none();
        no_time && role.is_none() && kind.is_none() && text.is_none() && agent.is_none()
    }

    /// Returns whether an entry matches. Filters on role, kind and text match only messages.
    pub fn accepts(&self, entry: &Entry) -> bool {
        let message = match &entry.body {
            Body::Message(message) => Some(message),
            _ => None,
        };
        let role = self
            .role
            .is_none_or(|role| message.is_some_and(|message| message.role == role));
        let kind = self.kind.as_ref().is_none_or(|kind| {
            message.is_some_and(|message| message.blocks.iter().any(|block| block.kind() == kind))
        });
        let since = self
            .since
            .is_none_or(|since| entry.time.is_some_and(|time| time >= since));
        let until = self
            .until
            .is_none_or(|until| entry.time.is_some_and(|time| time <= until));
        let agent = self.agent.as_ref().is_none_or(|wanted| match &entry.agent {
            None => wanted == "main",
            Some(agent) => agent.as_str().starts_with(wanted.as_str()),
        });
        let text = self.text.as_ref().is_none_or(|wanted| {
            let wanted = wanted.to_lowercase();
            let mut found = false;
            for block in message.into_iter().flat_map(|message| &message.blocks) {
                block.visit_texts(&mut |text| found |= text.to_lowercase().contains(&wanted));
            }
            found
        });
        role && kind && since && until && agent && text
    }
}

/// Counts of messages and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageCounts {
    /// Number of messages.
    pub messages: u64,
    /// Number of model responses.
    pub responses: u64,
    /// Tokens of the responses, each response counted once.
    pub usage: Usage,
}

/// Counts of a session's messages and tokens, grouped by several keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Counts of all messages.
    pub total: MessageCounts,
    /// By role.
    pub by_role: BTreeMap<&'static str, u64>,
    /// By agent; `main` is the main agent, `sidechain-1` the first sub-agent without an id.
    pub by_agent: BTreeMap<String, MessageCounts>,
    /// By model.
    pub by_model: BTreeMap<String, MessageCounts>,
    /// By hour of the day, in the requested time zone.
    pub by_hour: BTreeMap<i8, MessageCounts>,
    /// By day, in the requested time zone.
    pub by_day: BTreeMap<jiff::civil::Date, MessageCounts>,
}

impl Session {
    /// Visits the matching messages of all logs in file order, the main log first, until `visit`
    /// returns `false`.
    pub fn each_message(
        &self,
        filter: &MessageFilter,
        mut visit: impl FnMut(Entry) -> Result<bool>,
    ) -> Result<()> {
        let mut go_on = true;
        for (file, scan) in self.files.logs().zip(&self.logs) {
            let messages = scan.indexes(|outline| outline.kind.is_message());
            log_reader::entries_at(&self.files.root, file, &scan.outlines, &messages, |entry| {
                if filter.accepts(&entry) {
                    go_on = visit(entry)?;
                }
                Ok(go_on)
            })?;
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    /// Returns the matching messages.
    pub fn messages(&self, filter: &MessageFilter) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        self.each_message(filter, |entry| {
            found.push(entry);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Returns the last `n` messages of the conversation that would be resumed, oldest first.
    pub fn last_messages(&self, n: usize) -> Result<Vec<Entry>> {
        let Some((_, scan, tree)) = self.main_log() else {
            return Ok(Vec::new());
        };
        let resumed = tree.resume.and_then(|at| tree.conversations.get(at));
        let mut path = resumed
            .map(|conversation| tree.path(conversation))
            .unwrap_or_default();
        path.retain(|&at| {
            scan.outlines
                .get(at)
                .is_some_and(|outline| outline.kind.is_message())
        });
        let last = path.split_off(path.len().saturating_sub(n));
        let mut found = Vec::with_capacity(last.len());
        self.each_entry_of_log(0, &last, |entry| {
            found.push(entry);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Returns an entry of the main log by its id or a unique prefix of it.
    pub fn message(&self, id: &str) -> Result<Entry> {
        let at = self.find_entry(id)?;
        let mut found = None;
        self.each_entry_of_log(0, &[at], |entry| {
            found = Some(entry);
            Ok(false)
        })?;
        found.ok_or_else(|| Error::NotFound {
            what: Subject::Message,
            id: id.to_owned(),
        })
    }

    /// Returns the entries on the path to a message, oldest first, including the message.
    pub fn ancestry(&self, id: &str) -> Result<Vec<Entry>> {
        let at = self.find_entry(id)?;
        let path = self
            .tree()
            .and_then(|tree| tree.path_to(at))
            .unwrap_or_else(|| vec![at]);
        let mut found = Vec::with_capacity(path.len());
        self.each_entry_of_log(0, &path, |entry| {
            found.push(entry);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Counts messages and tokens.
    pub fn stats(&self, zone: &TimeZone) -> Stats {
        let mut stats = Stats::default();
        // The usage of a response is final only after its last line.
        let mut responses: BTreeMap<ResponseKey, (Keys, Usage)> = BTreeMap::new();
        let mut names = ResponseResolver::default();
        for ((file, scan), tree) in self.files.logs().zip(&self.logs).zip(&self.trees) {
            // Sub-agents without an id are numbered in log order.
            let strands: HashMap<usize, usize> = tree
                .sidechains
                .iter()
                .enumerate()
                .flat_map(|(number, strand)| strand.entries.iter().map(move |&at| (at, number + 1)))
                .collect();
            for (at, outline) in scan
                .outlines
                .iter()
                .enumerate()
                .filter(|(_, outline)| outline.kind.is_message())
            {
                let owner = outline.agent.as_ref().or(file.artifact.agent.as_ref());
                let local = outline.time.map(|time| time.to_zoned(zone.clone()));
                let reply = outline.reply.as_deref();
                // Error messages written by the client itself are not responses.
                let real = |model: &&str| *model != SYNTHETIC;
                let model = reply.and_then(|reply| reply.model.as_deref());
                let synthetic = model.is_some() && model.filter(real).is_none();
                let keys = Keys {
                    agent: match (owner, strands.get(&at)) {
                        (Some(agent), _) => agent.to_string(),
                        (None, Some(number)) => format!("sidechain-{number}"),
                        (None, None) => "main".to_owned(),
                    },
                    model: model.filter(real).map(str::to_owned),
                    hour: local.as_ref().map(|local| local.hour()),
                    day: local.as_ref().map(|local| local.date()),
                };
                stats.add(
                    &keys,
                    &MessageCounts {
                        messages: 1,
                        ..MessageCounts::default()
                    },
                );
                if let Some(role) = outline.kind.role() {
                    *stats.by_role.entry(role.as_str()).or_default() += 1;
                }
                let Some(usage) = reply.and_then(|reply| reply.usage).filter(|_| !synthetic) else {
                    continue;
                };
                match reply.and_then(|reply| reply.response) {
                    Some(key) => {
                        responses
                            .entry(names.resolve(key))
                            .and_modify(|(_, known)| known.keep_larger(&usage))
                            .or_insert((keys, usage));
                    }
                    None => stats.add(
                        &keys,
                        &MessageCounts {
                            messages: 0,
                            responses: 1,
                            usage,
                        },
                    ),
                }
            }
        }
        for (keys, usage) in responses.values() {
            stats.add(
                keys,
                &MessageCounts {
                    messages: 0,
                    responses: 1,
                    usage: *usage,
                },
            );
        }
        stats
    }
}

struct Keys {
    agent: String,
    model: Option<String>,
    hour: Option<i8>,
    day: Option<jiff::civil::Date>,
}

impl Stats {
    fn add(&mut self, keys: &Keys, what: &MessageCounts) {
        self.total.add(what);
        self.by_agent
            .entry(keys.agent.clone())
            .or_default()
            .add(what);
        if let Some(model) = &keys.model {
            self.by_model.entry(model.clone()).or_default().add(what);
        }
        if let Some(hour) = keys.hour {
            self.by_hour.entry(hour).or_default().add(what);
        }
        if let Some(day) = keys.day {
            self.by_day.entry(day).or_default().add(what);
        }
    }
}

impl MessageCounts {
    fn add(&mut self, other: &MessageCounts) {
        self.messages += other.messages;
        self.responses += other.responses;
        // Decoders reject counts that could overflow.
        let _ = self.usage.add(&other.usage);
    }
}
