//! The meaning of a file, derived from its path.

use super::{AgentId, Framing, SessionId};

/// The meaning of one file of a root, derived from its path.
///
/// An artifact holds everything that the path encodes, so that a layout can rebuild the path from
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Artifact {
    /// The kind of file.
    pub kind: ArtifactKind,
    /// The folder that groups sessions of one project, in the layout's own encoding.
    pub folder: Option<String>,
    /// The session it belongs to, if the path names one.
    pub session: Option<SessionId>,
    /// The agent it belongs to, if the path names one.
    pub agent: Option<AgentId>,
    /// The rest of the path: a version, a run, a file name.
    pub name: Option<String>,
    /// How the file stores its records.
    pub framing: Framing,
}

impl Artifact {
    /// Creates an artifact with only a kind.
    pub fn new(kind: ArtifactKind) -> Self {
        Artifact {
            kind,
            folder: None,
            session: None,
            agent: None,
            name: None,
            framing: Framing::Lines,
        }
    }
}

impl Artifact {
    /// Whether the file only records conversations and configures no program.
    ///
    /// Only such files are written from an untrusted source: a converted root or a pack from
    /// elsewhere. Settings can name commands to run, and uninterpreted files can do anything:
    /// Claude Code runs the files in `session-env` as shell scripts.
    pub fn is_conversation_data(&self) -> bool {
        use ArtifactKind as K;
        match self.kind {
            K::SessionLog | K::SharedLog | K::AgentLog | K::AgentMeta => true,
            K::Todos | K::Task | K::FileVersion | K::ToolResult | K::History | K::Plan => true,
            K::TitleFile | K::Notes | K::RunLog | K::Companion | K::Origin => true,
            // A folder's session list names its logs; a root's is the configuration of its program.
            K::SessionList => self.folder.is_some(),
            K::Settings | K::State | K::SessionState | K::Index => false,
        }
    }

    /// Whether the file configures the agent program beyond single sessions.
    pub fn is_configuration(&self) -> bool {
        match self.kind {
            ArtifactKind::Settings | ArtifactKind::State => true,
            ArtifactKind::SessionList => self.folder.is_none(),
            _ => false,
        }
    }

    /// Whether the file is a sub-agent's log.
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
pub enum ArtifactKind {
    /// The log of a session's main agent.
    SessionLog,
    /// A log of several sessions; each record names its session. Records that name none belong to
    /// the session of the artifact.
    SharedLog,
    /// The log of a sub-agent.
    AgentLog,
    /// Metadata of a sub-agent, stored outside its log.
    AgentMeta,
    /// An agent's todos, one document.
    Todos,
    /// One task of a session's task list.
    Task,
    /// A saved version of a file that the agent changed.
    FileVersion,
    /// Output of a tool that was too long for the log.
    ToolResult,
    /// Prompts that a person typed, across sessions.
    History,
    /// Settings of the agent program.
    Settings,
    /// A plan.
    Plan,
    /// A derived list that can be rebuilt and is never relied on.
    Index,
    /// A session's title, stored in a file next to its log.
    TitleFile,
    /// State of the agent program that belongs to a session and is not interpreted.
    SessionState,
    /// Notes, tags and titles of a session, one per line, in a file next to its log.
    Notes,
    /// A session list: titles, directories and other data that the logs do not hold.
    #[serde(rename = "register")]
    SessionList,
    /// State of the agent program that belongs to no session.
    State,
    /// Output of the agent program.
    RunLog,
    /// Companion file next to a log: data that annals adds to the log's records.
    Companion,
    /// The source that a session or a root was converted from, as far as the layout has no field
    /// for it.
    Origin,
}

impl ArtifactKind {
    /// Whether the file has one record per line, as opposed to a document.
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

    /// Whether the file is a log that holds a conversation.
    pub fn is_conversation(self) -> bool {
        matches!(
            self,
            ArtifactKind::SessionLog | ArtifactKind::SharedLog | ArtifactKind::AgentLog
        )
    }
}
