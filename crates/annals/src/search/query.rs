//! Queries: terms, filters and their combination.

mod parse;

use jiff::Timestamp;

use crate::error::Result;

pub use parse::Dialect;

/// Search query with its result options.
#[derive(Clone, Debug)]
pub struct Query {
    /// Condition on records.
    pub(crate) expr: Expr,
    /// Order of the hits.
    pub(crate) order: Order,
    /// Maximum number of hits.
    pub(crate) limit: usize,
    /// Number of messages to include before and after each hit.
    pub(crate) context: usize,
    /// Stop when this many hits are found.
    pub(crate) first: Option<usize>,
}

/// Tools of annals' own server for agents, as Claude Code, Codex and Qwen Code, as Gemini CLI, as OpenCode and Droid,
/// and as Copilot name them. An agent that searches its history records the answers in its own log.
const OWN_TOOLS: [&str; 4] = ["mcp__annals__*", "mcp_annals_*", "annals_*", "annals-*"];

impl Query {
    /// Parses a query string.
    ///
    /// ```
    /// use annals::search::{Dialect, Query};
    ///
    /// let query = Query::parse(r#""connection reset" OR timeout role:user -tool:Bash"#, &Dialect::default())?;
    /// # assert_eq!(query.required_filters(), 1);
    /// # Ok::<(), annals::Error>(())
    /// ```
    pub fn parse(text: &str, dialect: &Dialect) -> Result<Self> {
        Ok(Query::new(parse::parse(text, dialect)?))
    }

    /// Names of all filters, as written before the colon in a query.
    pub const FILTER_NAMES: &'static [&'static str] = &parse::NAMES;

    /// Creates a query that matches all records.
    pub fn all() -> Self {
        Query::new(Expr::default())
    }

    /// Creates a query with default options.
    pub(crate) fn new(wanted: Expr) -> Self {
        let mut query = Query {
            expr: wanted,
            order: Order::Relevance,
            limit: 50,
            context: 0,
            first: None,
        };
        // Without terms all hits are equally relevant.
        if !query.has_terms() {
            query.order = Order::Newest;
        }
        query
    }

    /// Requires one of the values of a filter, as `(role:user OR role:tool)` in a query does. No
    /// values add nothing.
    ///
    /// ```
    /// use annals::search::{Dialect, Query};
    ///
    /// let dialect = Dialect::default();
    /// let query = Query::parse("timeout", &dialect)?.filter("role", ["user", "tool"], &dialect)?;
    /// # assert_eq!(query.required_filters(), 2);
    /// # Ok::<(), annals::Error>(())
    /// ```
    pub fn filter<V: AsRef<str>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = V>,
        dialect: &Dialect,
    ) -> Result<Self> {
        let values = values.into_iter();
        let filters = values.map(|value| parse::filter(name, value.as_ref(), dialect));
        let filters = filters.collect::<std::result::Result<_, _>>();
        Ok(self.and_any(filters.map_err(crate::Error::Refused)?))
    }

    /// Requires a time of at least `since` and at most `until`.
    pub fn between(self, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        let since = since.map(Filter::Since);
        let filters = since.into_iter().chain(until.map(Filter::Until));
        filters.fold(self, Query::and)
    }

    /// Adds a required filter.
    pub(crate) fn and(mut self, more: Filter) -> Self {
        let more = Expr::Filter(more);
        match &mut self.expr {
            Expr::All(parts) => parts.push(more),
            other => *other = Expr::All(vec![std::mem::take(other), more]),
        }
        self
    }

    /// Excludes what a filter matches.
    pub(crate) fn and_not(self, unwanted: Filter) -> Self {
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
    pub(crate) fn without_echoes(self) -> Self {
        let tools = OWN_TOOLS.map(|name| Filter::Tool(name.to_owned()));
        tools.into_iter().fold(self, Query::and_not)
    }

    /// Requires at least one of these filters; an empty list adds nothing.
    pub(crate) fn and_any(mut self, more: Vec<Filter>) -> Self {
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

    /// Stops when so many hits are found: logs are searched in the order of their last write, each from
    /// its end. The hits are sorted among themselves, and the totals are lower bounds.
    pub fn first(mut self, hits: usize) -> Self {
        self.first = Some(hits);
        self
    }

    /// Returns true if the query has any term, not only filters.
    pub(crate) fn has_terms(&self) -> bool {
        self.expr.contains(&|part| matches!(part, Expr::Term(_)))
    }

    /// Returns the terms that are not negated.
    pub fn required_terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        self.expr.each_required(&mut |part| {
            if let Expr::Term(term) = part {
                terms.push(term);
            }
        });
        terms
    }

    /// Returns the number of filters that are not negated.
    pub fn required_filters(&self) -> usize {
        let mut count = 0;
        self.expr
            .each_required(&mut |part| count += usize::from(matches!(part, Expr::Filter(_))));
        count
    }

    /// Returns true if a record may match one part of the query without another.
    pub fn has_alternatives(&self) -> bool {
        let mut found = false;
        self.expr
            .each_required(&mut |part| found |= matches!(part, Expr::Any(_)));
        found
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
pub(crate) enum Expr {
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
    /// Calls `f` with this part and those inside it that are not negated.
    fn each_required<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        match self {
            Expr::All(parts) | Expr::Any(parts) => {
                parts.iter().for_each(|part| part.each_required(f))
            }
            Expr::Not(_) | Expr::Term(_) | Expr::Filter(_) => {}
        }
    }

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
pub struct Term {
    /// Text or regular expression.
    pub(crate) text: String,
    /// Interpretation of the text.
    pub(crate) kind: TermKind,
    /// Match letter case.
    pub(crate) case: bool,
}

/// Interpretation of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermKind {
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
    #[cfg(test)]
    pub(crate) fn new_literal(text: &str) -> Self {
        Term {
            text: text.to_owned(),
            kind: TermKind::Literal {
                open_start: false,
                open_end: false,
            },
            case: false,
        }
    }

    /// Returns the literal text; `None` for a regular expression.
    pub fn literal(&self) -> Option<&str> {
        match self.kind {
            TermKind::Literal { .. } => Some(&self.text),
            TermKind::Pattern => None,
        }
    }

    /// Returns true if both ends of the text must be at a word boundary.
    pub fn matches_whole_words(&self) -> bool {
        let whole = TermKind::Literal {
            open_start: false,
            open_end: false,
        };
        self.kind == whole
    }

    /// Returns true if the letter case matters.
    pub fn matches_case(&self) -> bool {
        self.case
    }
}

/// Condition on records other than a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
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

/// Speaker, as named in queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
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
    pub(crate) const NAMES: &'static [(&'static str, Speaker)] = &[
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
    pub(crate) const NAMES: &'static [(&'static str, TextPart)] = &[
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
