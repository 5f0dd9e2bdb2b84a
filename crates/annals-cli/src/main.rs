//! The program `annals`.
#[allow(dead_code, reason = "the commands that call it are not written yet")]
mod render;

fn main() {}
