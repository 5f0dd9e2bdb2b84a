//! Filters that several verbs share.

use std::collections::BTreeSet;

use annals::Subject;
use annals::model::Project;
use annals::store::{ProjectInfo, SessionInfo, SessionQuery};
use anyhow::{Result, anyhow};
use clap::Args;
use jiff::Timestamp;

use super::page::Page;
use crate::command_errors::CandidateDetails;
use crate::context::{Context, session_spellings};
use crate::terminal::suggest::suggest;

/// Filter of sessions.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SessionFilter {
    /// Only sessions of this project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    pub(crate) project: Option<String>,
    #[command(flatten)]
    pub(crate) period: Period,
    /// Only sessions in which this model answered (a part of its name is enough)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only sessions with this agent or sub-agent: its id, name or kind
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Only sessions with this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    #[command(flatten)]
    pub(crate) page: Page,
}

/// Parses a name that may begin with a hyphen, as the folders of Claude Code do, but not with two.
pub(crate) fn named(text: &str) -> Result<String> {
    match text.starts_with("--") {
        true => Err(anyhow!("unknown option; see --help")),
        false => Ok(text.to_owned()),
    }
}

/// A period of time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Period {
    /// Not older than this: 7d, 36h, monday, last week, 2026-03-01, 2026-03-01T12:00
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Not newer than this, in the same forms; a day counts to its end
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
}

impl Period {
    /// Resolves both ends.
    pub(crate) fn resolve(
        &self,
        context: &Context,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
        let since = self
            .since
            .as_deref()
            .map(|text| context.clock.parse_since(text))
            .transpose()?;
        let until = self
            .until
            .as_deref()
            .map(|text| context.clock.parse_until(text))
            .transpose()?;
        Ok((since, until))
    }
}

impl SessionFilter {
    /// Keeps the sessions that match, in their order.
    pub(crate) fn apply(
        &self,
        context: &Context,
        mut sessions: Vec<SessionInfo>,
    ) -> Result<Vec<SessionInfo>> {
        let (since, until) = self.period.resolve(context)?;
        let project = self.project.as_deref();
        let query = SessionQuery {
            project: project.map(|wanted| session_spellings(wanted, &sessions)),
            since,
            until,
            model: self.model.clone(),
            agent: self.agent.clone(),
            tag: self.tag.clone(),
            ..SessionQuery::default()
        };
        sessions.retain(|session| query.matches(session, context.clock.now));
        self.page.apply(&mut sessions);
        Ok(sessions)
    }

    /// Warns if no session belongs to the project: then nothing can match.
    pub(crate) fn warn_unknown_project(&self, sessions: &[SessionInfo], context: &mut Context) {
        let Some(wanted) = &self.project else { return };
        let dirs = session_spellings(wanted, sessions);
        let is_it = |session: &SessionInfo| {
            dirs.iter()
                .any(|dir| session.matches_project_or_earlier(dir))
        };
        if !sessions.iter().any(is_it) {
            let projects = sessions.iter().map(|session| &session.project);
            warn_unknown_project(wanted, projects, context);
        }
    }

    /// Returns true if any filter is set.
    pub(crate) fn is_set(&self) -> bool {
        self.project.is_some()
            || self.period.since.is_some()
            || self.period.until.is_some()
            || self.model.is_some()
            || self.tag.is_some()
            || self.agent.is_some()
    }
}

/// Keeps the sessions whose current directory is the project's. A name that matches several
/// projects or none is an error: this is for commands that change something.
pub(crate) fn retain_project(wanted: &str, sessions: &mut Vec<SessionInfo>) -> Result<()> {
    let all: Vec<Project> = sessions.iter().map(|it| it.project.clone()).collect();
    let dirs = session_spellings(wanted, sessions);
    let is_of_project = |session: &SessionInfo| dirs.iter().any(|dir| session.matches_project(dir));
    let is_of_directory =
        |session: &SessionInfo| dirs.iter().any(|dir| session.matches_directory(dir));
    let by_id: BTreeSet<String> = ProjectInfo::from_sessions(sessions.iter())
        .into_iter()
        .filter(|project| project.id == wanted)
        .map(|project| project.path)
        .collect();
    sessions.retain(|session| by_id.contains(&session.project.path) || is_of_project(session));
    if sessions.iter().any(is_of_directory) {
        sessions.retain(is_of_directory);
        return Ok(());
    }
    let projects = ProjectInfo::from_sessions(sessions.iter());
    let paths: BTreeSet<&str> = projects
        .iter()
        .map(|project| project.path.as_str())
        .collect();
    if paths.len() > 1 {
        let paths = projects.iter().map(|project| project.path.clone());
        let details = CandidateDetails(paths.collect());
        let error = annals::Error::Ambiguous {
            what: Subject::Project,
            id: wanted.to_owned(),
            candidates: projects.iter().map(|it| it.id.to_string()).collect(),
        };
        return Err(anyhow::Error::from(error).context(details));
    }
    if sessions.is_empty() {
        return Err(unknown(wanted, all.iter()));
    }
    Ok(())
}

/// Warns that no project has this name, with similar names. Silent if there are no projects at all,
/// which callers report.
pub(crate) fn warn_unknown_project<'a>(
    wanted: &str,
    projects: impl Iterator<Item = &'a Project>,
    context: &mut Context,
) {
    let projects = project_paths(projects);
    if !projects.is_empty() {
        let near = suggest_projects(wanted, &projects).unwrap_or_default();
        context.print_note_once(&format!(
            "no project matches `{wanted}`{near} (`annals projects` lists them)"
        ));
    }
}

/// Returns the same as an error.
pub(crate) fn unknown<'a>(
    wanted: &str,
    projects: impl Iterator<Item = &'a Project>,
) -> anyhow::Error {
    match suggest_projects(wanted, &project_paths(projects)) {
        Some(near) => anyhow!("no project matches `{wanted}`{near} (`annals projects` lists them)"),
        None => anyhow::Error::new(annals::Error::NotFound {
            what: Subject::Project,
            id: wanted.to_owned(),
        }),
    }
}

fn project_paths<'a>(projects: impl Iterator<Item = &'a Project>) -> BTreeSet<&'a str> {
    projects.map(|project| project.path.as_str()).collect()
}

/// Warns the same for `watch`, which can wait for a new project by its path.
pub(crate) fn warn_unknown_watched_project<'a>(
    wanted: &str,
    projects: impl Iterator<Item = &'a Project>,
    context: &mut Context,
) {
    let near = suggest_projects(wanted, &project_paths(projects)).unwrap_or_default();
    context.print_note_once(&format!(
        "no session or project matches `{wanted}`{near} (`annals projects` lists them; give a path to wait for a new one)"
    ));
}

/// Returns the projects with similar names, if there are any.
fn suggest_projects(wanted: &str, projects: &BTreeSet<&str>) -> Option<String> {
    let near = suggest(wanted, projects.iter().copied(), 3);
    let near: Vec<String> = near.iter().map(|path| format!("`{path}`")).collect();
    (!near.is_empty()).then(|| format!("; similar: {}", near.join(", ")))
}
