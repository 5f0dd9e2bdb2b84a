//! Finds sessions by the names recorded in their logs, where paths contain only a shortened form.

use crate::store::inventory::{Inventory, SessionFiles};
use crate::store::thread;

/// Key of the conversation id in the first record of a log.
const CONVERSATION: &str = "conversationId";

/// Returns the sessions with exactly this name, or else those whose name matches ignoring case.
///
/// Opens only logs whose path contains the path form of the name.
pub(super) fn by_exact_name<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a SessionFiles> {
    let found = recorded_names(inventory, |files| has_name_in_path(files, name));
    let lower = name.to_lowercase();
    best(
        &found,
        |title| title == name,
        |title| title.to_lowercase() == lower,
    )
}

/// Returns the sessions whose name has this prefix, or else those that match ignoring case.
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
        |title| title.starts_with(name),
        |title| title.to_lowercase().starts_with(&lower),
    )
}

/// Returns the sessions whose log records exactly this conversation id, in layouts that have one.
pub(super) fn by_conversation_id<'a>(inventory: &'a Inventory, id: &str) -> Vec<&'a SessionFiles> {
    let has_one = |files: &SessionFiles| {
        let writer = files.root.layout.writer();
        writer.is_some_and(|writer| writer.conversation_id(&files.id).is_some())
    };
    let sessions = inventory.sessions.iter().filter(|files| has_one(files));
    sessions
        .filter(|files| recorded_value(files, CONVERSATION).is_some_and(|said| said == id))
        .collect()
}

/// Returns the name that a session's log records, if `name` selects the session only loosely: by the
/// shortened form in its path, or ignoring case. Then `name` may mean a thread that does not exist.
pub(super) fn differing_name(files: &SessionFiles, name: &str) -> Option<String> {
    name_in_path(files, name)?;
    let recorded = recorded_name(files);
    let conversation = super::conversation_id(files);
    let is_exact = [
        Some(recorded.as_str()),
        Some(files.id.as_str()),
        conversation.as_deref(),
    ]
    .into_iter()
    .flatten()
    .any(|known| known.starts_with(name));
    let is_exact =
        is_exact || recorded_value(files, CONVERSATION).is_some_and(|known| known == name);
    (!is_exact).then_some(recorded)
}

impl SessionFiles {
    /// Returns whether `name` is exactly the session's id, or the id of its thread that its log
    /// records.
    pub fn is_named(&self, name: &str) -> bool {
        self.id.as_str() == name || has_name_in_path(self, name) && recorded_name(self) == name
    }
}

fn has_name_in_path(files: &SessionFiles, name: &str) -> bool {
    name_in_path(files, name).is_some_and(|short| files.id.name() == short)
}

/// Returns the path form of a name in the session's layout.
fn name_in_path(files: &SessionFiles, name: &str) -> Option<String> {
    files.root.layout.writer()?.path_name(name)
}

/// Returns the candidate sessions with the names recorded in their logs.
fn recorded_names(
    inventory: &Inventory,
    fits: impl Fn(&SessionFiles) -> bool,
) -> Vec<(&SessionFiles, String)> {
    let sessions = inventory.sessions.iter().filter(|files| fits(files));
    sessions
        .map(|files| (files, recorded_name(files)))
        .collect()
}

/// Returns the name recorded in a session's log, or else its form in the path.
fn recorded_name(files: &SessionFiles) -> String {
    recorded_value(files, thread::THREAD).unwrap_or_else(|| files.id.name().to_owned())
}

/// Returns a value from the first records of a session's log.
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
