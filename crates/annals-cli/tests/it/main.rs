//! The program from outside: what it prints, and how it ends.

mod look;
mod program;
