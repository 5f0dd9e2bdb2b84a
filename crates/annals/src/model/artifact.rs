//! What a file means.

use super::{AgentId, SessionId};

/// What one file of a root means, as far as its path tells.
///
/// An artifact says everything its path says, so that a layout can build the path back from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Artifact {
    /// What kind of file.
    pub kind: ArtifactKind,
    /// The folder that groups sessions of one project, in the layout's own encoding.
    pub folder: Option<String>,
    /// The session it belongs to, where the path tells.
    pub session: Option<SessionId>,
    /// The agent it belongs to, where the path tells.
    pub agent: Option<AgentId>,
    /// What else the path says: a version, a run, a file name.
    pub name: Option<String>,
}

impl Artifact {
    /// An artifact of which only the kind is known.
    pub fn new(kind: ArtifactKind) -> Self {
        Artifact {
            kind,
            folder: None,
            session: None,
            agent: None,
            name: None,
        }
    }
}

impl Artifact {
    /// Whether the file records what was said and done in conversations, and steers no program.
    ///
    /// Only such files are written from a source that someone else may have made: a root that is
    /// converted, or a pack from elsewhere. Settings could name commands to run, and what means nothing
    /// to us could do anything: Claude Code runs what lies in `session-env` as shell scripts.
    pub fn is_conversation_data(&self) -> bool {
        use ArtifactKind as K;
        match self.kind {
            K::SessionLog | K::SharedLog | K::AgentLog | K::AgentMeta => true,
            K::Todos | K::Task | K::FileVersion | K::ToolResult | K::History | K::Plan => true,
            K::TitleFile | K::Notes | K::RunLog | K::Companion | K::Origin => true,
            // That of a folder lists its logs; that of a root is the configuration of its program.
            K::Register => self.folder.is_some(),
            K::Settings | K::State | K::SessionState | K::Index => false,
        }
    }

    /// Whether the file steers the agent program beyond single sessions.
    pub fn is_configuration(&self) -> bool {
        match self.kind {
            ArtifactKind::Settings | ArtifactKind::State => true,
            ArtifactKind::Register => self.folder.is_none(),
            _ => false,
        }
    }

    /// Whether the log is a sub-agent's.
    pub fn is_agent_log(&self) -> bool {
        match self.kind {
            ArtifactKind::AgentLog => true,
            ArtifactKind::SharedLog => self.agent.is_some(),
            _ => false,
        }
    }
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ArtifactKind {
    /// The log of a session's main agent.
    SessionLog,
    /// A log of several sessions, told apart by what its records name. Its own session is that of
    /// the records that name none.
    SharedLog,
    /// The log of a sub-agent.
    AgentLog,
    /// What is known about a sub-agent beside its log.
    AgentMeta,
    /// An agent's todos, one document.
    Todos,
    /// One task of a session's task list.
    Task,
    /// A saved version of a file that the agent changed.
    FileVersion,
    /// Output of a tool that was too long for the log.
    ToolResult,
    /// What a person typed, across sessions.
    History,
    /// Settings of the agent program.
    Settings,
    /// A plan.
    Plan,
    /// A derived list that can be rebuilt and is never trusted.
    Index,
    /// A session's title beside its log.
    TitleFile,
    /// State of the agent program that belongs to a session and means nothing to us.
    SessionState,
    /// Remarks on a session: notes, labels, titles, one per line, beside its log.
    Notes,
    /// A document that tells of sessions what their logs do not, such as titles and directories.
    Register,
    /// State of the agent program that belongs to no session.
    State,
    /// What the agent program printed while it ran.
    RunLog,
    /// What annals says of a log's records beside the log.
    Companion,
    /// What a session, or a whole root, was converted from, as far as its own layout cannot say it.
    Origin,
}

impl ArtifactKind {
    /// A file of records, one per line, as opposed to a document.
    pub fn is_log(self) -> bool {
        matches!(
            self,
            ArtifactKind::SessionLog
                | ArtifactKind::SharedLog
                | ArtifactKind::AgentLog
                | ArtifactKind::History
                | ArtifactKind::Notes
                | ArtifactKind::Companion
                | ArtifactKind::Origin
        )
    }

    /// A log that holds a conversation.
    pub fn is_conversation(self) -> bool {
        matches!(
            self,
            ArtifactKind::SessionLog | ArtifactKind::SharedLog | ArtifactKind::AgentLog
        )
    }
}
