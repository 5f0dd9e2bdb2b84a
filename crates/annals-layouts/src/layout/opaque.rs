//! Decoders for files that are stored but not interpreted.

use serde::de::IgnoredAny;

use crate::model::{Body, Entry, Outline};

use super::{Decoded, Decoder, Record};

/// Decodes every record as opaque.
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

/// Decodes objects as opaque, and reports records that are not objects.
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
