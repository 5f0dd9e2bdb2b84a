//! The session list: decoding, updates and rebuilds.

use annals::layout::{ListUpdate, RowUpdate, SessionListWriter as _};

use super::*;

const INDEX: &str = "sessions/w-app/a-main/conversations.json";

fn index_of(case: &str) -> Vec<u8> {
    fs::read(fixtures().join("chorus").join(case).join(INDEX)).unwrap()
}

fn row(id: &str, messages: u64) -> RowUpdate {
    let path = format!("sessions/w-app/a-main/{id}-messages.jsonl");
    RowUpdate {
        log: Some(artifact(&path)),
        started: "2026-03-02T09:00:01Z".parse().ok(),
        updated: "2026-03-02T09:00:04Z".parse().ok(),
        messages,
        prompt: Some("question 1".to_owned()),
        answered: true,
        ..RowUpdate::default()
    }
}

fn enrol(old: Option<&[u8]>, rows: &[RowUpdate], whole: bool) -> ListUpdate {
    Chorus
        .update_session_list(&artifact(INDEX), old, rows, whole)
        .unwrap()
}

/// Returns the new list, whether the old one was damaged, and the removed rows; a second update
/// must change nothing.
fn changed(old: Option<&[u8]>, rows: &[RowUpdate], whole: bool) -> (String, bool, Vec<String>) {
    match enrol(old, rows, whole) {
        ListUpdate::Changed {
            bytes,
            damaged,
            removed,
        } => {
            assert_eq!(enrol(Some(&bytes), rows, whole), ListUpdate::Unchanged);
            (String::from_utf8(bytes).unwrap(), damaged, removed)
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the id of the nth row of a readable list.
fn id_of(index: &[u8], at: usize) -> String {
    let value: serde_json::Value = serde_json::from_slice(index).unwrap();
    value["conversations"][at]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn up_to_date_list_is_unchanged() {
    let old = index_of("chorus-plain");
    assert_eq!(
        enrol(Some(&old), &[row(&id_of(&old, 0), 4)], false),
        ListUpdate::Unchanged
    );
    // The last message in the log is older than the list, as always when the program writes both.
    let mut older = row(&id_of(&old, 0), 4);
    older.updated = "2026-03-02T09:00:03Z".parse().ok();
    assert_eq!(enrol(Some(&old), &[older], false), ListUpdate::Unchanged);
}

#[test]
fn only_outdated_members_change() {
    let old = index_of("chorus-index-behind");
    let (new, damaged, _) = changed(Some(&old), &[row(&id_of(&old, 0), 4)], false);
    let wanted = String::from_utf8(old)
        .unwrap()
        .replace(
            "\"title\": \"New Conversation\"",
            "\"title\": \"question 1\"",
        )
        .replace("\"messageCount\": 1", "\"messageCount\": 4")
        .replace(
            "\"updatedAt\": \"2026-03-02T09:00:01.000Z\"",
            "\"updatedAt\": \"2026-03-02T09:00:04.000Z\"",
        );
    assert_eq!((new, damaged), (wanted, false));
}

#[test]
fn unusual_formatting_and_foreign_members_are_preserved() {
    let old = index_of("chorus-index-odd");
    let text = String::from_utf8(old.clone()).unwrap();
    let id = text
        .split("\"id\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert_eq!(
        enrol(Some(&old), &[row(id, 4)], false),
        ListUpdate::Unchanged
    );
    // Of two rows with the same id, the later one is updated.
    let (new, _, _) = changed(Some(&old), &[row(id, 5)], false);
    let (head, tail) = text.split_at(text.rfind("4e0").unwrap());
    assert_eq!(new, format!("{head}5{}", &tail[3..]));
    // A new row is appended; nothing else moves.
    let (new, _, _) = changed(Some(&old), &[row("new-one", 2)], false);
    let (head, tail) = text.split_at(text.find(" ] , \"z\"").unwrap());
    let added = r#"{"id":"new-one","sessionId":null,"agentId":"a-main","workspaceId":"w-app","title":"question 1","createdAt":"2026-03-02T09:00:01.000Z","updatedAt":"2026-03-02T09:00:04.000Z","messageCount":2}"#;
    assert_eq!(new, format!("{head}, {added}{tail}"));
    // Both rows of a conversation are removed with it.
    let mut gone = row(id, 4);
    gone.removed = true;
    let (new, _, removed) = changed(Some(&old), &[gone], false);
    assert_eq!(removed.len(), 2);
    assert!(!new.contains(id) && new.contains("never-begun") && new.contains("\"row\""));
}

#[test]
fn removed_row_can_be_put_back() {
    let old = index_of("chorus-plain");
    let id = id_of(&old, 1);
    let mut gone = row(&id, 0);
    gone.removed = true;
    let (less, _, removed) = changed(Some(&old), &[gone], false);
    assert_eq!(removed.len(), 1);
    let mut back = row(&id, 99);
    back.restored_text = Some(removed[0].clone());
    let (again, _, _) = changed(Some(less.as_bytes()), &[back.clone()], false);
    assert_eq!(again.as_bytes(), old);
    // A text that is not a row of that conversation is ignored.
    back.restored_text = Some("{\"id\":\"other\"}".to_owned());
    let (again, _, _) = changed(Some(less.as_bytes()), &[back], false);
    assert!(!again.contains("other") && again.contains("\"messageCount\": 99"));
}

#[test]
fn missing_or_damaged_list_is_rebuilt_from_all_logs() {
    let rows = [row("c1", 2), row("c2--agent-x", 1)];
    for old in [
        None,
        Some(&b""[..]),
        Some(b"{}"),
        Some(b"{\"conversations\":{}}"),
        Some(b"\xff"),
    ] {
        assert_eq!(enrol(old, &rows, false), ListUpdate::NeedsAllRows);
        let (new, damaged, _) = changed(old, &rows, true);
        assert_eq!(damaged, old.is_some());
        assert_eq!(
            (id_of(new.as_bytes(), 0), id_of(new.as_bytes(), 1)),
            ("c1".to_owned(), "c2--agent-x".to_owned())
        );
    }
    assert_eq!(enrol(None, &[], true), ListUpdate::Unchanged);
    let (new, _, _) = changed(None, &rows[..1], true);
    assert_eq!(
        new,
        r#"{
  "conversations": [
    {
      "id": "c1",
      "sessionId": null,
      "agentId": "a-main",
      "workspaceId": "w-app",
      "title": "question 1",
      "createdAt": "2026-03-02T09:00:01.000Z",
      "updatedAt": "2026-03-02T09:00:04.000Z",
      "messageCount": 2
    }
  ]
}"#
    );
}

#[test]
fn intact_rows_of_a_damaged_list_survive() {
    let old = index_of("chorus-index-torn");
    let text = String::from_utf8(old.clone()).unwrap();
    let id = text
        .split("\"id\": \"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let (new, damaged, _) = changed(Some(&old), &[row(id, 2), row("other", 4)], true);
    assert!(damaged);
    let rows: serde_json::Value = serde_json::from_str(&new).unwrap();
    let rows = rows["conversations"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["title"], "kept title 0");
    assert_eq!(rows[0]["pinned"]["by"], "dev");
    assert_eq!(rows[0]["settings"]["model"], "opus");
    assert!(rows[0]["sessionId"].is_string());
    // A bare array is not a session list, but its rows are read.
    let old = index_of("chorus-index-wrong-shape");
    let (new, _, _) = changed(Some(&old), &[], true);
    assert!(new.contains("from the list"));
    // Rows are found in any container.
    let nested = br#"{"conversations":{"x":{"id":"c9","title":"deep","messageCount":1}}}"#;
    let (new, _, _) = changed(Some(nested), &[], true);
    assert_eq!(id_of(new.as_bytes(), 0), "c9");
}

#[test]
fn titles_follow_the_native_rules() {
    let title = |old: Option<&str>, change: &dyn Fn(&mut RowUpdate)| {
        let mut row = row("c1", 1);
        change(&mut row);
        let old =
            old.map(|title| format!(r#"{{"conversations":[{{"id":"c1","title":{title}}}]}}"#));
        let (new, _, _) = changed(old.as_deref().map(str::as_bytes), &[row], true);
        let new: serde_json::Value = serde_json::from_str(&new).unwrap();
        new["conversations"][0]["title"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let asked = |text: &str| {
        let text = text.to_owned();
        move |row: &mut RowUpdate| row.prompt = Some(text.clone())
    };
    assert_eq!(title(None, &|row| row.answered = false), "New Conversation");
    assert_eq!(title(None, &asked(" two\nlines ")), "two lines");
    assert_eq!(title(None, &asked(&"é".repeat(50))), "é".repeat(50));
    assert_eq!(
        title(None, &asked(&"é".repeat(51))),
        format!("{}...", "é".repeat(47))
    );
    assert_eq!(title(None, &asked("\n")), "New Conversation");
    assert_eq!(title(Some("\"New Conversation\""), &|_| {}), "question 1");
    assert_eq!(title(Some("\"by hand\""), &|_| {}), "by hand");
    let given = |row: &mut RowUpdate| row.title = Some("given".to_owned());
    assert_eq!(title(Some("\"by hand\""), &given), "given");
    assert_eq!(title(None, &given), "given");
}

#[test]
fn session_list_is_decoded_to_rows() {
    let tell = |case: &str| {
        let sink = decode(INDEX, &index_of(case));
        let Body::SessionList(abouts) = sink.items[0].body.clone() else {
            panic!()
        };
        let details: Vec<String> = sink.flaws.into_iter().map(|flaw| flaw.detail).collect();
        (abouts, details)
    };
    let (plain, flaws) = tell("chorus-plain");
    assert_eq!((plain.len(), flaws.len()), (2, 0));
    assert_eq!(plain[1].cwd.as_deref(), Some("/home/dev/app-topic"));
    assert_eq!(plain[1].git_branch.as_deref(), Some("topic"));
    assert_eq!(plain[1].messages, Some(8));
    assert_eq!(plain[1].started, "2026-03-02T09:00:00Z".parse().ok());
    let (behind, _) = tell("chorus-index-behind");
    assert_eq!(behind[0].title, None);
    let (torn, flaws) = tell("chorus-index-torn");
    assert_eq!(torn[0].title.as_deref(), Some("kept title 0"));
    assert_eq!((torn.len(), flaws.len()), (1, 1));
    let (odd, flaws) = tell("chorus-index-odd");
    let titles: Vec<Option<&str>> = odd.iter().map(|about| about.title.as_deref()).collect();
    assert_eq!(titles, [None, Some("café \u{fffd}")]);
    assert!(
        flaws
            .iter()
            .any(|flaw| flaw.contains("../../../etc/passwd"))
    );
    assert!(
        flaws
            .iter()
            .any(|flaw| flaw.starts_with("duplicate conversation id"))
    );
    // The row of a sub-agent is not a session.
    assert_eq!(tell("chorus-by-annals").0.len(), 1);
}

#[test]
fn session_list_of_a_log_is_the_one_in_its_folder() {
    let session_list = |path: &str| {
        Chorus
            .session_list(&artifact(path))
            .map(|found| Chorus.path_for(&found))
    };
    let index = Some(PathBuf::from("sessions/w/a/conversations.json"));
    assert_eq!(session_list(LOG), index);
    assert_eq!(
        session_list("sessions/w/a/c1--agent-x-messages.jsonl"),
        index
    );
    assert_eq!(session_list("sessions/w/a/c1-notes.jsonl"), None);
    // The configuration is not a session list.
    let config = Chorus.update_session_list(&artifact("config.json"), None, &[row("c1", 1)], true);
    assert_eq!(config.unwrap(), ListUpdate::Unchanged);
}

/// Truncated, duplicated and randomly changed documents: nothing panics, the result can be read, a
/// second update changes nothing, and no intact row is lost.
#[test]
fn any_bytes_give_a_valid_list() {
    let seeds: Vec<Vec<u8>> = ["chorus-plain", "chorus-index-odd", "chorus-index-torn"]
        .map(index_of)
        .to_vec();
    let rows = [row("c1", 2), row("c2--agent-x", 1)];
    let mut dice = crate::gates::Dice(3);
    for round in 0..4_000 {
        let mut bytes = seeds[dice.roll(seeds.len())].clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(bytes.len() + 1);
            match dice.roll(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, b"{}[],:\"\\\0\xff9"[dice.roll(11)]),
                2 => drop(bytes.drain(at..(at + dice.roll(40)).min(bytes.len()).max(at))),
                3 => bytes.extend_from_within(at.min(bytes.len())..),
                _ => bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 4),
            }
        }
        let reported = decode(INDEX, &bytes);
        assert_eq!(reported.items.len(), 1, "{round}");
        let _ = decode("config.json", &bytes);
        let _ = Config::edit(
            Some(&bytes),
            &ConfigEdit::RemoveWorkspace {
                id: "w-app".to_owned(),
            },
        );
        let (new, damaged, _) = changed(Some(&bytes), &rows, true);
        let made: serde_json::Value = match serde_json::from_str(&new) {
            Ok(made) => made,
            // Lone surrogates are valid JSON, but serde_json rejects them.
            Err(_) if new.contains("\\ud") => continue,
            Err(error) => panic!("{round}: {error}: {new}"),
        };
        let made = made["conversations"].as_array().unwrap();
        assert!(made.len() >= 2, "{round}: {new}");
        if damaged {
            let Body::SessionList(known) = &reported.items[0].body else {
                panic!()
            };
            for about in known {
                let ListSubject::Session(id) = &about.subject else {
                    panic!()
                };
                assert!(made.iter().any(|row| row["id"] == id.as_str()), "{round}");
            }
        }
    }
}

#[test]
fn identical_damage_is_quarantined_once() {
    let copy = crate::support::case("chorus-plain").copy();
    let store = copy.store();
    let path = copy.root.path.join(INDEX);
    for _ in 0..2 {
        fs::write(&path, b"{\"conversations\":[{").unwrap();
        for stale in store.repairs().stale_session_lists(&store.inventory()) {
            store
                .repairs()
                .rebuild_session_list(&stale.unwrap())
                .unwrap();
        }
        let names = fs::read_dir(path.parent().unwrap()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let aside = names.filter(|name| name.contains(".damaged-"));
        assert_eq!(aside.count(), 1);
        assert!(fs::read_to_string(&path).unwrap().contains("messageCount"));
    }
}
