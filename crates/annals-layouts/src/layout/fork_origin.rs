//! Records copied by forks: a reply and its copies are one response.

use crate::json::{Raw, Text, object};
use crate::model::{EntryKey, Outline, ResponseKey};

use super::usage_fields::decode_time;

object! {
    /// Reference of a copy to its original, with the member names of all layouts.
    struct Origin<'a> {
        "id" => id: Text<'a>,
        "messageUuid" => uuid: Text<'a>,
        "messageId" => message: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "createdAt" => created: Raw<'a>,
    }
}

impl<'a> Origin<'a> {
    fn key(&self) -> Option<EntryKey> {
        let id = self.id.non_empty().or(self.uuid.non_empty());
        id.or(self.message.non_empty()).map(EntryKey::from_text)
    }

    fn time(&self) -> Raw<'a> {
        match self.timestamp.is_some() {
            true => self.timestamp,
            false => self.created,
        }
    }
}

/// Sets the response of a reply that has usage but no response id. The key is derived from the
/// record's id, and for a copy from the original's, so that both count once.
pub(super) fn set_response_key(outline: &mut Outline, scope: &str, forked_from: Raw<'_>) {
    let (Some(key), Some(reply)) = (outline.key, &mut outline.reply) else {
        return;
    };
    let spent = reply.usage.is_some() || reply.recorded.is_some();
    if !spent || reply.response.is_some() {
        return;
    }
    let origin: Origin<'_> = forked_from.parse();
    let record = origin.key().unwrap_or(key).to_uuid();
    // Ids that are offsets in a file are only unique together with the time.
    let time = decode_time(origin.time()).or(outline.time);
    let time = time.map(|time| time.to_string()).unwrap_or_default();
    reply.response = Some(ResponseKey::new(&format!("{scope}/{record}"), &time));
}

/// Returns the JSON member, with a leading comma, that stores the original's time in a copy. Empty
/// unless the copy's time differs, or the copy is of a copy whose time does.
pub(super) fn origin_time_member(
    name: &str,
    own: Raw<'_>,
    forked_from: Raw<'_>,
    moves: bool,
) -> String {
    let before = forked_from.parse::<Origin<'_>>().time();
    let time = match before.is_some() {
        true => before,
        false => own,
    };
    let said = before.is_some() || moves;
    match time.0.filter(|_| said && decode_time(time).is_some()) {
        Some(time) => format!(r#","{name}":{time}"#),
        None => String::new(),
    }
}
