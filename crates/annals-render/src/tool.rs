//! Formats tool calls for people.
//!
//! Shows the main argument of each well-known tool ([`ToolCall`]), and an edit as a diff. An unknown
//! tool shows its arguments one per line. The input may be any text: if it is not a JSON object, it
//! is shown unchanged.

use super::diff::{changes, mark};
use super::message::{BAR_WIDTH, more_lines, push_bar_line, verbatim};
use super::size::pluralize;
use super::style::{DIM, PATH, PLAIN, TOOL, paint, paint_safe};
use super::text::{safe, safe_block};
use super::width::{expand_tabs, truncate_end, width};
use annals::model::{ToolCall, ToolKind};
use serde_json::Value;
use std::fmt;

/// Formats one call of the tool `name`; every line ends in `\n`.
pub fn call(name: &str, input: &str, max: Option<usize>) -> String {
    render_call("→", name, input, max)
}

/// The line above a result that is not directly below its call, naming the call.
pub fn answer_line(name: &str, input: &str, max: Option<usize>) -> String {
    let page = render_call("←", name, input, max);
    page.split_inclusive('\n').take(1).collect()
}

/// Like [`answer_line`], if only the call's id is known.
pub fn answer_line_by_id(call: &str) -> String {
    format!("{} {}\n", paint(DIM, "←"), paint(DIM, &safe(call)))
}

fn render_call(arrow: &str, name: &str, input: &str, max: Option<usize>) -> String {
    let mut page = CallRenderer {
        out: format!("{} ", paint(DIM, arrow)),
        max,
    };
    paint_safe(&mut page.out, TOOL, &safe(name));
    match ToolCall::parse(name, input) {
        Some(call) => page.arguments(&call),
        None => {
            page.end_line("");
            if !input.trim().is_empty() {
                page.push_line("", input);
            }
        }
    }
    page.out
}

/// Formats a call with all its arguments.
pub fn full_call(name: &str, input: &str, max: Option<usize>) -> String {
    let mut out = format!("{} {}\n", paint(DIM, "→"), paint(TOOL, name));
    let Ok(value) = serde_json::from_str::<Value>(input) else {
        return out + &verbatim(input, false, max, usize::MAX);
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
        out += &verbatim(&format!("{name}{text}"), false, max, usize::MAX);
    }
    out
}

/// Maximum number of lines of an edit, a command or a list.
const MAX_LINES: usize = 40;

struct CallRenderer {
    out: String,
    max: Option<usize>,
}

impl CallRenderer {
    fn arguments(&mut self, call: &ToolCall<'_>) {
        let shown = match call.kind() {
            Some(ToolKind::Command) => self.command(call),
            Some(ToolKind::Edit) => self.edit(call),
            Some(ToolKind::Write) => self.write(call),
            Some(ToolKind::Todos) => self.todos(call),
            Some(_) => self.main(call),
            None => None,
        };
        if shown.is_none() {
            self.pairs(call);
        }
    }

    /// Shows `$ command`.
    fn command(&mut self, call: &ToolCall<'_>) -> Option<()> {
        let command = call.main_argument()?;
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

    /// Shows the main argument on the tool's own line.
    fn main(&mut self, call: &ToolCall<'_>) -> Option<()> {
        let main = call.main_argument()?;
        self.end_line(main.lines().next().unwrap_or_default());
        Some(())
    }

    fn edit(&mut self, call: &ToolCall<'_>) -> Option<()> {
        let edits = call.edits()?;
        self.end_path(&call.main_argument()?);
        let changed: Vec<_> = edits
            .iter()
            .flat_map(|edit| changes(&edit.old, &edit.new))
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

    fn write(&mut self, call: &ToolCall<'_>) -> Option<()> {
        let path = call.main_argument()?;
        let content = call.text(&["content", "file_text"])?;
        self.end_path(&format!(
            "{path} ({})",
            pluralize(content.lines().count() as u64, "line")
        ));
        Some(())
    }

    fn todos(&mut self, call: &ToolCall<'_>) -> Option<()> {
        let mut arguments = call.arguments();
        let (_, list) = arguments.find(|(name, _)| ["todos", "plan"].contains(name))?;
        let todos: Vec<Value> = serde_json::from_str(&list).ok()?;
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

    fn pairs(&mut self, call: &ToolCall<'_>) {
        self.end_line("");
        for (key, value) in call.arguments().take(MAX_LINES) {
            self.push_line(&format!("{}: ", safe(key)), &value);
        }
        self.push_left_out(call.arguments().count());
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

    /// Writes one line after a bar; `lead` must be safe, `text` need not be.
    fn push_line(&mut self, lead: &str, text: &str) {
        let line = self.cut(&format!("{lead}{}", safe(text)), BAR_WIDTH);
        push_bar_line(&mut self.out, DIM, PLAIN, line.trim_end());
    }

    /// Ends the tool's own line with the main argument.
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

    /// Truncates safe text to the columns that `used` leaves of a line.
    fn cut(&self, text: &str, used: usize) -> String {
        match self.max {
            Some(max) => truncate_end(text, max.saturating_sub(used)),
            None => text.to_owned(),
        }
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
            out.contains("\x1b[38;5;161m- x\x1b[0m") && out.contains("\x1b[38;5;28m+ y\x1b[0m"),
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
