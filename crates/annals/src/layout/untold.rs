//! Files whose content means nothing to us beyond its bytes.

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
