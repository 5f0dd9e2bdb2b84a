//! Matches records against a query, and weighs the matches.

use std::borrow::Cow;

use super::query::{Expr, Filter, Speaker, Term, TermKind, TextPart};
use super::searchable_text::{TextPiece, Tool, files};
use super::term_matcher::TermMatcher;
use crate::error::Result;
use annals_layouts::json;
use annals_layouts::model::{AgentId, Body, Entry, EntryKey, Role};

/// Maximum number of occurrences of a term counted per text.
const COUNTED: usize = 32;

/// Compiled query, ready to match many records.
#[derive(Debug)]
pub(crate) struct Matcher {
    node: Node,
    pub(super) terms: Vec<Term>,
    pub(super) finders: Vec<TermMatcher>,
}

#[derive(Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// Number of a term.
    Term(usize),
    Filter(Filter),
}

/// Context of a record, beyond its own contents.
pub(super) trait QueryContext {
    /// Returns true if its session belongs to the project.
    fn in_project(&self, wanted: &str) -> bool;
    /// Returns true if its session has this id prefix or thread name.
    fn in_session(&self, wanted: &str) -> bool;
    /// Name of its layout.
    fn layout(&self) -> &str;
    /// Agent of the log that contains it.
    fn agent(&self) -> Option<&AgentId>;
    /// Kind of a sub-agent.
    fn agent_kind(&self, agent: &AgentId) -> Option<String>;
    /// Name of the tool of a call.
    fn tool_of(&self, call: &str) -> Option<String>;
    /// Returns true if an entry is on a conversation with such a leaf.
    fn on_conversation(&self, wanted: &str, entry: EntryKey) -> bool;
    /// Attribute of its session from a session list, by name.
    fn attribute(&self, name: &str) -> Option<String>;
}

/// Weighted number of matches of each term in a record.
pub(super) type Counts = Box<[f32]>;

/// Conditions on the texts in which terms may match: those of the same conjunction and of the
/// enclosing ones.
#[derive(Clone, Copy)]
struct Scope<'a> {
    nodes: &'a [Node],
    outer: Option<&'a Scope<'a>>,
}

struct Record<'a> {
    entry: &'a Entry,
    pieces: &'a [TextPiece<'a>],
    around: &'a dyn QueryContext,
}

impl Matcher {
    pub(crate) fn new(wanted: &Expr) -> Result<Self> {
        let mut terms = Vec::new();
        let node = Node::new(wanted, &mut terms);
        let finders = terms.iter().map(TermMatcher::new).collect::<Result<_>>()?;
        Ok(Matcher {
            node,
            terms,
            finders,
        })
    }

    /// Returns the weighted number of matches of each term, if the entry matches.
    ///
    /// `pieces` are the texts of the entry.
    pub(super) fn match_entry(
        &self,
        entry: &Entry,
        pieces: &[TextPiece<'_>],
        around: &dyn QueryContext,
    ) -> Option<Counts> {
        let record = Record {
            entry,
            pieces,
            around,
        };
        let mut counts = vec![0.0; self.terms.len()].into_boxed_slice();
        let scope = Scope {
            nodes: &[],
            outer: None,
        };
        // An entry without text is a hit only if it is a file change (for `file:`).
        let speaks = !record.pieces.is_empty() || matches!(entry.body, Body::Files(_));
        let is = speaks && self.matches(&self.node, scope, &record, Some(&mut counts));
        is.then_some(counts)
    }

    /// Returns true if a record matches a part of the query. Adds matches to `counts`, if given.
    fn matches(
        &self,
        node: &Node,
        scope: Scope<'_>,
        record: &Record<'_>,
        mut counts: Option<&mut [f32]>,
    ) -> bool {
        match node {
            Node::All(parts) => {
                let limits = parts.partition_point(Node::limits);
                let (limits, others) = parts.split_at_checked(limits).unwrap_or_default();
                let scope = Scope {
                    nodes: limits,
                    outer: Some(&scope),
                };
                // Terms first: they match only within the limits, so little is left to check.
                let mut parts = others.iter().chain(limits);
                parts.all(|part| self.matches(part, scope, record, counts.as_deref_mut()))
            }
            // All parts are evaluated, because all matches count.
            Node::Any(parts) => {
                let mut any = false;
                for part in parts {
                    any |= self.matches(part, scope, record, counts.as_deref_mut());
                }
                any
            }
            Node::Not(part) => !self.matches(part, scope, record, None),
            Node::Term(number) => {
                let Some(finder) = self.finders.get(*number) else {
                    return false;
                };
                let allowed = record
                    .pieces
                    .iter()
                    .filter(|piece| scope.allows(piece, record.around));
                let weights = allowed.map(|piece| {
                    let count = finder.all(&piece.text).take(COUNTED).count() as f32;
                    // The kind of text matters more than the number of matches, because logs repeat
                    // text.
                    piece.weight * count / (count + 1.0)
                });
                let sum: f32 = weights.sum();
                if let Some(count) = counts.and_then(|counts| counts.get_mut(*number)) {
                    *count = count.max(sum);
                }
                sum > 0.0
            }
            Node::Filter(filter) => filter_matches(filter, scope, record),
        }
    }

    /// Returns terms of which at least one must occur in the bytes of every hit; `None` if there
    /// are none.
    pub(super) fn required_terms(&self) -> Option<Vec<&Term>> {
        self.node.required_terms(&self.terms)
    }

    /// Returns true if a text can satisfy the conditions on texts, as far as the text itself shows:
    /// a result does not name its tool.
    pub(super) fn admits_text(&self, piece: &TextPiece<'_>) -> bool {
        let is = |filter: &Filter| match (filter, piece.tool) {
            (Filter::Kind(part), _) => part.covers(piece.part),
            (Filter::Tool(wanted), Tool::Named(name)) => is_name(wanted, name),
            (Filter::Tool(_), Tool::None) => false,
            _ => true,
        };
        match &self.node {
            Node::All(parts) => parts.iter().all(|part| part.admits(&is) != Some(false)),
            node => node.admits(&is) != Some(false),
        }
    }

    /// Evaluates the conditions that are known for a whole log; `None` if the result depends on
    /// records.
    pub(super) fn evaluate_for_log(&self, known: &dyn Fn(&Filter) -> Option<bool>) -> Option<bool> {
        self.node.evaluate_for_log(known)
    }

    /// Combines index results of the terms; `None` means all records.
    pub(crate) fn narrow<T>(
        &self,
        term: &mut dyn FnMut(&Term) -> Option<T>,
        both: &mut dyn FnMut(T, T) -> T,
        either: &mut dyn FnMut(T, T) -> T,
    ) -> Option<T> {
        self.node.narrow(&self.terms, term, both, either)
    }
}

impl Node {
    fn new(wanted: &Expr, terms: &mut Vec<Term>) -> Self {
        match wanted {
            Expr::All(parts) => {
                let mut nodes: Vec<Node> =
                    parts.iter().map(|part| Node::new(part, terms)).collect();
                // Limits first; among the others, conditions that need more than the record come
                // last.
                crate::sort::by_key(&mut nodes, |node| (!node.limits(), node.cost()));
                Node::All(nodes)
            }
            Expr::Any(parts) => {
                Node::Any(parts.iter().map(|part| Node::new(part, terms)).collect())
            }
            Expr::Not(part) => Node::Not(Box::new(Node::new(part, terms))),
            Expr::Filter(filter) => Node::Filter(filter.clone()),
            Expr::Term(term) => {
                let known = terms.iter().position(|known| known == term);
                Node::Term(known.unwrap_or_else(|| {
                    terms.push(term.clone());
                    terms.len() - 1
                }))
            }
        }
    }

    /// Returns true if it limits the texts in which the terms of the same conjunction may match.
    fn limits(&self) -> bool {
        self.admits(&|_| true).is_some()
    }

    fn cost(&self) -> u8 {
        match self {
            Node::Filter(
                Filter::Project(_) | Filter::Branch(_) | Filter::Agent(_) | Filter::Attribute(..),
            ) => 3,
            Node::Filter(Filter::Tool(_)) => 2,
            Node::Filter(_) => 0,
            Node::Term(_) => 1,
            Node::Not(part) => part.cost(),
            Node::All(parts) | Node::Any(parts) => {
                parts.iter().map(Node::cost).max().unwrap_or_default()
            }
        }
    }

    fn required_terms<'a>(&self, terms: &'a [Term]) -> Option<Vec<&'a Term>> {
        match self {
            Node::Term(number) => {
                let term = terms.get(*number)?;
                matches!(term.kind, TermKind::Literal { .. }).then(|| vec![term])
            }
            // Long words are the rarest.
            Node::All(parts) => {
                let needed = parts.iter().filter_map(|part| part.required_terms(terms));
                let shortest = |terms: &Vec<&Term>| terms.iter().map(|term| term.text.len()).min();
                needed.max_by_key(shortest)
            }
            Node::Any(parts) => {
                let needed: Option<Vec<_>> = parts
                    .iter()
                    .map(|part| part.required_terms(terms))
                    .collect();
                needed.map(|needed| needed.concat())
            }
            Node::Not(_) | Node::Filter(_) => None,
        }
    }

    fn evaluate_for_log(&self, known: &dyn Fn(&Filter) -> Option<bool>) -> Option<bool> {
        match self {
            Node::Filter(filter) => known(filter),
            Node::Term(_) => None,
            Node::Not(part) => part.evaluate_for_log(known).map(|is| !is),
            Node::All(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| part.evaluate_for_log(known))
                    .collect();
                match parts.contains(&Some(false)) {
                    true => Some(false),
                    false => parts.iter().all(Option::is_some).then_some(true),
                }
            }
            Node::Any(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| part.evaluate_for_log(known))
                    .collect();
                match parts.contains(&Some(true)) {
                    true => Some(true),
                    false => parts.iter().all(Option::is_some).then_some(false),
                }
            }
        }
    }

    /// Returns true if a text satisfies the conditions on texts; `None` if there are no such
    /// conditions.
    fn admits(&self, is: &dyn Fn(&Filter) -> bool) -> Option<bool> {
        match self {
            Node::Filter(filter @ (Filter::Kind(_) | Filter::Tool(_))) => Some(is(filter)),
            // Only if every alternative is a condition on texts.
            Node::Any(parts) => {
                let parts: Option<Vec<bool>> = parts.iter().map(|part| part.admits(is)).collect();
                parts.map(|parts| parts.contains(&true))
            }
            Node::All(_) | Node::Not(_) | Node::Term(_) | Node::Filter(_) => None,
        }
    }

    fn narrow<T>(
        &self,
        terms: &[Term],
        term: &mut dyn FnMut(&Term) -> Option<T>,
        both: &mut dyn FnMut(T, T) -> T,
        either: &mut dyn FnMut(T, T) -> T,
    ) -> Option<T> {
        match self {
            Node::Term(number) => term(terms.get(*number)?),
            Node::Not(_) | Node::Filter(_) => None,
            Node::All(parts) => {
                let mut all = None;
                for part in parts {
                    let one = part.narrow(terms, term, both, either);
                    all = match (all, one) {
                        (Some(all), Some(one)) => Some(both(all, one)),
                        (all, one) => all.or(one),
                    };
                }
                all
            }
            Node::Any(parts) => {
                let mut any = None;
                for part in parts {
                    let one = part.narrow(terms, term, both, either)?;
                    any = Some(match any {
                        Some(any) => either(any, one),
                        None => one,
                    });
                }
                any
            }
        }
    }
}

impl Scope<'_> {
    fn allows(&self, piece: &TextPiece<'_>, around: &dyn QueryContext) -> bool {
        let is = |filter: &Filter| is_of_part(filter, piece, around);
        let here = self
            .nodes
            .iter()
            .all(|node| node.admits(&is) != Some(false));
        here && self.outer.is_none_or(|outer| outer.allows(piece, around))
    }
}

fn is_tool(wanted: &str, piece: &TextPiece<'_>, around: &dyn QueryContext) -> bool {
    match piece.tool {
        Tool::None => false,
        Tool::Named(name) => is_name(wanted, name),
        Tool::Called(call) => around
            .tool_of(call)
            .is_some_and(|name| is_name(wanted, &name)),
    }
}

/// Compares a name, ignoring ASCII case; a trailing star matches any suffix.
fn is_name(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => starts_with(name, beginning),
        None => wanted.eq_ignore_ascii_case(name),
    }
}

fn starts_with(name: &str, beginning: &str) -> bool {
    let head = name.get(..beginning.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

fn filter_matches(filter: &Filter, scope: Scope<'_>, record: &Record<'_>) -> bool {
    let Record {
        entry,
        pieces,
        around,
    } = record;
    let message = match &entry.body {
        Body::Message(message) => Some(message),
        _ => None,
    };
    match filter {
        Filter::Project(wanted) => around.in_project(wanted),
        Filter::Session(wanted) => around.in_session(wanted),
        Filter::Layout(wanted) => around.layout() == wanted,
        Filter::Since(time) => entry.time.is_some_and(|at| at >= *time),
        Filter::Until(time) => entry.time.is_some_and(|at| at <= *time),
        Filter::Role(speaker) => match speaker {
            Speaker::User => message.is_some_and(|message| message.role == Role::User),
            Speaker::Human => message.is_some_and(|message| message.human),
            Speaker::Assistant => message.is_some_and(|message| message.role == Role::Assistant),
            Speaker::System => match &entry.body {
                Body::Message(message) => message.role == Role::System,
                body => matches!(
                    body,
                    Body::System { .. } | Body::Attachment { .. } | Body::Compaction { .. }
                ),
            },
            Speaker::Tool => pieces.iter().any(|piece| piece.part == TextPart::Result),
        },
        Filter::Kind(_) | Filter::Tool(_) => pieces
            .iter()
            .any(|piece| is_of_part(filter, piece, *around) && scope.allows(piece, *around)),
        Filter::Model(wanted) => message
            .and_then(|message| message.model.as_deref())
            .is_some_and(|model| contains(model, wanted)),
        Filter::Agent(wanted) => {
            let agent = entry.agent.as_ref().or_else(|| around.agent());
            match (wanted.as_str(), agent) {
                ("main", agent) => agent.is_none() && !entry.sidechain,
                ("sub", agent) => agent.is_some() || entry.sidechain,
                // In some layouts sessions belong to agents.
                (wanted, None) => ["agent", "agent_name"].into_iter().any(|name| {
                    let agent = around.attribute(name);
                    agent.is_some_and(|agent| is_name(wanted, &agent))
                }),
                (wanted, Some(agent)) => {
                    agent.as_str().starts_with(wanted)
                        || around
                            .agent_kind(agent)
                            .is_some_and(|kind| is_name(wanted, &kind))
                }
            }
        }
        Filter::Branch(wanted) => {
            let git = entry.context.git_branch.as_deref();
            git.is_some_and(|branch| is_name(wanted, branch))
                || entry
                    .id
                    .as_ref()
                    .is_some_and(|id| around.on_conversation(wanted, id.key()))
        }
        Filter::Attribute(name, wanted) => match own_attribute(entry, name) {
            Some(value) => is_attribute(name, wanted, &value),
            // For a prompt without a source, the origin is unknown.
            None if *name == "source" => false,
            None => [*name, other_name(name)].into_iter().any(|name| {
                let value = around.attribute(name);
                value.is_some_and(|value| is_attribute(name, wanted, &value))
            }),
        },
        Filter::File(wanted) => {
            let mut found = false;
            files(entry, &mut |path| found |= is_file(path, wanted));
            found
        }
    }
}

/// Returns an attribute that the record itself has; otherwise the session's applies.
fn own_attribute<'a>(entry: &'a Entry, name: &str) -> Option<Cow<'a, str>> {
    let member = |wanted: &str| {
        let mut members = entry.members.iter();
        let (_, value) = members.find(|(name, _)| name == wanted)?;
        Some(json::decode_string(value).unwrap_or(Cow::Borrowed(value.as_str())))
    };
    match name {
        "channel" => entry
            .context
            .channel
            .as_deref()
            .map(Cow::Borrowed)
            .or_else(|| member(name)),
        "session_id" => member("sessionId"),
        name => member(name),
    }
}

/// Returns the attribute that holds the readable name.
fn other_name(name: &str) -> &str {
    match name {
        "workspace" => "workspace_name",
        name => name,
    }
}

/// Compares an attribute: ids match by prefix, names as a whole.
fn is_attribute(name: &str, wanted: &str, value: &str) -> bool {
    let id = matches!(name, "session_id" | "thread" | "conversation");
    is_name(wanted, value) || (id && starts_with(value, wanted))
}

/// Returns true if a text has the wanted kind or tool; other filters apply to records.
fn is_of_part(filter: &Filter, piece: &TextPiece<'_>, around: &dyn QueryContext) -> bool {
    match filter {
        Filter::Kind(part) => part.covers(piece.part),
        Filter::Tool(name) => is_tool(name, piece, around),
        _ => true,
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

/// Returns true if a path equals `wanted`, ends with it, or contains it as a directory.
fn is_file(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_start_matches("./").trim_end_matches('/');
    if wanted.is_empty() {
        return false;
    }
    if let Some((directory, ending)) = wanted.rsplit_once('*') {
        let (directory, path) = (directory.trim_end_matches('*'), path);
        return path.ends_with(ending) && (directory.is_empty() || path.contains(directory));
    }
    let mut from = 0;
    while let Some(at) = path.get(from..).and_then(|rest| rest.find(wanted)) {
        let (start, end) = (from + at, from + at + wanted.len());
        let before = path.get(..start).unwrap_or_default();
        let after = path.get(end..).unwrap_or_default();
        let begins = before.is_empty() || before.ends_with('/') || wanted.starts_with('/');
        if begins && (after.is_empty() || after.starts_with('/')) {
            return true;
        }
        from = start + wanted.chars().next().map_or(1, char::len_utf8);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_filter_matches_end_of_path() {
        for (path, wanted, is) in [
            ("/w/src/x.rs", "src/x.rs", true),
            ("/w/src/x.rs", "x.rs", true),
            ("/w/src/x.rs", "/w/src/x.rs", true),
            ("/w/src/x.rs", "./src/x.rs", true),
            ("/w/src/x.rs", "src/", true),
            ("/w/src/x.rs", "*.rs", true),
            ("/w/src/x.rs", "src/*.rs", true),
            ("/w/src/xx.rs", "x.rs", false),
            ("/w/src/x.rs", "src/x", false),
            ("/w/lib/x.rs", "src/*.rs", false),
            ("/w/src/x.rs", "", false),
        ] {
            assert_eq!(is_file(path, wanted), is, "{path} {wanted}");
        }
    }
}
