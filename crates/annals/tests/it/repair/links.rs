//! Where an entry hangs whose parent is lost, rule by rule.

use super::{SESSION, chain, file_of, line, mended, named, uuid};

/// The number of the message that each line of a mended log hangs from; 0 is none.
fn parents(lines: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let (_, bytes) = mended(&file_of(lines));
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

/// A line of a sub-agent that ran beside.
fn beside(number: u64, parent: u64) -> Vec<u8> {
    let text = String::from_utf8(line(number, parent)).unwrap();
    let agent = "\"isSidechain\":true,\"agentId\":\"a1\"";
    text.replace("\"isSidechain\":false", agent).into_bytes()
}

#[test]
fn it_hangs_from_what_the_lost_entry_hung_from_where_its_remains_tell() {
    // Five went back to two, and of it only its ids can be read.
    let mut lines = chain();
    let text = String::from_utf8(line(5, 2)).unwrap();
    lines[4] = text
        .replace("\"role\":\"user\"", "\"role\":\"us")
        .into_bytes();
    hangs(&lines, 6, 2);
    // Or not even its own.
    lines[4] = line(5, 2)[..150].to_vec();
    hangs(&lines, 6, 2);
    // But what came before something that is whole is not asked.
    let mut lines = chain();
    lines[4] = line(5, 2)[..150].to_vec();
    lines.remove(7);
    hangs(&lines, 9, 7);
}

#[test]
fn alternatives_stay_alternatives_and_one_response_stays_one() {
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
fn it_hangs_from_an_entry_of_its_own_chain_however_far_that_is() {
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
fn nothing_is_hung_from_what_hangs_from_it() {
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
fn entries_that_hide_behind_others_get_ids_that_no_other_has() {
    let lines = [
        line(1, 0),
        line(2, 1),
        named(3, 3, 2),
        named(4, 4, 3),
        named(5, 3, 4),
        named(6, 4, 3),
        named(7, 3, 4),
    ];
    let (_, bytes) = mended(&file_of(&lines));
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
    // The last of each keeps it.
    assert_eq!((&ids[6], &ids[5]), (&uuid(3), &uuid(4)));
    assert!(super::resumed(text.as_bytes()).len() > 2);
}

#[test]
fn it_hangs_from_nothing_that_the_program_lets_nothing_hang_from() {
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

/// A line of another type than a message.
fn of_type(kind: &str, number: u64, own: u64, parent: u64) -> Vec<u8> {
    let text = String::from_utf8(named(number, own, parent)).unwrap();
    let kind = format!("\"type\":\"{kind}\"");
    text.replace("\"type\":\"user\"", &kind).into_bytes()
}

#[test]
fn it_hangs_from_what_is_no_message_where_the_program_lets_it() {
    let mut lines = chain();
    lines.truncate(4);
    lines.extend([of_type("attachment", 15, 15, 4), line(6, 99)]);
    hangs(&lines, 6, 15);
}

#[test]
fn a_cycle_is_cut_where_it_ends_and_nothing_of_it_is_its_home() {
    // Four hangs from five, five from three, and three from four.
    let lines = [line(1, 0), line(2, 1), line(3, 4), line(4, 5), line(5, 3)];
    hangs(&lines, 4, 2);
    hangs(&lines, 3, 4);
    hangs(&lines, 5, 3);
}

#[test]
fn what_remains_of_a_line_does_not_tell_where_a_cycle_goes() {
    // A torn copy of four says that it hung from one.
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
fn a_summary_begins_a_conversation_in_a_cycle_too() {
    let summary = String::from_utf8(line(3, 4)).unwrap();
    let summary = summary.replace("\"cwd\"", "\"isCompactSummary\":true,\"cwd\"");
    let lines = [line(1, 0), line(2, 1), summary.into_bytes(), line(4, 3)];
    hangs(&lines, 3, 0);
    hangs(&lines, 4, 3);
}

/// The id and the parent of each line of a mended log.
fn ids(lines: &[Vec<u8>]) -> Vec<(String, String)> {
    let (_, bytes) = mended(&file_of(lines));
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text("uuid"), text("parentUuid"))
    });
    lines.collect()
}

#[test]
fn an_orphan_hangs_from_an_entry_by_its_new_id() {
    // Ids that are no UUIDs are spelt out.
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
fn an_entry_that_names_its_own_id_means_the_last_of_that_id() {
    let lines = [line(1, 0), named(3, 3, 3), named(5, 3, 1)];
    let found = ids(&lines);
    assert_ne!(found[1].0, uuid(3));
    assert_eq!(found[1].1, uuid(3));
    assert_eq!(found[2], (uuid(3), uuid(1)));
}

#[test]
fn two_entries_of_one_id_that_say_the_same_are_no_twins() {
    let note = |text: &str, cwd: &str| {
        let (own, parent) = (uuid(3), uuid(1));
        format!(
            r#"{{"parentUuid":"{parent}","isSidechain":false,"cwd":"{cwd}","sessionId":"{SESSION}","type":"system","subtype":"informational","content":"{text}","uuid":"{own}","timestamp":"2026-11-10T05:03:00.000Z"}}"#
        )
        .into_bytes()
    };
    let done = |second: Vec<u8>| {
        let lines = [line(1, 0), note("said", "/work"), second, line(4, 3)];
        mended(&file_of(&lines)).0.steps.len()
    };
    assert_eq!(done(note("said", "/elsewhere")), 0);
    assert_eq!(done(note("said otherwise", "/work")), 1);
}
