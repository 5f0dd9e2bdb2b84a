//! Tool calls as a person reads them.
//!
//! Owns which argument of a well-known tool says most, and shows an edit as a diff. The tools of several agents share
//! names up to case and underscores; a tool not known here shows its arguments one to a line. The input may be any
//! text: what is not a JSON object is shown as it is.

use super::diff::{changes, mark};
use super::message::{BAR_WIDTH, more_lines, push_bar_line, tool_result};
use super::size::pluralize;
use super::style::{DIM, PATH, PLAIN, TOOL, paint, paint_safe};
use super::text::{safe, safe_block};
use super::width::{expand_tabs, truncate_end, width};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Shows one call of the tool `name`; every line ends in `\n`.
pub(crate) fn call(name: &str, input: &str, max: Option<usize>) -> String {
    render_call("→", name, input, max)
}

/// The line above a result that does not stand below its call: which call it answers.
pub(crate) fn answer_line(name: &str, input: &str, max: Option<usize>) -> String {
    let page = render_call("←", name, input, max);
    page.split_inclusive('\n').take(1).collect()
}

/// The same where the call itself is not known.
pub(crate) fn answer_line_by_id(call: &str) -> String {
    format!("{} {}\n", paint(DIM, "←"), paint(DIM, &safe(call)))
}

fn render_call(arrow: &str, name: &str, input: &str, max: Option<usize>) -> String {
    let mut page = CallRenderer {
        out: format!("{} ", paint(DIM, arrow)),
        max,
    };
    paint_safe(&mut page.out, TOOL, &safe(name));
    match serde_json::from_str::<Arguments>(input) {
        Ok(arguments) => page.arguments(name, &arguments),
        Err(_) => {
            page.end_line("");
            if !input.trim().is_empty() {
                page.push_line("", input);
            }
        }
    }
    page.out
}

/// Shows a call with everything that was handed to the tool, for those who look for it.
pub(crate) fn full_call(name: &str, input: &str, max: Option<usize>) -> String {
    let mut out = format!("{} {}\n", paint(DIM, "→"), paint(TOOL, name));
    let Ok(value) = serde_json::from_str::<Value>(input) else {
        return out + &tool_result(input, false, max, usize::MAX);
    };
    let mut pending = vec![(String::new(), value)];
    while let Some((path, value)) = pending.pop() {
        let within = |key: &dyn fmt::Display| match path.is_empty() {
            true => key.to_string(),
            false => format!("{path}.{key}"),
        };
        let text = match value {
            Value::Object(members) => {
                let members: Vec<_> = members.into_iter().collect();
                let members = members.into_iter().rev();
                pending.extend(members.map(|(key, value)| (within(&key), value)));
                continue;
            }
            Value::Array(items) => {
                let items = items.into_iter().enumerate().rev();
                pending.extend(items.map(|(at, value)| (within(&at), value)));
                continue;
            }
            Value::String(text) => text,
            other => other.to_string(),
        };
        let name = if path.is_empty() { path } else { path + ": " };
        out += &tool_result(&format!("{name}{text}"), false, max, usize::MAX);
    }
    out
}

enum Show {
    /// `$ command`
    Command(&'static [&'static str]),
    /// The first of these arguments, on the tool's own line.
    Main(&'static [&'static str]),
    /// A pattern, and where.
    Search(&'static [&'static str]),
    Edit,
    Write,
    Todos,
}

/// Names are in lower case without underscores or hyphens.
#[rustfmt::skip]
const TOOLS: &[(&[&str], Show)] = &[
    (&["bash", "shell", "localshell", "execcommand", "runshellcommand", "runterminalcmd"], Show::Command(&["command", "cmd"])),
    (&["read", "readfile", "notebookread", "ls", "list", "listdirectory", "view"], Show::Main(&["file_path", "path", "filePath", "notebook_path", "absolute_path"])),
    (&["edit", "multiedit", "replace", "strreplace"], Show::Edit),
    (&["write", "writefile", "create"], Show::Write),
    (&["glob", "grep", "searchfilecontent"], Show::Search(&["pattern", "query"])),
    (&["webfetch", "fetch"], Show::Main(&["url", "prompt"])),
    (&["websearch", "googlewebsearch", "toolsearch"], Show::Main(&["query"])),
    (&["task", "agent"], Show::Main(&["description", "prompt"])),
    (&["skill", "slashcommand"], Show::Main(&["skill", "command"])),
    (&["todowrite", "updateplan"], Show::Todos),
];

/// How many lines of an edit, a command or a list are shown.
const MAX_LINES: usize = 40;

struct CallRenderer {
    out: String,
    max: Option<usize>,
}

impl CallRenderer {
    fn arguments(&mut self, name: &str, arguments: &Arguments) {
        let plain: String = name
            .chars()
            .filter(|c| !matches!(c, '_' | '-'))
            .flat_map(char::to_lowercase)
            .collect();
        let known = TOOLS
            .iter()
            .find(|(names, _)| names.contains(&plain.as_str()))
            .map(|(_, show)| show);
        let shown = match known {
            Some(Show::Command(keys)) => self.command(arguments, keys),
            Some(Show::Main(keys)) => self.main(arguments, keys),
            Some(Show::Search(keys)) => self.search(arguments, keys),
            Some(Show::Edit) => self.edit(arguments),
            Some(Show::Write) => self.write(arguments),
            Some(Show::Todos) => self.todos(arguments),
            None => None,
        };
        if shown.is_none() {
            self.pairs(arguments);
        }
    }

    fn command(&mut self, arguments: &Arguments, keys: &[&str]) -> Option<()> {
        let command = match arguments.first(keys)? {
            Value::String(command) => command.clone(),
            Value::Array(words) => words.iter().map(compact_json).collect::<Vec<_>>().join(" "),
            _ => return None,
        };
        let command = command.trim_end();
        if command.contains('\n') {
            self.end_line("");
            self.push_lines(
                command
                    .split('\n')
                    .enumerate()
                    .map(|(n, line)| (if n == 0 { "$ " } else { "  " }, line)),
            );
        } else {
            self.end_line(&format!("$ {command}"));
        }
        Some(())
    }

    fn main(&mut self, arguments: &Arguments, keys: &[&str]) -> Option<()> {
        let main = arguments.text(keys)?;
        self.end_line(main.lines().next().unwrap_or_default());
        Some(())
    }

    fn search(&mut self, arguments: &Arguments, keys: &[&str]) -> Option<()> {
        let pattern = arguments.text(keys)?;
        match arguments.text(&["path", "dir_path", "glob", "include"]) {
            Some(place) => self.end_line(&format!("{pattern} in {place}")),
            None => self.end_line(pattern),
        }
        Some(())
    }

    fn edit(&mut self, arguments: &Arguments) -> Option<()> {
        let path = arguments.text(PATHS)?;
        let edits = match arguments.first(&["edits"]) {
            Some(Value::Array(edits)) => edits
                .iter()
                .filter_map(|edit| {
                    Some((
                        edit.get("old_string")?.as_str()?,
                        edit.get("new_string")?.as_str()?,
                    ))
                })
                .collect(),
            _ => vec![(
                arguments.text(&["old_string", "old_str", "oldString"])?,
                arguments.text(&["new_string", "new_str", "newString"])?,
            )],
        };
        self.end_path(path);
        let changed: Vec<_> = edits
            .iter()
            .flat_map(|(old, new)| changes(old, new))
            .collect();
        for (tag, line) in changed.iter().take(MAX_LINES) {
            let (sign, style) = mark(*tag);
            let line = self.cut(
                &format!("{sign} {}", expand_tabs(&safe_block(line))),
                BAR_WIDTH,
            );
            push_bar_line(&mut self.out, DIM, style, line.trim_end());
        }
        self.push_left_out(changed.len());
        Some(())
    }

    fn write(&mut self, arguments: &Arguments) -> Option<()> {
        let path = arguments.text(PATHS)?;
        let content = arguments.text(&["content", "file_text"])?;
        self.end_path(&format!(
            "{path} ({})",
            pluralize(content.lines().count() as u64, "line")
        ));
        Some(())
    }

    fn todos(&mut self, arguments: &Arguments) -> Option<()> {
        let Value::Array(todos) = arguments.first(&["todos", "plan"])? else {
            return None;
        };
        self.end_line("");
        let line = |todo: &Value| {
            let text = |keys: &[&str]| {
                keys.iter()
                    .find_map(|key| todo.get(*key)?.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            let mark = match text(&["status"]).as_str() {
                "completed" => "[x] ",
                "in_progress" => "[~] ",
                _ => "[ ] ",
            };
            (mark, text(&["content", "step", "activeForm"]))
        };
        let todos: Vec<(&str, String)> = todos.iter().map(line).collect();
        self.push_lines(todos.iter().map(|(mark, text)| (*mark, text.as_str())));
        Some(())
    }

    fn pairs(&mut self, arguments: &Arguments) {
        self.end_line("");
        for (key, value) in arguments.0.iter().take(MAX_LINES) {
            self.push_line(&format!("{}: ", safe(key)), &compact_json(value));
        }
        self.push_left_out(arguments.0.len());
    }

    fn push_lines<'a>(&mut self, lines: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut count = 0;
        for (lead, line) in lines {
            if count < MAX_LINES {
                self.push_line(lead, line);
            }
            count += 1;
        }
        self.push_left_out(count);
    }

    fn push_left_out(&mut self, count: usize) {
        if let Some(left) = count.checked_sub(MAX_LINES).filter(|left| *left > 0) {
            self.out += &more_lines(left as u64);
        }
    }

    /// Writes one line behind a bar; `lead` is safe, `text` need not be.
    fn push_line(&mut self, lead: &str, text: &str) {
        let line = self.cut(&format!("{lead}{}", safe(text)), BAR_WIDTH);
        push_bar_line(&mut self.out, DIM, PLAIN, line.trim_end());
    }

    /// Ends the tool's own line with what says most.
    fn end_line(&mut self, text: &str) {
        self.end_styled(text, PLAIN);
    }

    fn end_path(&mut self, text: &str) {
        self.end_styled(text, PATH);
    }

    fn end_styled(&mut self, text: &str, style: anstyle::Style) {
        let used = width(&anstream::adapter::strip_str(&self.out).to_string()) + 1;
        let text = self.cut(&safe(text), used);
        if !text.is_empty() {
            self.out.push(' ');
            paint_safe(&mut self.out, style, &text);
        }
        self.out.push('\n');
    }

    /// Cuts safe text to what `used` columns leave of a line.
    fn cut(&self, text: &str, used: usize) -> String {
        match self.max {
            Some(max) => truncate_end(text, max.saturating_sub(used)),
            None => text.to_owned(),
        }
    }
}

const PATHS: &[&str] = &["file_path", "path", "filePath", "notebook_path"];

/// The members of an object in the order they were written.
struct Arguments(Vec<(String, Value)>);

impl Arguments {
    fn first(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| {
            self.0
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value)
        })
    }

    fn text(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.first(&[key])?.as_str())
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arguments, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Arguments(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

fn compact_json(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use serde_json::json;

    fn plain(name: &str, input: &Value) -> String {
        strip_str(&call(name, &input.to_string(), Some(50))).to_string()
    }

    #[test]
    fn well_known_tools_show_their_main_argument() {
        let calls = [
            (
                "Bash",
                json!({ "command": "cargo test", "description": "Run the tests" }),
            ),
            ("Bash", json!({ "command": "cat <<E > f\nbody\nE\n" })),
            (
                "shell",
                json!({ "command": ["bash", "-lc", "ls -la"], "timeout": 5 }),
            ),
            ("Read", json!({ "file_path": "/src/main.rs", "offset": 10 })),
            (
                "Write",
                json!({ "file_path": "/src/lib.rs", "content": "a\nb\n" }),
            ),
            ("Glob", json!({ "pattern": "**/*.rs" })),
            ("Grep", json!({ "pattern": "fn \\w+", "path": "src" })),
            (
                "WebFetch",
                json!({ "url": "https://example.org/a-very-long-address-that-does-not-fit", "prompt": "?" }),
            ),
            (
                "Task",
                json!({ "prompt": "long\ntext", "description": "Find the bug", "subagent_type": "explore" }),
            ),
            (
                "TodoWrite",
                json!({ "todos": [{ "content": "a", "status": "completed" }, { "content": "b", "status": "in_progress" }, { "content": "c" }] }),
            ),
            (
                "Edit",
                json!({ "file_path": "a.rs", "old_string": "let a = 1;\nkeep\n", "new_string": "let a = 2;\nkeep\nmore\n" }),
            ),
            (
                "MultiEdit",
                json!({ "file_path": "a.rs", "edits": [{ "old_string": "x", "new_string": "y" }] }),
            ),
            (
                "mcp__db__query",
                json!({ "sql": "select 1", "limit": 5, "nested": { "a": [1, null] } }),
            ),
        ];
        let shown: String = calls
            .iter()
            .map(|(name, input)| plain(name, input))
            .collect();
        assert_snapshot!(shown, @r#"
            → Bash $ cargo test
            → Bash
            │ $ cat <<E > f
            │   body
            │   E
            → shell $ bash -lc ls -la
            → Read /src/main.rs
            → Write /src/lib.rs (2 lines)
            → Glob **/*.rs
            → Grep fn \w+ in src
            → WebFetch https://example.org/a-very-long-addres…
            → Task Find the bug
            → TodoWrite
            │ [x] a
            │ [~] b
            │ [ ] c
            → Edit a.rs
            │ - let a = 1;
            │ + let a = 2;
            │   keep
            │ + more
            → MultiEdit a.rs
            │ - x
            │ + y
            → mcp__db__query
            │ limit: 5
            │ nested: {"a":[1,null]}
            │ sql: select 1
        "#);
    }

    #[test]
    fn a_known_tool_with_unknown_arguments_shows_them_all() {
        assert_eq!(
            plain("Bash", &json!({ "restart": true })),
            "→ Bash\n│ restart: true\n"
        );
        assert_eq!(
            plain("Read", &json!({ "file_path": 7 })),
            "→ Read\n│ file_path: 7\n"
        );
        assert_eq!(
            plain("Edit", &json!({ "file_path": "a" })),
            "→ Edit\n│ file_path: a\n"
        );
    }

    #[test]
    fn members_keep_their_order() {
        assert_eq!(
            strip_str(&call("x", r#"{"z":1,"a":2}"#, None)).to_string(),
            "→ x\n│ z: 1\n│ a: 2\n"
        );
    }

    #[test]
    fn anything_but_an_object_is_shown_as_it_is() {
        for (input, shown) in [
            ("", "→ x\n"),
            ("{\"a\":", "→ x\n│ {\"a\":\n"),
            ("[1, 2]", "→ x\n│ [1, 2]\n"),
            ("\x1b[2J\u{202E}", "→ x\n│ ␛[2J⟨U+202E⟩\n"),
        ] {
            assert_eq!(strip_str(&call("x", input, Some(50))).to_string(), shown);
        }
        let deep = "[".repeat(200_000);
        assert!(call("x", &format!("{{\"a\":{deep}"), Some(50)).len() < 200);
    }

    #[test]
    fn long_edits_are_cut_and_say_so() {
        let new: String = (0..100).map(|n| format!("{n}\n")).collect();
        let out = plain(
            "Edit",
            &json!({ "file_path": "a", "old_string": "", "new_string": new }),
        );
        assert!(out.ends_with("│ … 60 more lines\n"), "{out}");
    }

    #[test]
    fn edits_are_coloured() {
        let out = call(
            "Edit",
            r#"{"file_path":"a","old_string":"x","new_string":"y"}"#,
            None,
        );
        assert!(
            out.contains("\x1b[31m- x\x1b[0m") && out.contains("\x1b[32m+ y\x1b[0m"),
            "{out:?}"
        );
    }

    proptest! {
        #[test]
        fn hostile_arguments_stay_in_their_lines(
            name in prop::sample::select(vec!["Bash", "Read", "Edit", "Write", "Grep", "TodoWrite", "other", "x\x1b[8m\n"]),
            key in prop::sample::select(vec!["command", "file_path", "pattern", "todos", "k\x1b[8m\n", "old_string"]),
            value in "(\u{1b}\\[8m|\n|\t|\u{202e}|日|a| |\u{9b}){0,30}",
        ) {
            let input = json!({ key: value, "content": value, "new_string": value, "todos": [{ "content": value }] });
            let out = call(name, &input.to_string(), Some(30));
            prop_assert!(!out.contains("\x1b[8m") && !out.contains('\u{9b}') && !out.contains('\u{202e}'), "{out:?}");
            for line in strip_str(&out).to_string().lines() {
                prop_assert!(width(line) <= 30, "{line:?}");
            }
        }
    }
}
