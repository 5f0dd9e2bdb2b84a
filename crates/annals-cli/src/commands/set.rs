//! `annals set`

use annals::model::Members;
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use annals_render::style::{DIM, ID, PLAIN, paint};

/// Sets a member of a session's row in its layout's session list.
#[derive(Debug, Args)]
#[command(after_help = "\
Chorus keeps a row for every conversation. Its members that can be set are sessionId (the \
session of Claude Code behind the conversation, by which it is resumed), sessionCreatedAt, \
branchName, worktreePath and settings (a JSON object). An empty value is null. `annals title` \
sets the title.

Examples:
  annals set conv-1 sessionId 5f3c2a90
  annals set conv-1 settings '{\"permissionMode\":\"plan\"}'
  annals set conv-1 branchName ''")]
pub(crate) struct SetArgs {
    /// The session
    session: String,
    /// The member
    key: String,
    /// Its value: text, or JSON if the member is not text
    #[arg(allow_hyphen_values = true)]
    value: String,
}

#[derive(Serialize)]
struct SetJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    key: &'a str,
    value: serde_json::Value,
}

pub(crate) fn run(args: &SetArgs, context: &mut Context) -> Result<Outcome> {
    let files = context.find_session(&args.session)?;
    let given: Option<serde_json::Value> = serde_json::from_str(&args.value).ok();
    let value = match given {
        _ if args.value.is_empty() => serde_json::Value::Null,
        Some(value) if value.is_object() || value.is_null() => value,
        _ => args.value.as_str().into(),
    };
    let members: Members = vec![(args.key.clone(), value.to_string())];
    files.set_list_members(&members)?;
    if context.json {
        context.out.json(&SetJson {
            session: files.id.as_str(),
            file: files.main_path(),
            key: &args.key,
            value,
        })?;
    } else {
        let shown = match &value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        context.out.line(format_args!(
            "{}  {} {}",
            paint(ID, files.id.as_str()),
            paint(DIM, &args.key),
            paint(PLAIN, &shown)
        ))?;
    }
    Ok(Outcome::Written)
}
