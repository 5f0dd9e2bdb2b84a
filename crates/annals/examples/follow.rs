//! Follows the thinking and the messages of agents, in all projects or in one.
//!
//! ```sh
//! cargo run --example follow -- ~/.claude [PROJECT]
//! ```

use annals::model::{Block, Body};
use annals::store::{Root, Store};
use annals::watch::{Event, FollowOptions, Follower, Selection};

fn main() -> annals::Result<()> {
    let mut args = std::env::args().skip(1);
    let root = args.next().unwrap_or_else(|| ".claude".to_owned());
    let store = Store::new(vec![Root::claude_code(root)]);
    let selection = match args.next() {
        Some(project) => Selection::all().project(project),
        None => Selection::all(),
    };
    let mut follower = Follower::new(&store, selection, FollowOptions::default().last(5))?;

    // Any thread that has the stopper can stop the follower: here, a line on standard input.
    let stopper = follower.stopper();
    std::thread::spawn(move || {
        _ = std::io::stdin().read_line(&mut String::new());
        stopper.stop();
    });

    for event in &mut follower {
        match event {
            Event::Entry(fresh) => {
                let Body::Message(message) = &fresh.entry.body else {
                    continue;
                };
                for block in &message.blocks {
                    let (kind, text) = match block {
                        Block::Text(text) => (message.role.as_str(), text),
                        Block::Thinking { text, .. } => ("thinking", text),
                        _ => continue,
                    };
                    println!("{} {kind}: {text}", fresh.session);
                }
            }
            Event::Began { log } => println!("new: {}", log.path.display()),
            Event::Error(error) => eprintln!("{error}"),
            _ => {}
        }
    }
    Ok(())
}
