//! Files whose content means nothing to us beyond its bytes.

use serde::de::IgnoredAny;

use crate::model::{Body, Entry, Outline};

use super::{Decoded, Decoder, Record};

/// Reads every record as opaque.
#[derive(Debug)]
pub(crate) struct OpaqueDecoder;

impl Decoder for OpaqueDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        if !record.is_blank() {
            out.items.push(Outline::new(record.span));
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if !record.is_blank() {
            let body = Body::Opaque {
                kind: None,
                flaw: None,
            };
            out.items.push(Entry::new(record.span, body));
        }
    }
}

/// Reads objects that mean nothing by themselves, and reports what is none.
#[derive(Debug)]
pub(crate) struct ObjectDecoder;

impl Decoder for ObjectDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        if let Some(IgnoredAny) = record.object(out, |text| serde_json::from_str(text)) {
            out.items.push(Outline::new(record.span));
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if let Some(IgnoredAny) = record.object(out, |text| serde_json::from_str(text)) {
            let body = Body::Opaque {
                kind: None,
                flaw: None,
            };
            out.items.push(Entry::new(record.span, body));
        }
    }
}
