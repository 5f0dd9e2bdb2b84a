//! Compares a durable message on a small and on a large session log with a bare `write` +
//! `fdatasync` of the same number of bytes.
//!
//! `cargo run --release -p annals --example bench_session DIRECTORY LARGE_LOG`; small files are
//! created in the directory, and the large log is truncated to its old length afterwards. The
//! variants alternate. Waiting for the disk hides CPU time, so messages that are only handed to the
//! kernel are measured too, in CPU time.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use annals::jsonl::Durability;
use annals::model::{Block, Draft};
use annals::store::{Root, SessionWriter, Store, WriteOptions};

const ROUNDS: usize = 20;
const TURNS: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(dir), Some(large)) = (args.next(), args.next()) else {
        println!("usage: bench_session DIRECTORY LARGE_LOG");
        return Ok(());
    };
    let length = fs::metadata(&large)?.len();
    let outcome = run(dir, &large.to_string_lossy());
    File::options().write(true).open(&large)?.set_len(length)?;
    outcome
}

fn run(dir: PathBuf, large: &str) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir_in(dir)?;
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let options = WriteOptions {
        live: true,
        ..WriteOptions::default()
    };
    let small = store.begin("/home/me/app")?;
    let begin = Instant::now();
    let large_name = large;
    let large = store.resume(large_name, options)?;
    println!("open large\t{:.1}\tms", begin.elapsed().as_secs_f64() * 1e3);
    let before = fs::metadata(small.path())?.len();
    say(&small)?;
    say(&large)?;
    let line = vec![b'x'; (fs::metadata(small.path())?.len() - before) as usize];
    let bare = File::options()
        .append(true)
        .create(true)
        .open(dir.path().join("bare"))?;

    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (at, times) in times.iter_mut().enumerate() {
            for _ in 0..TURNS {
                let start = Instant::now();
                match at {
                    0 => {
                        { &bare }.write_all(&line)?;
                        bare.sync_data()?;
                    }
                    1 => say(&small)?,
                    _ => say(&large)?,
                }
                times.push(start.elapsed());
            }
        }
    }
    for (what, times) in ["bare", "small", "large"].iter().zip(&mut times) {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        println!("{what}\t{:.1}\tµs at p50", median.as_secs_f64() * 1e6);
    }
    drop(large);

    let options = WriteOptions {
        durability: Durability::Os,
        ..options
    };
    let small = store.resume(small.session().as_str(), options)?;
    let large = store.resume(large_name, options)?;
    let mut spent = [0.0; 2];
    for _ in 0..ROUNDS {
        for (session, spent) in [&small, &large].into_iter().zip(&mut spent) {
            let start = cpu_seconds();
            for _ in 0..TURNS {
                say(session)?;
            }
            *spent += cpu_seconds() - start;
        }
    }
    for (what, spent) in ["small cpu", "large cpu"].iter().zip(spent) {
        let each = spent / (ROUNDS * TURNS) as f64;
        println!("{what}\t{:.1}\tµs of CPU, no sync", each * 1e6);
    }
    Ok(())
}

fn say(session: &SessionWriter) -> annals::Result<()> {
    let text = Block::Text("All is well. ".repeat(100));
    session
        .append(Draft::assistant([text]).model("claude-sonnet-4-5"))
        .map(drop)
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
