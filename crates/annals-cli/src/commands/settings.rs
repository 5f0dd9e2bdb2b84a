//! `annals chorus settings`

use annals::layout::chorus::{ConfigEdit, Settings};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::workspaces::{single_chorus_root, warn_archived};
use crate::context::Context;
use annals_render::style::{DIM, paint};

/// Shows and changes the settings of Chorus.
#[derive(Debug, Args)]
#[command(after_help = "\
The settings are rootWorkspaceDir, theme (dark or light), chatSidebarCollapsed (true or false) and \
chatSidebarWidth (a whole number). An empty value clears rootWorkspaceDir.

Examples:
  annals chorus settings
  annals chorus settings theme
  annals chorus settings theme light
  annals chorus settings chatSidebarWidth 320")]
pub(crate) struct SettingsArgs {
    /// The setting; without one, all are shown
    key: Option<String>,
    /// Its new value; without one, the current value is shown
    #[arg(requires = "key", allow_hyphen_values = true)]
    value: Option<String>,
}

#[derive(Serialize)]
struct SettingsJson<'a> {
    root: &'a std::path::Path,
    settings: &'a Settings,
}

pub(crate) fn run(args: &SettingsArgs, context: &mut Context) -> Result<Outcome> {
    let root = single_chorus_root(context)?;
    warn_archived(&root, context);
    if let (Some(key), Some(value)) = (&args.key, &args.value) {
        let edit = ConfigEdit::Set {
            key: key.clone(),
            value: value.clone(),
        };
        context.store.chorus().edit(&root, &edit)?;
    }
    let settings = context.store.chorus().config(&root)?.settings;
    let shown = match &args.key {
        Some(key) => vec![(key.as_str(), settings.get(key)?)],
        None => Settings::KEYS
            .iter()
            .map(|key| Ok((*key, settings.get(key)?)))
            .collect::<annals::Result<_>>()?,
    };
    if context.json {
        context.out.json(&SettingsJson {
            root: &root.path,
            settings: &settings,
        })?;
        return Ok(Outcome::Ok);
    }
    for (key, value) in &shown {
        if args.key.is_some() {
            context.out.line(plain_value(value))?;
        } else {
            let key = format!("{key:<20}");
            context
                .out
                .line(format_args!("{} {}", paint(DIM, &key), plain_value(value)))?;
        }
    }
    Ok(Outcome::Ok)
}

/// Formats a JSON value without the quotes of a string.
fn plain_value(value: &str) -> impl std::fmt::Display {
    let text = serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
    paint(annals_render::style::PLAIN, &text).to_string()
}
