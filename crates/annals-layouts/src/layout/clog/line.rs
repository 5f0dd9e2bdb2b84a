//! Outlines and full decoding of chat lines.

use jiff::Timestamp;

use crate::json::{self, Raw, Text, object, scanner};
use crate::layout::content::{self, Content, delegation, title_prefix};
use crate::layout::extension::{self, Extension};
use crate::layout::fork_origin;
use crate::layout::usage_fields::{self, decode_time};
use crate::layout::{Decoded, Decoder, Record};
use crate::model::{
    AgentId, Artifact, Body, Entry, EntryId, EntryKey, Fact, FlawKind, Link, Message, Outline,
    OutlineKind, Reply, Role, Span, TitleSource,
};

use super::steps;

/// The known schema version.
pub(super) const SCHEMA: u64 = 1;

/// Type of the header line, which describes the file.
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
        "annals" => annex: Extension<'a>,
    }
}

/// Decoder of chat lines.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// The sub-agent whose log this is.
    owner: Option<AgentId>,
}

impl LineDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        LineDecoder {
            owner: artifact.agent.clone(),
        }
    }
}

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line: Line<'_> = match scanner::parse(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok((
                self.outline_line(&line, record.span),
                line.faults(record.span),
            ))
        });
        match read {
            Ok((outline, faults)) => {
                out.items.push(outline);
                report_faults(faults, record.span, out);
            }
            Err(pieces) => pieces.iter().for_each(|piece| self.outline(piece, out)),
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let flaws_before = out.flaws.len();
        let read = record.object_or_pieces(out, is_record, |text| {
            let line: Line<'_> = serde_json::from_str(text)?;
            Ok((self.entry(&line, record.span), line.faults(record.span)))
        });
        match read {
            Ok((entry, faults)) => {
                out.items.push(entry);
                report_faults(faults, record.span, out);
            }
            Err(_) if record.is_blank() => {}
            Err(pieces) => {
                let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
                let mut damaged = Entry::new(record.span, Body::Opaque { kind: None, flaw });
                damaged.agent.clone_from(&self.owner);
                out.items.push(damaged);
                pieces.iter().for_each(|piece| self.decode(piece, out));
            }
        }
    }
}

fn report_faults<S>(faults: Vec<(FlawKind, String)>, span: Span, out: &mut Decoded<S>) {
    for (kind, detail) in faults {
        out.add_flaw(kind, span, detail);
    }
}

impl LineDecoder {
    fn outline_line(&self, line: &Line<'_>, span: Span) -> Outline {
        let mut outline = Outline::new(span);
        outline.time = line.time();
        outline.agent.clone_from(&self.owner);
        match line.kind.or_empty() {
            "message" => line.sketch_message(&mut outline),
            HEADER => {
                // A header has no parent and no id, whatever else it contains.
                line.annex.apply_to_outline(&mut outline);
                outline.link = Link::None;
                outline.kind = OutlineKind::Other;
                outline.key = None;
                outline.facts.retain(|fact| !matches!(fact, Fact::Id(_)));
                outline.facts.extend(line.writer_state());
                outline.facts.extend(line.attributes());
                let title = line.title.non_empty().map(title_prefix);
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
            HEADER if line.title.non_empty().is_some() => Body::Title {
                text: line.title.or_empty().to_owned(),
                source: TitleSource::Custom,
            },
            _ => Body::Opaque {
                kind: line.kind.owned(),
                flaw: None,
            },
        };
        let mut entry = Entry::new(span, body);
        entry.time = line.time();
        entry.agent.clone_from(&self.owner);
        entry.copied = line.forked_from.is_some();
        entry.context.channel = line.channel.owned();
        match line.kind.or_empty() {
            "message" => {
                entry.id = Some(line.id(span));
                let channel = line.channel.non_empty().map(json::quote);
                entry
                    .members
                    .extend(channel.map(|channel| ("channel".to_owned(), channel)));
                line.annex.apply_to_entry(&mut entry);
                // Outline and full decoding must agree on what a person wrote.
                if let Body::Message(message) = &mut entry.body {
                    message.human = self.outline_line(line, span).human;
                }
            }
            HEADER => {
                line.annex.apply_to_entry(&mut entry);
                (entry.id, entry.parent) = (None, None);
            }
            _ => {}
        }
        entry
    }
}

impl Line<'_> {
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.annex.exact_time(decode_time(self.created))
    }

    /// Returns the message's id, or one made from its offset: appending never moves a record.
    fn id(&self, span: Span) -> EntryId {
        match self.id.non_empty() {
            Some(id) => EntryId::new(id),
            None => EntryId::new(&format!("offset-{}", span.offset)),
        }
    }

    /// Returns whether the message contains only tool results, so that its role is the user's.
    fn has_only_results(&self) -> bool {
        let said = !matches!(self.content.0, None | Some("null" | "\"\"" | "[]"));
        let reasoned = |raw: Raw<'_>| raw.text().is_some_and(|text| !text.is_empty());
        if said || reasoned(self.reasoning) || !self.thoughts.is_list() {
            return false;
        }
        let mut results = false;
        for step in steps::steps(self.thoughts) {
            if step.has_reasoning() || step.calls().next().is_some() {
                return false;
            }
            results |= step.answers().next().is_some();
        }
        results
    }

    fn role(&self) -> Role {
        match self.role.or_empty() {
            "user" => Role::User,
            "agent" | "assistant" if self.has_only_results() => Role::User,
            "agent" | "assistant" => Role::Assistant,
            // An unknown role is neither a person's nor a model's.
            _ => Role::System,
        }
    }

    fn sketch_message(&self, outline: &mut Outline) {
        let said: Content = self.content.parse();
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        let mut delegations = Vec::new();
        let mut results = said.results;
        for step in steps::steps(self.thoughts) {
            for call in step.calls().filter(|call| !call.id().is_empty()) {
                let key = EntryKey::from_text(call.id());
                calls.push(key);
                delegations.extend(delegation(key, call.name(), call.input()));
            }
            for answer in step.answers() {
                results = true;
                let call = Some(answer.call()).filter(|call| !call.is_empty());
                answers.extend(call.map(EntryKey::from_text));
            }
        }
        calls.extend(said.calls);
        answers.extend(said.answers);
        delegations.extend(said.delegations);
        match self.role() {
            Role::User => {
                outline.kind = OutlineKind::User;
                outline.results = answers;
                if let Some(prompt) = said.prompt.filter(|_| !results) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt));
                }
            }
            Role::Assistant => {
                outline.kind = OutlineKind::Assistant;
                let delegations = delegations.into_iter();
                let delegations = delegations.map(|made| Fact::Delegation(Box::new(made)));
                outline.facts.extend(delegations);
                outline.reply = Some(Box::new(Reply {
                    copied: self.forked_from.is_some(),
                    calls,
                    ..Reply::default()
                }));
            }
            Role::System => outline.kind = OutlineKind::System,
        }
        extension::set_outline_id(outline, self.id(outline.span).as_str());
        self.annex.apply_to_outline(outline);
        fork_origin::set_response_key(outline, "", self.forked_from);
        if outline.kind != OutlineKind::Assistant {
            outline.reply = None;
        }
        // Only messages in the user's role answer calls.
        if outline.kind != OutlineKind::User {
            outline.results = Vec::new();
            let facts = &mut outline.facts;
            facts.retain(|fact| !matches!(fact, Fact::Spawned(_)));
        }
    }

    fn message(&self) -> Message {
        let reasoning = Text(self.reasoning.text());
        let mut blocks = steps::blocks(&reasoning, self.thoughts);
        let silent = self.content.0 == Some("\"\"") && !blocks.is_empty();
        if !silent {
            blocks.extend(content::blocks(self.content));
        }
        Message::new(self.role(), blocks)
    }

    /// Returns the header's values that a writer must repeat.
    fn writer_state(&self) -> Vec<Fact> {
        let text =
            |name: &str, text: &Text<'_>| Some((name.to_owned(), text.non_empty()?.to_owned()));
        let created = self.time().map(|time| time.as_millisecond().to_string());
        // Only a version that prevents writing is needed.
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
        let fact = |(name, value): (String, String)| Fact::WriterState(name.into(), value.into());
        words.into_iter().flatten().map(fact).collect()
    }

    /// Returns the session attributes.
    fn attributes(&self) -> impl Iterator<Item = Fact> {
        let named = [
            ("thread", &self.thread),
            ("conversation", &self.conversation),
            ("channel", &self.channel),
        ];
        let fact = |(name, text): (&'static str, &Text<'_>)| {
            Some(Fact::Attribute(name, title_prefix(text.non_empty()?)))
        };
        named.into_iter().filter_map(fact)
    }

    fn faults(&self, span: Span) -> Vec<(FlawKind, String)> {
        let header = self.header_fault("chat", span);
        let header = header.map(|fault| (FlawKind::BadHeader, fault));
        let message = self.kind.get() == Some("message");
        let usage = usage_fields::decode_usage(self.annex.usage)
            .1
            .filter(|_| message);
        let usage = usage.map(|fault| (FlawKind::BadUsage, fault));
        header.into_iter().chain(usage).collect()
    }

    /// Describes what is wrong with a header, or with a first line that is not one.
    pub(super) fn header_fault(&self, file: &str, span: Span) -> Option<String> {
        if self.kind.get() != Some(HEADER) {
            let kind = match self.kind.non_empty() {
                Some(kind) => shown(kind),
                None => "untyped".to_owned(),
            };
            return (span.offset == 0).then(|| format!("missing header: the first line is {kind}"));
        }
        if self.schema.count() != Ok(Some(SCHEMA)) {
            let version = self.schema.0.map_or("missing".to_owned(), shown);
            return Some(format!("schemaVersion is {version}; expected {SCHEMA}"));
        }
        (self.file.get() != Some(file)).then(|| {
            let kind = self.file.get().map_or("missing".to_owned(), shown);
            format!("fileKind is {kind}; expected `{file}`")
        })
    }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("`{}`", short.escape_debug())
}

/// Returns whether an object is a chat line and not part of one.
fn is_record(object: &str) -> bool {
    let named = |line: Line<'_>| {
        let names = [&line.conversation, &line.thread, &line.id];
        line.kind.non_empty().is_some() && names.iter().any(|name| name.non_empty().is_some())
    };
    match serde_json::from_str(object) {
        Ok(line) => named(line),
        Err(_) => serde_json::from_str(&json::sanitize(object)).is_ok_and(named),
    }
}
