//! How the gates are sized, where they run, and what they tell.
//!
//! Each gate is a test with a short form. `./test --gates` asks for the full one by setting
//! `ANNALS_GATES=full`, names the file system to run on in `ANNALS_GATE_DIR`, and makes a table of
//! the lines that [`tell`] prints.

use std::path::PathBuf;

use tempfile::TempDir;

/// The full form is asked for.
pub(crate) fn full() -> bool {
    std::env::var_os("ANNALS_GATES").is_some_and(|form| form == "full")
}

/// How much of something: the short form's, the full form's, or what a variable asks for.
pub(crate) fn size(variable: &str, short: usize, long: usize) -> usize {
    let asked = std::env::var(variable).ok();
    let asked = asked.map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")));
    asked.unwrap_or(if full() { long } else { short })
}

/// A directory on the file system that is tested.
pub(crate) fn dir() -> TempDir {
    match std::env::var_os("ANNALS_GATE_DIR") {
        Some(place) => tempfile::tempdir_in(PathBuf::from(place)).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

/// What a gate counted; nothing that it did not count is told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) points: usize,
    pub(crate) kills: usize,
    pub(crate) acks: usize,
    pub(crate) lost: usize,
}

/// Prints a row of the table.
pub(crate) fn tell(gate: u8, what: &str, counts: Counts) {
    let Counts {
        points,
        kills,
        acks,
        lost,
    } = counts;
    println!(
        "\nGATE {{\"gate\":{gate},\"what\":\"{what}\",\"points\":{points},\"kills\":{kills},\"acks\":{acks},\"lost\":{lost}}}"
    );
}

/// Prints that a gate's control was caught.
pub(crate) fn tell_control(gate: u8, what: &str) {
    println!("\nGATE {{\"gate\":{gate},\"control\":\"{what}\"}}");
}
