//! Members of a line that are parsed one by one.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::model::Draft;

use super::{BadDraft, Line, REPLY_MEMBERS, truncate};

/// Members of a line that are not yet parsed.
#[derive(Debug)]
pub struct UnreadMembers<'a> {
    pub(super) line: Line<'a>,
    pub(super) members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> UnreadMembers<'a> {
    /// Returns whether there are none, so the line has no message.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Parses the members as a message.
    pub fn drafts(self) -> Result<Vec<Draft>, BadDraft> {
        self.line.drafts_from_members(self)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.members.iter().find(|(known, _)| known == name);
        found.map(|(_, raw)| *raw)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.members.iter().position(|(known, _)| known == name)?;
        Some(self.members.remove(at).1)
    }

    pub(super) fn take_string(&mut self, name: &str) -> Result<Option<String>, BadDraft> {
        let raw = self.take(name);
        self.line.parse_string(raw, name)
    }

    /// Takes a text whose name has two spellings, which must not differ in value.
    pub(super) fn take_either(&mut self, names: [&str; 2]) -> Result<Option<String>, BadDraft> {
        let [one, other] = names;
        let at = self.get(other);
        match (self.take_string(one)?, self.take_string(other)?) {
            (Some(said), Some(again)) if said != again => {
                let why = format!("`{one}` and `{other}` differ; give one of them");
                Err(self.line.error_at_value(at, why))
            }
            (said, again) => Ok(said.or(again)),
        }
    }

    pub(super) fn take_id(&mut self, name: &str) -> Result<Option<String>, BadDraft> {
        let raw = self.get(name);
        let id = self.take_string(name)?;
        if let Some(id) = &id {
            self.line.check_id(id, raw)?;
        }
        Ok(id)
    }

    /// Refuses a whole record of a log, recognised by its shape.
    pub(super) fn refuse_whole_records(&self) -> Result<(), BadDraft> {
        if self.get("message").is_some() && self.get("role").is_none() {
            let why = "this looks like a whole record; give only its `message`, or append the record with --raw";
            return Err(self.line.error_at_value(None, why));
        }
        match self.get("type") {
            Some(raw) if !matches!(raw.get(), r#""message""# | "null") => {
                let why = format!(
                    "`type` is {}, but a message has the type \"message\"; append a whole record with --raw",
                    truncate(raw.get())
                );
                Err(self.line.error_at_value(Some(raw), why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses members that only an assistant's message has.
    pub(super) fn refuse_reply(&self, of: &str) -> Result<(), BadDraft> {
        let said = |name: &&&str| self.get(name).is_some_and(|raw| raw.get() != "null");
        match REPLY_MEMBERS.iter().find(said) {
            Some(name) => Err(self
                .line
                .error_at_value(self.get(name), format!("{of} has no `{name}`"))),
            None => Ok(()),
        }
    }

    /// Refuses the remaining members.
    pub(super) fn refuse_rest(&self, object: &str, known: &str) -> Result<(), BadDraft> {
        match self.members.first() {
            None => Ok(()),
            Some((name, raw)) => {
                let why = format!(
                    "{object} has no member `{}`; supported: {known}",
                    truncate(name)
                );
                Err(self.line.error_at_value(Some(raw), why))
            }
        }
    }

    /// Returns the remaining members, for the layout to take or refuse; `null` counts as absent.
    pub(super) fn into_rest(self) -> Vec<(String, String)> {
        let left = self.members.into_iter();
        let left = left.filter(|(_, raw)| raw.get() != "null");
        left.map(|(name, raw)| (name.into_owned(), raw.get().to_owned()))
            .collect()
    }
}
