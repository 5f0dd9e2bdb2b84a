//! Files whose content means nothing to us beyond its bytes.

use serde::de::IgnoredAny;

use crate::model::{Body, Entry, Outline};

use super::{Decoder, Record, Sink};

/// Reads every record as opaque.
#[derive(Debug)]
pub(crate) struct Untold;

impl Decoder for Untold {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        if !record.is_blank() {
            out.found.push(Outline::at(record.span));
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        if !record.is_blank() {
            let body = Body::Opaque {
                kind: None,
                flaw: None,
            };
            out.found.push(Entry::at(record.span, body));
        }
    }
}

/// Reads objects that mean nothing by themselves, and reports what is none.
#[derive(Debug)]
pub(crate) struct Objects;

impl Decoder for Objects {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        if let Some(IgnoredAny) = record.object(out, |text| serde_json::from_str(text)) {
            out.found.push(Outline::at(record.span));
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        if let Some(IgnoredAny) = record.object(out, |text| serde_json::from_str(text)) {
            let body = Body::Opaque {
                kind: None,
                flaw: None,
            };
            out.found.push(Entry::at(record.span, body));
        }
    }
}
