//! Measures what the packages for Python and Node are compared with: one call, the rows of a long
//! session, and appends.
//!
//! `cargo run --release -p annals --example bench_calls -- ROOT STATE_DIR LONG_SESSION SHORT_SESSION`
//!
//! Prints one JSON object: microseconds of CPU for a call and for an append without the sync, and milliseconds of
//! CPU for the rows as JSON text. Then, for each number on standard input, makes as many durable appends and prints
//! the microseconds of wall time of each, as a JSON array. So appends of several programs can be measured in turn.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use annals::jsonl::Durability;
use annals::model::Draft;
use annals::service::{BeginRequest, MessagesRequest, Service};
use annals::store::{Root, SessionWriter, Store, WriteOptions};
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
    let writer = begin(&service, Durability::Os)?;
    let append_os = median(300, 1, cpu_now, || append(&writer))?;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        r#"{{"call_us":{:.3},"messages_ms":{:.3},"append_os_us":{:.3}}}"#,
        us(call),
        us(messages) / 1e3,
        us(append_os)
    );
    let writer = begin(&service, Durability::Disk)?;
    for line in std::io::stdin().lock().lines() {
        let mut times = Vec::new();
        for _ in 0..line?.trim().parse::<u32>()? {
            let began = Instant::now();
            append(&writer)?;
            times.push(us(began.elapsed()));
        }
        println!("{}", serde_json::to_string(&times)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn begin(service: &Service, durability: Durability) -> Fallible<SessionWriter> {
    let request = BeginRequest {
        cwd: "/home/me/app".to_owned(),
        options: WriteOptions {
            durability,
            ..WriteOptions::default()
        },
        ..BeginRequest::default()
    };
    Ok(service.begin(&request)?)
}

/// Appends a prompt, and converts its entry to a row as the packages do.
fn append(writer: &SessionWriter) -> Fallible<()> {
    let entry = writer.append(Draft::user("Go on."))?;
    serde_json::to_string(&EntryJson::for_session(entry, &writer.session()))?;
    Ok(())
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
