//! The files that are not logs of a conversation: todos, tasks, settings, what people typed.

use crate::json::{Flag, Raw, Text, object};
use crate::layout::{Decoder, Record, Sink};
use crate::model::{
    About, ArtifactKind, Body, Entry, Fact, Outline, SessionId, Subject, TitleSource,
};

use crate::layout::content::opening;
use crate::layout::field::timestamp;
use crate::layout::todos;

object! {
    struct Typed<'a> {
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
    struct Index<'a> { "entries" => entries: Raw<'a>, }
}
object! {
    struct Listed<'a> {
        "sessionId" => session: Text<'a>,
        "messageCount" => messages: Raw<'a>,
    }
}
object! {
    struct Title<'a> { "customTitle" => title: Text<'a>, }
}

/// Reads documents, and the one log that is not a conversation.
#[derive(Debug)]
pub(super) struct Document(pub(super) ArtifactKind);

impl Decoder for Document {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let mut sink = Sink::default();
        self.decode(record, &mut sink);
        out.flaws.append(&mut sink.flaws);
        let readable = |entry: &Entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. });
        let found = sink.found.into_iter().filter(readable);
        out.found.extend(found.map(|entry| {
            let mut outline = Outline::at(entry.span);
            outline.time = entry.time;
            match entry.body {
                Body::Typed { text, session, .. } => {
                    outline.facts.push(Fact::Prompt(opening(&text)));
                    outline
                        .facts
                        .extend(session.map(|id| Fact::Session(id.into())));
                }
                Body::Title { text, source } => {
                    outline.facts.push(Fact::Title(opening(&text), source));
                }
                _ => {}
            }
            outline
        }));
    }

    fn is_record(&self, object: &str) -> bool {
        let typed = serde_json::from_str::<Typed<'_>>(object);
        typed.is_ok_and(|typed| typed.display.get().is_some() && typed.timestamp.is_some())
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        if record.is_blank() {
            return;
        }
        let mut time = None;
        let flaws_before = out.flaws.len();
        let body = match self.0 {
            ArtifactKind::Todos => todos::read(record, out),
            ArtifactKind::Task => record.object(out, |text| {
                Ok(Body::Todos(vec![todos::one(&serde_json::from_str(text)?)]))
            }),
            ArtifactKind::History => record.object(out, |text| {
                let typed: Typed<'_> = serde_json::from_str(text)?;
                time = timestamp(typed.timestamp);
                Ok(Body::Typed {
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
                let index: Index<'_> = serde_json::from_str(text)?;
                let rows = index.entries.list().into_iter();
                Ok(Body::Register(rows.filter_map(listed).collect()))
            }),
            ArtifactKind::Plan => {
                let text = String::from_utf8_lossy(record.bytes).into_owned();
                Some(Body::Note { author: None, text })
            }
            _ => None,
        };
        let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
        let body = body.unwrap_or(Body::Opaque { kind: None, flaw });
        let mut entry = Entry::at(record.span, body);
        entry.time = time;
        out.found.push(entry);
    }
}

/// What a row of the client's own list of sessions tells that a check wants to know.
fn listed(row: Raw<'_>) -> Option<About> {
    let row: Listed<'_> = row.read();
    let session = SessionId::new(row.session.filled()?).ok()?;
    Some(About {
        messages: row.messages.count().ok().flatten(),
        ..About::new(Subject::Session(session))
    })
}
