//! The shallow depth: links, counts and short texts.

use crate::json::fast;
use crate::layout::content::opening;
use crate::layout::field;
use crate::layout::{Again, Decoder, Record, Sink};
use crate::model::{
    AgentId, Entry, Fact, FlawKind, Key, Kind, Link, Outline, Reply, Span, TitleSource,
};

use super::line::{Line, Lines, OPENING, id_at, is_error_summary, is_record};
use super::{bill, decode};

impl Decoder for Lines {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let mut line = match fast::read(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.sketch(&mut line, record.span))
        });
        let (outline, bad_usage) = match read {
            Ok(read) => read,
            Err(pieces) => {
                for piece in pieces {
                    self.outline(&piece, out);
                }
                return;
            }
        };
        if let Some(detail) = bad_usage {
            out.flaw(FlawKind::BadUsage, record.span, detail);
        }
        out.found.push(outline);
    }

    fn spending(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        bill::outline(self, record, out);
    }

    fn spending_again(&mut self, record: &Record<'_>) -> Option<Again> {
        bill::again(self, record)
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn beside(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        decode::beside(record, give);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        decode::entry(self, record, out);
    }
}

impl Lines {
    /// Takes what it can out of the line, which nobody reads afterwards.
    fn sketch(&mut self, line: &mut Line<'_>, span: Span) -> (Outline, Option<String>) {
        line.adopt_content();
        let mut bad_usage = None;
        let mut outline = Outline::at(span);
        outline.key = line.uuid.filled().map(Key::of);
        if line.lacks_id() {
            let id = id_at(span);
            outline.key = Some(id.key());
            outline.facts.extend([Fact::Id(id), Fact::NoId]);
        }
        outline.time = self.clock.read(line.timestamp);
        outline.agent = self.agent(&line.session, &line.agent, line.sidechain);
        outline.sidechain = line.sidechain.0;
        outline.link = line.link();
        if let Some(id) = line.uuid.filled().filter(|id| !Key::spells(id)) {
            outline.facts.push(Fact::Id(crate::model::EntryId::new(id)));
        }
        outline
            .facts
            .extend(self.session.changed(&line.session).map(Fact::Session));
        outline
            .facts
            .extend(self.cwd.changed(&line.cwd).map(Fact::Cwd));
        outline.facts.extend(
            self.git_branch
                .changed_to(&line.git_branch)
                .map(Fact::GitBranch),
        );
        outline
            .facts
            .extend(self.version.changed(&line.version).map(Fact::Version));
        match line.kind.or_empty() {
            "user" => {
                outline.kind = Kind::User;
                outline.results = std::mem::take(&mut line.message.content.answers);
                let (spawned, stored) = line.worked();
                outline.facts.extend(spawned.map(Fact::Spawned));
                outline.facts.extend(stored.map(Fact::Stored));
                // Only a sub-agent's first message is looked for by its text.
                let first = line.sidechain.0 && outline.link == Link::None;
                let asked = line.message.content.asked.as_deref().filter(|_| first);
                outline
                    .facts
                    .extend(asked.map(|text| Fact::Asked(Key::of(text))));
                if let Some(prompt) = line.prompt(self.is_owners(&line.session, line.sidechain)) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt.into()));
                }
            }
            "assistant" => {
                outline.kind = Kind::Assistant;
                let delegations = line.message.content.delegations.drain(..);
                let delegations = delegations.map(|made| Fact::Delegates(Box::new(made)));
                outline.facts.extend(delegations);
                let spent = field::spending(line.message.usage);
                let (recorded, fault) = field::recorded("costUSD", line.cost);
                bad_usage = spent.fault.or(fault);
                outline.reply = Some(Box::new(Reply {
                    response: self.response(&line.message.id, &line.request),
                    model: line.model().map(|model| self.shared_model(model)),
                    usage: spent.usage,
                    terms: spent.terms,
                    recorded,
                    copied: line.forked_from.is_some(),
                    calls: std::mem::take(&mut line.message.content.calls),
                }));
            }
            "system" if line.is_compaction() => outline.kind = Kind::Compaction,
            "system" if line.is_instructions() => outline.kind = Kind::System,
            kind => {
                let linked = matches!(kind, "system" | "attachment" | "progress" | "");
                let stranger = outline.key.is_some() && !linked;
                outline
                    .facts
                    .extend(kind.is_empty().then_some(Fact::Untyped));
                outline.facts.extend(stranger.then_some(Fact::Stranger));
                let newer = outline.key.is_some() && kind == "progress";
                outline.facts.extend(newer.then_some(Fact::NewerType));
                outline.facts.extend(line.aside());
                outline.facts.extend(line.summary_session());
            }
        }
        (outline, bad_usage)
    }
}

impl Line<'_> {
    fn link(&self) -> Link {
        match (self.parent.filled(), self.logical_parent.filled()) {
            (Some(parent), _) => Link::Parent(Key::of(parent)),
            (None, Some(logical)) => Link::Continues(Key::of(logical)),
            // What has no id says nothing of where it belongs but by where it stands.
            (None, None) if self.lacks_id() => Link::Previous,
            (None, None) => Link::None,
        }
    }

    /// The sub-agent that a tool result speaks of.
    pub(super) fn spawned(&self) -> Option<AgentId> {
        self.worked().0
    }

    /// The same, and the file that holds what was too long for the log. That file's path may be
    /// another machine's, so its name is what counts.
    fn worked(&self) -> (Option<AgentId>, Option<Box<str>>) {
        let outcome = self.outcome();
        let agent = outcome.agent.filled().and_then(|id| AgentId::new(id).ok());
        let path = outcome.stored.filled().and_then(|path| {
            let (above, name) = path.rsplit_once(['/', '\\'])?;
            above.ends_with("tool-results").then_some(name)
        });
        (agent, path.map(Into::into))
    }

    /// The session that a summary names.
    fn summary_session(&self) -> Option<Fact> {
        let is_summary = self.kind.get() == Some("summary");
        let session = self.session.filled().filter(|_| is_summary)?;
        Some(Fact::SummaryOf(session.into()))
    }

    /// What a line beside the tree says.
    fn aside(&self) -> Option<Fact> {
        let leaf = || self.leaf.filled().map(Key::of);
        Some(match self.kind.or_empty() {
            "summary" => {
                let text = self.summary_text()?;
                if is_error_summary(&text) {
                    return None;
                }
                let until = self.summarized_until();
                Fact::Summary(opening(&text), until.map(|id| id.key()))
            }
            "custom-title" => Fact::Title(opening(self.custom_title.get()?), TitleSource::Custom),
            "ai-title" => Fact::Title(opening(self.ai_title.get()?), TitleSource::Ai),
            "tag" => Fact::Tag(opening(self.tag.get()?)),
            "last-prompt" => Fact::Resume(leaf()?),
            "file-history-snapshot" | "file-history-delta" | "file-history" => Fact::Files,
            OPENING => {
                let version = self.format_version.count().ok().flatten()?;
                Fact::Attribute("format_version", version.to_string().into())
            }
            "annals-note" => Fact::Note(opening(self.text.get()?)),
            _ => return None,
        })
    }
}
