//! Tests that tokens are found and that missing blocks are detected.

use super::super::merge;
use super::*;

/// Returns one of many tokens with the same prefix.
fn token(number: u32) -> Token {
    Token::from_bytes(format!("word{number:05}").as_bytes())
}

const COUNT: u32 = 4_000;

/// Creates two segments; every token is in its own document and in the last one.
fn database() -> Connection {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(TABLES).unwrap();
    for _ in 0..2 {
        let span = |line: u32| Span {
            offset: u64::from(line) * 10,
            len: 9,
            line: u64::from(line) + 1,
        };
        let spans = (0..=COUNT).map(span).collect();
        let stretches = [DocumentRange::new(Some(1), spans)];
        let words = (0..COUNT).map(|number| Ok((token(number), vec![number, COUNT])));
        add_segment(&database, &stretches, words).unwrap();
    }
    database
}

fn documents(database: &Connection, segment: Segment, lookup: Lookup) -> Vec<u32> {
    let found = look_up(database, segment, lookup, usize::MAX)
        .unwrap()
        .unwrap();
    found.iter().collect()
}

#[test]
fn every_token_is_found_in_its_block() {
    let database = database();
    let blocks: u32 = database
        .query_row("SELECT count(*) FROM word", [], |row| row.get(0))
        .unwrap();
    assert!(blocks > 10);
    for segment in segments(&database).unwrap() {
        for number in (0..COUNT).step_by(7) {
            let is = documents(&database, segment, Lookup::Exact(token(number)));
            assert_eq!(is, [number, COUNT]);
        }
        // The tokens with a prefix may span several blocks.
        let begins = Lookup::Prefix(Token::from_bytes(b"word01"));
        let mut expected: Vec<u32> = (1_000..2_000).collect();
        expected.push(COUNT);
        assert_eq!(documents(&database, segment, begins), expected);
        for other in ["a", "word", "word00000x", "wore", "z"] {
            let is = Lookup::Exact(Token::from_bytes(other.as_bytes()));
            assert!(documents(&database, segment, is).is_empty(), "{other}");
        }
        let mut wanted = Documents::none(segment.1);
        [0, 127, 128, COUNT].iter().for_each(|one| wanted.add(*one));
        let places = super::document_locations(&database, segment.0, &wanted).unwrap();
        let lines = places.iter().flat_map(|(_, spans)| spans);
        let lines: Vec<u64> = lines.map(|span| span.line).collect();
        assert_eq!(lines, [1, 128, 129, u64::from(COUNT) + 1]);
        // The same records, range by range.
        let mut by_range = Vec::new();
        for (text, id) in ranges_with(&database, segment, &wanted).unwrap() {
            assert_eq!(segment_of(id), segment.0);
            by_range.push((text, spans_in_range(&database, id, &wanted).unwrap()));
        }
        let spans = by_range.iter().flat_map(|(_, spans)| spans);
        assert_eq!(spans.map(|span| span.line).collect::<Vec<_>>(), lines);
        // A prefix in too many blocks narrows nothing.
        assert!(look_up(&database, segment, begins, 1).unwrap().is_none());
    }
}

#[test]
fn missing_block_is_reported_as_damage() {
    let database = database();
    let segment = segments(&database).unwrap()[0];
    let mut query = database
        .prepare("SELECT id FROM word WHERE segment = ?1")
        .unwrap();
    let ids = query.query_map([segment.0], |row| row.get(0)).unwrap();
    let ids: Vec<i64> = ids.map(Result::unwrap).collect();
    for id in ids {
        database.execute_batch("SAVEPOINT whole").unwrap();
        let delete = "DELETE FROM word WHERE id = ?1";
        database.execute(delete, [id]).unwrap();
        let looked = (0..COUNT).step_by(41);
        let looked_up = looked.len();
        let whole = looked.filter(|number| {
            let found = look_up(
                &database,
                segment,
                Lookup::Exact(token(*number)),
                usize::MAX,
            );
            found.is_ok_and(|found| {
                // A lookup that succeeds is complete.
                assert!(found.unwrap().iter().eq([*number, COUNT]));
                true
            })
        });
        assert!(whole.count() < looked_up);
        assert!(merge::merge(&database, &[segment]).is_err());
        database
            .execute_batch("ROLLBACK TO whole; RELEASE whole")
            .unwrap();
    }
}

#[test]
fn missing_range_is_reported_as_damage() {
    let database = database();
    let segment = segments(&database).unwrap()[0];
    let mut wanted = Documents::none(segment.1);
    wanted.add(0);
    assert!(ranges_with(&database, segment, &wanted).is_ok());
    for damage in [
        "DELETE FROM stretch WHERE id = (SELECT max(id) FROM stretch WHERE id >> 32 = ?1)",
        "UPDATE stretch SET text = text + 1 WHERE id = (SELECT min(id) FROM stretch WHERE id >> 32 = ?1)",
        "UPDATE segment SET size = size WHERE id = ?1 AND 0",
    ] {
        database.execute_batch("SAVEPOINT whole").unwrap();
        let changed = database.execute(damage, [segment.0]).unwrap();
        let found = ranges_with(&database, segment, &wanted);
        assert_eq!(found.is_err(), changed > 0, "{damage}");
        database
            .execute_batch("ROLLBACK TO whole; RELEASE whole")
            .unwrap();
    }
}

#[test]
fn merged_segment_has_tokens_of_all() {
    let database = database();
    let both = segments(&database).unwrap();
    merge::merge(&database, &both).unwrap();
    let [merged] = segments(&database).unwrap()[..] else {
        panic!("there is one segment");
    };
    for number in (0..COUNT).step_by(97) {
        let is = documents(&database, merged, Lookup::Exact(token(number)));
        let second = COUNT + 1;
        assert_eq!(is, [number, COUNT, second + number, second + COUNT]);
    }
    let left: u32 = database
        .query_row("SELECT sum(documents) FROM stretch", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 2 * (COUNT + 1));
}
