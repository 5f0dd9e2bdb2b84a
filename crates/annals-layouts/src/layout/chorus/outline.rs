//! Outlines: counts and short texts.

use crate::json::{Raw, scanner};
use crate::layout::content::{CallWithoutId, delegation, unnamed_answer, unnamed_call_id};
use crate::layout::{Decoded, Decoder, Record};
use crate::layout::{extension, fork_origin};
use crate::model::{
    Block, Delegation, Entry, EntryKey, Fact, FlawKind, Outline, OutlineKind, Reply, ResponseKey,
    Role, Span,
};

use super::decode;
use super::line::{Line, LineDecoder, LineKind, is_record};

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let line = match scanner::parse(text) {
                Some(line) => line,
                None => serde_json::from_str(text)?,
            };
            Ok(self.outline_line(&line, text, record.span))
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
    fn outline_line(&self, line: &Line<'_>, text: &str, span: Span) -> (Outline, Option<String>) {
        let mut bad_usage = None;
        let mut outline = Outline::new(span);
        outline.time = line.time();
        outline.agent.clone_from(&self.owner);
        outline.sidechain = self.owner.is_some();
        let sort = line.line_kind();
        if sort == LineKind::Unknown {
            let untyped = line.kind.non_empty().is_none();
            outline.facts.extend(untyped.then_some(Fact::Untyped));
            return (outline, None);
        }
        extension::set_outline_id(&mut outline, &line.id(span));
        if let Some((workspace, agent)) = self.folder.as_ref().filter(|_| span.offset == 0) {
            let facts = &mut outline.facts;
            facts.push(Fact::Attribute("workspace", workspace.as_str().into()));
            facts.push(Fact::Attribute("agent", agent.as_str().into()));
        }
        if let Some(session) = line.session.non_empty() {
            let fact = Fact::Attribute("session_id", session.into());
            outline.facts.push(fact);
        }
        let cwd = line.claude.cwd.non_empty();
        outline.facts.extend(cwd.map(|cwd| Fact::Cwd(cwd.into())));
        match sort.role() {
            Some(Role::User) => {
                outline.kind = OutlineKind::User;
                add_answered_calls(line, sort, &mut outline);
                if let Some(prompt) = line.prompt(self.owner.as_ref()) {
                    outline.human = true;
                    outline.facts.push(Fact::Prompt(prompt.into()));
                }
            }
            Some(Role::Assistant) => {
                outline.kind = OutlineKind::Assistant;
                let (calls, delegations) = match sort {
                    LineKind::Call if line.may_list() => {
                        listed_calls(line, text, span, &mut outline)
                    }
                    LineKind::Call => {
                        let made = line.call_id(span);
                        let call = (!made.is_empty()).then(|| EntryKey::from_text(&made));
                        let tool = line.tool.or_empty();
                        if let Some(call) = call.filter(|_| line.call.get().is_none()) {
                            let tool = EntryKey::from_text(&unnamed_answer(tool));
                            outline.facts.push(Fact::UnnamedCall(tool, call));
                        }
                        let handed = call.and_then(|call| delegation(call, tool, line.input));
                        (call.into_iter().collect(), handed.into_iter().collect())
                    }
                    _ => calls(line, span, &mut outline),
                };
                let delegates = |made| Fact::Delegation(Box::new(made));
                outline.facts.extend(delegations.into_iter().map(delegates));
                let usage;
                (usage, bad_usage) = line.usage();
                let (recorded, fault) = line.recorded_cost();
                bad_usage = bad_usage.or(fault);
                outline.reply = Some(Box::new(Reply {
                    response: line.response().map(|id| ResponseKey::new(id, "")),
                    model: line.model().map(Into::into),
                    usage,
                    recorded,
                    copied: line.forked_from.is_some(),
                    calls,
                    ..Reply::default()
                }));
            }
            // Errors are part of the conversation, and the program counts them.
            Some(Role::System) | None => outline.kind = OutlineKind::System,
        }
        line.annex.apply_to_outline(&mut outline);
        fork_origin::set_response_key(&mut outline, "", line.forked_from);
        (outline, bad_usage)
    }
}

/// Returns the calls in a line's blocks, and the work they delegate to sub-agents.
fn calls(line: &Line<'_>, span: Span, outline: &mut Outline) -> (Vec<EntryKey>, Vec<Delegation>) {
    let content = &line.content;
    let mut delegations = content.delegations.clone();
    let mut unnamed = Vec::new();
    for call in &content.unnamed_calls {
        let key = EntryKey::from_text(&unnamed_call_id(&line.id(span), call.position));
        let tool = EntryKey::from_text(&unnamed_answer(&call.tool));
        outline.facts.push(Fact::UnnamedCall(tool, key));
        delegations.extend(
            call.delegation
                .clone()
                .map(|made| Delegation { call: key, ..made }),
        );
        unnamed.push((call.position, key));
    }
    let calls = CallWithoutId::merge(&content.calls, unnamed.into_iter());
    (calls, delegations)
}

/// Returns the calls of a line that makes one and also has a list of blocks, as full decoding does.
fn listed_calls(
    line: &Line<'_>,
    text: &str,
    span: Span,
    outline: &mut Outline,
) -> (Vec<EntryKey>, Vec<Delegation>) {
    let whole: decode::FullLine<'_> = serde_json::from_str(text).unwrap_or_default();
    let (blocks, unnamed) = decode::call_blocks(line, whole.content, span);
    let (mut calls, mut delegations) = (Vec::new(), Vec::new());
    for block in &blocks {
        let Block::ToolUse { id, name, input } = block else {
            continue;
        };
        if id.is_empty() {
            continue;
        }
        let call = EntryKey::from_text(id);
        if unnamed.contains(id) {
            let tool = EntryKey::from_text(&unnamed_answer(name));
            outline.facts.push(Fact::UnnamedCall(tool, call));
        }
        delegations.extend(delegation(call, name, Raw(Some(input))));
        calls.push(call);
    }
    (calls, delegations)
}

/// Adds the calls that a line answers.
fn add_answered_calls(line: &Line<'_>, sort: LineKind, outline: &mut Outline) {
    let facts = &mut outline.facts;
    let mut unnamed = |tool: &str| {
        let tool = EntryKey::from_text(&line.answered_call_by_tool(tool));
        facts.push(Fact::UnnamedAnswer(tool));
        tool
    };
    outline.results = match (sort, line.call.get()) {
        (LineKind::Result, Some(call)) => Some(call)
            .filter(|call| !call.is_empty())
            .map(EntryKey::from_text)
            .into_iter()
            .collect(),
        (LineKind::Result, None) => vec![unnamed("")],
        _ => {
            let answers = line.content.unnamed_answers.iter();
            let answers = answers.map(|answer| (answer.position, unnamed(&answer.tool)));
            CallWithoutId::merge(&line.content.answers, answers)
        }
    };
}
