//! Spellings of a project: by path, through links, and as sessions record it.

use annals::model::Project;
use annals::store::{SessionInfo, project_spellings};

/// Returns the spellings of a project; see [`project_spellings`].
pub(crate) fn spellings<'a>(
    text: &str,
    recorded: impl Iterator<Item = &'a Project>,
) -> Vec<String> {
    // PWD has the links through which the user entered the directory.
    let shell_dir = std::env::var("PWD").ok();
    project_spellings(text, shell_dir.as_deref(), recorded)
}

/// Returns the spellings of a project, with those that sessions record.
pub(crate) fn session_spellings(text: &str, sessions: &[SessionInfo]) -> Vec<String> {
    spellings(text, sessions.iter().map(|session| &session.project))
}
