//! Reads and writes the logs of coding agents where they lie, and never loses a record.
//!
//! Coding agents keep their conversations as JSON lines in a tree of files. This library finds such
//! trees, reads what they say whatever state they are in, and writes sessions that the agents'
//! own programs resume. It is for programs that look at agent history, and for agents that need a
//! log and should not have to invent one.
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
//! The folder `examples` has these at length, and `queries.rs` for questions: messages by role,
//! kind, time and text, counts and tokens, ancestry, forks, the reset of a project. `search.rs` finds
//! what was said, `follow.rs` what is being said.
//!
//! # The modules
//!
//! | module | owns |
//! |---|---|
//! | [`store`] | roots and sessions on disk: finding, reading, querying, writing, the trash. Start here |
//! | [`model`] | the words: [`Entry`](model::Entry), [`Body`](model::Body), [`Draft`](model::Draft), [`Usage`](model::Usage), [`Flaw`](model::Flaw) … |
//! | [`tree`] | which entries make a conversation, where it branches, where it goes on |
//! | [`archive`] | sessions kept compressed and checksummed in the state directory: packs, and reading them |
//! | [`check`] | what is wrong with which file |
//! | [`repair`] | what would mend it, and the originals of what was mended |
//! | [`cost`] | what it cost: the ledger, prices, reports by any dimension, blocks, budgets |
//! | [`index`] | what was read of files before, so that it need not be read again |
//! | [`watch`] | what is written to logs, as it is written |
//! | [`search`] | what was said where: queries, and what they match |
//! | [`retain`] | how long sessions are kept: policies, pins, plans of what is old |
//! | [`export`] | sessions as Markdown, HTML, JSON and JSON lines, and back; secrets masked |
//! | [`text`] | text that hides nothing |
//! | [`layout`] | what files and lines mean, per agent program; pure, no file system |
//! | [`jsonl`] | lines in files: scanning, tails, appending, locks, atomic replacement; no JSON |
//!
//! # What it promises
//!
//! - **An append that returned is kept.** With [`Durability::Disk`](jsonl::Durability::Disk), the
//!   default, it survives a power failure; with [`Durability::SystemIo`](jsonl::Durability::Os), the end
//!   of the process. It is one `write` of whole lines, and costs the same whatever the log's length.
//! - **A torn last line is sealed**, never cut off, before the next one is written.
//! - **A failed sync is reported** and ends the handle ([`Error::Poisoned`]); it is not tried again,
//!   because the second try may lie.
//! - **Small documents** (todos, titles) are replaced whole or not at all, after the log.
//! - **Writers in several threads and processes** take turns; one sync serves all threads that wait.
//! - **The record's bytes are the truth.** Unknown types, unknown fields, odd spellings and damaged
//!   lines stay as they are, and reading them is not an error: damage is data, a
//!   [`Flaw`](model::Flaw) beside what could be read.
//!
//! # What it never does
//!
//! It never rewrites, shortens or renames a log, unless told to [`repair`] it, and then it keeps the
//! original; never writes outside of the roots and the state directory it was given; never deletes,
//! but moves to the trash, which only a purge empties, or removes what it has archived and read back;
//! never writes into a session that another program is writing at that moment, unless told to; never
//! prints, reads an environment variable, starts a runtime or talks to a network.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

pub mod archive;
pub mod check;
pub mod convert;
pub mod cost;
mod error;
pub mod export;
pub mod index;
mod json;
pub mod jsonl;
pub mod layout;
pub mod model;
pub mod repair;
pub mod retain;
pub mod search;
pub mod store;
pub mod text;
pub mod time_input;
pub mod tree;
pub mod watch;

pub use error::{Error, Result};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
