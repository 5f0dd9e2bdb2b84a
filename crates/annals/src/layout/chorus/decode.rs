//! The full depth: everything a message says.

use crate::json::{Raw, object};
use crate::layout::content::{blocks, outputs};
use crate::layout::{Record, Sink};
use crate::model::{Block, Body, Entry, EntryId, FlawKind, Message, Place, Role, Span};

use super::line::{Line, Lines, Sort, is_record};

object! {
    struct Whole<'a> { "content" => content: Raw<'a>, }
}

pub(super) fn entry(lines: &mut Lines, record: &Record<'_>, out: &mut Sink<Entry>) {
    let flaws_before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        let whole: Whole<'_> = serde_json::from_str(text)?;
        Ok(lines.read(&line, whole.content, record.span))
    });
    match read {
        Ok((entry, bad_usage)) => {
            if let Some(detail) = bad_usage {
                out.flaw(FlawKind::BadUsage, record.span, detail);
            }
            out.found.push(entry);
        }
        Err(_) if record.is_blank() => {}
        Err(pieces) => {
            let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
            let mut damaged = Entry::at(record.span, Body::Opaque { kind: None, flaw });
            damaged.agent.clone_from(&lines.owner);
            out.found.push(damaged);
            for piece in pieces {
                entry(lines, &piece, out);
            }
        }
    }
}

impl Lines {
    fn read(&self, line: &Line<'_>, content: Raw<'_>, span: Span) -> (Entry, Option<String>) {
        let mut bad_usage = None;
        let sort = line.sort();
        let body = match (sort, sort.role()) {
            (_, Some(role)) => {
                let (message, fault) = self.message(line, sort, role, content, span);
                bad_usage = fault;
                Body::Message(message)
            }
            (Sort::Noted, _) => Body::System {
                subtype: line.kind.or_empty().to_owned(),
                text: plain(content),
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
            ..Entry::at(span, body)
        };
        if sort != Sort::Unknown {
            entry.id = Some(EntryId::new(&line.id(span)));
            entry.place = Place {
                cwd: line.claude.cwd.filled().map(str::to_owned),
                ..Place::default()
            };
            line.annex.overlay(&mut entry);
        }
        (entry, bad_usage)
    }

    fn message(
        &self,
        line: &Line<'_>,
        sort: Sort,
        role: Role,
        content: Raw<'_>,
        span: Span,
    ) -> (Message, Option<String>) {
        let said = match sort {
            Sort::Call => vec![Block::ToolUse {
                id: line.made(span).into_owned(),
                name: line.tool.or_empty().to_owned(),
                input: line.input.0.unwrap_or("null").to_owned(),
            }],
            Sort::Result => vec![Block::ToolResult {
                call: line.call.or_empty().to_owned(),
                output: outputs(content),
                is_error: line.failed.0,
            }],
            _ => blocks(content),
        };
        let mut message = Message::new(role, said);
        message.human = line.prompt(self.owner.as_ref()).is_some();
        let mut fault = None;
        if role == Role::Assistant {
            (message.usage, fault) = line.usage();
            fault = fault.or_else(|| line.recorded().1);
            message.model = line.model().map(str::to_owned);
            message.response = line.response().map(str::to_owned);
            message.stop_reason = line.stop_reason().map(str::to_owned);
        }
        (message, fault)
    }
}

/// The text of a note, whatever it is made of.
fn plain(content: Raw<'_>) -> String {
    let texts = blocks(content).into_iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
