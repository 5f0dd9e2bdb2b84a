//! The functions that are fuzzed, and the names they have.

pub mod targets;

/// Runs the target of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = targets::TARGETS.iter().find(|target| target.0 == name);
    let (_, target) = target.unwrap_or_else(|| panic!("no target {name}"));
    target(data);
}
