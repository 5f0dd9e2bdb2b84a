//! The shallow depth: links, counts and short texts.

use crate::json::fast;
use crate::layout::content::{delegation, opening, unnamed_answer};
use crate::layout::{Decoder, Record, Sink};
use crate::layout::{annex, copied};
use crate::model::{Entry, Fact, FlawKind, Key, Kind, Outline, Reply, Span};

use super::decode;
use super::line::{Line, Lines, Shape, is_record};

impl Decoder for Lines {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line = match fast::read(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.sketch(&line, record.span))
        });
        match read {
            Ok((outline, bad_usage)) => {
                if let Some(detail) = bad_usage {
                    out.flaw(FlawKind::BadUsage, record.span, detail);
                }
                out.found.push(outline);
            }
            Err(pieces) => pieces.iter().for_each(|piece| self.outline(piece, out)),
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        decode::entry(self, record, out);
    }
}

impl Lines {
    fn sketch(&mut self, line: &Line<'_>, span: Span) -> (Outline, Option<String>) {
        let mut bad_usage = None;
        let mut outline = Outline::at(span);
        outline.time = line.time();
        outline.agent = self.agent(line);
        let said = &line.metadata;
        let facts = &mut outline.facts;
        // On every record: whoever reads one alone must know whose it is.
        facts.extend(self.session(line).map(|id| Fact::Session(id.into())));
        facts.extend(said.cwd.filled().map(|path| Fact::Cwd(path.into())));
        let branch = said.git_branch.filled();
        facts.extend(branch.map(|branch| Fact::GitBranch(branch.into())));
        let source = said.source.filled();
        facts.extend(source.map(|source| Fact::Attribute("source", source.into())));
        match line.shape() {
            Shape::Unknown => {
                outline
                    .facts
                    .extend(match line.kind.filled().or(line.role.filled()) {
                        None => Some(Fact::Untyped),
                        // The document has no record that begins a session; only annals does.
                        Some("session") => None,
                        Some(kind) => Some(Fact::UnknownType(opening(kind))),
                    });
                return (outline, None);
            }
            Shape::System => outline.kind = Kind::System,
            Shape::User => {
                outline.kind = Kind::User;
                outline.results.clone_from(&line.content.answers);
                let prompt = line.content.prompt.clone();
                if let Some(prompt) = prompt.filter(|_| !line.content.results) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt));
                }
            }
            Shape::Outcome => {
                outline.kind = Kind::User;
                let call = line.answered();
                let call = (!call.is_empty()).then(|| Key::of(&call));
                let unnamed = call.filter(|_| line.call.get().is_none());
                outline.facts.extend(unnamed.map(Fact::UnnamedAnswer));
                outline.results.extend(call);
            }
            Shape::Assistant => {
                outline.kind = Kind::Assistant;
                let usage;
                (usage, bad_usage) = line.tokens();
                let made = line.content.delegations.iter().cloned();
                outline
                    .facts
                    .extend(made.map(|made| Fact::Delegates(Box::new(made))));
                outline.reply = Some(Box::new(Reply {
                    model: line.model.filled().map(|model| self.shared_model(model)),
                    usage,
                    copied: said.forked_from.is_some(),
                    calls: line.content.calls.clone(),
                    ..Reply::default()
                }));
            }
            Shape::Call => {
                outline.kind = Kind::Assistant;
                let tool = line.tool.or_empty();
                let call = self.made(line, span);
                let call = (!call.is_empty()).then(|| Key::of(&call));
                if let Some(call) = call.filter(|_| line.call.get().is_none()) {
                    let tool = Key::of(&unnamed_answer(tool));
                    outline.facts.push(Fact::UnnamedCall(tool, call));
                }
                let made = call.and_then(|call| delegation(call, tool, line.arguments));
                outline
                    .facts
                    .extend(made.map(|made| Fact::Delegates(Box::new(made))));
                outline.reply = Some(Box::new(Reply {
                    calls: call.into_iter().collect(),
                    ..Reply::default()
                }));
            }
        }
        if line.annex.id.filled().is_none() {
            annex::name(&mut outline, &self.id_at(span));
        }
        line.annex.sketch(&mut outline);
        copied::name_response(&mut outline, &self.folder, said.forked_from);
        (outline, bad_usage)
    }
}
