//! A generated history: many sessions, long and odd texts, a secret, an echo.

use std::path::PathBuf;

use annals::layout::NewSession;
use annals::model::{Block, Draft, SessionId, Todo};
use annals::service::Service;
use annals::store::{Root, Store, WriteOptions};
use annals_mcp::{Answer, Options, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

/// The time of the tests. Sessions end a day before it, except the live one.
pub(crate) const NOW: &str = "2026-11-18T12:00:00Z";

pub(crate) const SECRET: &str = "AKIAIOSFODNN7RTQXWZP";

pub(crate) const SESSIONS: usize = 45;

/// Names that agents give to the tool `search` of the server `annals`.
pub(crate) const OWN_TOOLS: [&str; 5] = [
    "mcp__annals__search",
    "mcp_annals_search",
    "annals_search",
    "annals-search",
    "annals___search",
];

pub(crate) struct Corpus {
    pub(crate) root: TempDir,
    state: TempDir,
}

/// Returns the id of a generated session.
pub(crate) fn id(number: usize) -> String {
    format!("{number:08x}-1111-4000-8000-000000000000")
}

impl Corpus {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let now: Timestamp = NOW.parse().unwrap();
        let store = Store::new(vec![Root::claude_code(root.path())]);
        let odd = "\u{1b}[31m\u{202e}\"\\\n\u{0}äöü日本語🎉\t";
        for number in 0..SESSIONS {
            let begin = now - SignedDuration::from_hours(24 + number as i64);
            let cwd = format!("/home/me/project-{}", number % 4);
            let writer = session(&store, number, &cwd, begin);
            let long = format!("{odd} zebra {} ", number).repeat(1 + number * 5);
            writer
                .append(Draft::user(format!("Where is the zebra {number}?")))
                .unwrap();
            let edit = Block::ToolUse {
                id: format!("toolu_{number}"),
                name: "Edit".into(),
                input: format!(
                    r#"{{"file_path":"{cwd}/src/zoo.rs","old_string":"a\nb","new_string":"a\nzebra {number}"}}"#
                ),
            };
            let reply = [Block::Text(long), edit];
            writer
                .append(Draft::assistant(reply).model("claude-sonnet-4-5"))
                .unwrap();
            let result = Draft::tool_result(format!("toolu_{number}"), "done");
            writer.append(result).unwrap();
            for turn in 0..number % 7 {
                writer
                    .append(Draft::user(format!(
                        "turn {turn} {}",
                        "q ".repeat(turn * 30)
                    )))
                    .unwrap();
                let reply = [Block::Text(format!("reply {turn}"))];
                writer
                    .append(Draft::assistant(reply).model("claude-sonnet-4-5"))
                    .unwrap();
            }
            if number == 1 {
                writer
                    .append(Draft::user(format!("the giraffe key is {SECRET} now")))
                    .unwrap();
                let todos: Vec<Todo> = (0..30)
                    .map(|n| Todo::pending(format!("todo {n}")))
                    .collect();
                writer.set_todos(&todos).unwrap();
            }
            if number == 2 {
                for (at, name) in OWN_TOOLS.into_iter().enumerate() {
                    let id = format!("toolu_echo_{at}");
                    let call = Block::ToolUse {
                        id: id.clone(),
                        name: name.into(),
                        input: r#"{"query":"okapi"}"#.into(),
                    };
                    writer.append(Draft::assistant([call]).model("m")).unwrap();
                    writer.append(Draft::tool_result(id, "an okapi")).unwrap();
                }
            }
        }
        let live = session(&store, 0xaaaa, "/home/me/here", now);
        live.append(Draft::user("a pangolin in the live session"))
            .unwrap();
        Corpus { root, state }
    }

    pub(crate) fn options() -> Options {
        Options {
            here: "/home/me/here".to_owned(),
            session: None,
            write: false,
            mask: true,
        }
    }

    /// Returns the path of the log of a generated session.
    pub(crate) fn log(&self, number: usize) -> PathBuf {
        let projects = std::fs::read_dir(self.root.path().join("projects")).unwrap();
        let mut logs =
            projects.map(|dir| dir.unwrap().path().join(format!("{}.jsonl", id(number))));
        logs.find(|log| log.is_file()).unwrap()
    }

    pub(crate) fn server(&self, options: Options) -> Server {
        let store = Store::new(vec![Root::claude_code(self.root.path())]);
        let store = store.with_state(self.state.path());
        let service = Service::new(store).with_index(self.state.path());
        // Files are dated by the system's clock, so the time is real.
        Server::new(service, options).unwrap()
    }
}

pub(crate) fn session(
    store: &Store,
    number: usize,
    cwd: &str,
    begin: Timestamp,
) -> annals::store::SessionWriter {
    let new = NewSession::new(SessionId::new(&id(number)).unwrap(), cwd);
    let options = WriteOptions {
        durability: annals::jsonl::Durability::Os,
        ..WriteOptions::at(begin)
    };
    store.create(&store.roots()[0], &new, options).unwrap()
}

pub(crate) fn call(server: &Server, tool: &str, arguments: Value) -> Result<Answer, String> {
    server.call(tool, arguments, &|| false)
}
