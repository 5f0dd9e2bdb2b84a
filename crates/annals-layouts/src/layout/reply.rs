//! Reply ids for layouts that write each part of a reply as its own record without a reply id.
//!
//! In a layout whose records of one reply share an id ([`Writer::reply_id`]), the parts get the
//! same id. With different ids a client takes them for several replies, and misses the results of
//! all calls but the last.

use crate::model::{Body, EntryId, Role};

use super::Writer;

/// The reply that the next part may continue.
#[derive(Clone, Debug, Default)]
pub struct OpenReply {
    /// Its last entry, and the reply's id.
    last: Option<(EntryId, String)>,
}

impl OpenReply {
    /// Sets the id of a reply that has none: the id of the reply it continues, or a fresh one.
    /// Returns the id. `parent` is the parent of the entry.
    ///
    /// A part with usage of its own starts a new reply, because a ledger counts each id once.
    pub fn give_id(
        &self,
        writer: &dyn Writer,
        parent: Option<&EntryId>,
        body: &mut Body,
        fresh: &mut dyn FnMut() -> String,
    ) -> Option<String> {
        let Body::Message(message) = body else {
            return None;
        };
        if message.role != Role::Assistant || message.response.is_some() {
            return None;
        }
        let has_tokens = message.usage.is_some_and(|usage| !usage.is_zero());
        let open = self.last.as_ref().filter(|_| !has_tokens);
        let continued = open.filter(|(last, _)| parent == Some(last));
        message.response = match continued {
            Some((_, id)) => Some(id.clone()),
            None => writer.reply_id(fresh),
        };
        message.response.clone()
    }

    /// Records the last written entry and the id assigned to its reply.
    pub fn wrote(&mut self, entry: Option<EntryId>, given: Option<String>) {
        self.last = entry.zip(given);
    }
}
