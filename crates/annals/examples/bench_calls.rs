//! Measures what the packages for Python and Node are compared with: one call, the rows of a long
//! session, and appends.
//!
//! `cargo run --release -p annals --example bench_calls -- ROOT STATE_DIR LONG_SESSION SHORT_SESSION`
//!
//! Prints one JSON object: microseconds of CPU for a call, milliseconds of CPU for the rows as JSON
//! text, and microseconds for an append, of CPU without the sync and of wall time with it.

use std::time::{Duration, Instant};

use annals::jsonl::Durability;
use annals::model::Draft;
use annals::service::{BeginRequest, MessagesRequest, Service};
use annals::store::{Root, Store, WriteOptions};
use annals::view::EntryJson;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(root) = arguments.next() else {
        println!("usage: bench_calls ROOT STATE_DIR LONG_SESSION SHORT_SESSION");
        return Ok(());
    };
    let state = arguments.next().ok_or("a state directory")?;
    let store = Store::new(vec![Root::claude_code(root)]).with_state(state);
    let service = Service::new(store);
    let long = service.open(&arguments.next().ok_or("a long session")?)?;
    let short = service.open(&arguments.next().ok_or("a short session")?)?;
    let leaf = short.messages(&MessagesRequest::default())?.entries;
    let leaf = serde_json::to_value(leaf.last().ok_or("a message")?)?;
    let leaf = leaf["id"].as_str().ok_or("an id")?.to_owned();

    let call = median(40, 200, cpu_now, || {
        short.raw(&leaf)?;
        Ok(())
    })?;
    let messages = median(15, 1, cpu_now, || {
        let rows = long.messages(&MessagesRequest::default())?.entries;
        serde_json::to_string(&rows)?;
        Ok(())
    })?;
    let append_os = append(&service, Durability::Os, cpu_now)?;
    let append_disk = append(&service, Durability::Disk, wall_now)?;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        r#"{{"call_us":{:.3},"messages_ms":{:.3},"append_os_us":{:.3},"append_disk_us":{:.3}}}"#,
        us(call),
        us(messages) / 1e3,
        us(append_os),
        us(append_disk)
    );
    Ok(())
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Appends prompts one by one, and converts their entries to rows as the packages do.
fn append(service: &Service, durability: Durability, now: fn() -> Duration) -> Fallible<Duration> {
    let request = BeginRequest {
        cwd: "/home/me/app".to_owned(),
        options: WriteOptions {
            durability,
            ..WriteOptions::default()
        },
        ..BeginRequest::default()
    };
    let writer = service.begin(&request)?;
    let session = writer.session();
    let one = || -> Fallible<()> {
        let entry = writer.append(Draft::user("Go on."))?;
        serde_json::to_string(&EntryJson::for_session(entry, &session))?;
        Ok(())
    };
    median(300, 1, now, one)
}

/// Returns the time of a call: the median of several rounds of calls.
fn median(
    rounds: usize,
    calls: u32,
    now: fn() -> Duration,
    work: impl Fn() -> Fallible<()>,
) -> Fallible<Duration> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let before = now();
        for _ in 0..calls {
            work()?;
        }
        times.push((now() - before) / calls);
    }
    times.sort();
    Ok(times[rounds / 2])
}

/// CPU time of the process.
fn cpu_now() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn wall_now() -> Duration {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}
