//! Queries: terms, filters and their combination.

mod parse;

use jiff::Timestamp;

use crate::error::Result;

pub use parse::Dialect;

/// Search query with its result options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// Condition on records.
    pub expr: Expr,
    /// Order of the hits.
    pub order: Order,
    /// Maximum number of hits.
    pub limit: usize,
    /// Number of messages to include before and after each hit.
    pub context: usize,
    /// Stop when `limit` hits are found.
    pub first: bool,
}

/// Tools of annals' own server for agents. An agent that searches its history records the answers
/// in its own log.
const OWN_TOOLS: &str = "mcp__annals__*";

impl Query {
    /// Parses a query string.
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

    /// Creates a query with default options.
    pub fn new(wanted: Expr) -> Self {
        let mut query = Query {
            expr: wanted,
            order: Order::Relevance,
            limit: 50,
            context: 0,
            first: false,
        };
        // Without terms all hits are equally relevant.
        if !query.has_terms() {
            query.order = Order::Newest;
        }
        query
    }

    /// Adds a required filter.
    pub fn and(mut self, more: Filter) -> Self {
        let more = Expr::Filter(more);
        match &mut self.expr {
            Expr::All(parts) => parts.push(more),
            other => *other = Expr::All(vec![std::mem::take(other), more]),
        }
        self
    }

    /// Excludes what a filter matches.
    pub fn and_not(self, unwanted: Filter) -> Self {
        let before = self.expr;
        let not = Expr::Not(Box::new(Expr::Filter(unwanted)));
        Query {
            expr: match before {
                Expr::All(mut parts) => {
                    parts.push(not);
                    Expr::All(parts)
                }
                other => Expr::All(vec![other, not]),
            },
            ..self
        }
    }

    /// Excludes calls and results of annals' own tools for agents: they repeat what was found.
    pub fn without_echoes(self) -> Self {
        self.and_not(Filter::Tool(OWN_TOOLS.to_owned()))
    }

    /// Requires at least one of these filters; an empty list adds nothing.
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

    /// Sets the order of the hits.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the maximum number of hits.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of messages to include before and after each hit.
    pub fn context(mut self, messages: usize) -> Self {
        self.context = messages;
        self
    }

    /// Stops when as many hits are found as the limit allows: in the logs that were written to last.
    /// They are sorted among themselves, and the totals are lower bounds.
    pub fn first(mut self) -> Self {
        self.first = true;
        self
    }

    /// Returns true if the query has any term, not only filters.
    pub fn has_terms(&self) -> bool {
        self.expr.contains(&|part| matches!(part, Expr::Term(_)))
    }
}

/// Order of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Most relevant first; among equals, newest first.
    #[default]
    Relevance,
    /// Newest first.
    Newest,
    /// Oldest first.
    Oldest,
}

/// Condition on records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Expr {
    /// All of these; an empty list matches everything.
    All(Vec<Expr>),
    /// At least one of these.
    Any(Vec<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// The record contains this text.
    Term(Term),
    /// The record satisfies this filter.
    Filter(Filter),
}

impl Default for Expr {
    fn default() -> Self {
        Expr::All(Vec::new())
    }
}

impl Expr {
    /// Returns true if any part satisfies `is`.
    pub(crate) fn contains(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        is(self)
            || match self {
                Expr::All(parts) | Expr::Any(parts) => parts.iter().any(|part| part.contains(is)),
                Expr::Not(part) => part.contains(is),
                Expr::Term(_) | Expr::Filter(_) => false,
            }
    }
}

/// Text to find.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// Text or regular expression.
    pub text: String,
    /// Interpretation of the text.
    pub kind: TermKind,
    /// Match letter case.
    pub case: bool,
}

/// Interpretation of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TermKind {
    /// Literal text. A space matches any separator of words: white space, punctuation and symbols.
    /// The text must start and end at a word boundary, unless that side is open.
    Literal {
        /// The match may start in the middle of a word.
        open_start: bool,
        /// The match may end in the middle of a word.
        open_end: bool,
    },
    /// Regular expression.
    Pattern,
}

impl Term {
    /// Creates a literal term.
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

/// Condition on records other than a term.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// Project of the session: path, name or id.
    Project(String),
    /// Prefix of the session id, or thread name.
    Session(String),
    /// Name of the layout.
    Layout(String),
    /// Speaker.
    Role(Speaker),
    /// Kind of text that contains the terms.
    Kind(TextPart),
    /// Name of the called tool, also for its result.
    Tool(String),
    /// Part of the name of the model that answered.
    Model(String),
    /// Agent: `main`, `sub`, a prefix of a sub-agent's id, or its kind.
    Agent(String),
    /// Git branch, or a conversation by its leaf.
    Branch(String),
    /// File that a tool worked on: the end of its path.
    File(String),
    /// Member of the record, or attribute of its session ([`SessionInfo::attributes`]), by name:
    /// `channel`, `source`, `thread`, `conversation`, `session_id`, `workspace`.
    ///
    /// [`SessionInfo::attributes`]: crate::store::SessionInfo::attributes
    Attribute(&'static str, String),
    /// Earliest time, inclusive.
    Since(Timestamp),
    /// Latest time, inclusive.
    Until(Timestamp),
}

impl Filter {
    /// Names of all filters, as written before the colon in a query.
    pub const NAMES: &'static [&'static str] = &parse::NAMES;

    /// Creates a filter from its name and value, as in `role:user`.
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

/// Speaker, as named in queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaker {
    /// The user role: a person, or tool results.
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
    /// Returns the name used in queries.
    pub fn as_str(self) -> &'static str {
        let mut names = TextPart::NAMES.iter();
        let name = names.find(|(_, part)| *part == self);
        name.map_or("text", |(name, _)| name)
    }
}

impl Speaker {
    /// All speakers, by the names used in queries.
    pub const NAMES: &'static [(&'static str, Speaker)] = &[
        ("user", Speaker::User),
        ("human", Speaker::Human),
        ("assistant", Speaker::Assistant),
        ("system", Speaker::System),
        ("tool", Speaker::Tool),
    ];
}

/// Kind of text in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextPart {
    /// Text of a message.
    Text,
    /// Reasoning of the model.
    Thinking,
    /// Tool call or result.
    Tool,
    /// Tool call.
    Call,
    /// Tool result.
    Result,
    /// Title, tag or summary.
    Title,
    /// Note.
    Note,
    /// Message or attachment of the agent program.
    System,
}

impl TextPart {
    /// All kinds, by the names used in queries.
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

    /// Returns true if `other` is of this kind.
    pub(crate) fn covers(self, other: TextPart) -> bool {
        self == other
            || (self == TextPart::Tool && matches!(other, TextPart::Call | TextPart::Result))
    }
}
