//! The ledger: each response once, in the right account, by every route.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use annals::cost::{Account, Charge, Ledger, LogCharges};
use annals::model::{Money, Outline, ResponseKey, SessionId, Usage};
use annals::store::{RecentQuery, Root, SessionInfo, Store};

use crate::support::{cases, index_warnings, indexed};

/// Formats a ledger in a canonical order.
fn picture(ledger: &Ledger) -> Vec<String> {
    let mut lines: Vec<String> = ledger
        .charges
        .iter()
        .map(|charge| {
            let account = ledger.accounts.get(charge.account).unwrap();
            let account = (
                &account.file,
                &account.session,
                &account.project,
                account.started,
            );
            let mut charge = charge.clone();
            charge.account = 0;
            format!("{account:?} {charge:?}")
        })
        .collect();
    lines.sort();
    lines
}

/// Prints only the differences, because a ledger is long.
fn same(these: &[String], those: &[String], what: &str) {
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        let other = |line: &&String| !those.contains(line);
        these.iter().filter(other).cloned().collect()
    };
    let (more, less) = (only(these, those), only(those, these));
    assert!(
        more.is_empty() && less.is_empty(),
        "{what}: {more:#?} {less:#?}"
    );
    assert_eq!(these.len(), those.len(), "{what}");
}

fn ledger(store: &Store) -> Ledger {
    let (ledger, troubles) = store.costs().ledger(&|_, _| {});
    assert!(troubles.is_empty(), "{troubles:?}");
    ledger
}

fn recorded(store: &Store) -> Ledger {
    let (ledger, troubles) = store.costs().ledger(&|_, _| {});
    assert!(troubles.is_empty(), "{troubles:?}");
    let notices = index_warnings(store);
    assert!(notices.is_empty(), "{notices:?}");
    ledger
}

/// The session list decodes everything; the ledger reads as little as it can.
#[test]
fn ledger_equals_the_session_list() {
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let rows = store.sessions(&store.inventory()).read(&|_, _| {});
        let rows: Vec<SessionInfo> = rows.into_iter().map(Result::unwrap).collect();
        let mut charges = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            charges.extend(row.charges.iter().cloned().map(|mut charge| {
                charge.account = number;
                charge
            }));
        }
        let accounts: Vec<Account> = rows.iter().map(SessionInfo::account).collect();
        let listed = Ledger::dedupe(accounts, charges);
        let plain = |ledger: &Ledger| -> Vec<String> {
            let line = |charge: &Charge| {
                let account = ledger.accounts.get(charge.account).unwrap();
                let mut charge = charge.clone();
                charge.account = 0;
                format!("{} {} {charge:?}", account.session, account.project.path)
            };
            let mut lines: Vec<String> = ledger.charges.iter().map(line).collect();
            lines.sort();
            lines
        };
        let (read, listed) = (plain(&ledger(&store)), plain(&listed));
        same(&read, &listed, &case.name);
    }
}

#[test]
fn index_changes_no_charge() {
    let state = tempfile::tempdir().unwrap();
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let plain = picture(&ledger(&store));
        let index = indexed(&store, state.path());
        for turn in ["first", "second"] {
            let kept = picture(&recorded(&index));
            same(&kept, &plain, &format!("{}, {turn} time", case.name));
        }
    }
}

/// A history of one project that tests change.
struct History {
    dir: tempfile::TempDir,
    state: tempfile::TempDir,
}

impl History {
    fn new() -> Self {
        let history = History {
            dir: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(history.dir.path().join("projects/-w")).unwrap();
        history
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        let folder = self.dir.path().join("projects/-w");
        folder.join(format!("{}.jsonl", uuid(name)))
    }

    fn append(&self, name: &str, text: &str) {
        use std::io::Write as _;
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(self.log(name))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn store(&self) -> Store {
        Store::new(vec![Root::new("claude-code", self.dir.path()).unwrap()])
    }

    fn indexed(&self) -> Store {
        indexed(&self.store(), self.state.path())
    }

    /// Returns the output tokens of each session, which must not depend on the index.
    fn output(&self) -> BTreeMap<String, u64> {
        let kept = recorded(&self.indexed());
        assert_eq!(picture(&kept), picture(&ledger(&self.store())));
        let mut sums = BTreeMap::new();
        for charge in &kept.charges {
            let session = &kept.accounts.get(charge.account).unwrap().session;
            let name = session.as_str().chars().next().unwrap();
            *sums.entry(name.to_string()).or_default() += charge.usage.output;
        }
        sums
    }
}

/// Returns a session id made of one letter.
fn uuid(name: &str) -> String {
    "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replace('x', name)
}

fn reply(session: &str, message: &str, second: u32, output: u64) -> String {
    let session = uuid(session);
    format!(
        r#"{{"type":"assistant","uuid":"u-{message}-{output}","sessionId":"{session}","cwd":"/w","timestamp":"2026-03-02T09:00:{second:02}.000Z","requestId":"req-{message}","message":{{"id":"{message}","role":"assistant","model":"claude-sonnet-4-5","content":[],"usage":{{"input_tokens":1,"output_tokens":{output}}}}}}}"#
    ) + "\n"
}

fn sums(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs
        .iter()
        .map(|(name, sum)| ((*name).to_owned(), *sum))
        .collect()
}

#[test]
fn grown_log_is_read_from_where_it_ended() {
    let history = History::new();
    history.append("a", &reply("a", "m1", 1, 10));
    assert_eq!(history.output(), sums(&[("a", 10)]));
    // The response continues after the indexed part, and another follows.
    history.append("a", &(reply("a", "m1", 2, 15) + &reply("a", "m2", 3, 7)));
    assert_eq!(history.output(), sums(&[("a", 22)]));
    // An unterminated line counts if it can be parsed, and only once.
    let last = reply("a", "m3", 4, 100);
    history.append("a", last.trim_end());
    assert_eq!(history.output(), sums(&[("a", 122)]));
    history.append("a", "\n");
    assert_eq!(history.output(), sums(&[("a", 122)]));
    history.append("a", &last[..40]);
    assert_eq!(history.output(), sums(&[("a", 122)]));
}

/// Damage is reported when read and from the index; an unterminated last line is not damage.
#[test]
fn unreadable_records_are_counted() {
    let history = History::new();
    let whole = reply("a", "m1", 1, 10);
    let torn = format!("{}\n", &whole[..whole.len() / 2]);
    let wrong = reply("a", "m2", 2, 20).replace(":20}", ":-20}");
    history.append("a", &(torn + &whole + &wrong + &whole[..40]));
    for turn in 0..2 {
        let kept = recorded(&history.indexed());
        assert_eq!(kept.uncounted, 2, "turn {turn}");
        assert_eq!(ledger(&history.store()).uncounted, 2);
    }
    assert_eq!(history.output(), sums(&[("a", 10)]));
}

/// Until a log names its session, its first lines are searched for one, in one pass or in two.
#[test]
fn log_that_names_no_session_is_read_the_same_when_it_grows() {
    let history = History::new();
    let log = history.log("a").with_file_name("agent-a1.jsonl");
    let summary = "{\"type\":\"summary\",\"summary\":\"x\"}\n";
    fs::write(&log, summary).unwrap();
    let index = history.indexed();
    assert_eq!(recorded(&index).uncounted, 0);
    let damaged = "{\"type\":\"user\",\"message\":{\"content\":\"cut of\n";
    let more = [summary, damaged, &reply("a", "m1", 1, 10)].concat();
    fs::write(&log, more).unwrap();
    let kept = recorded(&index);
    assert_eq!(kept.uncounted, 1);
    assert_eq!(picture(&kept), picture(&ledger(&history.store())));
    assert_eq!(kept.uncounted, ledger(&history.store()).uncounted);
}

#[test]
fn truncated_replaced_or_changed_log_is_reread() {
    let history = History::new();
    let (first, second) = (reply("a", "m1", 1, 10), reply("a", "m2", 2, 20));
    history.append("a", &(first.clone() + &second));
    assert_eq!(history.output(), sums(&[("a", 30)]));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(history.log("a"))
        .unwrap();
    file.set_len(first.len() as u64).unwrap();
    assert_eq!(history.output(), sums(&[("a", 10)]));
    // Truncated, then grown beyond its old length.
    file.set_len(0).unwrap();
    history.append("a", &(reply("a", "m7", 1, 1000) + &second + &first));
    assert_eq!(history.output(), sums(&[("a", 1030)]));
    // Changed in place, with the same length.
    let text = fs::read_to_string(history.log("a"))
        .unwrap()
        .replace(":1000}", ":2000}");
    fs::write(history.log("a"), &text).unwrap();
    assert_eq!(history.output(), sums(&[("a", 2030)]));
    // Another file under the same name.
    let other = history.dir.path().join("other");
    fs::write(&other, reply("a", "m9", 1, 5)).unwrap();
    fs::rename(&other, history.log("a")).unwrap();
    assert_eq!(history.output(), sums(&[("a", 5)]));
    fs::remove_file(history.log("a")).unwrap();
    assert_eq!(history.output(), sums(&[]));
}

#[test]
fn unusable_index_is_moved_aside() {
    let history = History::new();
    history.append("a", &reply("a", "m1", 1, 10));
    history.output();
    let path = history.state.path().join("index-1.db");
    // Damaged, truncated, empty, and not a database.
    let whole = fs::read(&path).unwrap();
    let mut holes = whole.clone();
    holes.iter_mut().skip(100).for_each(|byte| *byte = 0xa5);
    for (bytes, reported) in [
        (holes, true),
        (whole[..whole.len() / 2].to_vec(), true),
        (Vec::new(), false),
        (
            b"not a database, but long enough to be looked at as one ".repeat(40),
            true,
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let index = history.indexed();
        let (ledger, troubles) = index.costs().ledger(&|_, _| {});
        assert!(troubles.is_empty());
        assert_eq!(ledger.charges.len(), 1);
        assert_eq!(!index_warnings(&index).is_empty(), reported);
        drop(index);
        assert_eq!(history.output(), sums(&[("a", 10)]));
    }
}

/// Concurrent readers on growing logs: every answer is a consistent state, and the last is
/// complete.
#[test]
fn concurrent_indexes_give_correct_ledgers() {
    let history = History::new();
    history.append("a", &reply("a", "m0", 0, 1));
    std::thread::scope(|scope| {
        for thread in ["b", "c", "d", "e"] {
            let history = &history;
            scope.spawn(move || {
                for turn in 1..20 {
                    let message = format!("m-{thread}-{turn}");
                    history.append(thread, &reply(thread, &message, 1, 1));
                    let index = history.indexed();
                    let (ledger, troubles) = index.costs().ledger(&|_, _| {});
                    assert!(troubles.is_empty(), "{troubles:?}");
                    let own = |charge: &&Charge| {
                        let session = &ledger.accounts.get(charge.account).unwrap().session;
                        session.as_str() == uuid(thread)
                    };
                    assert_eq!(ledger.charges.iter().filter(own).count(), turn);
                }
            });
        }
    });
    let all: u64 = history.output().values().sum();
    assert_eq!(all, 4 * 19 + 1);
}

/// Frequent queries: new usage is seen at once, old usage after a while, and nothing wrong is
/// reported.
#[test]
fn recent_usage_is_current_for_new_records() {
    let history = History::new();
    let start: jiff::Timestamp = "2026-03-02T09:00:30Z".parse().unwrap();
    history.append("a", &(reply("a", "old", 1, 1) + &reply("a", "new", 40, 10)));
    history.append("b", &reply("b", "other", 45, 100));
    history.append("c", &reply("c", "long ago", 2, 7));
    let log = history.log("a");
    let agents = log.with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    let agent = |name: &str, message: &str| {
        let text = reply("a", message, 52, 10_000);
        fs::write(agents.join(format!("agent-{name}.jsonl")), text).unwrap();
    };
    let now = jiff::Timestamp::from_second(2_000_000_000).unwrap();
    let asked = |seconds: i64, log: Option<&Path>| {
        let then = now.checked_add(jiff::SignedDuration::from_secs(seconds));
        let asked = RecentQuery::new(then.unwrap(), start).session(log);
        let index = history.indexed();
        let (spent, troubles) = index.costs().recent(&asked);
        let ledger = spent.ledger;
        assert!(troubles.is_empty() && index_warnings(&index).is_empty());
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for charge in &ledger.charges {
            let session = &ledger.accounts.get(charge.account).unwrap().session;
            *sums.entry(session.as_str()[..1].to_owned()).or_default() += charge.usage.output;
        }
        sums
    };
    let output = |seconds: i64| asked(seconds, Some(&log));
    settle(history.dir.path());
    // All usage of the session asked for; of the others, only recent usage.
    assert_eq!(output(0), sums(&[("a", 11), ("b", 100)]));
    // Logs with recent usage are read at once, an old session only after the interval.
    history.append("a", &reply("a", "newer", 50, 1000));
    history.append("b", &reply("b", "seen", 51, 5000));
    history.append("c", &reply("c", "unseen", 51, 3));
    assert_eq!(output(1), sums(&[("a", 1_011), ("b", 5_100)]));
    assert_eq!(output(299), sums(&[("a", 1_011), ("b", 5_100)]));
    let all = sums(&[("a", 1_011), ("b", 5_100), ("c", 10)]);
    assert_eq!(output(301), all);
    assert_eq!(output(302), all);
    // It is also read when asked for, and after a new log was created.
    let log_c = history.log("c");
    fs::write(&log_c, reply("c", "long ago", 2, 7)).unwrap();
    assert_eq!(output(602).get("c"), None);
    history.append("c", &reply("c", "later", 52, 30));
    assert_eq!(output(603).get("c"), None);
    assert_eq!(asked(603, Some(&log_c)).get("c"), Some(&37));
    history.append("d", &reply("d", "a new one", 51, 5_000));
    assert_eq!(output(604).get("d"), Some(&5_000));
    // A session with only a prompt when it was first seen.
    history.append(
        "e",
        "{\"type\":\"user\",\"message\":{\"content\":\"Hi.\"}}\n",
    );
    settle(history.dir.path());
    assert_eq!(output(604).get("e"), None);
    history.append("e", &reply("e", "its first", 52, 1));
    assert_eq!(output(604).get("e"), Some(&1));
    // Sub-agents of the session asked for, and of another that is known to have one.
    agent("x1", "first");
    assert_eq!(output(605).get("a"), Some(&11_011));
    settle(history.dir.path());
    output(910);
    agent("x2", "second");
    assert_eq!(asked(911, None).get("a"), Some(&21_011));
    // A deleted session has no usage.
    fs::remove_file(history.log("b")).unwrap();
    assert_eq!(output(912).get("b"), None);
    // A clock that was set back does not delay anything.
    history.append("c", &reply("c", "latest", 53, 100));
    assert_eq!(output(-1000).get("c"), Some(&137));
    // The whole ledger is not affected.
    assert_eq!(history.output().get("a"), Some(&21_011));
}

/// Sets the modification times of directories far back.
fn settle(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            settle(&entry.path());
        }
    }
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let handle = fs::File::open(directory).unwrap();
    handle.set_modified(long_ago).unwrap();
}

fn account(name: &str) -> Account {
    Account::new(
        "claude-code",
        Path::new("/r"),
        SessionId::new(name).unwrap(),
    )
}

fn charge(account: usize, message: &str, request: &str, second: i64, output: u64) -> Charge {
    let mut charge = Charge::new(account);
    charge.response = Some(ResponseKey::new(message, request));
    charge.time = jiff::Timestamp::from_second(second).ok();
    charge.usage.output = output;
    charge
}

/// Returns who is charged how much, for any order of the charges.
fn settled(accounts: &[&str], charges: &[Charge]) -> Vec<(String, u64)> {
    let outcome = |charges: Vec<Charge>| {
        let accounts = accounts.iter().map(|name| account(name)).collect();
        let ledger = Ledger::dedupe(accounts, charges);
        let mut rows: Vec<(String, u64)> = ledger
            .charges
            .iter()
            .map(|charge| {
                let session = &ledger.accounts.get(charge.account).unwrap().session;
                (session.to_string(), charge.usage.output)
            })
            .collect();
        rows.sort();
        rows
    };
    let first = outcome(charges.to_vec());
    let mut turned = charges.to_vec();
    for _ in 0..charges.len() {
        turned.rotate_left(1);
        assert_eq!(outcome(turned.clone()), first);
        let back: Vec<Charge> = turned.iter().rev().cloned().collect();
        assert_eq!(outcome(back), first);
    }
    first
}

fn owned(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter()
        .map(|(name, output)| ((*name).to_owned(), *output))
        .collect()
}

#[test]
fn repeated_response_is_charged_to_the_original_of_a_fork() {
    let rows = settled(
        &["fork", "original"],
        &[
            charge(1, "m1", "r1", 1, 10),
            charge(1, "m2", "r2", 2, 10),
            charge(0, "m1", "r1", 1, 10),
            charge(0, "m9", "r9", 50, 7),
        ],
    );
    assert_eq!(
        rows,
        owned(&[("fork", 7), ("original", 10), ("original", 10)])
    );
    // The fork holds the whole original, and more.
    let rows = settled(
        &["a-fork", "original"],
        &[
            charge(1, "m1", "r1", 1, 10),
            charge(0, "m1", "r1", 1, 10),
            charge(0, "m9", "r9", 50, 7),
        ],
    );
    assert_eq!(rows, owned(&[("a-fork", 7), ("original", 10)]));
}

#[test]
fn copied_record_is_not_charged() {
    let mut copy = charge(0, "m1", "r1", 1, 30);
    copy.copied = true;
    let rows = settled(&["a", "b"], &[copy, charge(1, "m1", "r1", 2, 10)]);
    // The largest usage counts, whichever record has it.
    assert_eq!(rows, owned(&[("b", 30)]));
}

#[test]
fn assignment_ignores_times_of_copies() {
    let mut copy = charge(0, "m1", "r1", 1, 1);
    copy.copied = true;
    let rows = settled(
        &["a", "b", "c"],
        &[
            copy,
            charge(1, "m1", "r1", 5, 1),
            charge(2, "m1", "r1", 3, 1),
        ],
    );
    assert_eq!(rows, owned(&[("c", 1)]));
}

/// Details missing in the charged record are taken from the same copy, whichever log was read
/// first.
#[test]
fn missing_details_do_not_depend_on_the_order_of_logs() {
    let copies = ["", "opus", "haiku", "sonnet"].into_iter().enumerate();
    let charges: Vec<Charge> = copies
        .map(|(number, model)| {
            let mut copy = charge(number, "m1", "r1", number as i64, 5);
            copy.source_mut().model = (!model.is_empty()).then(|| model.into());
            copy
        })
        .collect();
    for turn in 0..charges.len() {
        for swapped in 0..charges.len() {
            let mut charges = charges.clone();
            charges.rotate_left(turn);
            charges.swap(0, swapped);
            let accounts = ["a", "b", "c", "d"].map(account).into();
            let settled = Ledger::dedupe(accounts, charges).charges;
            let models: Vec<_> = settled
                .iter()
                .map(|one| one.source.model.as_deref())
                .collect();
            assert_eq!(models, [Some("opus")]);
        }
    }
}

#[test]
fn record_without_request_joins_the_response_with_one() {
    let rows = settled(
        &["a"],
        &[
            charge(0, "m1", "", 1, 5),
            charge(0, "m1", "r1", 2, 9),
            charge(0, "m2", "", 3, 1),
        ],
    );
    assert_eq!(rows, owned(&[("a", 1), ("a", 9)]));
    // Different requests are different responses.
    let rows = settled(
        &["a"],
        &[charge(0, "m1", "r1", 1, 5), charge(0, "m1", "r2", 2, 9)],
    );
    assert_eq!(rows, owned(&[("a", 5), ("a", 9)]));
}

#[test]
fn log_charges_take_the_largest_line() {
    let spent = |output, short, long| Usage {
        output,
        cache_write_5m: short,
        cache_write_1h: long,
        ..Usage::default()
    };
    let mut sheet = LogCharges::default();
    for usage in [spent(1, 100, 0), spent(50, 0, 100), spent(2, 300, 0)] {
        let mut outline = Outline::new(annals::model::Span::default());
        let reply = annals::model::Reply {
            response: Some(ResponseKey::new("m", "r")),
            usage: Some(usage),
            recorded: Money::parse("0.5"),
            ..annals::model::Reply::default()
        };
        outline.reply = Some(Box::new(reply));
        sheet.add(&outline);
    }
    let id = SessionId::new("s").unwrap();
    let charges: Vec<Charge> = sheet.charges(0, Some(&id)).collect();
    assert_eq!(charges.len(), 1);
    assert_eq!(charges[0].usage, spent(50, 0, 100));
    assert_eq!(charges[0].recorded.as_deref(), Money::parse("0.5").as_ref());
}
