//! Measures reading a history in gigabytes per CPU second: raw bytes, split into lines, outlined.
//! The variants alternate in one process, so that the ratios hold on a busy machine.
//!
//! `cargo run --release -p annals --example bench_scan ROOT_ID`; the first pass brings the files
//! into the page cache. Prints the output tokens of each model at the end, each response counted
//! once over all files.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _};

use annals::jsonl::Scanner;
use annals::model::ResponseKey;
use annals::store::{LogScan, Root, RootFile, Store};

const PASSES: u32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(root) = std::env::args_os().nth(1) else {
        println!("usage: bench_scan ROOT");
        return Ok(());
    };
    let store = Store::new(vec![Root::claude_code(root)]);
    let inventory = store.inventory();
    let sessions = inventory.sessions.iter();
    let logs: Vec<(&Root, &RootFile)> = sessions
        .flat_map(|files| files.logs().map(|log| (&*files.root, log)))
        .collect();
    let files: Vec<&RootFile> = logs.iter().map(|(_, file)| *file).collect();
    read_only(&files)?;
    for _ in 0..PASSES {
        measure("read", || read_only(&files))?;
        measure("split", || split(&files))?;
        measure("outline", || {
            let mut bytes = 0;
            for (root, file) in &logs {
                bytes += LogScan::read(root, file).map_err(io::Error::other)?.bytes;
            }
            Ok(bytes)
        })?;
    }
    for (model, output) in tokens(&logs)? {
        println!("tokens\t{model}\t{output}");
    }
    Ok(())
}

fn read_only(files: &[&RootFile]) -> io::Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; 256 << 10], 0);
    for file in files {
        let mut file = File::open(&file.path)?;
        loop {
            let read = file.read(&mut buffer)?;
            bytes += read as u64;
            if read == 0 {
                break;
            }
        }
    }
    Ok(bytes)
}

fn split(files: &[&RootFile]) -> io::Result<u64> {
    let mut scanner: Option<Scanner<File>> = None;
    let mut bytes = 0;
    for file in files {
        let file = File::open(&file.path)?;
        let scanner = match &mut scanner {
            Some(scanner) => {
                scanner.reset(file);
                scanner
            }
            none => none.insert(Scanner::new(file)),
        };
        while let Some(line) = scanner.next()? {
            bytes += line.len;
        }
    }
    Ok(bytes)
}

/// Returns the output tokens of each model. Forks repeat responses in other files: each counts
/// once.
fn tokens(logs: &[(&Root, &RootFile)]) -> annals::Result<BTreeMap<String, u64>> {
    let mut responses: HashMap<ResponseKey, (String, u64)> = HashMap::new();
    for (root, file) in logs {
        for outline in LogScan::read(root, file)?.outlines {
            let Some(reply) = outline.reply else { continue };
            let (Some(key), Some(usage)) = (reply.response, reply.usage) else {
                continue;
            };
            let model = reply.model.as_deref().unwrap_or("?").to_owned();
            let most = responses.entry(key).or_insert((model, 0));
            most.1 = most.1.max(usage.output);
        }
    }
    let mut totals = BTreeMap::new();
    for (model, output) in responses.into_values() {
        *totals.entry(model).or_default() += output;
    }
    Ok(totals)
}

fn measure(what: &str, pass: impl Fn() -> io::Result<u64>) -> io::Result<()> {
    let start = cpu_seconds();
    let bytes = pass()?;
    let rate = bytes as f64 / 1e9 / (cpu_seconds() - start);
    println!("{what}\t{rate:.3}\tGB per CPU second");
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
