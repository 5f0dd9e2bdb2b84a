//! Measures an append to a Chorus conversation, with few and with many other conversations.
//!
//! Prints the number of conversations, the median time of an append through an open writer, and the
//! time to close it, in microseconds.

use std::time::Instant;

use annals::jsonl::Durability;
use annals::layout::NewSession;
use annals::model::{Draft, SessionId};
use annals::store::{Root, Store, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for beside in [10, 2_000] {
        let dir = tempfile::tempdir()?;
        let root = Root::new("chorus", dir.path().join(".chorus"))?;
        let store = Store::new(vec![root.clone()]);
        let options = WriteOptions {
            durability: Durability::Os,
            ..WriteOptions::default()
        };
        for number in 0..beside {
            let id = SessionId::new(&format!("conversation-{number}"))?;
            let new = NewSession::new(id, "/home/dev/app");
            let writer = store.create(&root, &new, options)?;
            writer.append(Draft::user("q"))?;
            writer.close()?;
        }
        let writer = store.resume("conversation-7", options)?;
        let mut times: Vec<u128> = (0..1_000)
            .map(|_| {
                let start = Instant::now();
                let done = writer.append(Draft::user("and now?"));
                done.map(|_| start.elapsed().as_nanos())
            })
            .collect::<Result<_, _>>()?;
        times.sort_unstable();
        let start = Instant::now();
        writer.close()?;
        let close = start.elapsed().as_micros();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        println!("{beside}\t{:.1}\t{close}", median as f64 / 1e3);
    }
    Ok(())
}
