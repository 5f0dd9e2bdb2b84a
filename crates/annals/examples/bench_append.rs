//! Compares a durable append with a bare `write` + `fdatasync`, and measures how it scales with
//! threads.
//!
//! `cargo run --release -p annals --example bench_append [DIRECTORY]`; the directory must be on the
//! disk to measure, not on a tmpfs. The variants alternate within one run, so that their ratios
//! hold even on a busy machine.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use annals::jsonl::{AppendOptions, Log};

const RECORD: usize = 2_000;
const ROUNDS: usize = 40;
const TURNS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(base)?;
    println!(
        "{:<44} {:>9} {:>9} {:>7}  target",
        "one writer, 2 KB records, p50 µs", "bare", "append", "ratio"
    );
    let mut missed = false;
    for (what, len) in [("log of 1 KB", 1 << 10), ("log of 1 GB (sparse)", 1 << 30)] {
        let (bare, ours) = one_writer(dir.path(), len)?;
        let ratio = ours / bare;
        missed |= ratio > 1.3;
        println!(
            "{what:<44} {bare:>9.1} {ours:>9.1} {ratio:>7.2}  ≤ 1.30 {}",
            verdict(ratio <= 1.3)
        );
    }
    println!();
    println!(
        "{:<44} {:>9} {:>9} {:>9}",
        "one log, many writers", "appends/s", "p50 ms", "p99 ms"
    );
    let (mut ours, mut linked, mut single, mut held) = Default::default();
    for _ in 0..3 {
        single = best(
            single,
            many(
                1,
                3_000,
                &Log::open(make(dir.path(), 1 << 10)?, AppendOptions::default())?,
                plain,
            )?,
        );
        ours = best(
            ours,
            many(
                64,
                300,
                &Log::open(make(dir.path(), 1 << 10)?, AppendOptions::default())?,
                plain,
            )?,
        );
        linked = best(
            linked,
            many(
                64,
                300,
                &Log::open(make(dir.path(), 1 << 10)?, AppendOptions::default())?,
                made,
            )?,
        );
        held = best(
            held,
            many(64, 60, &Held::open(&make(dir.path(), 1 << 10)?)?, over_sync)?,
        );
    }
    for (what, run) in [
        ("1 thread, append", single),
        ("64 threads, append", ours),
        ("64 threads, append_with", linked),
        ("64 threads, lock held over the sync", held),
    ] {
        println!(
            "{what:<44} {:>9.0} {:>9.2} {:>9.2}",
            run.rate, run.p50, run.p99
        );
    }
    println!();
    let gain = ours.rate / single.rate;
    missed |= gain < 4.0 || ours.p99 >= held.p99;
    println!(
        "{:<44} {gain:>9.2}  ≥ 4 {}",
        "64 threads / 1 thread",
        verdict(gain >= 4.0)
    );
    println!(
        "{:<44} {:>9.2}  < 1 {}",
        "p99 / p99 with the lock held",
        ours.p99 / held.p99,
        verdict(ours.p99 < held.p99)
    );
    println!(
        "{:<44} {:>9.2}",
        "64 threads / the lock held",
        ours.rate / held.rate
    );
    std::process::exit(i32::from(missed));
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Returns the median microseconds of the bare calls and of [`Log`], each on its own log of the
/// same length.
fn one_writer(dir: &Path, len: u64) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let bare = File::options().append(true).open(make(dir, len)?)?;
    let log = Log::open(make(dir, len)?, AppendOptions::default())?;
    let line = [record(), b"\n".to_vec()].concat();
    let record = record();
    log.append(&record)?;
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..TURNS {
            let start = Instant::now();
            { &bare }.write_all(&line)?;
            bare.sync_data()?;
            bare_times.push(start.elapsed());
        }
        for _ in 0..TURNS {
            let start = Instant::now();
            log.append(&record)?;
            our_times.push(start.elapsed());
        }
    }
    Ok((
        percentile(&mut bare_times, 50) * 1e3,
        percentile(&mut our_times, 50) * 1e3,
    ))
}

#[derive(Clone, Copy, Default)]
struct Run {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Returns the faster run, which the rest of the machine disturbed less.
fn best(a: Run, b: Run) -> Run {
    if a.rate >= b.rate { a } else { b }
}

fn many<T: Sync>(
    threads: usize,
    each: usize,
    log: &T,
    append: fn(&T, &[u8]) -> io::Result<()>,
) -> io::Result<Run> {
    let record = record();
    let start = Instant::now();
    let mut times = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let time = |_| {
                        let start = Instant::now();
                        append(log, &record).map(|()| start.elapsed())
                    };
                    (0..each).map(time).collect::<io::Result<Vec<_>>>()
                })
            })
            .collect();
        let mut times = Vec::new();
        for worker in workers {
            times.extend(
                worker
                    .join()
                    .map_err(|_| io::Error::other("a writer panicked"))??,
            );
        }
        io::Result::Ok(times)
    })?;
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    Ok(Run {
        rate,
        p50: percentile(&mut times, 50),
        p99: percentile(&mut times, 99),
    })
}

fn plain(log: &Log, record: &[u8]) -> io::Result<()> {
    log.append(record).map(drop).map_err(io::Error::other)
}

fn made(log: &Log, record: &[u8]) -> io::Result<()> {
    log.append_with(|_, _| Ok::<_, annals::Error>(record.to_vec()))
        .map(drop)
        .map_err(io::Error::other)
}

/// The naive writer: holds the lock during write and sync.
struct Held(Mutex<File>);

impl Held {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(
            File::options().read(true).append(true).open(path)?,
        )))
    }
}

fn over_sync(held: &Held, record: &[u8]) -> io::Result<()> {
    let mut file = held.0.lock().map_err(|_| io::Error::other("poisoned"))?;
    file.lock()?;
    file.write_all(&[record, b"\n"].concat())?;
    file.sync_data()?;
    file.unlock()
}

fn make(dir: &Path, len: u64) -> io::Result<PathBuf> {
    let (mut file, path) = tempfile::NamedTempFile::new_in(dir)?
        .keep()
        .map_err(|e| e.error)?;
    file.set_len(len - 1)?;
    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::File::open(dir)?.sync_all()?;
    Ok(path)
}

fn record() -> Vec<u8> {
    vec![b'x'; RECORD]
}

/// Returns a percentile in milliseconds.
fn percentile(times: &mut [Duration], of_hundred: usize) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() * of_hundred / 100)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
