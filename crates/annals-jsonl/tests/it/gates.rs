//! Size, directory and output of the gates.
//!
//! Each gate is a test with a short form. `./test --gates` requests the full form with
//! `ANNALS_GATES=full`, names the file system in `ANNALS_GATE_DIR`, and makes a table of the lines
//! that [`print_counts`] prints.

use std::path::PathBuf;

use tempfile::TempDir;

/// Tests whether the full form is requested.
pub(crate) fn full() -> bool {
    std::env::var_os("ANNALS_GATES").is_some_and(|form| form == "full")
}

/// Returns a size: the value of `variable`, or the default of the short or the full form.
pub(crate) fn size(variable: &str, short: usize, long: usize) -> usize {
    let asked = std::env::var(variable).ok();
    let asked = asked.map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")));
    asked.unwrap_or(if full() { long } else { short })
}

/// Creates a directory on the file system under test.
pub(crate) fn dir() -> TempDir {
    match std::env::var_os("ANNALS_GATE_DIR") {
        Some(place) => tempfile::tempdir_in(PathBuf::from(place)).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

/// Counts of one gate; only what it really counted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) points: usize,
    pub(crate) kills: usize,
    pub(crate) acks: usize,
    pub(crate) lost: usize,
}

/// Prints a row of the table.
pub(crate) fn print_counts(gate: u8, what: &str, counts: Counts) {
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

/// Prints that the control of a gate was caught.
pub(crate) fn print_control(gate: u8, what: &str) {
    println!("\nGATE {{\"gate\":{gate},\"control\":\"{what}\"}}");
}

/// A deterministic random number generator.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides.max(1)
    }
}
