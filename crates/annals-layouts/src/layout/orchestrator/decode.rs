//! Full decoding of entries.

use crate::json::{self, Raw, object};
use crate::layout::content::blocks;
use crate::layout::{Decoded, Record};
use crate::model::{
    Block, Body, Entry, EntryContext, EntryId, FlawKind, Members, Message, Role, Span,
};

use super::line::{Line, LineDecoder, RecordType, is_record};

object! {
    struct FullLine<'a> { "content" => content: Raw<'a>, }
}

/// Source of a message: `cli`, `api` or `agent`.
pub(super) const SOURCE: &str = "source";

/// Object that contains the source in records of the design document.
pub(super) const METADATA: &str = "metadata";

/// Duration of a tool call.
pub(super) const DURATION: &str = "duration_ms";

/// Placeholder for a text block whose text is the record's content.
pub(super) const SAME_TEXT_BLOCK: &str = r#"{"type":"text"}"#;

pub(super) fn decode_entry(lines: &mut LineDecoder, record: &Record<'_>, out: &mut Decoded<Entry>) {
    let flaws_before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        let mut bad_usage = None;
        let body = body(lines, &line, text, record.span, &mut bad_usage);
        let mut entry = Entry::new(record.span, body);
        entry.time = line.time();
        entry.session = lines.session(&line).map(str::to_owned);
        entry.agent = lines.agent(&line);
        entry.program = line.metadata.source.owned();
        entry.copied = line.metadata.forked_from.is_some();
        entry.members = members(&line);
        entry.context = EntryContext {
            cwd: line.metadata.cwd.owned(),
            git_branch: line.metadata.git_branch.owned(),
            ..EntryContext::default()
        };
        if line.record_type() != RecordType::Unknown {
            entry.id = Some(EntryId::new(&lines.id_at(record.span)));
            apply_extension(&line, &mut entry);
        }
        Ok((entry, bad_usage))
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
            let body = Body::Opaque { kind: None, flaw };
            out.items.push(Entry::new(record.span, body));
            pieces
                .iter()
                .for_each(|piece| decode_entry(lines, piece, out));
        }
    }
}

/// Returns the members that only this layout has.
fn members(line: &Line<'_>) -> Members {
    let source = line.metadata.source.non_empty().map(json::quote);
    let source = source.map(|source| (SOURCE.to_owned(), source));
    let duration = line
        .duration
        .0
        .filter(|_| line.record_type() == RecordType::Result);
    let duration = duration.map(|value| (DURATION.to_owned(), value.to_owned()));
    source.into_iter().chain(duration).collect()
}

/// Applies the overrides of the member `annals`.
fn apply_extension(line: &Line<'_>, entry: &mut Entry) {
    let own = match &entry.body {
        Body::Message(message) => message.blocks.first().cloned(),
        _ => None,
    };
    line.annex.apply_to_entry(entry);
    let Body::Message(message) = &mut entry.body else {
        return;
    };
    let unsaid = line
        .annex
        .blocks
        .list()
        .into_iter()
        .map(|raw| raw.0 == Some(SAME_TEXT_BLOCK));
    for (block, unsaid) in message.blocks.iter_mut().zip(unsaid) {
        if let (true, Some(own)) = (unsaid, &own) {
            block.clone_from(own);
        }
    }
}

fn body(
    lines: &LineDecoder,
    line: &Line<'_>,
    text: &str,
    span: Span,
    bad_usage: &mut Option<String>,
) -> Body {
    let role = match line.record_type() {
        RecordType::User | RecordType::Result => Role::User,
        RecordType::Assistant | RecordType::Call => Role::Assistant,
        RecordType::System => Role::System,
        RecordType::Unknown => {
            return Body::Opaque {
                kind: line.kind.owned().or_else(|| line.role.owned()),
                flaw: None,
            };
        }
    };
    let blocks = match line.record_type() {
        RecordType::Call => vec![Block::ToolUse {
            id: lines.call_id(line, span),
            name: line.tool.or_empty().to_owned(),
            input: line.arguments.0.unwrap_or("{}").to_owned(),
        }],
        RecordType::Result => vec![Block::ToolResult {
            call: line.answered(),
            output: output(line),
            is_error: line.error.is_some(),
        }],
        _ => message_blocks(text),
    };
    let mut message = Message::new(role, blocks);
    match line.record_type() {
        RecordType::User => message.human = line.content.prompt.is_some() && !line.content.results,
        RecordType::Assistant => {
            (message.usage, *bad_usage) = line.tokens();
            message.model = line.model.owned();
            message.stop_reason = line.stop_reason();
        }
        _ => {}
    }
    Body::Message(message)
}

/// Decodes a message's blocks. The text of a reply that only called tools is empty.
fn message_blocks(text: &str) -> Vec<Block> {
    let whole: FullLine<'_> = serde_json::from_str(text).unwrap_or_default();
    match whole.content.text().as_deref() {
        Some("") => Vec::new(),
        _ => blocks(whole.content),
    }
}

/// Returns the output of a tool: strings as text, other values as JSON.
fn output(line: &Line<'_>) -> Vec<Block> {
    let given = [line.result, line.error].into_iter();
    let given = given.filter(|value| value.is_some());
    let text = given.map(|value| match value.text() {
        Some(text) => text.into_owned(),
        None => value.0.unwrap_or_default().to_owned(),
    });
    text.map(Block::Text).collect()
}
