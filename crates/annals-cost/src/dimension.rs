//! Dimensions by which a report can be broken down.

/// Property by which responses are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dimension {
    /// Hour, in the user's time zone.
    Hour,
    /// Day, in the user's time zone.
    Day,
    /// ISO week, in the user's time zone.
    Week,
    /// Month, in the user's time zone.
    Month,
    /// Five-hour billing block.
    Block,
    /// Session that pays.
    Session,
    /// Project directory of the session.
    Project,
    /// Model that answered.
    Model,
    /// Kind of agent that received the response: the main agent, or a kind of sub-agent.
    Agent,
    /// Agent that received the response: the main agent or a sub-agent.
    AgentId,
    /// Conversation within the session.
    Branch,
    /// Git branch that was checked out.
    GitBranch,
    /// Layout of the log.
    Layout,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Dimension; 13] = [
        Dimension::Hour,
        Dimension::Day,
        Dimension::Week,
        Dimension::Month,
        Dimension::Block,
        Dimension::Session,
        Dimension::Project,
        Dimension::Model,
        Dimension::Agent,
        Dimension::AgentId,
        Dimension::Branch,
        Dimension::GitBranch,
        Dimension::Layout,
    ];

    /// Returns the name used in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Hour => "hour",
            Dimension::Day => "day",
            Dimension::Week => "week",
            Dimension::Month => "month",
            Dimension::Block => "block",
            Dimension::Session => "session",
            Dimension::Project => "project",
            Dimension::Model => "model",
            Dimension::Agent => "agent",
            Dimension::AgentId => "agent-id",
            Dimension::Branch => "branch",
            Dimension::GitBranch => "git-branch",
            Dimension::Layout => "layout",
        }
    }

    /// Returns the name used as a JSON key and CSV column.
    pub fn member(self) -> &'static str {
        match self {
            Dimension::AgentId => "agent_id",
            Dimension::GitBranch => "git_branch",
            other => other.name(),
        }
    }

    /// Returns true if the dimension is a period, so that its rows are sorted by time.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Dimension::Hour
                | Dimension::Day
                | Dimension::Week
                | Dimension::Month
                | Dimension::Block
        )
    }
}
