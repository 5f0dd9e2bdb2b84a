//! Copies that forks made of records: a reply and its copies are one response.

use crate::json::{Raw, Text, object};
use crate::model::{Key, Outline, ResponseKey};

use super::field::timestamp;

object! {
    /// What a copy says of the record that it was made from, in any layout's words.
    struct Origin<'a> {
        "id" => id: Text<'a>,
        "messageUuid" => uuid: Text<'a>,
        "messageId" => message: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "createdAt" => created: Raw<'a>,
    }
}

impl<'a> Origin<'a> {
    fn key(&self) -> Option<Key> {
        let id = self.id.filled().or(self.uuid.filled());
        id.or(self.message.filled()).map(Key::of)
    }

    fn time(&self) -> Raw<'a> {
        match self.timestamp.is_some() {
            true => self.timestamp,
            false => self.created,
        }
    }
}

/// Names the response of a reply that tells its tokens but not which response it is. It is named
/// after its record, and a copy of that like the record itself, so that both count once.
pub(super) fn name_response(outline: &mut Outline, scope: &str, forked_from: Raw<'_>) {
    let (Some(key), Some(reply)) = (outline.key, &mut outline.reply) else {
        return;
    };
    let spent = reply.usage.is_some() || reply.recorded.is_some();
    if !spent || reply.response.is_some() {
        return;
    }
    let origin: Origin<'_> = forked_from.read();
    let record = origin.key().unwrap_or(key).uuid();
    // Ids that are places in a file are only unique with the time.
    let time = timestamp(origin.time()).or(outline.time);
    let time = time.map(|time| time.to_string()).unwrap_or_default();
    reply.response = Some(ResponseKey::of(&format!("{scope}/{record}"), &time));
}

/// What a copy must say of the time of its original, as a member behind others: nothing, unless it
/// has another one, or is a copy of a copy that has.
pub(super) fn time_of_origin(
    name: &str,
    own: Raw<'_>,
    forked_from: Raw<'_>,
    moves: bool,
) -> String {
    let before = forked_from.read::<Origin<'_>>().time();
    let time = match before.is_some() {
        true => before,
        false => own,
    };
    let said = before.is_some() || moves;
    match time.0.filter(|_| said && timestamp(time).is_some()) {
        Some(time) => format!(r#","{name}":{time}"#),
        None => String::new(),
    }
}
