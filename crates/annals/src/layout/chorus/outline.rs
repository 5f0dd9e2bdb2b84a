//! The shallow depth: counts and short texts.

use crate::json::{Raw, fast};
use crate::layout::content::{Unnamed, delegation, unnamed_answer, unnamed_call};
use crate::layout::{Decoder, Record, Sink};
use crate::layout::{annex, copied};
use crate::model::{
    Block, Delegation, Entry, Fact, FlawKind, Key, Kind, Outline, Reply, ResponseKey, Role, Span,
};

use super::decode;
use super::line::{Line, Lines, Sort, is_record};

impl Decoder for Lines {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line = match fast::read(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.sketch(&line, text, record.span))
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
    fn sketch(&self, line: &Line<'_>, text: &str, span: Span) -> (Outline, Option<String>) {
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
        if let Some((workspace, agent)) = self.folder.as_ref().filter(|_| span.offset == 0) {
            let facts = &mut outline.facts;
            facts.push(Fact::Attribute("workspace", workspace.as_str().into()));
            facts.push(Fact::Attribute("agent", agent.as_str().into()));
        }
        if let Some(session) = line.session.filled() {
            let fact = Fact::Attribute("session_id", session.into());
            outline.facts.push(fact);
        }
        let cwd = line.claude.cwd.filled();
        outline.facts.extend(cwd.map(|cwd| Fact::Cwd(cwd.into())));
        match sort.role() {
            Some(Role::User) => {
                outline.kind = Kind::User;
                answers(line, sort, &mut outline);
                if let Some(prompt) = line.prompt(self.owner.as_ref()) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt.into()));
                }
            }
            Some(Role::Assistant) => {
                outline.kind = Kind::Assistant;
                let (calls, delegations) = match sort {
                    Sort::Call if line.may_list() => listed_calls(line, text, span, &mut outline),
                    Sort::Call => {
                        let made = line.made(span);
                        let call = (!made.is_empty()).then(|| Key::of(&made));
                        let tool = line.tool.or_empty();
                        if let Some(call) = call.filter(|_| line.call.get().is_none()) {
                            let tool = Key::of(&unnamed_answer(tool));
                            outline.facts.push(Fact::UnnamedCall(tool, call));
                        }
                        let handed = call.and_then(|call| delegation(call, tool, line.input));
                        (call.into_iter().collect(), handed.into_iter().collect())
                    }
                    _ => calls(line, span, &mut outline),
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
            // What went wrong is part of the conversation, and the program counts it.
            Some(Role::System) | None => outline.kind = Kind::System,
        }
        line.annex.sketch(&mut outline);
        copied::name_response(&mut outline, "", line.forked_from);
        (outline, bad_usage)
    }
}

/// The calls that a line's blocks make, and what they hand to sub-agents.
fn calls(line: &Line<'_>, span: Span, outline: &mut Outline) -> (Vec<Key>, Vec<Delegation>) {
    let content = &line.content;
    let mut delegations = content.delegations.clone();
    let mut unnamed = Vec::new();
    for call in &content.unnamed_calls {
        let key = Key::of(&unnamed_call(&line.id(span), call.at));
        let tool = Key::of(&unnamed_answer(&call.tool));
        outline.facts.push(Fact::UnnamedCall(tool, key));
        delegations.extend(
            call.delegation
                .clone()
                .map(|made| Delegation { call: key, ..made }),
        );
        unnamed.push((call.at, key));
    }
    let calls = Unnamed::merge(&content.calls, unnamed.into_iter());
    (calls, delegations)
}

/// The calls of a line that makes one and has a list of blocks besides, as the full depth reads them.
fn listed_calls(
    line: &Line<'_>,
    text: &str,
    span: Span,
    outline: &mut Outline,
) -> (Vec<Key>, Vec<Delegation>) {
    let whole: decode::Whole<'_> = serde_json::from_str(text).unwrap_or_default();
    let (blocks, unnamed) = decode::called(line, whole.content, span);
    let (mut calls, mut delegations) = (Vec::new(), Vec::new());
    for block in &blocks {
        let Block::ToolUse { id, name, input } = block else {
            continue;
        };
        if id.is_empty() {
            continue;
        }
        let call = Key::of(id);
        if unnamed.contains(id) {
            let tool = Key::of(&unnamed_answer(name));
            outline.facts.push(Fact::UnnamedCall(tool, call));
        }
        delegations.extend(delegation(call, name, Raw(Some(input))));
        calls.push(call);
    }
    (calls, delegations)
}

/// Says which calls a line answers.
fn answers(line: &Line<'_>, sort: Sort, outline: &mut Outline) {
    let facts = &mut outline.facts;
    let mut unnamed = |tool: &str| {
        let tool = Key::of(&line.answered_by(tool));
        facts.push(Fact::UnnamedAnswer(tool));
        tool
    };
    outline.results = match (sort, line.call.get()) {
        (Sort::Result, Some(call)) => Some(call)
            .filter(|call| !call.is_empty())
            .map(Key::of)
            .into_iter()
            .collect(),
        (Sort::Result, None) => vec![unnamed("")],
        _ => {
            let answers = line.content.unnamed_answers.iter();
            let answers = answers.map(|answer| (answer.at, unnamed(&answer.tool)));
            Unnamed::merge(&line.content.answers, answers)
        }
    };
}
