//! What an agent tells its status line.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// What the agent tells of itself; all of it may be missing.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AgentInput {
    /// The session's id.
    pub(super) session: Option<String>,
    /// The session's log.
    pub(super) log: Option<PathBuf>,
    /// The model's name for people.
    pub(super) name: Option<String>,
    /// The model's name for programs.
    pub(super) model: Option<String>,
    /// How many tokens fit into the context window.
    pub(super) window: Option<u64>,
    /// How much of the context window is used, in hundredths.
    pub(super) used_percent: Option<u64>,
}

impl AgentInput {
    /// Takes what can be taken: agents change what they say, and a member that is not what it was is no reason to
    /// leave the rest of the line out.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let all: Members<'_> = serde_json::from_str(text).context(
            "standard input is not the JSON that an agent gives to its status line; `annals statusline --help` shows how to set it up",
        )?;
        let model = object(&all, "model");
        let window = object(&all, "context_window");
        let plain = non_empty_string(&all, "model");
        let id = non_empty_string(&model, "id").or(plain);
        // What is no whole number of tokens is no window, and more than all of it is not used.
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

/// The members of an object as they are written: what nobody asks for may be anything.
type Members<'t> = HashMap<String, &'t RawValue>;

fn member<T: DeserializeOwned>(members: &Members<'_>, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn object<'t>(members: &Members<'t>, name: &str) -> Members<'t> {
    let object = members.get(name).map(|raw| serde_json::from_str(raw.get()));
    object.and_then(Result::ok).unwrap_or_default()
}

/// A text that says something.
fn non_empty_string(members: &Members<'_>, name: &str) -> Option<String> {
    let text: Option<String> = member(members, name);
    text.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_all_known_members() {
        let told = AgentInput::parse(
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
        assert_eq!(told.unwrap(), all);
    }

    #[test]
    fn parse_skips_only_members_of_the_wrong_type() {
        let with = |member: &str| {
            let text = format!("{{\"session_id\":\"s\",{member}}}");
            let told = AgentInput::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(told.session.as_deref(), Some("s"), "{text}");
            told
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
