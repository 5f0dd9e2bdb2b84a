//! Checks a root of claude-code and prints the flaws found: `bench_check ROOT_ID`.
//!
//! Run it under a tool that measures CPU time: a check should process one gigabyte per CPU second.

use std::collections::BTreeMap;

use annals::check;
use annals::store::{Root, Store};

fn main() -> annals::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let store = Store::new(vec![Root::claude_code(path)]);
    let inventory = store.inventory();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut bytes, mut lines) = (0, 0);
    for report in check::all(&inventory, None, &|_, _| {}) {
        let report = report?;
        bytes += report.bytes;
        lines += report.lines;
        for flaw in report.flaws {
            *kinds.entry(flaw.kind.as_str()).or_default() += 1;
        }
    }
    println!("{bytes} bytes, {lines} lines, {kinds:?}");
    Ok(())
}
