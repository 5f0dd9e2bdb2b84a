//! Outlines: links, counts and short texts.

use crate::json::scanner;
use crate::layout::content::{delegation, title_prefix, unnamed_answer};
use crate::layout::{Decoded, Decoder, Record};
use crate::layout::{extension, fork_origin};
use crate::model::{Entry, EntryKey, Fact, FlawKind, Outline, OutlineKind, Reply, Span};

use super::decode;
use super::line::{Line, LineDecoder, RecordType, is_record};

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line = match scanner::parse(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.outline_line(&line, record.span))
        });
        match read {
            Ok((outline, bad_usage)) => {
                if let Some(detail) = bad_usage {
                    out.add_flaw(FlawKind::BadUsage, record.span, detail);
                }
                out.items.push(outline);
            }
            Err(pieces) => pieces.iter().for_each(|piece| self.outline(piece, out)),
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        decode::decode_entry(self, record, out);
    }
}

impl LineDecoder {
    fn outline_line(&mut self, line: &Line<'_>, span: Span) -> (Outline, Option<String>) {
        let mut bad_usage = None;
        let mut outline = Outline::new(span);
        outline.time = line.time();
        outline.agent = self.agent(line);
        let said = &line.metadata;
        let facts = &mut outline.facts;
        // On every record, because a single record may be read alone.
        facts.extend(self.session(line).map(|id| Fact::Session(id.into())));
        facts.extend(said.cwd.non_empty().map(|path| Fact::Cwd(path.into())));
        let branch = said.git_branch.non_empty();
        facts.extend(branch.map(|branch| Fact::GitBranch(branch.into())));
        let source = said.source.non_empty();
        facts.extend(source.map(|source| Fact::Attribute("source", source.into())));
        match line.record_type() {
            RecordType::Unknown => {
                outline
                    .facts
                    .extend(match line.kind.non_empty().or(line.role.non_empty()) {
                        None => Some(Fact::Untyped),
                        // Only annals writes records that begin a session; the design document has
                        // none.
                        Some("session") => None,
                        Some(kind) => Some(Fact::UnknownType(title_prefix(kind))),
                    });
                return (outline, None);
            }
            RecordType::System => outline.kind = OutlineKind::System,
            RecordType::User => {
                outline.kind = OutlineKind::User;
                outline.results.clone_from(&line.content.answers);
                let prompt = line.content.prompt.clone();
                if let Some(prompt) = prompt.filter(|_| !line.content.results) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt));
                }
            }
            RecordType::Result => {
                outline.kind = OutlineKind::User;
                let call = line.answered();
                let call = (!call.is_empty()).then(|| EntryKey::from_text(&call));
                let unnamed = call.filter(|_| line.call.get().is_none());
                outline.facts.extend(unnamed.map(Fact::UnnamedAnswer));
                outline.results.extend(call);
            }
            RecordType::Assistant => {
                outline.kind = OutlineKind::Assistant;
                let usage;
                (usage, bad_usage) = line.tokens();
                let made = line.content.delegations.iter().cloned();
                outline
                    .facts
                    .extend(made.map(|made| Fact::Delegation(Box::new(made))));
                outline.reply = Some(Box::new(Reply {
                    model: line.model.non_empty().map(|model| self.shared_model(model)),
                    usage,
                    copied: said.forked_from.is_some(),
                    calls: line.content.calls.clone(),
                    ..Reply::default()
                }));
            }
            RecordType::Call => {
                outline.kind = OutlineKind::Assistant;
                let tool = line.tool.or_empty();
                let call = self.call_id(line, span);
                let call = (!call.is_empty()).then(|| EntryKey::from_text(&call));
                if let Some(call) = call.filter(|_| line.call.get().is_none()) {
                    let tool = EntryKey::from_text(&unnamed_answer(tool));
                    outline.facts.push(Fact::UnnamedCall(tool, call));
                }
                let made = call.and_then(|call| delegation(call, tool, line.arguments));
                outline
                    .facts
                    .extend(made.map(|made| Fact::Delegation(Box::new(made))));
                outline.reply = Some(Box::new(Reply {
                    calls: call.into_iter().collect(),
                    ..Reply::default()
                }));
            }
        }
        if line.annex.id.non_empty().is_none() {
            extension::set_outline_id(&mut outline, &self.id_at(span));
        }
        line.annex.apply_to_outline(&mut outline);
        fork_origin::set_response_key(&mut outline, &self.folder, said.forked_from);
        (outline, bad_usage)
    }
}
