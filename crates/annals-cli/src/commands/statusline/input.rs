//! The JSON that an agent passes on standard input.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Input of an agent; every member may be missing.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AgentInput {
    /// Id of the session.
    pub(super) session: Option<String>,
    /// Log of the session.
    pub(super) log: Option<PathBuf>,
    /// Display name of the model.
    pub(super) name: Option<String>,
    /// Id of the model.
    pub(super) model: Option<String>,
    /// Size of the context window in tokens.
    pub(super) window: Option<u64>,
    /// Used part of the context window, in percent.
    pub(super) used_percent: Option<u64>,
}

impl AgentInput {
    /// Parses the members that are valid: agents change their format, and one unexpected member
    /// must not lose the rest of the line.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let all: Members<'_> = serde_json::from_str(text).map_err(|error| {
            let fault = annals::describe_json_error(&error);
            anyhow!(
                "standard input is not the JSON of an agent: {fault}; see `annals statusline --help` for the setup"
            )
        })?;
        let model = object(&all, "model");
        let window = object(&all, "context_window");
        let plain = non_empty_string(&all, "model");
        let id = non_empty_string(&model, "id").or(plain);
        // A window is a whole number of tokens, and at most all of it is used.
        let whole = |size: &f64| *size >= 1.0 && *size <= 1e15 && size.fract() == 0.0;
        let size = member(&window, "context_window_size").filter(whole);
        let used = member(&window, "used_percentage").filter(|used| (0.0..=100.0).contains(used));
        Ok(AgentInput {
            session: non_empty_string(&all, "session_id"),
            log: non_empty_string(&all, "transcript_path").map(PathBuf::from),
            name: non_empty_string(&model, "display_name").or_else(|| id.clone()),
            model: id,
            window: size.map(|size| size as u64),
            used_percent: used.map(|used: f64| used.round() as u64),
        })
    }
}

/// Members of an object as raw JSON: unused members may have any value.
type Members<'t> = HashMap<String, &'t RawValue>;

fn member<T: DeserializeOwned>(members: &Members<'_>, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn object<'t>(members: &Members<'t>, name: &str) -> Members<'t> {
    let object = members.get(name).map(|raw| serde_json::from_str(raw.get()));
    object.and_then(Result::ok).unwrap_or_default()
}

/// Returns a string that is not blank.
fn non_empty_string(members: &Members<'_>, name: &str) -> Option<String> {
    let text: Option<String> = member(members, name);
    text.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_all_known_members() {
        let input = AgentInput::parse(
            r#"{"session_id":"s","transcript_path":"/a/b.jsonl","model":{"id":"opus-9","display_name":"Opus"},
                "context_window":{"context_window_size":200000,"used_percentage":41.5}}"#,
        );
        let all = AgentInput {
            session: Some("s".to_owned()),
            log: Some("/a/b.jsonl".into()),
            name: Some("Opus".to_owned()),
            model: Some("opus-9".to_owned()),
            window: Some(200_000),
            used_percent: Some(42),
        };
        assert_eq!(input.unwrap(), all);
    }

    #[test]
    fn parse_skips_only_members_of_the_wrong_type() {
        let with = |member: &str| {
            let text = format!("{{\"session_id\":\"s\",{member}}}");
            let input = AgentInput::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(input.session.as_deref(), Some("s"), "{text}");
            input
        };
        for member in [
            r#""model":null"#,
            r#""model":7"#,
            r#""model":{"id":null,"display_name":["x"]}"#,
            r#""model":{"id":"","display_name":" "}"#,
            r#""transcript_path":null"#,
            r#""transcript_path":{"path":"/a"}"#,
            r#""context_window":null"#,
            r#""context_window":"200k""#,
            r#""context_window":{"context_window_size":-1,"used_percentage":-0.1}"#,
            r#""context_window":{"context_window_size":0,"used_percentage":100.5}"#,
            r#""context_window":{"context_window_size":1.5,"used_percentage":"3"}"#,
            r#""context_window":{"context_window_size":1e999,"used_percentage":1e999}"#,
            r#""context_window":{"context_window_size":1e300,"used_percentage":null}"#,
            r#""else":[1e999,"\ud800",{"session_id":3}]"#,
        ] {
            let bare = AgentInput {
                session: Some("s".to_owned()),
                ..AgentInput::default()
            };
            assert_eq!(with(member), bare, "{member}");
        }
        let twice = with(r#""session_id":null,"session_id":"s""#);
        assert_eq!(twice.session.as_deref(), Some("s"));
        let model = with(r#""model":"opus""#);
        assert_eq!(
            (model.name, model.model),
            (Some("opus".into()), Some("opus".into()))
        );
        let size = with(r#""context_window":{"context_window_size":200000.0}"#);
        assert_eq!(size.window, Some(200_000));
        for text in ["no", "[]", "\"x\"", "null", "3", "{\"a\":1", "{} {}"] {
            assert!(AgentInput::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            AgentInput::parse("\u{feff} {} ").unwrap(),
            AgentInput::default()
        );
    }
}
