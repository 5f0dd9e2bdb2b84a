//! The list, a single session and a tail read give the same answers.

use annals::cost::Charge;
use annals::model::Usage;

use super::*;

#[test]
fn session_list_row_equals_the_session_info() {
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        let keep = inventory
            .retention_days()
            .get(&case.path)
            .copied()
            .flatten();
        let rows = store.sessions(&inventory).read(&|_, _| {});
        assert_eq!(rows.len(), inventory.sessions.len());
        for (row, files) in rows.into_iter().zip(&inventory.sessions) {
            let mut row = row.unwrap();
            let mut alone = Session::read(files.clone()).unwrap();
            alone.apply_folder_hints(&annals::store::FolderHints::new(&inventory.sessions));
            let mut alone = alone.info(keep);
            // In a list, another session may be charged for records that this one repeats.
            let own = |charge: &Charge| {
                let mut charges = alone.charges.iter();
                charges.any(|known| known.response == charge.response)
            };
            assert!(row.charges.iter().all(own), "{}", case.name);
            for info in [&mut row, &mut alone] {
                info.charges.clear();
                info.usage = Usage::default();
            }
            assert_eq!(format!("{row:#?}"), format!("{alone:#?}"), "{}", case.name);
        }
    }
}

#[test]
fn tail_read_gives_the_same_last_messages() {
    let mut compared = 0;
    for case in cases() {
        for files in case.sessions() {
            let full = Session::read(files.clone()).unwrap();
            for n in 1..=10 {
                let tail = Session::read_tail(files.clone(), n).unwrap();
                let strip = |mut entries: Vec<Entry>| {
                    entries.iter_mut().for_each(|entry| entry.span.line = 0);
                    entries
                };
                let wanted = strip(full.last_messages(n).unwrap());
                assert_eq!(
                    strip(tail.last_messages(n).unwrap()),
                    wanted,
                    "{} {n}",
                    case.name
                );
                compared += wanted.len();
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// A log much longer than the first window: the named leaf and a summary are before it.
#[test]
fn tail_read_of_a_long_log_gives_the_same_last_messages() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("claude-code", dir.path()).unwrap();
    let folder = dir.path().join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    let id = |n: usize| format!("{n:08x}-0000-4000-8000-000000000000");
    let line = |n: usize, parent: usize| {
        let pad = "x".repeat(700);
        let kind = if n % 2 == 1 { "user" } else { "assistant" };
        let parent = if parent == 0 {
            "null".to_owned()
        } else {
            format!("\"{}\"", id(parent))
        };
        format!(
            r#"{{"type":"{kind}","uuid":"{}","parentUuid":{parent},"timestamp":"2026-03-01T10:{:02}:{:02}.000Z","message":{{"role":"{kind}","id":"m{n}","content":[{{"type":"text","text":"{n} {pad}"}}]}}}}"#,
            id(n),
            n / 60 % 60,
            n % 60
        ) + "\n"
    };
    let chain: String = (1..=600).map(|n| line(n, n - 1)).collect();
    // A second branch from message 10, 300 lines long, after which the log names the first.
    let branch: String = (601..=900)
        .map(|n| line(n, if n == 601 { 10 } else { n - 1 }))
        .collect();
    let named = format!(
        "{{\"type\":\"last-prompt\",\"leafUuid\":\"{}\"}}\n",
        id(600)
    );
    for (name, log) in [
        ("a", chain.clone()),
        ("b", format!("{chain}{branch}")),
        ("c", format!("{chain}{branch}{named}")),
        ("d", format!("{named}{chain}{branch}")),
    ] {
        let name = format!("{}-ffff-4000-8000-000000000000.jsonl", name.repeat(8));
        fs::write(folder.join(name), log).unwrap();
    }
    for files in Store::new(vec![root]).inventory().sessions {
        let full = Session::read(files.clone()).unwrap();
        for n in [1, 5, 40, 200, 1_000] {
            let tail = Session::read_tail(files.clone(), n).unwrap();
            let ids = |session: &Session| -> Vec<String> {
                let messages = session.last_messages(n).unwrap();
                messages
                    .iter()
                    .map(|entry| entry.id.as_ref().unwrap().to_string())
                    .collect()
            };
            assert_eq!(ids(&tail), ids(&full), "{} {n}", files.id);
        }
    }
}
