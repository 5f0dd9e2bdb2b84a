//! Members of drafts that only this layout has.

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, raw};
use crate::layout::usage_fields::USAGE_MEMBER;
use crate::model::{Block, Draft, Message, Role};

use super::decode::{DURATION, METADATA, SOURCE};
use super::output::SOURCES;

/// Values of the draft members that only this layout has.
#[derive(Default)]
pub(super) struct MemberValues<'a> {
    pub(super) source: Option<String>,
    pub(super) duration: Option<&'a str>,
    /// The parts of a reply's usage that are not counts.
    pub(super) terms: Option<&'a str>,
}

impl<'a> MemberValues<'a> {
    /// Checks the members of a message of `session`. Members that its records cannot store are
    /// rejected.
    pub(super) fn new(draft: &'a Draft, message: &Message, session: &str) -> Result<Self> {
        let results = message.blocks.iter();
        let results = results.filter(|block| matches!(block, Block::ToolResult { .. }));
        let results = results.count();
        let prompt = message.role == Role::User && results == 0;
        let mut values = MemberValues::default();
        for (name, json) in &draft.members {
            match name.as_str() {
                SOURCE => values.set_source(name, json, prompt)?,
                METADATA => values.set_metadata(json, prompt, session)?,
                USAGE_MEMBER => values.terms = Some(json),
                _ => {
                    if !is_duration(json) {
                        return Err(bad_member(name, "it must be a number of milliseconds"));
                    }
                    if results != 1 {
                        let why = "only a message with one tool result has a duration; \
                                   add it to the blocks of several";
                        return Err(bad_member(name, why));
                    }
                    values.duration = Some(json.as_str());
                }
            }
        }
        Ok(values)
    }

    fn set_source(&mut self, name: &str, json: &str, prompt: bool) -> Result<()> {
        let text = json::decode_string(json).map(|text| text.into_owned());
        let text = text.filter(|text| SOURCES.contains(&text.as_str()));
        let why = match (&text, &self.source) {
            (None, _) => "it must be \"cli\", \"api\" or \"agent\"",
            (Some(_), _) if !prompt => "only user messages have a source",
            (given, Some(_)) if *given != self.source => "`source` and `metadata.source` differ",
            _ => {
                self.source = text;
                return Ok(());
            }
        };
        Err(bad_member(name, why))
    }

    /// Sets `metadata`, in the form it has in records of the design document.
    fn set_metadata(&mut self, json: &str, prompt: bool, session: &str) -> Result<()> {
        let members: json::Pairs<'_> =
            serde_json::from_str(json).map_err(|_| bad_member(METADATA, "it must be an object"))?;
        for (name, value) in &members.0 {
            let value = value.0.unwrap_or("null");
            match &**name {
                "source" => self.set_source("metadata.source", value, prompt)?,
                "sessionId" if json::decode_string(value).as_deref() == Some(session) => {}
                "sessionId" => {
                    let why = format!("the message belongs to session {session}");
                    return Err(bad_member("metadata.sessionId", &why));
                }
                other => {
                    let why = format!("unknown member `{other}`; expected source or sessionId");
                    return Err(bad_member(METADATA, &why));
                }
            }
        }
        Ok(())
    }
}

fn bad_member(name: &str, why: &str) -> Error {
    Error::refused(format!("`{name}`: {why}"))
}

fn is_duration(json: &str) -> bool {
    json.parse::<f64>().is_ok_and(|number| number >= 0.0)
}

/// Returns the duration of a tool result, which its block or its message has.
pub(super) fn result_duration(
    given: GivenBlocks<'_>,
    members: &MemberValues<'_>,
) -> Result<Option<Box<RawValue>>> {
    let own = given.member(DURATION).filter(|json| is_duration(json));
    if let (Some(own), Some(other)) = (own, members.duration)
        && own != other
    {
        return Err(bad_member(DURATION, "the message and its block differ"));
    }
    let duration = own.or(members.duration);
    duration.map(|json| raw(json.to_owned())).transpose()
}
