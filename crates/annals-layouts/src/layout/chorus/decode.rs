//! Full decoding of messages.

use std::collections::VecDeque;

use crate::json::{self, Raw, Text, object};
use crate::layout::content::{block_members, blocks, flatten_outputs, unnamed_call_id};
use crate::layout::{Decoded, Record};
use crate::model::{
    Block, Body, Entry, EntryContext, EntryId, FlawKind, Members, Message, Role, Span,
};

use super::line::{
    Line, LineDecoder, LineKind, MEMBERS, TOOL_CALL_PREFIX, is_number, is_object, is_record,
};

object! {
    struct FullLine<'a> {
        "content" => content: Raw<'a>,
        "claudeMessage" => claude: Raw<'a>,
    }
}
object! {
    struct BlockIds<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "tool_use_id" => answers: Text<'a>,
    }
}

pub(super) fn decode_entry(lines: &mut LineDecoder, record: &Record<'_>, out: &mut Decoded<Entry>) {
    let flaws_before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        let whole: FullLine<'_> = serde_json::from_str(text)?;
        Ok(lines.read(&line, &whole, record.span))
    });
    match read {
        Ok((entry, bad_usage)) => {
            if let Some(detail) = bad_usage {
                out.add_flaw(FlawKind::BadUsage, record.span, detail);
            }
            out.items.push(entry);
        }
        Err(_) if record.is_blank() => {}
        Err(pieces) => {
            let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
            let mut damaged = Entry::new(record.span, Body::Opaque { kind: None, flaw });
            damaged.agent.clone_from(&lines.owner);
            out.items.push(damaged);
            for piece in pieces {
                decode_entry(lines, &piece, out);
            }
        }
    }
}

impl LineDecoder {
    fn read(&self, line: &Line<'_>, whole: &FullLine<'_>, span: Span) -> (Entry, Option<String>) {
        let content = whole.content;
        let mut bad_usage = None;
        let sort = line.line_kind();
        let body = match (sort, sort.role()) {
            (_, Some(role)) => {
                let (message, fault) = self.message(line, sort, role, content, span);
                bad_usage = fault;
                Body::Message(message)
            }
            (LineKind::Note, _) => Body::System {
                subtype: line.kind.or_empty().to_owned(),
                text: plain_text(content),
            },
            _ => Body::Opaque {
                kind: line.kind.owned(),
                flaw: None,
            },
        };
        let mut entry = Entry {
            time: line.time(),
            session: line.session.owned(),
            agent: self.owner.clone(),
            sidechain: self.owner.is_some(),
            copied: line.forked_from.is_some(),
            members: members(line, whole),
            ..Entry::new(span, body)
        };
        // The content of a result is its output.
        if sort.role().is_some() && sort != LineKind::Result {
            entry.block_members = block_members(content);
        }
        if sort != LineKind::Unknown {
            entry.id = Some(EntryId::new(&line.id(span)));
            entry.context = EntryContext {
                cwd: line.claude.cwd.non_empty().map(str::to_owned),
                ..EntryContext::default()
            };
            line.annex.apply_to_entry(&mut entry);
        }
        (entry, bad_usage)
    }

    fn message(
        &self,
        line: &Line<'_>,
        sort: LineKind,
        role: Role,
        content: Raw<'_>,
        span: Span,
    ) -> (Message, Option<String>) {
        let said = match sort {
            LineKind::Call => call_blocks(line, content, span).0,
            LineKind::Result => vec![Block::ToolResult {
                call: line.answered_call().into_owned(),
                output: flatten_outputs(content),
                is_error: line.failed.0,
            }],
            _ => named_blocks(line, role, content, span),
        };
        let mut message = Message::new(role, said);
        message.human = line.prompt(self.owner.as_ref()).is_some();
        let mut fault = None;
        if role == Role::Assistant {
            (message.usage, fault) = line.usage();
            fault = fault.or_else(|| line.recorded_cost().1);
            message.model = line.model().map(str::to_owned);
            message.response = line.response().map(str::to_owned);
            message.stop_reason = line.stop_reason().map(str::to_owned);
        }
        (message, fault)
    }
}

/// Returns the members that only this layout has. Invalid values are omitted, because a draft with
/// them would be rejected.
fn members(line: &Line<'_>, whole: &FullLine<'_>) -> Members {
    let owned = |text: &str| text.to_owned();
    let number = |raw: Raw<'_>| raw.0.filter(|raw| is_number(raw)).map(owned);
    let values = [
        whole.claude.0.filter(|raw| is_object(raw)).map(owned),
        number(line.context_window),
        number(line.cost),
        number(line.duration),
        number(line.turns),
        line.session.get().map(json::quote),
    ];
    let found = MEMBERS.iter().zip(values);
    found
        .filter_map(|(name, value)| Some(((*name).to_owned(), value?)))
        .collect()
}

/// Decodes a message's blocks and assigns ids to calls and results without one. A result in a reply
/// answers the oldest unanswered call of the same message, of its tool if it names one.
fn named_blocks(line: &Line<'_>, role: Role, content: Raw<'_>, span: Span) -> Vec<Block> {
    let mut found = blocks(content);
    let unnamed = &line.content;
    if unnamed.unnamed_calls.is_empty() && unnamed.unnamed_answers.is_empty() {
        return found;
    }
    let mut calls = 0;
    let mut made: VecDeque<(String, String)> = VecDeque::new();
    for (block, raw) in found.iter_mut().zip(content.list()) {
        match block {
            Block::ToolUse { id, name, .. } => {
                let named: BlockIds<'_> = raw.parse();
                if id.is_empty() && named.id.get().is_none() {
                    *id = unnamed_call_id(&line.id(span), calls);
                }
                calls += usize::from(!id.is_empty());
                made.push_back((name.clone(), id.clone()));
            }
            Block::ToolResult { call, .. } if call.is_empty() => {
                let named: BlockIds<'_> = raw.parse();
                let tool = named.name.or_empty();
                if named.answers.get().is_some() {
                    continue;
                }
                if role == Role::User {
                    *call = line.answered_call_by_tool(tool);
                    continue;
                }
                let own = made
                    .iter()
                    .position(|(name, _)| tool.is_empty() || name == tool);
                if let Some((_, id)) = own.and_then(|own| made.remove(own)) {
                    *call = id;
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the blocks of a line that makes a call, and the assigned ids of calls without one.
///
/// The line's own call is the block with its id, or else the first of its tool. If there is no such
/// block, the call is appended: a model writes its text first. A call without an id is named after
/// the line and its position among the calls.
pub(super) fn call_blocks(
    line: &Line<'_>,
    content: Raw<'_>,
    span: Span,
) -> (Vec<Block>, Vec<String>) {
    let (tool, given) = (line.tool.or_empty(), line.call.get());
    let mut found = blocks(content);
    // The program's own text only states that the tool is used.
    let usual = format!("{TOOL_CALL_PREFIX}{tool}");
    if let ([Block::Text(text)], false) = (found.as_slice(), content.is_list())
        && (text.trim().is_empty() || *text == usual)
    {
        found.clear();
    }
    let with_id = |block: &Block| match block {
        Block::ToolUse { id, .. } => !id.is_empty() && given == Some(id),
        _ => false,
    };
    let of_tool = |block: &Block| match block {
        Block::ToolUse { id, name, .. } => {
            (tool.is_empty() || name == tool) && (id.is_empty() || given.is_none())
        }
        _ => false,
    };
    let own = found.iter().position(with_id);
    let own = own.or_else(|| found.iter().position(of_tool));
    let own = own.unwrap_or_else(|| {
        found.push(Block::ToolUse {
            id: String::new(),
            name: String::new(),
            input: "null".to_owned(),
        });
        found.len() - 1
    });
    let (mut calls, mut unnamed) = (0, Vec::new());
    for (at, block) in found.iter_mut().enumerate() {
        let Block::ToolUse { id, name, input } = block else {
            continue;
        };
        let given = given.filter(|_| at == own);
        if at == own {
            if !tool.is_empty() {
                tool.clone_into(name);
            }
            if let Some(json) = line.input.0.filter(|_| line.input.is_some()) {
                json.clone_into(input);
            }
        }
        match given {
            Some(given) => given.clone_into(id),
            None if id.is_empty() => {
                *id = unnamed_call_id(&line.id(span), calls);
                unnamed.push(id.clone());
            }
            None => {}
        }
        calls += usize::from(!id.is_empty());
    }
    (found, unnamed)
}

/// Returns the text of a notice in any format. Blocks without text are shown as JSON.
fn plain_text(content: Raw<'_>) -> String {
    if !content.is_list() {
        let text = content.text().map(std::borrow::Cow::into_owned);
        let json = content.0.filter(|_| content.is_some());
        return text.or(json.map(str::to_owned)).unwrap_or_default();
    }
    let raws = content.list();
    let texts = blocks(content).into_iter().zip(&raws);
    let texts = texts.map(|(block, raw)| match block {
        Block::Text(text) => text,
        Block::ToolResult { output, .. } => {
            let parts = output.into_iter().filter_map(|part| match part {
                Block::Text(text) => Some(text),
                _ => None,
            });
            parts.collect::<Vec<_>>().join("\n")
        }
        _ => raw.0.unwrap_or_default().to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
