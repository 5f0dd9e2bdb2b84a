//! Sessions by the names that their logs say, where a path has only what is left of one.

use crate::store::inventory::{Inventory, SessionFiles};
use crate::store::thread;

/// The sessions of exactly this name; else those whose name differs in letter case only.
///
/// Only logs are opened whose path has what would be left of the name.
pub(super) fn by_exact_name<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a SessionFiles> {
    let fits = |files: &SessionFiles| {
        let short = name_in_path(files, name);
        short.is_some_and(|short| files.id.name() == short)
    };
    let found = recorded_names(inventory, fits);
    let lower = name.to_lowercase();
    best(
        &found,
        |told| told == name,
        |told| told.to_lowercase() == lower,
    )
}

/// The sessions whose name begins so, in this letter case or else in any.
pub(super) fn by_name_prefix<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a SessionFiles> {
    if name.trim().is_empty() {
        return Vec::new();
    }
    let fits = |files: &SessionFiles| {
        let short = name_in_path(files, name);
        short.is_some_and(|short| files.id.name().starts_with(&short))
    };
    let found = recorded_names(inventory, fits);
    let lower = name.to_lowercase();
    best(
        &found,
        |told| told.starts_with(name),
        |told| told.to_lowercase().starts_with(&lower),
    )
}

/// The sessions whose log says exactly this conversation's id, where the layout gives sessions one.
pub(super) fn by_conversation_id<'a>(inventory: &'a Inventory, id: &str) -> Vec<&'a SessionFiles> {
    let has_one = |files: &SessionFiles| {
        let writer = files.root.layout.writer();
        writer.is_some_and(|writer| writer.conversation_id(&files.id).is_some())
    };
    let sessions = inventory.sessions.iter().filter(|files| has_one(files));
    sessions
        .filter(|files| recorded_value(files, "conversationId").is_some_and(|said| said == id))
        .collect()
}

/// What a path of the session's layout would have of a name.
fn name_in_path(files: &SessionFiles, name: &str) -> Option<String> {
    files.root.layout.writer()?.path_name(name)
}

/// The sessions that may be meant, and the names that their logs say.
fn recorded_names(
    inventory: &Inventory,
    fits: impl Fn(&SessionFiles) -> bool,
) -> Vec<(&SessionFiles, String)> {
    let sessions = inventory.sessions.iter().filter(|files| fits(files));
    sessions
        .map(|files| (files, recorded_name(files)))
        .collect()
}

/// The name that a session's log says, or else what its path has of it.
fn recorded_name(files: &SessionFiles) -> String {
    recorded_value(files, thread::THREAD).unwrap_or_else(|| files.id.name().to_owned())
}

/// A word that the first records of a session's log say.
fn recorded_value(files: &SessionFiles, wanted: &str) -> Option<String> {
    let (root, failures) = (&files.root, &files.root.failures);
    let log = files.log.as_ref().or(files.unwritten.as_deref())?;
    let file = match log.id.len {
        0 => failures.ok(thread::stand_in(root, &log.artifact))??,
        _ => log.clone(),
    };
    let facts = failures.ok(thread::facts(root, &file))?;
    thread::word(&facts, wanted)
}

fn best<'a>(
    found: &[(&'a SessionFiles, String)],
    exact: impl Fn(&str) -> bool,
    close: impl Fn(&str) -> bool,
) -> Vec<&'a SessionFiles> {
    let of = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a SessionFiles> {
        let fitting = found.iter().filter(|(_, name)| fits(name));
        fitting.map(|(files, _)| *files).collect()
    };
    let exactly = of(&exact);
    match exactly.is_empty() {
        true => of(&close),
        false => exactly,
    }
}
