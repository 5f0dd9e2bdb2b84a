//! Whole histories: usage is counted once, and the same by every route.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use annals::cost::{Account, Charge, Ledger, PriceMode, Prices};
use annals::model::{SessionId, Usage};
use annals::store::{Root, Session, Store};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::cases;

fn ledger(store: &Store) -> Ledger {
    let (ledger, troubles) = store.costs().ledger(&|_, _| {});
    assert!(troubles.is_empty(), "{troubles:?}");
    ledger
}

/// Returns the number of responses and their tokens.
fn total(store: &Store) -> (usize, Usage) {
    let ledger = ledger(store);
    let mut sum = Usage::default();
    for charge in &ledger.charges {
        sum.add(&charge.usage).unwrap();
    }
    (ledger.charges.len(), sum)
}

#[test]
fn fork_charges_nothing() {
    let mut forked = 0;
    for case in cases() {
        if case.layout.writer().is_none() || case.is_closed() {
            continue;
        }
        let copy = case.copy();
        let before = total(&copy.store());
        // Includes forks of forks.
        for _ in 0..2 {
            for files in copy.sessions() {
                let Some(session) = files.log.is_some().then(|| Session::read(files).unwrap())
                else {
                    continue;
                };
                let (_, _, tree) = session.main_log().unwrap();
                for conversation in tree.conversations.iter().take(2) {
                    let to = format!("{forked:08x}-ffff-4000-8000-000000000000");
                    let to = SessionId::new(&to).unwrap();
                    let path = tree.path(conversation);
                    copy.store()
                        .fork(&session, &path, to, None, jiff::Timestamp::now())
                        .unwrap();
                    forked += 1;
                }
            }
            let name = format!("{} {}", case.layout.name(), case.name);
            assert_eq!(total(&copy.store()), before, "{name}");
        }
    }
    assert!(forked > 100, "{forked}");
}

#[test]
fn root_named_twice_is_one_root() {
    let case = crate::support::cases().remove(0);
    let copy = case.copy();
    let root = copy.root.clone();
    let link = copy.dir.path().join("link");
    std::os::unix::fs::symlink(&root.path, &link).unwrap();
    let name = case.layout.name();
    let at = |path: PathBuf| Root::new(name, path).unwrap();
    let missing = at(copy.dir.path().join("not-there"));
    let store = Store::new(vec![
        root.clone(),
        at(link),
        at(root.path.join("../root")),
        missing.clone(),
        missing,
        root.clone(),
    ]);
    let paths: Vec<&PathBuf> = store.roots().iter().map(|root| &root.path).collect();
    assert_eq!(paths, [&root.path, &copy.dir.path().join("not-there")]);
    // One directory may be a root of several layouts.
    let other = Root::new("clog", &root.path).unwrap();
    assert_eq!(Root::dedupe(vec![root, other]).len(), 2);
}

/// A record without a request id is part of the response that has one, in every cost report.
#[test]
fn record_without_request_belongs_to_the_response_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    let line = |number: usize, message, request| Line {
        message,
        request,
        second: number as u8,
        output: 1000,
        ..Line::default()
    };
    let lines = [
        line(0, 1, None),
        line(1, 0, Some(0)),
        line(2, 1, Some(0)),
        line(3, 0, None),
        line(4, 2, Some(0)),
        line(5, 2, None),
    ];
    let mut parent = Value::Null;
    for (number, line) in lines.iter().enumerate() {
        let mut record = line.record(number);
        record["parentUuid"] = parent;
        parent = record["uuid"].clone();
        history.append(0, format!("{record}\n").as_bytes());
    }
    let store = history.store();
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    let prices = Prices::built_in();
    let price = |charge: &Charge| prices.cost(charge, PriceMode::Auto);
    let costs = session.conversation_costs(&price);
    assert_eq!(costs.len(), 1);
    assert_eq!(costs[0].usage.output, 3000);
    let entries: Vec<usize> = (0..lines.len()).collect();
    let mut reported: Vec<usize> = session
        .entry_costs(0, &entries, &price)
        .into_keys()
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, [2, 3, 5]);
    let last = session
        .last_response(&session.trees[0].conversations[0])
        .unwrap();
    assert_eq!(last.usage.output, 1000);
    assert_ne!(last.response.unwrap().request, 0);
    assert_eq!(total(&store).1.output, 3000);
}

/// The files of a history: three sessions, one of them in another project, a sub-agent's log in a
/// session's directory, and two whose session is known only from their records.
const FILES: [&str; 6] = [
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb.jsonl",
    "projects/-v/cccccccc-cccc-4ccc-8ccc-cccccccccccc.jsonl",
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/subagents/agent-a1.jsonl",
    "projects/-w/agent-a2.jsonl",
    "projects/-v/agent-a3.jsonl",
];

/// Sessions that records may name; the last has no log of its own.
const SESSIONS: [&str; 4] = [
    "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
    "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb",
    "cccccccc-cccc-4ccc-8ccc-cccccccccccc",
    "dddddddd-dddd-4ddd-8ddd-dddddddddddd",
];

/// Owner of each file by its path; for the last two, the default session of their records.
const OWNERS: [usize; 6] = [0, 1, 2, 0, 1, 2];

#[derive(Clone, Debug, Default)]
struct Line {
    file: usize,
    /// Whether a person wrote the line.
    human: bool,
    /// The session that the line names, if it is not the owner of the file.
    session: Option<usize>,
    message: u8,
    request: Option<u8>,
    second: u8,
    output: u64,
    cwd: u8,
    copied: bool,
    sidechain: bool,
}

impl Line {
    fn record(&self, number: usize) -> Value {
        let kind = if self.human { "user" } else { "assistant" };
        let mut record = json!({
            "type": kind,
            "uuid": format!("00000000-0000-4000-8000-{number:012}"),
            "parentUuid": null,
            "timestamp": format!("2026-03-02T09:00:{:02}.000Z", self.second),
            "isSidechain": self.sidechain,
        });
        let members = record.as_object_mut().unwrap();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        // On every line, as clients write them: usage is read without the surrounding lines.
        let session = self.session.unwrap_or(OWNERS[self.file]);
        put("sessionId", SESSIONS[session].into());
        let cwd = ["/w", "/v", "/w/inner", "/elsewhere"][usize::from(self.cwd)];
        put("cwd", cwd.into());
        if self.sidechain {
            put("agentId", "a9".into());
        }
        if self.copied {
            put(
                "forkedFrom",
                json!({"sessionId": SESSIONS[0], "messageUuid": "x"}),
            );
        }
        if self.human {
            put("message", json!({"role": "user", "content": "go on"}));
            return record;
        }
        if let Some(request) = self.request {
            put("requestId", format!("r{request}").into());
        }
        let said = json!({
            "id": format!("m{}", self.message),
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "usage": {"input_tokens": 1, "output_tokens": self.output},
        });
        put("message", said);
        record
    }
}

struct History {
    dir: PathBuf,
}

impl History {
    fn at(dir: &std::path::Path) -> Self {
        fs::create_dir_all(dir.join("projects")).unwrap();
        History {
            dir: dir.to_owned(),
        }
    }

    fn store(&self) -> Store {
        Store::new(vec![Root::claude_code(&self.dir)])
    }

    fn append(&self, file: usize, bytes: &[u8]) {
        let path = self.dir.join(FILES[file]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut options = fs::OpenOptions::new();
        let mut log = options.append(true).create(true).open(path).unwrap();
        log.write_all(bytes).unwrap();
    }
}

fn line() -> impl Strategy<Value = Line> {
    use proptest::option::weighted;
    let whose = (0..FILES.len(), weighted(0.2, 0..SESSIONS.len()), 0..4u8);
    let said = (
        proptest::bool::weighted(0.2),
        0..4u8,
        weighted(0.6, 0..2u8),
        0..6u8,
        1..5u64,
    );
    let odd = (
        proptest::bool::weighted(0.15),
        proptest::bool::weighted(0.15),
    );
    (whose, said, odd).prop_map(|(whose, said, odd)| {
        let (file, session, cwd) = whose;
        let (human, message, request, second, output) = said;
        let (copied, sidechain) = odd;
        Line {
            file,
            human,
            session,
            message,
            request,
            second,
            output,
            cwd,
            copied,
            sidechain,
        }
    })
}

/// Returns the responses of a ledger in a canonical order.
fn picture(charges: &[Charge], accounts: &[Account]) -> Vec<String> {
    let line = |charge: &Charge| {
        let account = &accounts[charge.account];
        let mut charge = charge.clone();
        charge.account = 0;
        format!("{} {} {charge:?}", account.session, account.project.path)
    };
    let mut lines: Vec<String> = charges.iter().map(line).collect();
    lines.sort();
    lines
}

/// Checks that every route gives the same charges.
fn agree(history: &History, state: &std::path::Path) -> Result<(), TestCaseError> {
    let store = history.store();
    let read = ledger(&store);
    let read = picture(&read.charges, &read.accounts);
    for turn in ["as it grew", "once more"] {
        let index = crate::support::indexed(&store, state);
        let (kept, troubles) = index.costs().ledger(&|_, _| {});
        let warnings = crate::support::index_warnings(&index);
        prop_assert!(troubles.is_empty() && warnings.is_empty());
        let kept = picture(&kept.charges, &kept.accounts);
        prop_assert_eq!(&kept, &read, "the index (left), {}", turn);
    }
    let rows = store.sessions(&store.inventory()).read(&|_, _| {});
    let rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
    let accounts: Vec<Account> = rows.iter().map(|row| row.account()).collect();
    let mut charges = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let mut sum = Usage::default();
        for charge in &row.charges {
            sum.add(&charge.usage).unwrap();
            let mut charge = charge.clone();
            charge.account = number;
            charges.push(charge);
        }
        prop_assert_eq!(sum, row.usage, "the tokens of {}", row.id);
    }
    prop_assert_eq!(&picture(&charges, &accounts), &read, "the list (left)");
    Ok(())
}

/// Few cases by default; `PROPTEST_CASES` sets the number.
fn few() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(24),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(few())]

    /// Forks, copies, sub-agents and truncated lines: the ledger, the incrementally updated index
    /// and the session list charge the same.
    #[test]
    fn ledger_index_and_session_list_charge_the_same(
        lines in proptest::collection::vec(line(), 1..14),
        cuts in proptest::collection::vec((0..FILES.len(), 0..2000usize), 0..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(&dir.path().join("root"));
        let state = dir.path().join("state");
        let mut left: Vec<Vec<u8>> = vec![Vec::new(); FILES.len()];
        for (number, line) in lines.iter().enumerate() {
            left[line.file].extend(format!("{}\n", line.record(number)).bytes());
        }
        for (file, bytes) in cuts {
            let bytes = bytes.min(left[file].len());
            let grown: Vec<u8> = left[file].drain(..bytes).collect();
            if !grown.is_empty() {
                history.append(file, &grown);
                agree(&history, &state)?;
            }
        }
        for (file, rest) in left.iter().enumerate() {
            if !rest.is_empty() {
                history.append(file, rest);
            }
        }
        agree(&history, &state)?;
    }
}
