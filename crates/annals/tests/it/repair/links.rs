//! The rules for the new parent of an orphan.

use super::{SESSION, chain, file_of, line, named, repaired, uuid};

/// Returns the number of each repaired line and of its parent; 0 means none.
fn parents(lines: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let (_, bytes) = repaired(&file_of(lines));
    let number = |value: &serde_json::Value| {
        let text = value.as_str().unwrap_or("0-");
        u64::from_str_radix(text.split('-').next().unwrap(), 16).unwrap()
    };
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (number(&line["uuid"]), number(&line["parentUuid"]))
    });
    lines.collect()
}

#[track_caller]
fn hangs(lines: &[Vec<u8>], entry: u64, parent: u64) {
    let found = parents(lines);
    let own = found.iter().find(|(own, _)| *own == entry);
    assert_eq!(own, Some(&(entry, parent)), "{found:?}");
}

/// Returns a line of a sub-agent.
fn beside(number: u64, parent: u64) -> Vec<u8> {
    let text = String::from_utf8(line(number, parent)).unwrap();
    let agent = "\"isSidechain\":true,\"agentId\":\"a1\"";
    text.replace("\"isSidechain\":false", agent).into_bytes()
}

#[test]
fn orphan_gets_the_parent_named_in_the_torn_record() {
    // The parent of 5 is 2, and only the ids of 5 can be read.
    let mut lines = chain();
    let text = String::from_utf8(line(5, 2)).unwrap();
    lines[4] = text
        .replace("\"role\":\"user\"", "\"role\":\"us")
        .into_bytes();
    hangs(&lines, 6, 2);
    // Not even its own id can be read.
    lines[4] = line(5, 2)[..150].to_vec();
    hangs(&lines, 6, 2);
    // A torn record before an intact one is not considered.
    let mut lines = chain();
    lines[4] = line(5, 2)[..150].to_vec();
    lines.remove(7);
    hangs(&lines, 9, 7);
}

#[test]
fn siblings_stay_siblings_and_lines_of_one_response_stay_chained() {
    let mut lines = chain();
    lines.truncate(4);
    lines.extend([line(6, 99), line(8, 99)]);
    hangs(&lines, 6, 4);
    hangs(&lines, 8, 4);
    // Two lines of one response.
    let second = String::from_utf8(line(8, 99)).unwrap();
    lines[5] = second.replace("msg_8", "msg_6").into_bytes();
    hangs(&lines, 6, 4);
    hangs(&lines, 8, 6);
}

#[test]
fn orphan_is_linked_within_its_own_chain() {
    let mut lines = chain();
    lines.truncate(4);
    lines.extend((0..5).map(|at| beside(20 + at, if at == 0 { 0 } else { 19 + at })));
    lines.push(line(6, 99));
    hangs(&lines, 6, 4);
    lines.truncate(4);
    lines.extend((0..50).map(|at| beside(20 + at % 40, 0)).take(40));
    lines.push(line(6, 99));
    hangs(&lines, 6, 4);
}

#[test]
fn orphan_is_never_linked_to_its_descendant() {
    let lines = [
        line(1, 0),
        line(2, 1),
        line(3, 6),
        line(4, 3),
        line(5, 4),
        line(6, 99),
    ];
    hangs(&lines, 6, 2);
    let lines = [
        line(1, 0),
        line(2, 1),
        line(3, 2),
        line(4, 3),
        line(5, 8),
        line(6, 99),
        line(7, 6),
        line(8, 98),
    ];
    hangs(&lines, 6, 5);
    hangs(&lines, 8, 4);
}

#[test]
fn colliding_ids_get_new_unique_ids() {
    let lines = [
        line(1, 0),
        line(2, 1),
        named(3, 3, 2),
        named(4, 4, 3),
        named(5, 3, 4),
        named(6, 4, 3),
        named(7, 3, 4),
    ];
    let (_, bytes) = repaired(&file_of(&lines));
    let text = String::from_utf8(bytes).unwrap();
    let ids = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["uuid"].as_str().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 7, "{ids:?}");
    assert!(ids.iter().all(|id| id.len() == 36));
    // The last line of each keeps the id.
    assert_eq!((&ids[6], &ids[5]), (&uuid(3), &uuid(4)));
    assert!(super::resumed(text.as_bytes()).len() > 2);
}

#[test]
fn orphan_is_not_linked_to_a_type_the_client_skips() {
    let odd = String::from_utf8(line(15, 4)).unwrap();
    let odd = odd.replace("\"type\":\"user\"", "\"type\":\"progress\"");
    let mut lines = chain();
    lines.truncate(4);
    lines.extend([odd.clone().into_bytes(), line(6, 99)]);
    hangs(&lines, 6, 4);
    let known = odd.replace("\"type\":\"progress\"", "\"type\":\"system\"");
    lines[4] = known.into_bytes();
    hangs(&lines, 6, 15);
}

/// Returns a line of a type other than message.
fn of_type(kind: &str, number: u64, own: u64, parent: u64) -> Vec<u8> {
    let text = String::from_utf8(named(number, own, parent)).unwrap();
    let kind = format!("\"type\":\"{kind}\"");
    text.replace("\"type\":\"user\"", &kind).into_bytes()
}

#[test]
fn orphan_is_linked_to_an_attachment_the_client_follows() {
    let mut lines = chain();
    lines.truncate(4);
    lines.extend([of_type("attachment", 15, 15, 4), line(6, 99)]);
    hangs(&lines, 6, 15);
}

#[test]
fn cycle_is_cut_at_its_last_link() {
    // The parent of 4 is 5, of 5 is 3, and of 3 is 4.
    let lines = [line(1, 0), line(2, 1), line(3, 4), line(4, 5), line(5, 3)];
    hangs(&lines, 4, 2);
    hangs(&lines, 3, 4);
    hangs(&lines, 5, 3);
}

#[test]
fn torn_copy_does_not_decide_where_a_cycle_is_cut() {
    // A torn copy of 4 has the parent 1.
    let torn = String::from_utf8(line(4, 1)).unwrap();
    let torn = torn.replace("\"role\":\"assistant\"", "\"role\":\"as");
    let lines = [
        line(1, 0),
        line(2, 1),
        torn.into_bytes(),
        line(3, 4),
        line(4, 3),
    ];
    hangs(&lines, 3, 2);
}

#[test]
fn summary_in_a_cycle_becomes_a_root() {
    let summary = String::from_utf8(line(3, 4)).unwrap();
    let summary = summary.replace("\"cwd\"", "\"isCompactSummary\":true,\"cwd\"");
    let lines = [line(1, 0), line(2, 1), summary.into_bytes(), line(4, 3)];
    hangs(&lines, 3, 0);
    hangs(&lines, 4, 3);
}

/// Returns the id and the parent of each repaired line.
fn ids(lines: &[Vec<u8>]) -> Vec<(String, String)> {
    let (_, bytes) = repaired(&file_of(lines));
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text("uuid"), text("parentUuid"))
    });
    lines.collect()
}

#[test]
fn orphan_is_linked_by_the_new_id_of_its_parent() {
    // Ids that are not UUIDs are written as text.
    let renamed = |line: Vec<u8>| {
        let text = String::from_utf8(line).unwrap();
        text.replace(&uuid(3), "odd-three").into_bytes()
    };
    let lines = [
        line(1, 0),
        renamed(named(3, 3, 1)),
        line(4, 99),
        renamed(named(5, 3, 4)),
    ];
    let found = ids(&lines);
    assert_eq!(found[3].0, "odd-three");
    assert_ne!(found[1].0, "odd-three");
    assert_eq!(found[2].1, found[1].0);
}

#[test]
fn entry_naming_its_own_id_refers_to_the_last_of_that_id() {
    let lines = [line(1, 0), named(3, 3, 3), named(5, 3, 1)];
    let found = ids(&lines);
    assert_ne!(found[1].0, uuid(3));
    assert_eq!(found[1].1, uuid(3));
    assert_eq!(found[2], (uuid(3), uuid(1)));
}

#[test]
fn equal_entries_of_one_id_are_not_a_collision() {
    let note = |text: &str, cwd: &str| {
        let (own, parent) = (uuid(3), uuid(1));
        format!(
            r#"{{"parentUuid":"{parent}","isSidechain":false,"cwd":"{cwd}","sessionId":"{SESSION}","type":"system","subtype":"informational","content":"{text}","uuid":"{own}","timestamp":"2026-11-10T05:03:00.000Z"}}"#
        )
        .into_bytes()
    };
    let done = |second: Vec<u8>| {
        let lines = [line(1, 0), note("said", "/work"), second, line(4, 3)];
        repaired(&file_of(&lines)).0.steps.len()
    };
    assert_eq!(done(note("said", "/elsewhere")), 0);
    assert_eq!(done(note("said otherwise", "/work")), 1);
}
