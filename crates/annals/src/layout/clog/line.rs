//! A line of a chat, at both depths.

use jiff::Timestamp;

use crate::json::{self, Raw, Text, fast, object};
use crate::layout::annex::{self, Annex};
use crate::layout::content::{self, Content, delegation, opening};
use crate::layout::copied;
use crate::layout::field::{self, timestamp};
use crate::layout::{Decoder, Record, Sink};
use crate::model::{
    AgentId, Artifact, Body, Entry, EntryId, Fact, FlawKind, Key, Kind, Link, Message, Outline,
    Reply, Role, Span, TitleSource,
};

use super::thought;

/// The form of the lines that we know.
pub(super) const SCHEMA: u64 = 1;

/// The type of the line that says what a file is.
pub(super) const HEADER: &str = "conversation-header";

object! {
    struct Line<'a> {
        "type" => kind: Text<'a>,
        "schemaVersion" => schema: Raw<'a>,
        "fileKind" => file: Text<'a>,
        "conversationId" => conversation: Text<'a>,
        "threadId" => thread: Text<'a>,
        "channel" => channel: Text<'a>,
        "title" => title: Text<'a>,
        "createdAt" => created: Raw<'a>,
        "messageId" => id: Text<'a>,
        "role" => role: Text<'a>,
        "content" => content: Raw<'a>,
        "reasoning" => reasoning: Raw<'a>,
        "thoughts" => thoughts: Raw<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "annals" => annex: Annex<'a>,
    }
}

/// Reads the lines of a chat.
#[derive(Debug)]
pub(super) struct Lines {
    /// The agent whose log this is.
    owner: Option<AgentId>,
}

impl Lines {
    pub(super) fn of(artifact: &Artifact) -> Self {
        Lines {
            owner: artifact.agent.clone(),
        }
    }
}

impl Decoder for Lines {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line: Line<'_> = match fast::read(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok((self.sketch(&line, record.span), line.faults(record.span)))
        });
        match read {
            Ok((outline, faults)) => {
                out.found.push(outline);
                tell(faults, record.span, out);
            }
            Err(pieces) => pieces.iter().for_each(|piece| self.outline(piece, out)),
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        let flaws_before = out.flaws.len();
        let read = record.object_or_pieces(out, is_record, |text| {
            let line: Line<'_> = serde_json::from_str(text)?;
            Ok((self.entry(&line, record.span), line.faults(record.span)))
        });
        match read {
            Ok((entry, faults)) => {
                out.found.push(entry);
                tell(faults, record.span, out);
            }
            Err(_) if record.is_blank() => {}
            Err(pieces) => {
                let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
                let mut damaged = Entry::at(record.span, Body::Opaque { kind: None, flaw });
                damaged.agent.clone_from(&self.owner);
                out.found.push(damaged);
                pieces.iter().for_each(|piece| self.decode(piece, out));
            }
        }
    }
}

fn tell<S>(faults: Vec<(FlawKind, String)>, span: Span, out: &mut Sink<S>) {
    for (kind, detail) in faults {
        out.flaw(kind, span, detail);
    }
}

impl Lines {
    fn sketch(&self, line: &Line<'_>, span: Span) -> Outline {
        let mut outline = Outline::at(span);
        outline.time = line.time();
        outline.agent.clone_from(&self.owner);
        match line.kind.or_empty() {
            "message" => line.sketch_message(&mut outline),
            HEADER => {
                // A header hangs from nothing and has no id, whatever else it says.
                line.annex.sketch(&mut outline);
                outline.link = Link::None;
                outline.kind = Kind::Other;
                outline.key = None;
                outline.facts.retain(|fact| !matches!(fact, Fact::Id(_)));
                outline.facts.extend(line.words());
                outline.facts.extend(line.attributes());
                let title = line.title.filled().map(opening);
                let title = title.map(|title| Fact::Title(title, TitleSource::Custom));
                outline.facts.extend(title);
            }
            "" => outline.facts.push(Fact::Untyped),
            _ => {}
        }
        outline
    }

    fn entry(&self, line: &Line<'_>, span: Span) -> Entry {
        let body = match line.kind.or_empty() {
            "message" => Body::Message(line.message()),
            HEADER if line.title.filled().is_some() => Body::Title {
                text: line.title.or_empty().to_owned(),
                source: TitleSource::Custom,
            },
            _ => Body::Opaque {
                kind: line.kind.owned(),
                flaw: None,
            },
        };
        let mut entry = Entry::at(span, body);
        entry.time = line.time();
        entry.agent.clone_from(&self.owner);
        entry.copied = line.forked_from.is_some();
        entry.place.channel = line.channel.owned();
        match line.kind.or_empty() {
            "message" => {
                entry.id = Some(line.id(span));
                let channel = line.channel.filled().map(json::quote);
                entry
                    .members
                    .extend(channel.map(|channel| ("channel".to_owned(), channel)));
                line.annex.overlay(&mut entry);
                // What a person said is told the same way at both depths.
                if let Body::Message(message) = &mut entry.body {
                    message.human = self.sketch(line, span).human;
                }
            }
            HEADER => {
                line.annex.overlay(&mut entry);
                (entry.id, entry.parent) = (None, None);
            }
            _ => {}
        }
        entry
    }
}

impl Line<'_> {
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.annex.exact_time(timestamp(self.created))
    }

    /// The message's id, or what stands for it: an appended log never moves a record.
    fn id(&self, span: Span) -> EntryId {
        match self.id.filled() {
            Some(id) => EntryId::new(id),
            None => EntryId::new(&format!("offset-{}", span.offset)),
        }
    }

    /// Its steps hold the results of tools and nothing was said: it stands in the user's place.
    fn only_results(&self) -> bool {
        let said = !matches!(self.content.0, None | Some("null" | "\"\"" | "[]"));
        let reasoned = |raw: Raw<'_>| raw.text().is_some_and(|text| !text.is_empty());
        if said || reasoned(self.reasoning) || !self.thoughts.is_list() {
            return false;
        }
        let mut results = false;
        for step in thought::steps(self.thoughts) {
            if step.reasons() || step.calls().next().is_some() {
                return false;
            }
            results |= step.answers().next().is_some();
        }
        results
    }

    fn role(&self) -> Role {
        match self.role.or_empty() {
            "user" => Role::User,
            "agent" | "assistant" if self.only_results() => Role::User,
            "agent" | "assistant" => Role::Assistant,
            // An unknown one is neither a person's nor a model's.
            _ => Role::System,
        }
    }

    fn sketch_message(&self, outline: &mut Outline) {
        let said: Content = self.content.read();
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        let mut delegations = Vec::new();
        let mut results = said.results;
        for step in thought::steps(self.thoughts) {
            for call in step.calls().filter(|call| !call.id().is_empty()) {
                let key = Key::of(call.id());
                calls.push(key);
                delegations.extend(delegation(key, call.name(), call.input()));
            }
            for answer in step.answers() {
                results = true;
                let call = Some(answer.call()).filter(|call| !call.is_empty());
                answers.extend(call.map(Key::of));
            }
        }
        calls.extend(said.calls);
        answers.extend(said.answers);
        delegations.extend(said.delegations);
        match self.role() {
            Role::User => {
                outline.kind = Kind::User;
                outline.results = answers;
                if let Some(prompt) = said.prompt.filter(|_| !results) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt));
                }
            }
            Role::Assistant => {
                outline.kind = Kind::Assistant;
                let delegations = delegations.into_iter();
                let delegations = delegations.map(|made| Fact::Delegates(Box::new(made)));
                outline.facts.extend(delegations);
                outline.reply = Some(Box::new(Reply {
                    copied: self.forked_from.is_some(),
                    calls,
                    ..Reply::default()
                }));
            }
            Role::System => outline.kind = Kind::System,
        }
        annex::name(outline, self.id(outline.span).as_str());
        self.annex.sketch(outline);
        copied::name_response(outline, "", self.forked_from);
        if outline.kind != Kind::Assistant {
            outline.reply = None;
        }
        // Only what stands in the user's place answers calls.
        if outline.kind != Kind::User {
            outline.results = Vec::new();
            let facts = &mut outline.facts;
            facts.retain(|fact| !matches!(fact, Fact::Spawned(_)));
        }
    }

    fn message(&self) -> Message {
        let reasoning = Text(self.reasoning.text());
        let mut blocks = thought::blocks(&reasoning, self.thoughts);
        let silent = self.content.0 == Some("\"\"") && !blocks.is_empty();
        if !silent {
            blocks.extend(content::blocks(self.content));
        }
        Message::new(self.role(), blocks)
    }

    /// What a writer must repeat.
    fn words(&self) -> Vec<Fact> {
        let text = |name: &str, text: &Text<'_>| Some((name.to_owned(), text.filled()?.to_owned()));
        let created = self.time().map(|time| time.as_millisecond().to_string());
        // Only what forbids to write is worth repeating.
        let schema = self.schema.0.filter(|_| self.schema.is_some());
        let schema = schema.filter(|_| self.schema.count() != Ok(Some(SCHEMA)));
        let schema = schema.map(|schema| schema.chars().take(40).collect());
        let words = [
            schema.map(|schema| ("schemaVersion".to_owned(), schema)),
            text("conversationId", &self.conversation),
            text("threadId", &self.thread),
            text("channel", &self.channel),
            created.map(|time| ("createdAt".to_owned(), time)),
        ];
        let fact = |(name, value): (String, String)| Fact::Word(name.into(), value.into());
        words.into_iter().flatten().map(fact).collect()
    }

    /// What a list of sessions tells.
    fn attributes(&self) -> impl Iterator<Item = Fact> {
        let named = [
            ("thread", &self.thread),
            ("conversation", &self.conversation),
            ("channel", &self.channel),
        ];
        let fact = |(name, text): (&'static str, &Text<'_>)| {
            Some(Fact::Attribute(name, opening(text.filled()?)))
        };
        named.into_iter().filter_map(fact)
    }

    fn faults(&self, span: Span) -> Vec<(FlawKind, String)> {
        let header = self.header_fault("chat", span);
        let header = header.map(|fault| (FlawKind::BadHeader, fault));
        let message = self.kind.get() == Some("message");
        let usage = field::usage(self.annex.usage).1.filter(|_| message);
        let usage = usage.map(|fault| (FlawKind::BadUsage, fault));
        header.into_iter().chain(usage).collect()
    }

    /// What is wrong with a header, or with the first line if it is none.
    pub(super) fn header_fault(&self, file: &str, span: Span) -> Option<String> {
        if self.kind.get() != Some(HEADER) {
            let kind = match self.kind.filled() {
                Some(kind) => shown(kind),
                None => "of no type".to_owned(),
            };
            return (span.offset == 0)
                .then(|| format!("the file begins without a header: its first line is {kind}"));
        }
        if self.schema.count() != Ok(Some(SCHEMA)) {
            let version = self.schema.0.map_or("missing".to_owned(), shown);
            return Some(format!(
                "schemaVersion is {version}; only {SCHEMA} is known"
            ));
        }
        (self.file.get() != Some(file)).then(|| {
            let kind = self.file.get().map_or("missing".to_owned(), shown);
            format!("fileKind is {kind} in a file of kind `{file}`")
        })
    }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("`{}`", short.escape_debug())
}

/// Tells a line of a chat from an object that is only a part of one.
fn is_record(object: &str) -> bool {
    let named = |line: Line<'_>| {
        let names = [&line.conversation, &line.thread, &line.id];
        line.kind.filled().is_some() && names.iter().any(|name| name.filled().is_some())
    };
    match serde_json::from_str(object) {
        Ok(line) => named(line),
        Err(_) => serde_json::from_str(&json::mend(object)).is_ok_and(named),
    }
}
