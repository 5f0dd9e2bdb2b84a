//! The program from outside: what it prints, what it writes, how it fails.

mod bad_input;
mod beside;
mod chorus;
mod clog;
mod convert;
mod cost;
mod delete;
mod demo;
mod export;
mod files;
mod harness;
mod index;
mod look;
mod orchestrator;
mod plot;
mod prices;
mod repair;
mod search;
mod spent;
mod statusline;
mod target;
mod todo;
mod watch;
mod write;
