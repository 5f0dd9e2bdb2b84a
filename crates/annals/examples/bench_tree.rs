//! Checks that building a tree is linear: CPU time per message of a tree and of one ten times as
//! large.
//!
//! `cargo run --release -p annals --example bench_tree [MESSAGES]`; MESSAGES is the length of the
//! large chain, one million by default.

use annals::model::{EntryKey, Link, Outline, OutlineKind, Span};
use annals::tree::{Scope, Tree};

const PASSES: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let total = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse::<usize>())?;
    let chain: fn(usize) -> usize = |n| n.saturating_sub(1);
    let star: fn(usize) -> usize = |_| 0;
    let cases = [
        ("chain small", total / 10, 1, chain),
        ("chain large", total, 1, chain),
        ("leaves small", total / 100, total / 100 - 1, star),
        ("leaves large", total / 10, total / 10 - 1, star),
    ];
    for (what, messages, leaves, parent) in cases {
        let outlines: Vec<Outline> = (0..messages).map(|n| message(n, parent(n))).collect();
        // Builds small trees several times, so that each case takes a measurable time.
        let builds = (total / outlines.len()).max(1);
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let start = cpu_seconds();
            for _ in 0..builds {
                let tree = Tree::build(&outlines, Scope::Main);
                assert_eq!(tree.conversations.len(), leaves);
            }
            best = best.min(cpu_seconds() - start);
        }
        let each = best / (builds * outlines.len()) as f64;
        println!("{what}\t{:.1}\tns per message", each * 1e9);
    }
    Ok(())
}

fn message(n: usize, parent: usize) -> Outline {
    let key = |n: usize| {
        EntryKey::from_text(&format!(
            "{:08x}-0000-4000-8000-{n:012x}",
            n * 2_654_435_761 % (1 << 32)
        ))
    };
    let span = Span {
        offset: n as u64 * 1_000,
        len: 1_000,
        line: n as u64 + 1,
    };
    let mut outline = Outline::new(span);
    outline.kind = OutlineKind::User;
    outline.human = true;
    outline.key = Some(key(n));
    outline.link = if n == 0 {
        Link::None
    } else {
        Link::Parent(key(parent))
    };
    outline
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
