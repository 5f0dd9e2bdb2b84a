//! Outlines: links, counts and short texts.

use crate::json::scanner;
use crate::layout::content::title_prefix;
use crate::layout::usage_fields;
use crate::layout::{Decoded, Decoder, Record, ReplyDelta};
use crate::model::{
    AgentId, Entry, EntryKey, Fact, FlawKind, Link, Outline, OutlineKind, Reply, Span, TitleSource,
};

use super::line::{Line, LineDecoder, SESSION_START, id_at, is_error_summary, is_record};
use super::{decode, usage};

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let mut line = match scanner::parse(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.outline_line(&mut line, record.span))
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
            out.add_flaw(FlawKind::BadUsage, record.span, detail);
        }
        out.items.push(outline);
    }

    fn outline_usage(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        usage::outline(self, record, out);
    }

    fn reply_delta(&mut self, record: &Record<'_>) -> Option<ReplyDelta> {
        usage::reply_delta(self, record)
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn extra_text(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        decode::extra_text(record, give);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        decode::decode_entry(self, record, out);
    }
}

impl LineDecoder {
    /// Outlines a line. Moves values out of it, so the line must not be used afterwards.
    fn outline_line(&mut self, line: &mut Line<'_>, span: Span) -> (Outline, Option<String>) {
        line.use_top_level_content();
        let mut bad_usage = None;
        let mut outline = Outline::new(span);
        outline.key = line.uuid.non_empty().map(EntryKey::from_text);
        if line.lacks_id() {
            let id = id_at(span);
            outline.key = Some(id.key());
            outline.facts.extend([Fact::Id(id), Fact::NoId]);
        }
        outline.time = self.time_parser.parse(line.timestamp);
        outline.agent = self.agent(&line.session, &line.agent, line.sidechain);
        outline.sidechain = line.sidechain.0;
        outline.link = line.link();
        if let Some(id) = line
            .uuid
            .non_empty()
            .filter(|id| !EntryKey::is_canonical_uuid(id))
        {
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
                outline.kind = OutlineKind::User;
                let content = &mut line.message.content;
                let lacks_call = content.has_empty_answers || !content.unnamed_answers.is_empty();
                outline.facts.extend(lacks_call.then_some(Fact::NoCall));
                outline.results = std::mem::take(&mut content.answers);
                let (spawned, stored) = line.spawned_and_stored();
                outline.facts.extend(spawned.map(Fact::Spawned));
                outline.facts.extend(stored.map(Fact::StoredOutput));
                // Only a sub-agent's first message is matched by its text.
                let first = line.sidechain.0 && outline.link == Link::None;
                let asked = line.message.content.full_text.as_deref().filter(|_| first);
                outline
                    .facts
                    .extend(asked.map(|text| Fact::AgentPrompt(EntryKey::from_text(text))));
                if let Some(prompt) = line.prompt(self.is_owners(&line.session, line.sidechain)) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt.into()));
                }
            }
            "assistant" => {
                outline.kind = OutlineKind::Assistant;
                let delegations = line.message.content.delegations.drain(..);
                let delegations = delegations.map(|made| Fact::Delegation(Box::new(made)));
                outline.facts.extend(delegations);
                let spent = usage_fields::decode_reply_usage(line.message.usage);
                let (recorded, fault) = usage_fields::recorded_cost("costUSD", line.cost);
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
            "system" if line.is_compaction() => outline.kind = OutlineKind::Compaction,
            "system" if line.is_instructions() => outline.kind = OutlineKind::System,
            kind => {
                let linked = matches!(kind, "system" | "attachment" | "progress" | "");
                let stranger = outline.key.is_some() && !linked;
                outline
                    .facts
                    .extend(kind.is_empty().then_some(Fact::Untyped));
                outline.facts.extend(stranger.then_some(Fact::UnlinkedType));
                let newer = outline.key.is_some() && kind == "progress";
                outline.facts.extend(newer.then_some(Fact::NewerType));
                outline.facts.extend(line.metadata_fact());
                outline.facts.extend(line.summary_session());
            }
        }
        (outline, bad_usage)
    }
}

impl Line<'_> {
    fn link(&self) -> Link {
        match (self.parent.non_empty(), self.logical_parent.non_empty()) {
            (Some(parent), _) => Link::Parent(EntryKey::from_text(parent)),
            (None, Some(logical)) => Link::Continues(EntryKey::from_text(logical)),
            // A message without an id has no other link than its position.
            (None, None) if self.lacks_id() => Link::Previous,
            (None, None) => Link::None,
        }
    }

    /// Returns the sub-agent named by a tool result.
    pub(super) fn spawned(&self) -> Option<AgentId> {
        self.spawned_and_stored().0
    }

    /// Returns the sub-agent and the name of the file with output too long for the log. The
    /// recorded path may be from another machine, so only the file name is used.
    fn spawned_and_stored(&self) -> (Option<AgentId>, Option<Box<str>>) {
        let outcome = self.outcome();
        let agent = outcome
            .agent
            .non_empty()
            .and_then(|id| AgentId::new(id).ok());
        let path = outcome.stored.non_empty().and_then(|path| {
            let (above, name) = path.rsplit_once(['/', '\\'])?;
            above.ends_with("tool-results").then_some(name)
        });
        (agent, path.map(Into::into))
    }

    /// Returns the session that a summary names.
    fn summary_session(&self) -> Option<Fact> {
        let is_summary = self.kind.get() == Some("summary");
        let session = self.session.non_empty().filter(|_| is_summary)?;
        Some(Fact::SummarySession(session.into()))
    }

    /// Returns the fact recorded by a line outside the tree.
    fn metadata_fact(&self) -> Option<Fact> {
        let leaf = || self.leaf.non_empty().map(EntryKey::from_text);
        Some(match self.kind.or_empty() {
            "summary" => {
                let text = self.summary_text()?;
                if is_error_summary(&text) {
                    return None;
                }
                let until = self.summarized_until();
                Fact::Summary(title_prefix(&text), until.map(|id| id.key()))
            }
            "custom-title" => {
                Fact::Title(title_prefix(self.custom_title.get()?), TitleSource::Custom)
            }
            "ai-title" => Fact::Title(title_prefix(self.ai_title.get()?), TitleSource::Ai),
            "tag" => Fact::Tag(title_prefix(self.tag.get()?)),
            "last-prompt" => Fact::Resume(leaf()?),
            "file-history-snapshot" | "file-history-delta" | "file-history" => Fact::Files,
            SESSION_START => {
                let version = self.format_version.count().ok().flatten()?;
                Fact::Attribute("format_version", version.to_string().into())
            }
            "annals-note" => Fact::Note(title_prefix(self.text.get()?)),
            _ => return None,
        })
    }
}
