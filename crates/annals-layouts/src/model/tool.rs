//! Tool calls: the kind of a tool, and what a call is about.
//!
//! Tools of several agents share names except for case, hyphens and underscores. The input of a
//! call may be any text.

use std::borrow::Cow;

use crate::json::{Pairs, Raw};

/// Kind of a well-known tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Runs a command.
    Command,
    /// Searches for a pattern.
    Search,
    /// Replaces text in a file.
    Edit,
    /// Writes a whole file.
    Write,
    /// Replaces the todo list.
    Todos,
    /// Has one main argument, such as a path, an address or a description.
    Other,
}

/// A tool call whose input is an object.
#[derive(Debug)]
pub struct ToolCall<'a> {
    tool: Option<&'static Tool>,
    arguments: Vec<Member<'a>>,
}

/// A text that an edit replaces, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit<'a> {
    /// The replaced text.
    pub old: Cow<'a, str>,
    /// Its replacement.
    pub new: Cow<'a, str>,
}

/// Name and value of a member of an object.
type Member<'a> = (Cow<'a, str>, Raw<'a>);

/// A well-known tool.
#[derive(Debug)]
struct Tool {
    /// In lower case, without hyphens and underscores.
    names: &'static [&'static str],
    kind: ToolKind,
    /// Names of the main argument, in order of preference.
    main: &'static [&'static str],
}

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool { names: &["bash", "shell", "localshell", "execcommand", "runshellcommand", "runterminalcmd"], kind: ToolKind::Command, main: &["command", "cmd"] },
    Tool { names: &["read", "readfile", "notebookread", "ls", "list", "listdirectory", "view"], kind: ToolKind::Other, main: &["file_path", "path", "filePath", "notebook_path", "absolute_path"] },
    Tool { names: &["edit", "multiedit", "replace", "strreplace", "strreplacebasededittool"], kind: ToolKind::Edit, main: PATHS },
    Tool { names: &["write", "writefile", "create"], kind: ToolKind::Write, main: PATHS },
    Tool { names: &["glob", "grep", "searchfilecontent"], kind: ToolKind::Search, main: &["pattern", "query"] },
    Tool { names: &["webfetch", "fetch"], kind: ToolKind::Other, main: &["url", "prompt"] },
    Tool { names: &["websearch", "googlewebsearch", "toolsearch"], kind: ToolKind::Other, main: &["query"] },
    Tool { names: &["task", "agent"], kind: ToolKind::Other, main: &["description", "prompt"] },
    Tool { names: &["skill", "slashcommand"], kind: ToolKind::Other, main: &["skill", "command"] },
    Tool { names: &["todowrite", "updateplan"], kind: ToolKind::Todos, main: &[] },
];

const PATHS: &[&str] = &["file_path", "path", "filePath", "notebook_path"];
const PLACES: &[&str] = &["path", "dir_path", "glob", "include"];
const OLD_TEXTS: &[&str] = &["old_string", "old_str", "oldString"];
const NEW_TEXTS: &[&str] = &["new_string", "new_str", "newString"];
const EDITS: &str = "edits";

impl<'a> ToolCall<'a> {
    /// Parses a call; returns `None` if its input is not an object.
    pub fn parse(name: &str, input: &'a str) -> Option<Self> {
        let pairs: Pairs<'a> = serde_json::from_str(input).ok()?;
        let is_separator = |c: &char| matches!(c, '_' | '-');
        let plain = name.chars().filter(|c| !is_separator(c));
        let plain: String = plain.flat_map(char::to_lowercase).collect();
        let is_named = |tool: &&Tool| tool.names.contains(&plain.as_str());
        Some(ToolCall {
            tool: TOOLS.iter().find(is_named),
            arguments: pairs.0,
        })
    }

    /// Returns the kind of tool, if it is well known.
    pub fn kind(&self) -> Option<ToolKind> {
        self.tool.map(|tool| tool.kind)
    }

    /// Returns the main argument of a well-known tool: a command, a path, a pattern and where it is
    /// searched. It may have several lines.
    pub fn main_argument(&self) -> Option<Cow<'a, str>> {
        let Tool { kind, main, .. } = self.tool?;
        let text = self.text(main);
        match kind {
            ToolKind::Command => text.or_else(|| self.command_line(main)),
            ToolKind::Search => Some(match (text?, self.text(PLACES)) {
                (pattern, Some(place)) => Cow::Owned(format!("{pattern} in {place}")),
                (pattern, None) => pattern,
            }),
            ToolKind::Edit | ToolKind::Write | ToolKind::Todos | ToolKind::Other => text,
        }
    }

    /// Returns what the call is about: the main argument, or the first text among the arguments of
    /// any other tool.
    pub fn subject(&self) -> Option<Cow<'a, str>> {
        let mut texts = self.arguments.iter().filter_map(|(_, value)| value.text());
        let first = || texts.find(|text| !text.trim().is_empty());
        self.main_argument().or_else(first)
    }

    /// Returns the first of these arguments that is a text.
    pub fn text(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        text(&self.arguments, names)
    }

    /// Returns the changes to the file that an edit names.
    pub fn edits(&self) -> Option<Vec<TextEdit<'a>>> {
        self.tool.filter(|tool| tool.kind == ToolKind::Edit)?;
        self.main_argument()?;
        let list = member(&self.arguments, EDITS).filter(|edits| edits.is_list());
        let Some(list) = list else {
            return Some(vec![TextEdit::new(&self.arguments)?]);
        };
        let edits = list.list().into_iter().filter_map(|edit| {
            let Pairs(members) = edit.parse();
            TextEdit::new(&members)
        });
        Some(edits.collect())
    }

    /// Iterates over all arguments in file order: the name, and the text or, for any other value,
    /// its JSON.
    pub fn arguments(&self) -> impl Iterator<Item = (&str, Cow<'a, str>)> {
        self.arguments
            .iter()
            .map(|(name, value)| (&**name, text_or_json(*value)))
    }

    /// Returns a command that is a list of words.
    fn command_line(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        let mut commands = names
            .iter()
            .filter_map(|name| member(&self.arguments, name));
        let command = commands.find(|command| command.is_list())?;
        let words: Vec<_> = command.list().into_iter().map(text_or_json).collect();
        Some(Cow::Owned(words.join(" ")))
    }
}

impl<'a> TextEdit<'a> {
    fn new(members: &[Member<'a>]) -> Option<Self> {
        Some(TextEdit {
            old: text(members, OLD_TEXTS)?,
            new: text(members, NEW_TEXTS)?,
        })
    }
}

/// Returns whether [`ToolCall::edits`] covers an argument of an edit.
pub fn is_part_of_edits(name: &str) -> bool {
    let names = [PATHS, OLD_TEXTS, NEW_TEXTS];
    name == EDITS || names.iter().any(|names| names.contains(&name))
}

fn member<'a>(members: &[Member<'a>], name: &str) -> Option<Raw<'a>> {
    let found = members.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| *value)
}

fn text<'a>(members: &[Member<'a>], names: &[&str]) -> Option<Cow<'a, str>> {
    names.iter().find_map(|name| member(members, name)?.text())
}

fn text_or_json(value: Raw<'_>) -> Cow<'_, str> {
    value
        .text()
        .unwrap_or(Cow::Borrowed(value.0.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_subject(name: &str, input: &str, subject: Option<&str>) {
        let call = ToolCall::parse(name, input).unwrap();
        assert_eq!(call.subject().as_deref(), subject, "{name} {input}");
    }

    #[test]
    fn subject_is_what_the_call_is_about() {
        for (name, input, subject) in [
            (
                "Edit",
                r#"{"replace_all":false,"old_string":"a","new_string":"b","file_path":"src/a.rs"}"#,
                "src/a.rs",
            ),
            (
                "Bash",
                r#"{"description":"Run the tests","command":"cargo test"}"#,
                "cargo test",
            ),
            (
                "shell",
                r#"{"timeout":5,"command":["ls", "-l", 1]}"#,
                "ls -l 1",
            ),
            (
                "Task",
                r#"{"prompt":"long","description":"Find the bug"}"#,
                "Find the bug",
            ),
            ("Grep", r#"{"path":"src","pattern":"foo"}"#, "foo in src"),
            ("Glob", r#"{"pattern":"*.rs"}"#, "*.rs"),
            (
                "read_file",
                r#"{"limit":3,"absolute_path":"/a\/b"}"#,
                "/a/b",
            ),
            (
                "mcp__db__query",
                r#"{"limit":5,"dry":true,"sql":"select 1"}"#,
                "select 1",
            ),
            ("Bash", r#"{"restart":true,"shell":"zsh"}"#, "zsh"),
        ] {
            check_subject(name, input, Some(subject));
        }
        check_subject("x", r#"{"n":1,"list":["a"],"blank":" "}"#, None);
        check_subject("TodoWrite", r#"{"todos":[]}"#, None);
        for input in ["", "null", "[1]", "{\"a\":", "\"text\""] {
            assert!(ToolCall::parse("Bash", input).is_none(), "{input}");
        }
    }

    #[test]
    fn edits_of_every_notation_are_found() {
        for (name, input) in [
            (
                "Edit",
                r#"{"file_path":"a","old_string":"x\ny","new_string":"z"}"#,
            ),
            (
                "str_replace",
                r#"{"path":"a","old_str":"x\ny","new_str":"z"}"#,
            ),
            (
                "MultiEdit",
                r#"{"file_path":"a","edits":[{"old_string":"x\ny","new_string":"z"},{"old_string":1}]}"#,
            ),
        ] {
            let call = ToolCall::parse(name, input).unwrap();
            let edits = call.edits().unwrap();
            assert_eq!(edits.len(), 1, "{input}");
            assert_eq!((&*edits[0].old, &*edits[0].new), ("x\ny", "z"));
        }
        for (name, input) in [
            ("Edit", r#"{"file_path":"a"}"#),
            ("Edit", r#"{"old_string":"x","new_string":"y"}"#),
            (
                "Write",
                r#"{"file_path":"a","old_string":"x","new_string":"y"}"#,
            ),
        ] {
            let call = ToolCall::parse(name, input).unwrap();
            assert_eq!(call.edits(), None, "{input}");
        }
    }

    #[test]
    fn arguments_are_unescaped_in_order() {
        let input = r#"{"path":"/a\/b","text":"one\ntwo","n":1e5,"list":[1, 2]}"#;
        let call = ToolCall::parse("x", input).unwrap();
        let arguments: Vec<(&str, Cow<'_, str>)> = call.arguments().collect();
        let expected = [
            ("path", "/a/b"),
            ("text", "one\ntwo"),
            ("n", "1e5"),
            ("list", "[1, 2]"),
        ];
        let found: Vec<(&str, &str)> = arguments.iter().map(|(a, b)| (*a, &**b)).collect();
        assert_eq!(found, expected);
    }
}
