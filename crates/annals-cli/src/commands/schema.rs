//! `annals schema`

use annals::view::{CheckJson, CostJson};
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::Outcome;
use super::conversations::ConversationsJson;
use super::files::FilesJson;
use super::notes::NotesJson;
use super::projects::ProjectsJson;
use super::search::json::SearchJson;
use super::sessions::SessionsJson;
use super::show::json::ShowJson;
use super::todos::TodosJson;
use super::tree::TreeJson;
use super::watch::stream::WatchJson;
use crate::context::Context;

/// Prints the JSON Schema of what a command prints with --json.
#[derive(Debug, Args)]
#[command(after_help = "\
The schemas are generated from the types that are written. Every document may also have `problems`: \
the files that could not be read. The schema of watch describes one line.

Examples:
  annals schema                list them
  annals schema sessions")]
pub(crate) struct SchemaArgs {
    /// The command; without one, all are listed
    #[arg(hide_possible_values = true, value_parser = names())]
    command: Option<String>,
}

/// Generates a schema.
type SchemaFn = fn() -> Schema;

/// The commands whose documents have a schema.
const SCHEMAS: &[(&str, SchemaFn)] = &[
    ("check", schema::<CheckJson<'static>>),
    ("conversations", schema::<ConversationsJson<'static>>),
    ("cost", schema::<CostJson<'static>>),
    ("files", schema::<FilesJson<'static>>),
    ("notes", schema::<NotesJson<'static>>),
    ("projects", schema::<ProjectsJson<'static>>),
    ("search", schema::<SearchJson<'static>>),
    ("sessions", schema::<SessionsJson<'static>>),
    ("show", schema::<ShowJson<'static>>),
    ("todos", schema::<TodosJson<'static>>),
    ("tree", schema::<TreeJson<'static>>),
    ("watch", schema::<WatchJson<'static>>),
];

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(SCHEMAS.iter().map(|(name, _)| *name))
}

fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

pub(crate) fn run(args: &SchemaArgs, context: &mut Context) -> Result<Outcome> {
    let wanted = args.command.as_deref();
    for (name, schema) in SCHEMAS {
        match wanted {
            None => context.out.line(name)?,
            Some(wanted) if wanted == *name => {
                let text = serde_json::to_string_pretty(&schema())?;
                context.out.line(text)?;
            }
            Some(_) => {}
        }
    }
    Ok(Outcome::Ok)
}
