//! The full depth: everything a message says.

use crate::json::{self, Raw, Text, object};
use crate::layout::content::{blocks, flat_outputs, unnamed_call};
use crate::layout::{Record, Sink};
use crate::model::{Block, Body, Entry, EntryId, FlawKind, Members, Message, Place, Role, Span};

use super::line::{Line, Lines, MEMBERS, Sort, is_number, is_object, is_record};

object! {
    struct Whole<'a> {
        "content" => content: Raw<'a>,
        "claudeMessage" => claude: Raw<'a>,
    }
}
object! {
    struct Named<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "tool_use_id" => answers: Text<'a>,
    }
}

pub(super) fn entry(lines: &mut Lines, record: &Record<'_>, out: &mut Sink<Entry>) {
    let flaws_before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        let whole: Whole<'_> = serde_json::from_str(text)?;
        Ok(lines.read(&line, &whole, record.span))
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
    fn read(&self, line: &Line<'_>, whole: &Whole<'_>, span: Span) -> (Entry, Option<String>) {
        let content = whole.content;
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
            members: members(line, whole),
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
                call: line.answered().into_owned(),
                output: flat_outputs(content),
                is_error: line.failed.0,
            }],
            _ => named_blocks(line, content, span),
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

/// The members of a line that only this layout knows. A value that cannot be is left out, as a draft
/// with it would be refused.
fn members(line: &Line<'_>, whole: &Whole<'_>) -> Members {
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

/// A message's blocks, of which calls and results without an id get a name.
fn named_blocks(line: &Line<'_>, content: Raw<'_>, span: Span) -> Vec<Block> {
    let mut found = blocks(content);
    let unnamed = &line.content;
    if unnamed.unnamed_calls.is_empty() && unnamed.unnamed_answers.is_empty() {
        return found;
    }
    let mut calls = 0;
    for (block, raw) in found.iter_mut().zip(content.list()) {
        match block {
            Block::ToolUse { id, .. } => {
                let named: Named<'_> = raw.read();
                if id.is_empty() && named.id.get().is_none() {
                    *id = unnamed_call(&line.id(span), calls);
                }
                calls += usize::from(!id.is_empty());
            }
            Block::ToolResult { call, .. } if call.is_empty() => {
                let named: Named<'_> = raw.read();
                if named.answers.get().is_none() {
                    *call = line.answered_by(named.name.or_empty());
                }
            }
            _ => {}
        }
    }
    found
}

/// The text of a note, whatever it is made of.
fn plain(content: Raw<'_>) -> String {
    let texts = blocks(content).into_iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
