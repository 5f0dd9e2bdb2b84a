//! Integration tests of the library: conformance, crashes, concurrency.

mod archive;
mod check;
mod chorus;
mod clog;
mod cost;
mod decode;
mod examples;
mod export;
mod failing;
mod find;
mod gate_fuzz;
mod gate_histories;
mod gate_room;
#[path = "../../../annals-jsonl/tests/it/gates.rs"]
mod gates;
mod histories;
mod import_again;
mod kept;
mod kept_beside;
mod kept_root;
mod laws;
mod ledger;
mod orchestrator;
mod query;
mod read_only_layouts;
mod repair;
mod retain;
mod rows;
mod search;
mod support;
mod threats;
mod trash;
mod tree;
mod watch;
mod words;
mod writer;
