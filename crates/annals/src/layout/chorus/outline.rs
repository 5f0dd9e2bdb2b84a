//! The shallow depth: counts and short texts.

use crate::json::fast;
use crate::layout::content::delegation;
use crate::layout::{Decoder, Record, Sink};
use crate::layout::{annex, copied};
use crate::model::{Entry, Fact, FlawKind, Key, Kind, Outline, Reply, ResponseKey, Role, Span};

use super::decode;
use super::line::{Line, Lines, Sort, is_record};

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
    fn sketch(&self, line: &Line<'_>, span: Span) -> (Outline, Option<String>) {
        let mut bad_usage = None;
        let mut outline = Outline::at(span);
        outline.time = line.time();
        outline.agent.clone_from(&self.owner);
        outline.sidechain = self.owner.is_some();
        let sort = line.sort();
        if sort == Sort::Unknown {
            let untyped = line.kind.filled().is_none();
            outline.facts.extend(untyped.then_some(Fact::Untyped));
            return (outline, None);
        }
        annex::name(&mut outline, &line.id(span));
        let cwd = line.claude.cwd.filled();
        outline.facts.extend(cwd.map(|cwd| Fact::Cwd(cwd.into())));
        match sort.role() {
            Some(Role::User) => {
                outline.kind = Kind::User;
                outline.results = match sort {
                    Sort::Result => line.call.filled().map(Key::of).into_iter().collect(),
                    _ => line.content.answers.clone(),
                };
                if let Some(prompt) = line.prompt(self.owner.as_ref()) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt.into()));
                }
            }
            Some(Role::Assistant) => {
                outline.kind = Kind::Assistant;
                let (calls, delegations) = match sort {
                    Sort::Call => {
                        let made = line.made(span);
                        let call = (!made.is_empty()).then(|| Key::of(&made));
                        let tool = line.tool.or_empty();
                        let handed = call.and_then(|call| delegation(call, tool, line.input));
                        (call.into_iter().collect(), handed.into_iter().collect())
                    }
                    _ => (line.content.calls.clone(), line.content.delegations.clone()),
                };
                let delegates = |made| Fact::Delegates(Box::new(made));
                outline.facts.extend(delegations.into_iter().map(delegates));
                let usage;
                (usage, bad_usage) = line.usage();
                let (recorded, fault) = line.recorded();
                bad_usage = bad_usage.or(fault);
                outline.reply = Some(Box::new(Reply {
                    response: line.response().map(|id| ResponseKey::of(id, "")),
                    model: line.model().map(Into::into),
                    usage,
                    recorded,
                    copied: line.forked_from.is_some(),
                    calls,
                    ..Reply::default()
                }));
            }
            Some(Role::System) => outline.kind = Kind::System,
            None => {}
        }
        line.annex.sketch(&mut outline);
        copied::name_response(&mut outline, "", line.forked_from);
        (outline, bad_usage)
    }
}
