//! Searches messages, with and without a full-text index.
//!
//! ```sh
//! cargo run --example search
//! ```

use annals::model::{Block, Draft};
use annals::search::{Dialect, Order, Query};
use annals::store::{Root, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let root = Root::claude_code(dir.path().join(".claude"));
    let store = Store::new(vec![root.clone()]);
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

    // An index narrows the search; `update_text` adds new text to it.
    let indexed = Store::new(vec![root]);
    let indexed = indexed.with_state(dir.path().join("state")).with_index();
    let troubles = indexed
        .index()?
        .update_text(&inventory, &|_, _| {}, &|| false)?;
    assert!(troubles.is_empty());
    let with = indexed.search(&inventory, &query)?;
    assert_eq!(with.hits, without.hits);
    for hit in &with.hits {
        println!("line {}: {}", hit.line, hit.snippet);
    }

    // Parts of identifiers are words; a program may add conditions of its own.
    let dialect = Dialect::default();
    let query = Query::parse("header", &dialect)?.filter("role", ["human"], &dialect)?;
    let found = indexed.search(&inventory, &query)?;
    println!("{} of a person", found.total);
    Ok(())
}
