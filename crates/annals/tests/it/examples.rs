//! The examples for the storage of the five programs stay short.

use std::fs;
use std::path::Path;

/// Largest number of code lines in `main`.
const MOST: usize = 30;

#[test]
fn the_storage_part_of_each_program_takes_thirty_lines() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in [
        "agentpool",
        "chorus",
        "clog",
        "orchestrator",
        "watch_claude_think",
    ] {
        let text = fs::read_to_string(dir.join(name).with_extension("rs")).unwrap();
        let (_, main) = text.split_once("fn main()").unwrap();
        let lines = main.lines().skip(1).take_while(|line| *line != "}");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let lines = lines.filter(is_code).count();
        assert!(
            (1..=MOST).contains(&lines),
            "{name}: {lines} lines of code in main"
        );
    }
}
