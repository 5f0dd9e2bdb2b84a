//! Selects sessions by project, time, state and other attributes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;

use annals_layouts::model::Project;

use super::SessionInfo;

/// Conditions on sessions. An unset condition matches all sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Spellings of a project; one of them matches. See [`project_spellings`].
    pub project: Option<Vec<String>>,
    /// Active at or after this time.
    pub since: Option<Timestamp>,
    /// Active at or before this time.
    pub until: Option<Timestamp>,
    /// State: `created`, `active`, `resumed`, `expired` or `archived`.
    pub state: Option<String>,
    /// Part of the name of a model that answered.
    pub model: Option<String>,
    /// Prefix of the id, name or kind of an agent or sub-agent.
    pub agent: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// Words that the title, the directory, the tag or the id contain, ignoring case.
    pub text: Option<String>,
}

impl SessionQuery {
    /// Returns whether a session matches.
    pub fn matches(&self, session: &SessionInfo, now: Timestamp) -> bool {
        let in_project = self.project.as_deref().is_none_or(|wanted| {
            let mut wanted = wanted.iter();
            wanted.any(|wanted| session.matches_project_or_earlier(wanted))
        });
        // A session matches a period if it was active in it.
        let since = self.since;
        let since = since.is_none_or(|since| session.updated.is_some_and(|time| time >= since));
        let until = self.until.is_none_or(|until| {
            let first = session.started.or(session.updated);
            first.is_some_and(|time| time <= until)
        });
        let model = self.model.as_deref();
        let model =
            model.is_none_or(|wanted| session.models.iter().any(|model| model.contains(wanted)));
        let tag = self.tag.as_deref();
        let tag = tag.is_none_or(|wanted| session.tag.as_deref() == Some(wanted));
        let agent = self.agent.as_deref();
        let agent = agent.is_none_or(|wanted| session.has_agent(wanted));
        let state = self.state.as_deref().is_none_or(|wanted| match wanted {
            // Regardless of the state before.
            "archived" => session.archived,
            wanted => session.state_at(now).as_str() == wanted,
        });
        in_project && since && until && model && tag && agent && state && self.has_words(session)
    }

    fn has_words(&self, session: &SessionInfo) -> bool {
        let Some(text) = &self.text else { return true };
        let title = session.title.as_ref().map(|title| title.text.as_str());
        let texts = [title, session.tag.as_deref()].into_iter().flatten();
        let texts = texts.chain([session.project.path.as_str(), session.id.as_str()]);
        let texts: Vec<String> = texts.map(str::to_lowercase).collect();
        let text = text.to_lowercase();
        let mut words = text.split_whitespace();
        words.all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

/// Returns the spellings of a project, that of the user first. A directory may be named with or
/// without links, and layouts differ in which they record: the other spellings are the real path
/// and those of the `recorded` projects that lead to the same directory. `shell_dir` is the current
/// directory with the links through which the user entered it.
pub fn project_spellings<'a>(
    text: &str,
    shell_dir: Option<&str>,
    recorded: impl Iterator<Item = &'a Project>,
) -> Vec<String> {
    let mut all = vec![resolve_directory(text)];
    let real = std::fs::canonicalize(text).ok();
    let Some(real) = real.filter(|_| is_relative(text) || text.starts_with('/')) else {
        return all;
    };
    let recorded: BTreeSet<&str> = recorded
        .filter(|project| !project.guessed && project.path.starts_with('/'))
        .map(|project| project.path.as_str())
        .collect();
    let shell_dir = shell_dir.filter(|_| text == ".");
    let real_path = real.to_str().into_iter();
    for path in real_path.chain(shell_dir).chain(recorded) {
        let is_new = all.iter().all(|known| known != path);
        if is_new && std::fs::canonicalize(path).is_ok_and(|path| path == real) {
            all.push(path.to_owned());
        }
    }
    all
}

/// Resolves `.` and other relative paths to a directory; other text stays a name.
pub fn resolve_directory(text: &str) -> String {
    let real = |path: PathBuf| std::fs::canonicalize(path);
    match std::path::absolute(text).and_then(real) {
        Ok(path) if is_relative(text) => path.to_string_lossy().into_owned(),
        _ => text.to_owned(),
    }
}

fn is_relative(text: &str) -> bool {
    text == "." || text == ".." || text.starts_with("./") || text.starts_with("../")
}
