//! Reads and writes the logs of coding agents in place, and never loses a record.
//!
//! Coding agents store their conversations as JSON lines in a tree of files. This library finds
//! such trees, reads them in any state, and writes sessions that the agents' own programs can
//! resume. It is for programs that read agent history, and for agents that need a log format.
//!
//! # Start a session and log messages
//!
//! ```
//! use annals::model::{Block, Draft};
//! use annals::store::{Root, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! # let home = dir.path().join(".claude");
//! let store = Store::new(vec![Root::claude_code(home)]);
//! let session = store.begin("/home/me/app")?;
//! session.append(Draft::user("Why does the build fail?"))?;
//! let call = Block::ToolUse {
//!     id: "toolu_01".into(),
//!     name: "Bash".into(),
//!     input: r#"{"command":"cargo build"}"#.into(),
//! };
//! session.append(Draft::assistant([call]).model("claude-sonnet-4-5"))?;
//! let result = session.append(Draft::tool_result("toolu_01", "error: no such feature"))?;
//! assert!(result.parent.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Resume it
//!
//! ```
//! # use annals::{model::Draft, store::{Root, Store, WriteOptions}};
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path())]);
//! # let session = store.begin("/home/me/app")?;
//! # session.append(Draft::user("Why does the build fail?"))?;
//! # let id = session.session();
//! // A unique beginning of the id would do. Only the log's end is read, however long it is.
//! let last = store.tail(id.as_str(), 50)?.last_messages(50)?;
//! let session = store.resume(id.as_str(), WriteOptions::default())?;
//! let next = session.append(Draft::user("And the tests?"))?;
//! assert_eq!(next.parent, last.last().and_then(|entry| entry.id.clone()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Share it with a sub-agent
//!
//! ```
//! # use annals::{model::{Block, Draft}, store::{Root, Store}};
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path())]);
//! # let session = store.begin("/home/me/app")?;
//! # let call = Block::ToolUse { id: "toolu_02".into(), name: "Task".into(), input: "{}".into() };
//! session.append(Draft::assistant([call]))?;
//! let helper = session.delegate("toolu_02", "Explore", "Find the readers")?;
//! helper.append(Draft::user("Which modules read files?"))?;
//!
//! let read = store.session(session.session().as_str())?;
//! assert_eq!(read.agents.len(), 1);
//! assert!(read.agents[0].call.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Save its todos
//!
//! ```
//! # use annals::{model::{Draft, Todo}, store::{Root, Store}};
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path())]);
//! # let session = store.begin("/home/me/app")?;
//! # session.append(Draft::user("Make it faster"))?;
//! let todos = [Todo::pending("Measure"), Todo::pending("Remove the copies")];
//! session.set_todos(&todos)?;
//!
//! let lists = store.session(session.session().as_str())?.todos()?;
//! assert_eq!(lists[0].1, todos);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder `examples` has longer versions, and `queries.rs` for queries: messages by role, kind,
//! time and text, counts and tokens, ancestry, forks, resetting a project. `search.rs` searches
//! messages; `follow.rs` follows logs as they are written.
//!
//! # The modules
//!
//! | module | owns |
//! |---|---|
//! | [`store`] | roots and sessions on disk: finding, reading, querying, writing, the trash. Start here: it lists the handles of a [`Store`](store::Store) |
//! | [`model`] | the types: [`Entry`](model::Entry), [`Body`](model::Body), [`Draft`](model::Draft), [`Usage`](model::Usage), [`Flaw`](model::Flaw) … |
//! | [`tree`] | the entries of a conversation, its branches and leaves |
//! | [`archive`] | compressed and checksummed copies of sessions in the state directory |
//! | [`check`] | finds damage in files |
//! | [`repair`] | repairs damage and stores the originals |
//! | [`cost`] | ledger, prices, cost reports by any dimension, blocks, budgets |
//! | [`index`] | the disposable database of what was read before |
//! | [`watch`] | follows logs as they are written |
//! | [`search`] | queries and their matches |
//! | [`convert`] | conversion of sessions from one layout to another, and back without loss |
//! | [`retain`] | retention of sessions: policies, pins, plans |
//! | [`undo`] | the vault of what deletions, clean-ups and repairs took away |
//! | [`export`] | sessions as Markdown, HTML, JSON and JSON lines, and back; secrets masked |
//! | [`service`] | the questions of all surfaces: a store with an index, prices, a clock and a zone |
//! | [`view`] | rows that serialise as `--json` prints them |
//! | [`text`] | makes control and invisible characters visible |
//! | [`time_input`] | times as people type them |
//! | [`layout`] | the format of files and lines, per agent program; pure, no file system |
//! | [`jsonl`] | lines in files: scanning, tails, appending, locks, atomic replacement; no JSON |
//!
//! # Guarantees
//!
//! - **An acknowledged append is not lost.** With [`Durability::Disk`](jsonl::Durability::Disk),
//!   the default, it survives a power failure; with [`Durability::Os`](jsonl::Durability::Os), the
//!   end of the process. It is one `write` of whole lines, and its cost does not depend on the
//!   log's length.
//! - **A torn last line is terminated**, never truncated, before the next line is written.
//! - **A failed sync is reported** and poisons the handle ([`Poisoned`](annals_jsonl::Error::Poisoned)). It is not retried,
//!   because a retry may succeed although data was lost.
//! - **Small documents** (todos, titles) are replaced atomically, after the log.
//! - **Writers in several threads and processes** are serialized; one sync serves all waiting
//!   threads.
//! - **The bytes of a record are authoritative.** Unknown types, unknown fields, unusual spellings
//!   and damaged lines are preserved. Reading them is not an error: damage is returned as data, a
//!   [`Flaw`](model::Flaw).
//!
//! # What it never does
//!
//! It never rewrites, shortens or renames a log, except to [`repair`] it on request, and then it
//! saves the original. It never writes outside the given roots and state directory. It never
//! deletes: it moves to the trash, which only a purge empties, or removes what it has archived and
//! verified. It never writes to a session that another program is writing, unless requested. It never
//! prints, reads an environment variable, starts a runtime or accesses a network.
//!
//! # Features
//!
//! All are on by default. An agent that only writes and reads its own logs needs none of them.
//!
//! | feature | what it adds | what it costs |
//! |---|---|---|
//! | `index` | [`index`]: lists, costs and text are cached | SQLite, `search` |
//! | `search` | [`search`]: queries over all sessions | regular expressions |
//! | `archive` | [`archive`]: compressed copies of sessions | zstd |
//! | `databases` | sessions in an agent's SQLite database | SQLite |
//! | `export` | [`export`]: Markdown, HTML and JSON files, masked secrets | Markdown, regular expressions |
// The modules that use everything else are optional.
#![cfg_attr(
    not(all(feature = "export", feature = "index")),
    allow(dead_code, unused_imports)
)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

pub mod archive;
mod archive_format;
pub mod check;
pub mod convert;
mod error;
#[cfg(feature = "export")]
pub mod export;
#[cfg(feature = "index")]
pub mod index;
mod read_failures;
pub mod repair;
pub mod resume;
pub mod retain;
mod root;
#[cfg(feature = "search")]
pub mod search;
#[cfg(feature = "index")]
pub mod service;
mod sort;
pub mod store;
pub mod time_input;
pub mod undo;
pub mod view;
pub mod watch;

/// Lines in files: scanning, tails, appending, locks, atomic replacement. A line is bytes.
pub mod jsonl {
    pub use annals_jsonl::{
        AppendOptions, Appended, Create, Cursor, Digest, Durability, Error, FileId, Line,
        LineEnding, Log, MAX_LINE, OVERSIZE_HEAD, OpenFileHolder, OpenLog, RangeReader, ReadAt,
        Scanner, TailLine, TailReader, clear_temp, create_new, create_with, ensure_dir,
        ensure_not_open, exists, is_dir, move_file, read_span, replace, rewrite,
        with_document_lock,
    };
}

pub use annals_cost as cost;
pub use annals_layouts::json::{describe_json_error, json_error_reason};
pub use annals_layouts::{Error as LayoutError, Subject, draft_json, layout, model, text, tree};
pub use error::{Error, ErrorKind, IndexProblem, Result};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorials/rust.md")]
struct Guide;
