//! The program `annals`.
fn main() {}
