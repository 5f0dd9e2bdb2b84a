//! Query syntax: words, "phrases", prefix*, -not, OR, (groups) and filters such as `role:user`.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::super::term_matcher::TermMatcher;
use super::{Expr, Filter, Speaker, Term, TermKind, TextPart};
use crate::error::{Error, Result};
use crate::time_input::{Now, TIME_FORMS};
use annals_layouts::layout::LAYOUTS;

/// Maximum length of a query in bytes.
const LONGEST: usize = 64 << 10;

/// Maximum nesting depth of groups.
const DEEPEST: usize = 64;

/// Parser options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dialect {
    /// Match letter case.
    pub(crate) case: bool,
    /// Parse the whole query as one regular expression.
    pub(crate) regex: bool,
    /// Current time, for relative times such as `after:yesterday`.
    pub(crate) now: Now,
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect::new(Now {
            time: Timestamp::now(),
            zone: TimeZone::system(),
        })
    }
}

impl Dialect {
    /// Creates the default options for a time.
    pub fn new(now: Now) -> Self {
        Dialect {
            case: false,
            regex: false,
            now,
        }
    }

    /// Sets whether letter case matters.
    pub fn case(mut self, counts: bool) -> Self {
        self.case = counts;
        self
    }

    /// Sets whether the whole query is a regular expression.
    pub fn regex(mut self, is: bool) -> Self {
        self.regex = is;
        self
    }
}

pub(super) fn parse(text: &str, dialect: &Dialect) -> Result<Expr> {
    if text.len() > LONGEST {
        let why = format!("it has {} bytes; the maximum is {LONGEST}", text.len());
        return Err(fault("", 0..0, why));
    }
    if dialect.regex {
        let term = pattern(text, text, 0, dialect)?;
        return Ok(Expr::Term(term));
    }
    let pieces = tokenize(text)?;
    let mut reader = QueryParser {
        text,
        pieces: &pieces,
        dialect,
        depth: 0,
    };
    let wanted = reader.any_of()?;
    match reader.pieces.first() {
        None => Ok(wanted),
        Some(piece) => Err(fault(
            text,
            piece.at.clone(),
            "unmatched `)`; quote it to search for it",
        )),
    }
}

fn fault(text: &str, at: Range<usize>, why: impl Into<String>) -> Error {
    Error::Query {
        text: text.to_owned(),
        at,
        why: why.into(),
    }
}

/// Token of the query with its byte range.
#[derive(Debug)]
struct QueryToken<'a> {
    at: Range<usize>,
    sign: TokenKind<'a>,
}

#[derive(Debug, PartialEq)]
enum TokenKind<'a> {
    Open,
    Close,
    Minus,
    Or,
    And,
    Not,
    /// Word, with the name of its filter if it has one.
    Word {
        name: Option<&'a str>,
        text: Cow<'a, str>,
        quoted: bool,
        /// A star follows the closing quote.
        open_end: bool,
    },
}

/// Names of the filters.
pub(super) const NAMES: [&str; 20] = [
    "project",
    "session",
    "layout",
    "role",
    "kind",
    "tool",
    "model",
    "agent",
    "branch",
    "file",
    "channel",
    "source",
    "thread",
    "conversation",
    "session-id",
    "workspace",
    "after",
    "before",
    "since",
    "until",
];

/// Prefix of a regular expression.
const PATTERN: &str = "re";

fn tokenize(text: &str) -> Result<Vec<QueryToken<'_>>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut groups = 0usize;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(c) = rest.chars().next() else { break };
        let one = |sign| QueryToken {
            at: at..at + 1,
            sign,
        };
        match c {
            c if c.is_whitespace() => at += c.len_utf8(),
            '(' => {
                pieces.push(one(TokenKind::Open));
                groups += 1;
                at += 1;
            }
            ')' => {
                pieces.push(one(TokenKind::Close));
                groups = groups.saturating_sub(1);
                at += 1;
            }
            '-' if is_denied(rest) => {
                pieces.push(one(TokenKind::Minus));
                at += 1;
            }
            _ => {
                let piece = word(text, at, groups > 0)?;
                at = piece.at.end;
                pieces.push(piece);
            }
        }
    }
    Ok(pieces)
}

/// Returns true for a minus directly before a word or group, but not for `--`, `->` or a minus
/// alone.
fn is_denied(rest: &str) -> bool {
    let next = rest.chars().nth(1);
    next.is_some_and(|next| !next.is_whitespace() && !matches!(next, '-' | '>' | ')'))
}

fn word(text: &str, at: usize, in_group: bool) -> Result<QueryToken<'_>> {
    let rest = text.get(at..).unwrap_or_default();
    let name = rest.split_once(':').map(|(name, _)| name);
    let name = name.filter(|name| NAMES.contains(name) || *name == PATTERN);
    let from = at + name.map_or(0, |name| name.len() + 1);
    let rest = text.get(from..).unwrap_or_default();
    if let Some(inside) = rest.strip_prefix('"') {
        let Some(len) = closing_quote(inside) else {
            return Err(fault(
                text,
                from..text.len(),
                "missing closing quote; close it, or search for the quote with \\\"",
            ));
        };
        let end = from + len + 2;
        let open_end = text.get(end..).is_some_and(|rest| rest.starts_with('*'));
        return Ok(QueryToken {
            at: at..end + usize::from(open_end),
            sign: TokenKind::Word {
                name,
                text: unescaped(inside.get(..len).unwrap_or_default()),
                quoted: true,
                open_end,
            },
        });
    }
    // A call such as `main()` is one word. A `)` belongs to the word before it if no group is open.
    let mut len = 0;
    let mut open = 0usize;
    for c in rest.chars() {
        match c {
            '(' if len > 0 => open += 1,
            ')' if open > 0 => open -= 1,
            ')' if in_group => break,
            '"' => break,
            c if c.is_whitespace() => break,
            _ => {}
        }
        len += c.len_utf8();
    }
    let word = rest.get(..len).unwrap_or_default();
    let sign = match word {
        "OR" if name.is_none() => TokenKind::Or,
        "AND" if name.is_none() => TokenKind::And,
        "NOT" if name.is_none() => TokenKind::Not,
        text => TokenKind::Word {
            name,
            text: Cow::Borrowed(text),
            quoted: false,
            open_end: false,
        },
    };
    Ok(QueryToken {
        at: at..from + len,
        sign,
    })
}

/// Returns the end of a quoted text: a quote without a backslash before it.
fn closing_quote(inside: &str) -> Option<usize> {
    let mut quotes = inside.match_indices('"').map(|(at, _)| at);
    quotes.find(|at| {
        !inside
            .get(..*at)
            .is_some_and(|before| before.ends_with('\\'))
    })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains("\\\"") {
        true => text.replace("\\\"", "\"").into(),
        false => text.into(),
    }
}

struct QueryParser<'a> {
    text: &'a str,
    pieces: &'a [QueryToken<'a>],
    dialect: &'a Dialect,
    depth: usize,
}

impl<'a> QueryParser<'a> {
    fn next(&mut self) -> Option<&'a QueryToken<'a>> {
        let (first, rest) = self.pieces.split_first()?;
        self.pieces = rest;
        Some(first)
    }

    fn next_if(&mut self, sign: &TokenKind<'_>) -> Option<&'a QueryToken<'a>> {
        match self.pieces.first() {
            Some(piece) if piece.sign == *sign => self.next(),
            _ => None,
        }
    }

    fn end(&self) -> Range<usize> {
        self.text.len()..self.text.len()
    }

    fn any_of(&mut self) -> Result<Expr> {
        let mut parts = vec![self.all_of()?];
        while let Some(or) = self.next_if(&TokenKind::Or) {
            if self.pieces.is_empty() {
                return Err(fault(self.text, or.at.clone(), NOTHING_AFTER));
            }
            parts.push(self.all_of()?);
        }
        Ok(match parts.len() {
            1 => parts.pop().unwrap_or_default(),
            _ => Expr::Any(parts),
        })
    }

    fn all_of(&mut self) -> Result<Expr> {
        let mut parts = Vec::new();
        loop {
            match self.pieces.first() {
                None => break,
                Some(piece) => match &piece.sign {
                    TokenKind::Or if parts.is_empty() => {
                        let why = "missing term before this operator; write \"OR\" in quotes to search for it";
                        return Err(fault(self.text, piece.at.clone(), why));
                    }
                    TokenKind::Close if parts.is_empty() && self.depth > 0 => {
                        let why = "empty group";
                        return Err(fault(self.text, piece.at.clone(), why));
                    }
                    TokenKind::Or | TokenKind::Close => break,
                    TokenKind::And => {
                        let and = self.next();
                        let at = and.map_or(self.end(), |and| and.at.clone());
                        if parts.is_empty() || self.pieces.is_empty() {
                            return Err(fault(self.text, at, NOTHING_AFTER));
                        }
                    }
                    _ => parts.push(self.one()?),
                },
            }
        }
        Ok(match parts.len() {
            1 => parts.pop().unwrap_or_default(),
            _ => Expr::All(parts),
        })
    }

    fn one(&mut self) -> Result<Expr> {
        let Some(piece) = self.next() else {
            return Err(fault(self.text, self.end(), NOTHING_AFTER));
        };
        match &piece.sign {
            TokenKind::Minus | TokenKind::Not => {
                if self.pieces.is_empty() {
                    return Err(fault(self.text, piece.at.clone(), NOTHING_AFTER));
                }
                self.go_down(piece)?;
                let part = self.one()?;
                self.depth -= 1;
                Ok(Expr::Not(Box::new(part)))
            }
            TokenKind::Open => {
                self.go_down(piece)?;
                let inside = self.any_of()?;
                self.depth -= 1;
                match self.next_if(&TokenKind::Close) {
                    Some(_) => Ok(inside),
                    None => {
                        let why = "unmatched `(`; close it, or quote it to search for it";
                        Err(fault(self.text, piece.at.clone(), why))
                    }
                }
            }
            TokenKind::Word {
                name,
                text,
                quoted,
                open_end,
            } => match name {
                Some(name) if *name == PATTERN => {
                    let from = piece.at.start + name.len() + 1 + usize::from(*quoted);
                    pattern(self.text, text, from, self.dialect).map(Expr::Term)
                }
                Some(name) => self.filter(name, text, piece.at.clone()),
                None => self.literal(text, *quoted, *open_end, piece.at.clone()),
            },
            TokenKind::Or | TokenKind::And | TokenKind::Close => {
                Err(fault(self.text, piece.at.clone(), NOTHING_AFTER))
            }
        }
    }

    fn go_down(&mut self, piece: &QueryToken<'_>) -> Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let why = format!("nested more than {DEEPEST} groups deep");
            return Err(fault(self.text, piece.at.clone(), why));
        }
        Ok(())
    }

    fn literal(&self, text: &str, quoted: bool, open_end: bool, at: Range<usize>) -> Result<Expr> {
        let (mut text, mut open_start, mut open_end) = (text, false, open_end);
        if let Some(inner) = text.strip_suffix('*').filter(|_| quoted)
            && inner.ends_with(char::is_alphanumeric)
        {
            (text, open_end) = (inner, true);
        }
        if !quoted {
            if let Some(inner) = text.strip_suffix('*') {
                (text, open_end) = (inner, true);
            }
            if let Some(inner) = text.strip_prefix('*') {
                (text, open_start) = (inner, true);
            }
        }
        if text.trim().is_empty() {
            let why = match quoted {
                true => "nothing between these quotes",
                false => "`*` needs a word before or after it, such as `pre*`",
            };
            return Err(fault(self.text, at, why));
        }
        Ok(Expr::Term(Term {
            text: text.to_owned(),
            kind: TermKind::Literal {
                open_start,
                open_end,
            },
            case: self.dialect.case,
        }))
    }

    fn filter(&self, name: &str, value: &str, at: Range<usize>) -> Result<Expr> {
        let filter = filter(name, value, self.dialect);
        let filter = filter.map_err(|why| fault(self.text, at, why))?;
        Ok(Expr::Filter(filter))
    }
}

/// Creates a filter by name; the error describes what is wrong with its value.
pub(super) fn filter(name: &str, value: &str, dialect: &Dialect) -> Result<Filter, String> {
    if value.trim().is_empty() {
        return Err(format!("`{name}:` has no value; quote it to search for it"));
    }
    let text = || value.to_owned();
    let bad_time = || format!("invalid time `{value}`: expected {TIME_FORMS}");
    Ok(match name {
        "project" => Filter::Project(text()),
        "session" => Filter::Session(text()),
        "tool" => Filter::Tool(text()),
        "model" => Filter::Model(text()),
        "agent" => Filter::Agent(text()),
        "branch" => Filter::Branch(text()),
        "file" => Filter::File(text()),
        "channel" => Filter::Attribute("channel", text()),
        "source" => Filter::Attribute("source", text()),
        "thread" => Filter::Attribute("thread", text()),
        "conversation" => Filter::Attribute("conversation", text()),
        "session-id" => Filter::Attribute("session_id", text()),
        "workspace" => Filter::Attribute("workspace", text()),
        "layout" => {
            let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name()).collect();
            if !names.contains(&value) {
                return Err(choices("layout", value, &names));
            }
            Filter::Layout(text())
        }
        "role" => Filter::Role(named("role", value, Speaker::NAMES)?),
        "kind" => Filter::Kind(named("kind", value, TextPart::NAMES)?),
        "after" | "since" => {
            let time = dialect.now.parse_since(value);
            Filter::Since(time.ok_or_else(bad_time)?)
        }
        "before" | "until" => {
            let time = dialect.now.parse_until(value);
            Filter::Until(time.ok_or_else(bad_time)?)
        }
        _ => return Err(choices("condition", name, &NAMES)),
    })
}

const NOTHING_AFTER: &str =
    "this operator has nothing to join; add a term, or quote it to search for it";

fn named<T: Copy>(what: &str, value: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        choices(what, value, &names)
    })
}

fn choices(what: &str, value: &str, names: &[&str]) -> String {
    format!("unknown {what} `{value}`; use one of {}", names.join(", "))
}

/// Validates a regular expression, so that errors have a position.
fn pattern(query: &str, text: &str, from: usize, dialect: &Dialect) -> Result<Term> {
    if text.is_empty() {
        return Err(fault(query, from..from, "empty pattern"));
    }
    if let Err(error) = regex_syntax::Parser::new().parse(text) {
        let (span, why) = match &error {
            regex_syntax::Error::Parse(error) => (*error.span(), error.kind().to_string()),
            regex_syntax::Error::Translate(error) => (*error.span(), error.kind().to_string()),
            _ => return Err(fault(query, from..query.len(), error.to_string())),
        };
        let at = from + span.start.offset..from + span.end.offset;
        return Err(fault(
            query,
            at,
            format!("invalid regular expression: {why}"),
        ));
    }
    let term = Term {
        text: text.to_owned(),
        kind: TermKind::Pattern,
        case: dialect.case,
    };
    match TermMatcher::new(&term) {
        Ok(_) => Ok(term),
        Err(Error::Query { why, .. }) => Err(fault(query, from..from + text.len(), why)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect() -> Dialect {
        Dialect::new(Now {
            time: "2026-03-12T12:00:00Z".parse().unwrap(),
            zone: TimeZone::UTC,
        })
    }

    /// Formats a parsed query.
    fn read(text: &str) -> String {
        fn format_expr(wanted: &Expr) -> String {
            let all = |parts: &[Expr]| parts.iter().map(format_expr).collect::<Vec<_>>().join(" ");
            match wanted {
                Expr::All(parts) => format!("all({})", all(parts)),
                Expr::Any(parts) => format!("any({})", all(parts)),
                Expr::Not(part) => format!("not({})", format_expr(part)),
                Expr::Filter(filter) => format!("{filter:?}"),
                Expr::Term(term) => match term.kind {
                    TermKind::Pattern => format!("/{}/", term.text),
                    TermKind::Literal {
                        open_start,
                        open_end,
                    } => {
                        let star = |open: bool| if open { "*" } else { "" };
                        format!("{}[{}]{}", star(open_start), term.text, star(open_end))
                    }
                },
            }
        }
        match parse(text, &dialect()) {
            Ok(wanted) => format_expr(&wanted),
            Err(Error::Query { at, why, .. }) => format!("{}..{} {why}", at.start, at.end),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn queries_parse_to_expected_expressions() {
        for (text, meaning) in [
            ("panic", "[panic]"),
            ("two words", "all([two] [words])"),
            (r#""a phrase" word"#, "all([a phrase] [word])"),
            ("pre* *fix *mid*", "all([pre]* *[fix] *[mid]*)"),
            (r#""begin of"*"#, "[begin of]*"),
            ("a OR b c", "any([a] all([b] [c]))"),
            ("(a OR b) c", "all(any([a] [b]) [c])"),
            ("a AND b", "all([a] [b])"),
            ("a -b NOT c", "all([a] not([b]) not([c]))"),
            ("-(a b)", "not(all([a] [b]))"),
            ("a - b", "all([a] [-] [b])"),
            ("--flag -> x", "all([--flag] [->] [x])"),
            ("role:user kind:tool", "all(Role(User) Kind(Tool))"),
            ("-tool:Bash", "not(Tool(\"Bash\"))"),
            (r#"project:"my app" x"#, "all(Project(\"my app\") [x])"),
            ("after:2026-03-01", "Since(2026-03-01T00:00:00Z)"),
            ("before:2026-03-01", "Until(2026-03-01T23:59:59.999999999Z)"),
            ("std::fs http://x.y", "all([std::fs] [http://x.y])"),
            ("main() f(x, y)", "all([main()] [f(x,] [y)])"),
            ("(f(x) OR y)", "any([f(x)] [y])"),
            ("say\"hi\"", "all([say] [hi])"),
            (r#"re:"fn \w+" x"#, r"all(/fn \w+/ [x])"),
            ("or and not", "all([or] [and] [not])"),
            ("", "all()"),
            (
                "'; DROP TABLE word; NEAR(a b) c:d ^e",
                "all([';] [DROP] [TABLE] [word;] [NEAR(a] [b)] [c:d] [^e])",
            ),
        ] {
            assert_eq!(read(text), meaning, "{text}");
        }
    }

    #[test]
    fn parse_errors_point_at_the_fault() {
        insta::assert_snapshot!(
            [
                "a \"b c",
                "OR",
                "a OR",
                "OR a",
                "AND",
                "-",
                "NOT",
                "a AND",
                "()",
                "(a",
                "a )",
                "*",
                "\"\"",
                "role:boss",
                "kind:",
                "layout:x",
                "after:someday",
                "re:\"(a\"",
                "x re:[z-a]",
            ]
            .map(|text| format!("{text:14} → {}", read(text)))
            .join("\n")
        );
        let deep = "(".repeat(1_000);
        assert!(read(&deep).contains("more than 64 groups"));
        let long = "x".repeat(1 << 20);
        assert!(read(&long).contains("1048576 bytes"));
    }
}
