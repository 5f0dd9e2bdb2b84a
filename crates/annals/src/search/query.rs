//! What is looked for: words, phrases and conditions, and how people write them.

mod parse;

use jiff::Timestamp;

use crate::error::Result;

pub use parse::Dialect;

/// What is looked for, and how much of it is wanted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// What a record must be like.
    pub wanted: Wanted,
    /// Which hits come first.
    pub order: Order,
    /// How many hits are kept.
    pub limit: usize,
    /// How many messages before and after each hit are wanted too.
    pub around: usize,
}

impl Query {
    /// Reads a query as people write it.
    ///
    /// ```
    /// use annals::search::{Dialect, Query};
    ///
    /// let query = Query::parse(r#""connection reset" OR timeout role:user -tool:Bash"#, &Dialect::default())?;
    /// # assert!(query.has_terms());
    /// # Ok::<(), annals::Error>(())
    /// ```
    pub fn parse(text: &str, dialect: &Dialect) -> Result<Self> {
        Ok(Query::of(parse::parse(text, dialect)?))
    }

    /// Looks for records that are like this.
    pub fn of(wanted: Wanted) -> Self {
        let mut query = Query {
            wanted,
            order: Order::Relevance,
            limit: 50,
            around: 0,
        };
        // Without words nothing is more relevant than anything else.
        if !query.has_terms() {
            query.order = Order::Newest;
        }
        query
    }

    /// Demands something more.
    pub fn and(mut self, more: Filter) -> Self {
        let more = Wanted::Filter(more);
        match &mut self.wanted {
            Wanted::All(parts) => parts.push(more),
            other => *other = Wanted::All(vec![std::mem::take(other), more]),
        }
        self
    }

    /// Demands one of several things more; of nothing, nothing.
    pub fn and_any(mut self, more: Vec<Filter>) -> Self {
        match more.len() {
            0 => self,
            1 => more.into_iter().fold(self, Query::and),
            _ => {
                let more = more.into_iter().map(Wanted::Filter).collect();
                let before = std::mem::take(&mut self.wanted);
                self.wanted = Wanted::All(vec![before, Wanted::Any(more)]);
                self
            }
        }
    }

    /// Says which hits come first.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Keeps at most so many hits.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Wants so many messages before and after each hit.
    pub fn around(mut self, messages: usize) -> Self {
        self.around = messages;
        self
    }

    /// Whether any text is looked for, and not only conditions are set.
    pub fn has_terms(&self) -> bool {
        self.wanted.any(&|part| matches!(part, Wanted::Term(_)))
    }
}

/// Which hits come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Those that say most of what is looked for; of equal ones the newest.
    #[default]
    Relevance,
    /// The newest.
    Newest,
    /// The oldest.
    Oldest,
}

/// What a record must be like.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Wanted {
    /// All of these; of nothing, anything.
    All(Vec<Wanted>),
    /// One of these.
    Any(Vec<Wanted>),
    /// Not this.
    Not(Box<Wanted>),
    /// This text stands in it.
    Term(Term),
    /// This is so.
    Filter(Filter),
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted::All(Vec::new())
    }
}

impl Wanted {
    /// Whether some part of it is such.
    pub(crate) fn any(&self, is: &dyn Fn(&Wanted) -> bool) -> bool {
        is(self)
            || match self {
                Wanted::All(parts) | Wanted::Any(parts) => parts.iter().any(|part| part.any(is)),
                Wanted::Not(part) => part.any(is),
                Wanted::Term(_) | Wanted::Filter(_) => false,
            }
    }
}

/// A text that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The text, or the pattern.
    pub text: String,
    /// How it is read.
    pub kind: TermKind,
    /// Letter case counts.
    pub case: bool,
}

/// How a text that is looked for is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TermKind {
    /// As it is; spaces stand for any white space. It must begin and end where words do, unless it
    /// may go on at that side.
    Literal {
        /// It may begin in the middle of a word.
        open_start: bool,
        /// It may end in the middle of a word.
        open_end: bool,
    },
    /// As a regular expression.
    Pattern,
}

impl Term {
    /// A text as it is.
    pub fn literal(text: impl Into<String>) -> Self {
        Term {
            text: text.into(),
            kind: TermKind::Literal {
                open_start: false,
                open_end: false,
            },
            case: false,
        }
    }
}

/// A condition on records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// Its session's project: the path, the name or the id.
    Project(String),
    /// The beginning of its session's id, or the name of its thread.
    Session(String),
    /// Its layout.
    Layout(String),
    /// Who said it.
    Role(Speaker),
    /// The part of a message that the words stand in.
    Kind(Part),
    /// The tool that was called, or that gave the result.
    Tool(String),
    /// A part of the name of the model that answered.
    Model(String),
    /// Whose it is: `main`, `sub`, or the beginning of a sub-agent's id or kind.
    Agent(String),
    /// The git branch, or a conversation by its leaf.
    Branch(String),
    /// A file that a tool worked on: the end of its path.
    File(String),
    /// A member of the record, or an attribute of its session ([`SessionInfo::attributes`]), by name:
    /// `channel`, `source`, `thread`, `conversation`, `session_id`, `workspace`.
    ///
    /// [`SessionInfo::attributes`]: crate::store::SessionInfo::attributes
    Attribute(&'static str, String),
    /// Not older.
    Since(Timestamp),
    /// Not newer.
    Until(Timestamp),
}

impl Filter {
    /// The names of all conditions, as they stand before the colon in a query.
    pub const NAMES: &'static [&'static str] = &parse::NAMES;

    /// A condition by its name and its value, as in `role:user`.
    ///
    /// ```
    /// use annals::search::{Dialect, Filter, Speaker};
    ///
    /// let filter = Filter::named("role", "user", &Dialect::default())?;
    /// assert_eq!(filter, Filter::Role(Speaker::User));
    /// # Ok::<(), annals::Error>(())
    /// ```
    pub fn named(name: &str, value: &str, dialect: &Dialect) -> Result<Self> {
        parse::filter(name, value, dialect).map_err(crate::Error::Refused)
    }
}

/// Who says something, as people ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaker {
    /// A person, or tool results in the person's place.
    User,
    /// A person at the keyboard.
    Human,
    /// The model.
    Assistant,
    /// The agent program, or instructions.
    System,
    /// A tool.
    Tool,
}

impl Part {
    /// The name that queries use.
    pub fn as_str(self) -> &'static str {
        let mut names = Part::NAMES.iter();
        let name = names.find(|(_, part)| *part == self);
        name.map_or("text", |(name, _)| name)
    }
}

impl Speaker {
    /// All of them, by the names that queries use.
    pub const NAMES: &'static [(&'static str, Speaker)] = &[
        ("user", Speaker::User),
        ("human", Speaker::Human),
        ("assistant", Speaker::Assistant),
        ("system", Speaker::System),
        ("tool", Speaker::Tool),
    ];
}

/// A part of a record that words stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// What was said in words.
    Text,
    /// The model's reasoning.
    Thinking,
    /// A call of a tool or its result.
    Tool,
    /// A call of a tool.
    Call,
    /// A tool's result.
    Result,
    /// A title, a label or a summary.
    Title,
    /// A note.
    Note,
    /// What the agent program noted or attached.
    System,
}

impl Part {
    /// All of them, by the names that queries use.
    pub const NAMES: &'static [(&'static str, Part)] = &[
        ("text", Part::Text),
        ("thinking", Part::Thinking),
        ("tool", Part::Tool),
        ("call", Part::Call),
        ("result", Part::Result),
        ("title", Part::Title),
        ("note", Part::Note),
        ("system", Part::System),
    ];

    /// Whether a part of the one kind is of the other.
    pub(crate) fn covers(self, other: Part) -> bool {
        self == other || (self == Part::Tool && matches!(other, Part::Call | Part::Result))
    }
}
