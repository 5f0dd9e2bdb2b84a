//! `annals __complete`: completes a command line, for the scripts of `annals completions`.
//!
//! Ids, projects and models come from the index alone, because a completion must be fast. Nothing
//! is reported: where there is nothing to offer, the shell completes file names.

use std::collections::HashSet;
use std::ffi::OsString;

use annals::index::StoredSession;
use annals::layout::LAYOUTS;
use annals::model::Project;
use annals::store::Root;
use anyhow::Result;
use clap::{Arg, Args};

use super::Outcome;
use crate::command_position::Position;
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::style::{PLAIN, paint};
use annals_render::text::is_hostile;
use annals_render::width::truncate_end;

/// Number of completions that are printed.
const MAX_COMPLETIONS: usize = 200;

/// Columns of a description.
const MAX_WIDTH: usize = 60;

/// Completes a command line.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words behind `annals`; the last one is completed
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// A word that may follow, and what it means.
struct Completion {
    value: String,
    about: String,
}

impl Completion {
    fn new(value: impl Into<String>, about: impl Into<String>) -> Self {
        Completion {
            value: value.into(),
            about: about.into(),
        }
    }

    /// Returns true if the word can be shown and typed as it is.
    fn is_plain(&self) -> bool {
        !self.value.is_empty() && !self.value.contains(is_hostile)
    }
}

/// A command line to complete.
struct Line<'c> {
    position: Position<'c>,
    /// The roots that it names, or the default ones.
    roots: Vec<Root>,
    /// The beginning of the last word.
    typed: String,
}

/// Completes a line of the command line that `build` returns.
pub(crate) fn run(
    args: &CompleteArgs,
    build: fn() -> clap::Command,
    context: &mut Context,
) -> Result<Outcome> {
    let words = args.words.iter().map(|word| word.to_string_lossy());
    let mut words: Vec<String> = words.map(|word| word.into_owned()).collect();
    let mut typed = words.pop().unwrap_or_default();
    // Bash splits `--project=app` into three words.
    words.retain(|word| word != "=");
    if typed == "=" {
        typed.clear();
    }
    let mut command = build();
    command.build();
    let line = Line {
        position: Position::new(&command, words.iter().map(String::as_str)),
        roots: named_roots(&words).unwrap_or_else(|| context.store.roots().to_vec()),
        typed,
    };
    let found = line.completions(context);
    for completion in found.iter().take(MAX_COMPLETIONS) {
        let about = completion.about.lines().next().unwrap_or_default();
        let about = truncate_end(about, MAX_WIDTH);
        let value = &completion.value;
        context
            .out
            .line(format_args!("{value}\t{}", paint(PLAIN, &about)))?;
    }
    Ok(Outcome::Ok)
}

/// Returns the roots given with `--root`; `None` without that option.
fn named_roots(words: &[String]) -> Option<Vec<Root>> {
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.strip_prefix("--root") {
            Some("") => named.extend(words.get(at + 1).map(String::as_str)),
            Some(value) => named.extend(value.strip_prefix('=')),
            None => {}
        }
    }
    let roots = named.iter().flat_map(|text| Root::parse(text));
    (!named.is_empty()).then(|| roots.flatten().collect())
}

impl Line<'_> {
    /// Returns what the last word can be.
    fn completions(&self, context: &Context) -> Vec<Completion> {
        let position = &self.position;
        let is_option =
            position.option.is_none() && !position.options_ended && self.typed.starts_with('-');
        let mut found = match (is_option, self.typed.split_once('=')) {
            (true, Some((option, value))) => self.values_of_option(option, value, context),
            (true, None) => self.options(),
            (false, _) => {
                let mut found = self.commands();
                if let Some(argument) = position.next_argument() {
                    found.extend(self.values(argument, &self.typed, context));
                }
                found
            }
        };
        found.retain(|it| it.is_plain() && it.value.starts_with(&self.typed));
        found
    }

    fn options(&self) -> Vec<Completion> {
        let options = self.position.command.get_arguments();
        let options = options.filter(|option| option.is_global_set() || !option.is_hide_set());
        let options = options.filter_map(|option| {
            let help = option.get_help().map(ToString::to_string);
            let name = format!("--{}", option.get_long()?);
            Some(Completion::new(name, help.unwrap_or_default()))
        });
        options.collect()
    }

    /// Returns the values of an option that is written as `--option=value`.
    fn values_of_option(&self, option: &str, value: &str, context: &Context) -> Vec<Completion> {
        let argument = option.strip_prefix("--");
        let argument = argument.and_then(|long| self.position.find_option(long));
        let Some(argument) = argument else {
            return Vec::new();
        };
        let mut found = self.values(argument, value, context);
        for completion in &mut found {
            completion.value = format!("{option}={}", completion.value);
        }
        found
    }

    fn commands(&self) -> Vec<Completion> {
        let position = &self.position;
        if position.option.is_some() || position.options_ended || position.positionals > 0 {
            return Vec::new();
        }
        let commands = position.command.get_subcommands();
        let commands = commands.filter(|command| !command.is_hide_set());
        let commands = commands.map(|command| {
            let about = command.get_about().map(ToString::to_string);
            Completion::new(command.get_name(), about.unwrap_or_default())
        });
        commands.collect()
    }

    /// Returns the values of an argument that begin with `typed`, as far as they are known.
    fn values(&self, argument: &Arg, typed: &str, context: &Context) -> Vec<Completion> {
        let values = argument.get_possible_values();
        if !values.is_empty() {
            let values = values.iter().filter(|value| !value.is_hide_set());
            let values = values.map(|value| {
                let about = value.get_help().map(ToString::to_string);
                Completion::new(value.get_name(), about.unwrap_or_default())
            });
            return values.collect();
        }
        let verb = self.position.verb.as_str();
        let stored = || self.stored_sessions(context);
        match (argument.get_id().as_str(), argument.is_positional()) {
            _ if verb.starts_with("chorus") => Vec::new(),
            // These also take projects.
            ("what" | "id", true) if matches!(verb, "watch" | "export") => {
                let stored = stored();
                let mut found = sessions(&stored, typed);
                found.extend(projects(&stored, typed));
                found
            }
            ("session", _) | ("sessions" | "id" | "ids" | "what", true) => {
                sessions(&stored(), typed)
            }
            ("project", _) => projects(&stored(), typed),
            ("model", _) => models(&stored()),
            ("layout", _) => layouts(),
            ("to", _) if verb == "convert" => layouts(),
            _ => Vec::new(),
        }
    }

    fn stored_sessions(&self, context: &Context) -> Vec<StoredSession> {
        let index = context.store.index();
        index.map_or_else(|_| Vec::new(), |it| it.stored_sessions(&self.roots))
    }
}

fn sessions(stored: &[StoredSession], typed: &str) -> Vec<Completion> {
    let short = ShortIds::new(stored.iter().map(|session| session.id.as_str()));
    let about = "the most recent session of this directory";
    let mut found = Vec::new();
    if !stored.is_empty() {
        found.push(Completion::new("latest", about));
    }
    found.extend(stored.iter().map(|session| {
        let id = session.id.as_str();
        let short = short.get(id);
        // More of the id may be typed already.
        let id = if short.starts_with(typed) { short } else { id };
        Completion::new(id, session.title.as_deref().unwrap_or_default())
    }));
    found.retain(|it| !it.value.starts_with('-'));
    found
}

/// Returns projects by name, or by path if the path is typed or the name is not unique.
fn projects(stored: &[StoredSession], typed: &str) -> Vec<Completion> {
    let mut seen = HashSet::new();
    let paths = stored.iter().map(|session| session.project.as_str());
    let projects = paths.filter(|path| seen.insert(*path)).map(|path| Project {
        path: path.to_owned(),
        guessed: false,
    });
    let projects: Vec<Project> = projects.collect();
    let completion = |project: &Project| {
        let name = project.name();
        let others = projects.iter().filter(|other| other.name() == name);
        match typed.starts_with('/') || others.count() > 1 {
            true => Completion::new(&project.path, ""),
            false => Completion::new(name, &project.path),
        }
    };
    projects.iter().map(completion).collect()
}

fn models(stored: &[StoredSession]) -> Vec<Completion> {
    let mut seen = HashSet::new();
    let models = stored.iter().flat_map(|session| &session.models);
    let models = models.filter(|model| seen.insert(*model));
    models.map(|model| Completion::new(model, "")).collect()
}

fn layouts() -> Vec<Completion> {
    let layouts = LAYOUTS.iter();
    layouts
        .map(|layout| Completion::new(layout.name(), ""))
        .collect()
}
