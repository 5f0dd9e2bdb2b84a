//! Decoder for files other than conversation logs: todos, tasks, settings, prompt history.

use crate::json::{Flag, Raw, Text, object};
use crate::layout::{Decoded, Decoder, Record};
use crate::model::{
    ArtifactKind, Body, Entry, Fact, ListRow, ListSubject, Outline, SessionId, TitleSource,
};

use crate::layout::content::title_prefix;
use crate::layout::todos;
use crate::layout::usage_fields::decode_time;

object! {
    struct HistoryLine<'a> {
        "display" => display: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "project" => project: Text<'a>,
        "sessionId" => session: Text<'a>,
        "pastedContents" => pasted: Raw<'a>,
    }
}
object! {
    struct Settings<'a> { "cleanupPeriodDays" => keep: Raw<'a>, }
}
object! {
    struct Meta<'a> {
        "agentType" => kind: Text<'a>,
        "description" => description: Text<'a>,
        "toolUseId" => call: Text<'a>,
        "finished" => finished: Flag,
    }
}
object! {
    struct SessionsIndex<'a> { "entries" => entries: Raw<'a>, }
}
object! {
    struct SessionsIndexRow<'a> {
        "sessionId" => session: Text<'a>,
        "messageCount" => messages: Raw<'a>,
    }
}
object! {
    struct Title<'a> { "customTitle" => title: Text<'a>, }
}

/// Decoder for documents, and for the prompt history, the one log that is not a conversation.
#[derive(Debug)]
pub(super) struct DocumentDecoder(pub(super) ArtifactKind);

impl Decoder for DocumentDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let mut sink = Decoded::default();
        self.decode(record, &mut sink);
        out.flaws.append(&mut sink.flaws);
        let readable = |entry: &Entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. });
        let found = sink.items.into_iter().filter(readable);
        out.items.extend(found.map(|entry| {
            let mut outline = Outline::new(entry.span);
            outline.time = entry.time;
            match entry.body {
                Body::TypedPrompt { text, session, .. } => {
                    outline.facts.push(Fact::Prompt(title_prefix(&text)));
                    outline
                        .facts
                        .extend(session.map(|id| Fact::Session(id.into())));
                }
                Body::Title { text, source } => {
                    outline.facts.push(Fact::Title(title_prefix(&text), source));
                }
                _ => {}
            }
            outline
        }));
    }

    fn is_record(&self, object: &str) -> bool {
        let typed = serde_json::from_str::<HistoryLine<'_>>(object);
        typed.is_ok_and(|typed| typed.display.get().is_some() && typed.timestamp.is_some())
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if record.is_blank() {
            return;
        }
        let mut time = None;
        let flaws_before = out.flaws.len();
        let body = match self.0 {
            ArtifactKind::Todos => todos::decode_todos(record, out),
            ArtifactKind::Task => record.object(out, |text| {
                Ok(Body::Todos(vec![todos::decode_todo(
                    &serde_json::from_str(text)?,
                )]))
            }),
            ArtifactKind::History => record.object(out, |text| {
                let typed: HistoryLine<'_> = serde_json::from_str(text)?;
                time = decode_time(typed.timestamp);
                Ok(Body::TypedPrompt {
                    text: typed.display.or_empty().to_owned(),
                    project: typed.project.owned(),
                    session: typed.session.owned(),
                    pasted: typed.pasted.is_some() && typed.pasted.0 != Some("{}"),
                })
            }),
            ArtifactKind::Settings => record.object(out, |text| {
                let settings: Settings<'_> = serde_json::from_str(text)?;
                Ok(Body::Settings {
                    keep_days: settings.keep.count().ok().flatten(),
                })
            }),
            ArtifactKind::AgentMeta => record.object(out, |text| {
                let meta: Meta<'_> = serde_json::from_str(text)?;
                Ok(Body::Agent {
                    kind: meta.kind.owned(),
                    description: meta.description.owned(),
                    call: meta.call.owned(),
                })
            }),
            ArtifactKind::TitleFile => record.object(out, |text| {
                let title: Title<'_> = serde_json::from_str(text)?;
                let text = title.title.or_empty().to_owned();
                Ok(Body::Title {
                    text,
                    source: TitleSource::Custom,
                })
            }),
            ArtifactKind::Index => record.object(out, |text| {
                let index: SessionsIndex<'_> = serde_json::from_str(text)?;
                let rows = index.entries.list().into_iter();
                Ok(Body::SessionList(rows.filter_map(list_row).collect()))
            }),
            ArtifactKind::Plan => {
                let text = String::from_utf8_lossy(record.bytes).into_owned();
                Some(Body::Note { author: None, text })
            }
            _ => None,
        };
        let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
        let body = body.unwrap_or(Body::Opaque { kind: None, flaw });
        let mut entry = Entry::new(record.span, body);
        entry.time = time;
        out.items.push(entry);
    }
}

/// Decodes the parts of a row of the client's own session index that a check needs.
fn list_row(row: Raw<'_>) -> Option<ListRow> {
    let row: SessionsIndexRow<'_> = row.parse();
    let session = SessionId::new(row.session.non_empty()?).ok()?;
    Some(ListRow {
        messages: row.messages.count().ok().flatten(),
        ..ListRow::new(ListSubject::Session(session))
    })
}
