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
    pub expr: Expr,
    /// Which hits come first.
    pub order: Order,
    /// How many hits are kept.
    pub limit: usize,
    /// How many messages before and after each hit are wanted too.
    pub context: usize,
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
        Ok(Query::new(parse::parse(text, dialect)?))
    }

    /// Looks for records that are like this.
    pub fn new(wanted: Expr) -> Self {
        let mut query = Query {
            expr: wanted,
            order: Order::Relevance,
            limit: 50,
            context: 0,
        };
        // Without words nothing is more relevant than anything else.
        if !query.has_terms() {
            query.order = Order::Newest;
        }
        query
    }

    /// Demands something more.
    pub fn and(mut self, more: Filter) -> Self {
        let more = Expr::Filter(more);
        match &mut self.expr {
            Expr::All(parts) => parts.push(more),
            other => *other = Expr::All(vec![std::mem::take(other), more]),
        }
        self
    }

    /// Demands one of several things more; of nothing, nothing.
    pub fn and_any(mut self, more: Vec<Filter>) -> Self {
        match more.len() {
            0 => self,
            1 => more.into_iter().fold(self, Query::and),
            _ => {
                let more = more.into_iter().map(Expr::Filter).collect();
                let before = std::mem::take(&mut self.expr);
                self.expr = Expr::All(vec![before, Expr::Any(more)]);
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
    pub fn context(mut self, messages: usize) -> Self {
        self.context = messages;
        self
    }

    /// Whether any text is looked for, and not only conditions are set.
    pub fn has_terms(&self) -> bool {
        self.expr.contains(&|part| matches!(part, Expr::Term(_)))
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
pub enum Expr {
    /// All of these; of nothing, anything.
    All(Vec<Expr>),
    /// One of these.
    Any(Vec<Expr>),
    /// Not this.
    Not(Box<Expr>),
    /// This text stands in it.
    Term(Term),
    /// This is so.
    Filter(Filter),
}

impl Default for Expr {
    fn default() -> Self {
        Expr::All(Vec::new())
    }
}

impl Expr {
    /// Whether some part of it is such.
    pub(crate) fn contains(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        is(self)
            || match self {
                Expr::All(parts) | Expr::Any(parts) => parts.iter().any(|part| part.contains(is)),
                Expr::Not(part) => part.contains(is),
                Expr::Term(_) | Expr::Filter(_) => false,
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
    Kind(TextPart),
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
    /// let filter = Filter::from_name("role", "user", &Dialect::default())?;
    /// assert_eq!(filter, Filter::Role(Speaker::User));
    /// # Ok::<(), annals::Error>(())
    /// ```
    pub fn from_name(name: &str, value: &str, dialect: &Dialect) -> Result<Self> {
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

impl TextPart {
    /// The name that queries use.
    pub fn as_str(self) -> &'static str {
        let mut names = TextPart::NAMES.iter();
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
pub enum TextPart {
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

impl TextPart {
    /// All of them, by the names that queries use.
    pub const NAMES: &'static [(&'static str, TextPart)] = &[
        ("text", TextPart::Text),
        ("thinking", TextPart::Thinking),
        ("tool", TextPart::Tool),
        ("call", TextPart::Call),
        ("result", TextPart::Result),
        ("title", TextPart::Title),
        ("note", TextPart::Note),
        ("system", TextPart::System),
    ];

    /// Whether a part of the one kind is of the other.
    pub(crate) fn covers(self, other: TextPart) -> bool {
        self == other
            || (self == TextPart::Tool && matches!(other, TextPart::Call | TextPart::Result))
    }
}
