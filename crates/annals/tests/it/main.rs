//! The library from outside: conformance, crashes, concurrency.

mod chorus;
mod clog;
mod cost;
mod decode;
mod export;
mod find;
mod histories;
mod jsonl_append;
mod jsonl_crash;
mod jsonl_documents;
mod jsonl_kill;
mod jsonl_lines;
mod laws;
mod ledger;
mod orchestrator;
mod query;
mod repair;
mod rows;
mod search;
mod support;
mod trash;
mod tree;
mod watch;
mod words;
mod writer;
