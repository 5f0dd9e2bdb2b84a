//! Replies of layouts that give each part of a reply a record of its own and no id to the reply.
//!
//! Where they are written to a layout whose records of one reply share an id ([`Writer::reply_id`]), the
//! parts get the same one: with several ids a client takes them for several replies, and misses the
//! results of all calls but the last.

use crate::model::{Body, EntryId, Role};

use super::Writer;

/// The reply that the next part may continue.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenReply {
    /// The last entry of it, and its id.
    last: Option<(EntryId, String)>,
}

impl OpenReply {
    /// Gives a reply without an id that of the reply it continues, or a fresh one; returns it. `parent` is
    /// the entry that it follows.
    ///
    /// What has tokens of its own is a reply of its own: a ledger counts each id once.
    pub(crate) fn give_id(
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

    /// Takes note of the entry that was written last, and of the id that its reply was given.
    pub(crate) fn wrote(&mut self, entry: Option<EntryId>, given: Option<String>) {
        self.last = entry.zip(given);
    }
}
