//! Searches messages, with and without a full-text index.
//!
//! ```sh
//! cargo run --example search
//! ```

use annals::index::Index;
use annals::model::{Block, Draft};
use annals::search::{Dialect, Filter, Order, Query, Speaker};
use annals::store::{Root, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Store::new(vec![Root::claude_code(dir.path().join(".claude"))]);
    let session = store.begin("/home/me/app")?;
    session.append(Draft::user("Why does parseHeader panic on \"é\"?"))?;
    let answer = Block::Text("parse_header slices within a character.".into());
    session.append(Draft::assistant([answer]))?;
    session.close()?;

    // Words, "phrases", prefix*, -not, OR, and conditions, as people type them.
    let inventory = store.inventory();
    let query = Query::parse("panic OR slice*", &Dialect::default())?
        .order(Order::Oldest)
        .limit(5);
    let without = store.search(&inventory, &query)?;
    assert_eq!(without.total, 2);

    // The index narrows the search; `index_text` adds new text to it.
    let mut index = Index::open(&dir.path().join("state"))?;
    let troubles = index.index_text(&inventory, &|_, _| {}, &|| false);
    assert!(troubles.is_empty());
    let with = index.search(&inventory, &query)?;
    assert_eq!(with.hits, without.hits);
    for hit in &with.hits {
        println!("line {}: {}", hit.line, hit.snippet);
    }

    // Parts of identifiers are words; a program may add conditions of its own.
    let query = Query::parse("header", &Dialect::default())?.and(Filter::Role(Speaker::Human));
    let found = index.search(&inventory, &query)?;
    println!("{} of a person", found.total);
    Ok(())
}
