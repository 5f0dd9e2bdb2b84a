//! Annotations of a session in a separate log, for layouts whose messages have no place for them.
//!
//! ```text
//! {"type":"note","id":…,"createdAt":<ms>,"author":…,"content":…}
//! {"type":"tag","createdAt":<ms>,"tag":…}            an empty tag removes it
//! {"type":"title","createdAt":<ms>,"title":…,"source":"custom"|"ai"}
//! {"type":"summary","createdAt":<ms>,"summary":…,"leaf":…}
//! ```
//!
//! The format of notes is clog's. The other types are annals' own, and programs that do not know
//! them have no reason to read them.

use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::json::{Raw, Text, object};
use crate::model::{Body, Draft, Entry, EntryId, EntryKey, Fact, Outline, TitleSource};

use super::content::title_prefix;
use super::usage_fields::decode_time;
use super::{Decoded, Decoder, PlanContext, Record};

object! {
    struct Annotation<'a> {
        "type" => kind: Text<'a>,
        "id" => id: Text<'a>,
        "createdAt" => created: Raw<'a>,
        "author" => author: Text<'a>,
        "content" => content: Text<'a>,
        "tag" => tag: Text<'a>,
        "title" => title: Text<'a>,
        "source" => source: Text<'a>,
        "summary" => summary: Text<'a>,
        "leaf" => leaf: Text<'a>,
    }
}

/// Decodes an annotation that is part of another record.
pub(crate) fn body(annotation: Raw<'_>) -> Body {
    annotation.parse::<Annotation<'_>>().body()
}

/// Decoder for annotations.
#[derive(Debug)]
pub(crate) struct AnnotationDecoder;

impl Annotation<'_> {
    fn body(&self) -> Body {
        let owned = |text: &Text<'_>| text.or_empty().to_owned();
        match self.kind.or_empty() {
            "note" => Body::Note {
                author: self.author.owned(),
                text: owned(&self.content),
            },
            "tag" => Body::Tag {
                text: owned(&self.tag),
            },
            "title" => Body::Title {
                text: owned(&self.title),
                source: match self.source.get() {
                    Some("ai") => TitleSource::Ai,
                    _ => TitleSource::Custom,
                },
            },
            "summary" => Body::Summary {
                text: owned(&self.summary),
                leaf: self.leaf.non_empty().map(EntryId::new),
            },
            _ => Body::Opaque {
                kind: self.kind.owned(),
                flaw: None,
            },
        }
    }

    fn fact(&self) -> Option<Fact> {
        Some(match self.body() {
            Body::Note { text, .. } => Fact::Note(title_prefix(&text)),
            Body::Tag { text } => Fact::Tag(title_prefix(&text)),
            Body::Title { text, source } => Fact::Title(title_prefix(&text), source),
            Body::Summary { text, leaf } => {
                Fact::Summary(title_prefix(&text), leaf.map(|leaf| leaf.key()))
            }
            _ => return None,
        })
    }
}

/// Returns whether an object is an annotation and not part of one.
fn is_record(object: &str) -> bool {
    serde_json::from_str::<Annotation<'_>>(object)
        .is_ok_and(|remark| remark.kind.non_empty().is_some() && remark.created.is_some())
}

impl Decoder for AnnotationDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let read = record.object_or_pieces(out, is_record, |text| {
            let remark: Annotation<'_> = serde_json::from_str(text)?;
            let mut outline = Outline::new(record.span);
            outline.time = decode_time(remark.created);
            outline.key = remark.id.non_empty().map(EntryKey::from_text);
            let id = remark
                .id
                .non_empty()
                .filter(|id| !EntryKey::is_canonical_uuid(id));
            outline
                .facts
                .extend(id.map(|id| Fact::Id(EntryId::new(id))));
            outline.facts.extend(remark.fact());
            Ok(outline)
        });
        match read {
            Ok(outline) => out.items.push(outline),
            Err(pieces) => pieces.iter().for_each(|piece| self.outline(piece, out)),
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let flaws = out.flaws.len();
        let read = record.object_or_pieces(out, is_record, |text| {
            let remark: Annotation<'_> = serde_json::from_str(text)?;
            let mut entry = Entry::new(record.span, remark.body());
            entry.id = remark.id.non_empty().map(EntryId::new);
            entry.time = decode_time(remark.created);
            Ok(entry)
        });
        match read {
            Ok(entry) => out.items.push(entry),
            Err(_) if record.is_blank() => {}
            Err(pieces) => {
                let flaw = out.flaws.get(flaws).map(|flaw| flaw.kind);
                let body = Body::Opaque { kind: None, flaw };
                out.items.push(Entry::new(record.span, body));
                pieces.iter().for_each(|piece| self.decode(piece, out));
            }
        }
    }
}

#[derive(Serialize)]
struct AnnotationOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "createdAt")]
    created: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaf: Option<&'a str>,
}

/// Encodes an annotation and returns its id; `None` if the draft is of another kind.
pub(crate) fn encode(
    draft: &Draft,
    stamp: &mut PlanContext<'_>,
) -> Result<Option<(Vec<u8>, EntryId)>> {
    let id = match &draft.id {
        Some(id) => id.clone(),
        None => EntryId::new(&(stamp.new_id)()),
    };
    let time: Timestamp = draft.time.unwrap_or(stamp.now);
    let mut line = AnnotationOut {
        kind: "note",
        id: Some(id.as_str()),
        created: time.as_millisecond(),
        author: None,
        content: None,
        tag: None,
        title: None,
        source: None,
        summary: None,
        leaf: None,
    };
    match &draft.body {
        Body::Note { author, text } => {
            line.author = author.as_deref();
            line.content = Some(text);
        }
        Body::Tag { text } => {
            line.kind = "tag";
            line.tag = Some(text);
        }
        Body::Title { text, source } => {
            let text = text.trim();
            if text.is_empty() {
                return Err(Error::refused("a title must not be empty"));
            }
            line.kind = "title";
            line.title = Some(text);
            line.source = Some(match source {
                TitleSource::Custom => "custom",
                TitleSource::Ai => "ai",
                TitleSource::Summary | TitleSource::Prompt => {
                    return Err(Error::refused("a title must come from a person or a model"));
                }
            });
        }
        Body::Summary { text, leaf } => {
            line.kind = "summary";
            line.summary = Some(text);
            line.leaf = leaf.as_ref().map(EntryId::as_str);
        }
        _ => return Ok(None),
    }
    let line = super::write::encode(&line)?;
    Ok(Some((line, id)))
}
