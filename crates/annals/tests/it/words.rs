//! Full-text index: every answer is the same with and without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use annals::search::{Dialect, Query, SearchResults};
use annals::store::{Inventory, Root, Store};
use proptest::prelude::*;

use crate::support::{cases, index_warnings, indexed};

fn parse(text: &str) -> Query {
    Query::parse(text, &Dialect::default())
        .unwrap()
        .limit(10_000)
}

fn reported(found: &SearchResults) -> String {
    let hits = found.hits.iter();
    let hits: Vec<String> = hits.map(|hit| format!("{hit:?}")).collect();
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    format!("{} {}\n{}", found.total, found.sessions, hits.join("\n"))
}

fn learn(store: &Store, inventory: &Inventory) {
    let index = store.index().unwrap();
    let troubles = index.update_text(inventory, &|_, _| {}, &|| false);
    let troubles = troubles.unwrap();
    assert!(troubles.is_empty(), "{troubles:?}");
}

#[test]
fn every_word_is_found_with_and_without_index() {
    let mut asked = 0;
    for case in cases() {
        let copy = case.copy();
        let store = copy.store();
        let inventory = store.inventory();
        let state = tempfile::tempdir().unwrap();
        let index = indexed(&store, state.path());
        let mut words: BTreeSet<String> = BTreeSet::new();
        for hit in store.search(&inventory, &parse("")).unwrap().hits {
            let parts = hit
                .snippet
                .split(|c: char| c.is_whitespace() || "\"()".contains(c));
            let parts = parts.filter(|part| !part.contains(['*', ':', '…', '-']));
            words.extend(parts.filter(|part| !part.is_empty()).map(ToOwned::to_owned));
        }
        words.retain(|word| !["OR", "AND", "NOT"].contains(&word.as_str()));
        let name = format!("{} {}", case.layout.name(), case.name);
        for learnt in [false, true] {
            for word in words.iter().step_by(words.len().div_ceil(4).max(1)) {
                for query in [
                    word.clone(),
                    format!("{word}*"),
                    format!("{word} OR nothing"),
                    format!("{word} -the"),
                    format!("{word} role:user"),
                ] {
                    let query = parse(&query);
                    let without = reported(&store.search(&inventory, &query).unwrap());
                    let with = reported(&index.search(&inventory, &query).unwrap());
                    assert_eq!(with, without, "{name}: {word}, learnt: {learnt}");
                    asked += 1;
                }
            }
            learn(&index, &inventory);
        }
        assert!(index_warnings(&index).is_empty(), "{name}");
    }
    assert!(asked > 500, "{asked}");
}

const FILES: [&str; 4] = [
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb.jsonl",
    "projects/-v/cccccccc-cccc-4ccc-8ccc-cccccccccccc.jsonl",
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/subagents/agent-a1.jsonl",
];

/// Test words: plain, escaped, scripts without spaces, identifiers.
const WORDS: [&str; 12] = [
    "alpha",
    "Alphabet",
    "alpha_beta",
    "alphaBeta",
    "\\u0061lpha",
    "caf\\u00e9",
    "日本語",
    "path\\/to/alpha.rs",
    "\\ud83c\\udf89",
    "alpha\\nbeta",
    "\\\"beta\\\"",
    "beta",
];

const QUERIES: [&str; 17] = [
    "alpha",
    "alpha*",
    "*lpha",
    "alphabeta",
    "beta",
    "\"alpha beta\"",
    "alpha beta",
    "alpha OR 日",
    "本語",
    "café -beta",
    "to/alpha.rs",
    "🎉",
    "beta role:assistant",
    "re:alph.?b",
    "alpha project:/w",
    "beta -project:w agent:sub",
    "alpha agent:main after:2026-01-01",
];

struct History {
    dir: tempfile::TempDir,
    state: tempfile::TempDir,
    lines: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Say(usize, Vec<usize>),
    Tear(usize),
    Cut(usize, usize),
    Replace(usize, Vec<usize>),
    Remove(usize),
    Rename(usize, usize),
    Learn,
    Forget,
}

impl History {
    fn new() -> Self {
        History {
            dir: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            lines: 0,
        }
    }

    fn store(&self) -> Store {
        let root = Root::new("claude-code", self.dir.path()).unwrap();
        Store::new(vec![root])
    }

    fn path(&self, file: usize) -> PathBuf {
        let path = self.dir.path().join(FILES[file]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn line(&mut self, words: &[usize]) -> String {
        self.lines += 1;
        let words: Vec<&str> = words.iter().map(|word| WORDS[*word]).collect();
        let role = if self.lines.is_multiple_of(3) {
            "assistant"
        } else {
            "user"
        };
        format!(
            r#"{{"type":"{role}","uuid":"{:08x}-0000-4000-8000-000000000000","parentUuid":null,"cwd":"/w","timestamp":"2026-03-01T10:00:00.000Z","message":{{"role":"{role}","content":"{}"}}}}"#,
            self.lines,
            words.join(" ")
        )
    }

    fn append(&self, file: usize, text: &str) {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(self.path(file))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Say(file, words) => {
                let line = self.line(words) + "\n";
                self.append(*file, &line);
            }
            Step::Tear(file) => {
                let line = self.line(&[0, 11]);
                self.append(*file, &line[..line.len() - 9]);
            }
            Step::Cut(file, percent) => {
                if let Ok(bytes) = fs::read(self.path(*file)) {
                    fs::write(self.path(*file), &bytes[..bytes.len() * percent / 100]).unwrap();
                }
            }
            Step::Replace(file, words) => {
                let line = self.line(words) + "\n";
                let fresh = self.dir.path().join("fresh");
                fs::write(&fresh, line).unwrap();
                fs::rename(fresh, self.path(*file)).unwrap();
            }
            Step::Remove(file) => drop(fs::remove_file(self.path(*file))),
            Step::Rename(from, to) => drop(fs::rename(self.path(*from), self.path(*to))),
            Step::Learn => learn(&self.indexed(), &self.store().inventory()),
            Step::Forget => {
                for entry in fs::read_dir(self.state.path()).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
            }
        }
    }

    fn indexed(&self) -> Store {
        indexed(&self.store(), self.state.path())
    }

    fn compare(&self) {
        let store = self.store();
        let inventory = store.inventory();
        let index = self.indexed();
        for query in QUERIES {
            let asked = parse(query);
            let without = reported(&store.search(&inventory, &asked).unwrap());
            let with = reported(&index.search(&inventory, &asked).unwrap());
            assert_eq!(with, without, "{query}");
        }
        assert!(index_warnings(&index).is_empty());
    }
}

fn step() -> impl Strategy<Value = Step> {
    let words = || prop::collection::vec(0..WORDS.len(), 1..6);
    let file = || 0..FILES.len();
    prop_oneof![
        6 => (file(), words()).prop_map(|(file, words)| Step::Say(file, words)),
        1 => file().prop_map(Step::Tear),
        1 => (file(), 0..100usize).prop_map(|(file, percent)| Step::Cut(file, percent)),
        1 => (file(), words()).prop_map(|(file, words)| Step::Replace(file, words)),
        1 => file().prop_map(Step::Remove),
        1 => (file(), file()).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => Just(Step::Learn),
        1 => Just(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn random_history_searches_the_same_with_index(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        let mut history = History::new();
        for (number, step) in steps.iter().enumerate() {
            history.step(step);
            if matches!(step, Step::Learn) || number % 7 == 0 {
                history.compare();
            }
        }
        history.compare();
    }
}

/// Many small additions are merged without loss.
#[test]
fn many_small_additions_are_found() {
    let mut history = History::new();
    for number in 0..300 {
        history.step(&Step::Say(number % 3, vec![number % WORDS.len()]));
        history.step(&Step::Learn);
    }
    history.compare();
    history.step(&Step::Remove(1));
    history.step(&Step::Learn);
    history.compare();
}

/// Concurrent processes index the same text once.
#[test]
fn concurrent_updates_index_each_record_once() {
    let mut history = History::new();
    for number in 0..200 {
        history.step(&Step::Say(number % 4, vec![number % WORDS.len()]));
    }
    let (store, state) = (history.store(), history.state.path());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let index = indexed(&store, state);
                learn(&index, &store.inventory());
                assert!(index_warnings(&index).is_empty());
            });
        }
    });
    history.compare();
}

/// Whatever is in the database, the logs determine the answer.
#[test]
fn damaged_index_gives_the_same_hits() {
    let mut history = History::new();
    for number in 0..150 {
        history.step(&Step::Say(number % 4, vec![number % WORDS.len(), 0]));
    }
    history.step(&Step::Learn);
    let path = history.state.path().join("index-1.db");
    let whole = fs::read(&path).unwrap();
    let store = history.store();
    let inventory = store.inventory();
    let asked = parse("alpha");
    let expected = reported(&store.search(&inventory, &asked).unwrap());
    let mut noticed = 0;
    let bits = (100..whole.len()).step_by(whole.len() / 300);
    let bits = bits.map(|at| (at, 1, 1 << (at % 8)));
    let holes = (100..whole.len()).step_by(whole.len() / 100);
    let holes = holes.map(|at| (at, 40, 0xa5));
    for (at, bytes, mask) in bits.chain(holes) {
        let mut damaged = whole.clone();
        let touched = damaged[at..].iter_mut().take(bytes);
        touched.for_each(|byte| *byte ^= mask);
        fs::write(&path, damaged).unwrap();
        let index = history.indexed();
        let found = index.search(&inventory, &asked).unwrap();
        assert_eq!(reported(&found), expected, "damaged at {at}");
        noticed += usize::from(!index_warnings(&index).is_empty());
        drop(index);
        for entry in fs::read_dir(history.state.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    assert!(noticed > 0);
}

/// Text removed by an interrupted update is not considered indexed when the logs exist again.
#[test]
fn interrupted_update_leaves_no_wrong_coverage() {
    let mut history = History::new();
    history.step(&Step::Say(0, vec![0]));
    history.step(&Step::Say(2, vec![0]));
    history.step(&Step::Learn);
    let (there, away) = (
        history.dir.path().join("projects/-v"),
        history.dir.path().join("away"),
    );
    fs::rename(&there, &away).unwrap();
    // One more log makes the update commit before it stops.
    history.step(&Step::Say(1, vec![0]));
    let inventory = history.store().inventory();
    let stops = std::sync::atomic::AtomicUsize::new(0);
    let stop = || stops.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 1;
    let index = history.indexed();
    let index = index.index().unwrap();
    index.update_text(&inventory, &|_, _| {}, &stop).unwrap();
    fs::remove_file(history.path(1)).unwrap();
    fs::remove_dir_all(&there).unwrap_or_default();
    fs::rename(&away, &there).unwrap();
    history.compare();
}

/// A log replaced repeatedly is searched whole, never with the plan of another version.
#[test]
fn log_replaced_during_search_loses_no_hit() {
    let mut history = History::new();
    history.step(&Step::Say(0, vec![11, 0]));
    let versions: Vec<String> = [vec![0, 11], vec![11]]
        .iter()
        .map(|words| {
            let filler = history.line(words) + "\n";
            let hit = history.line(&[1]) + "\n";
            if words.len() == 1 {
                hit + &filler
            } else {
                filler.repeat(3) + &hit
            }
        })
        .collect();
    let path = history.path(0);
    let fresh = history.dir.path().join("fresh");
    let replace = |number: usize| {
        fs::write(&fresh, &versions[number % 2]).unwrap();
        fs::rename(&fresh, &path).unwrap();
    };
    replace(0);
    history.step(&Step::Learn);
    let store = history.store();
    let index = history.indexed();
    for number in 1..40 {
        let inventory = store.inventory();
        // Between the directory walk and the search.
        replace(number);
        let found = index.search(&inventory, &parse("alphabet")).unwrap();
        assert_eq!(found.total, 1, "{number}");
        learn(&index, &store.inventory());
    }
}
