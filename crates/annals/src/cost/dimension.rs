//! By what a report may be broken down.

/// Something that responses are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dimension {
    /// The hour, in the reader's zone.
    Hour,
    /// The day, in the reader's zone.
    Day,
    /// The ISO week, in the reader's zone.
    Week,
    /// The month, in the reader's zone.
    Month,
    /// The five-hour billing block.
    Block,
    /// The session that pays.
    Session,
    /// The directory that the session is about.
    Project,
    /// The model that answered.
    Model,
    /// The agent that was answered: the main one, or a sub-agent.
    Agent,
    /// The conversation within the session.
    Branch,
    /// The git branch that was checked out.
    GitBranch,
    /// The layout that tells of it.
    Layout,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; 12] = [
        Dimension::Hour,
        Dimension::Day,
        Dimension::Week,
        Dimension::Month,
        Dimension::Block,
        Dimension::Session,
        Dimension::Project,
        Dimension::Model,
        Dimension::Agent,
        Dimension::Branch,
        Dimension::GitBranch,
        Dimension::Layout,
    ];

    /// Its name as an argument.
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
            Dimension::Branch => "branch",
            Dimension::GitBranch => "git-branch",
            Dimension::Layout => "layout",
        }
    }

    /// Its name as a member of JSON and a column of CSV.
    pub fn member(self) -> &'static str {
        match self {
            Dimension::GitBranch => "git_branch",
            other => other.name(),
        }
    }

    /// The dimension of that name, or of its plural or adverb: `days`, `daily`.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = match name {
            "hourly" => "hour",
            "daily" => "day",
            "weekly" => "week",
            "monthly" => "month",
            "branches" => "branch",
            other => other.strip_suffix('s').unwrap_or(other),
        };
        Self::ALL
            .into_iter()
            .find(|one| one.name() == name || one.member() == name)
    }

    /// It says when, so that its rows have an order of their own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimension_is_found_by_each_of_its_names() {
        for one in Dimension::ALL {
            assert_eq!(Dimension::by_name(one.name()), Some(one));
            assert_eq!(Dimension::by_name(one.member()), Some(one));
        }
        assert_eq!(Dimension::by_name("daily"), Some(Dimension::Day));
        assert_eq!(Dimension::by_name("sessions"), Some(Dimension::Session));
        assert_eq!(Dimension::by_name("year"), None);
    }
}
