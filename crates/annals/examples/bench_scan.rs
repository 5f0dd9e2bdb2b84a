//! How fast lines are split, beside reading alone, in gigabytes per CPU second.
//!
//! `cargo run --release -p annals --example bench_scan FILE...`; the files should be in the page
//! cache, which the first pass sees to.

use std::fs::File;
use std::io::{self, Read as _};

use annals::jsonl::Scanner;

const PASSES: u32 = 3;

fn main() -> io::Result<()> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let read = || {
        let (mut buffer, mut bytes) = (vec![0; 256 << 10], 0);
        for path in &paths {
            let mut file = File::open(path)?;
            loop {
                let read = file.read(&mut buffer)?;
                bytes += read as u64;
                if read == 0 {
                    break;
                }
            }
        }
        io::Result::Ok((bytes, 0))
    };
    let split = || {
        let mut scanner: Option<Scanner<File>> = None;
        let (mut bytes, mut lines) = (0, 0);
        for path in &paths {
            let file = File::open(path)?;
            let scanner = match &mut scanner {
                Some(scanner) => {
                    scanner.reset(file);
                    scanner
                }
                none => none.insert(Scanner::new(file)),
            };
            while let Some(line) = scanner.next()? {
                bytes += line.len;
                lines += 1;
            }
        }
        io::Result::Ok((bytes, lines))
    };
    read()?;
    for _ in 0..PASSES {
        measure("read only", read)?;
        measure("read and split", split)?;
    }
    Ok(())
}

fn measure(what: &str, pass: impl Fn() -> io::Result<(u64, u64)>) -> io::Result<()> {
    let start = cpu_seconds()?;
    let (bytes, lines) = pass()?;
    let rate = bytes as f64 / 1e9 / (cpu_seconds()? - start);
    println!("{what:<16} {rate:>6.2} GB per CPU second, {lines} lines");
    Ok(())
}

/// From the scheduler's own account, which counts nanoseconds where `stat` counts ticks.
fn cpu_seconds() -> io::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanos = text
        .split(' ')
        .next()
        .and_then(|field| field.parse::<f64>().ok());
    nanos
        .map(|nanos| nanos / 1e9)
        .ok_or_else(|| io::Error::other("no schedstat"))
}
