//! Requirements of the real clients on the lines that annals writes: see tools/verify/README.md.

use annals::convert::{self, ConvertOptions, ConvertSelection};
use annals::model::{Message, Role};

use super::*;

/// Returns the records of a log that have an id; clients follow only these.
fn chain(path: &Path) -> Vec<serde_json::Value> {
    let log = fs::read_to_string(path).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines = lines.filter(|line: &serde_json::Value| line["uuid"].is_string());
    lines.collect()
}

fn times(path: &Path) -> Vec<Timestamp> {
    let chain = chain(path).into_iter();
    chain
        .map(|line| line["timestamp"].as_str().unwrap().parse().unwrap())
        .collect()
}

fn assert_rising(times: &[Timestamp]) {
    let rises = times
        .windows(2)
        .all(|pair| pair[0].as_millisecond() < pair[1].as_millisecond());
    assert!(rises, "{times:?}");
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + second).unwrap()
}

/// Returns a question and a reply of two blocks for each of the given seconds.
fn turns(seconds: &[i64]) -> Vec<Draft> {
    let turn = |&at: &i64| {
        let blocks = vec![Block::Text("one".into()), Block::Text("two".into())];
        let reply = Draft::assistant(blocks).with_time(second(at));
        [Draft::user("question").with_time(second(at)), reply]
    };
    seconds.iter().flat_map(turn).collect()
}

#[test]
fn equal_or_decreasing_times_are_written_as_increasing() {
    for seconds in [[5, 5, 5], [9, 7, 5], [9, 5, 20]] {
        for at_once in [true, false] {
            let fresh = fresh();
            let drafts = turns(&seconds);
            match at_once {
                true => _ = fresh.writer.append_all(drafts).unwrap(),
                false => drafts.into_iter().for_each(|draft| {
                    fresh.writer.append(draft).unwrap();
                }),
            }
            // A writer that reads the end of the log continues in the same way.
            fresh.second().append_all(turns(&[3])).unwrap();
            let path = fresh.writer.path();
            assert_rising(&times(&path));
            let chain = chain(&path);
            assert_eq!(chain.len(), 12);
            assert_eq!(times(&path)[0], second(seconds[0]), "nothing came before");
            assert!(chain[0]["annals"].is_null());
            let last = chain[9]["annals"]["time"].as_str().unwrap();
            assert_eq!(last.parse::<Timestamp>().unwrap(), second(3));
        }
    }
}

#[test]
fn notes_keep_their_times_and_move_no_others() {
    let fresh = fresh();
    fresh
        .writer
        .append(Draft::note("a note").with_time(second(50)))
        .unwrap();
    fresh
        .writer
        .append(Draft::user("first").with_time(second(7)))
        .unwrap();
    fresh
        .writer
        .append(Draft::note("older").with_time(second(1)))
        .unwrap();
    assert_eq!(times(&fresh.writer.path()), [second(7)]);
    let log = fs::read_to_string(fresh.writer.path()).unwrap();
    let older = log.lines().find(|line| line.contains("older")).unwrap();
    let older: serde_json::Value = serde_json::from_str(older).unwrap();
    let time: Timestamp = older["timestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(time, second(1));
}

#[test]
fn converted_conversation_has_increasing_times() {
    for layout in ["chorus", "clog", "orchestrator"] {
        for origin in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let from = Root::new(layout, dir.path().join("from")).unwrap();
            let to = Root::new("claude-code", dir.path().join("to")).unwrap();
            let store = Store::new(vec![from.clone()]);
            let new = NewSession::unnamed("/home/dev/w").unwrap();
            let writer = store.create(&from, &new, QUICK).unwrap();
            writer.append_all(turns(&[9, 9, 5, 7])).unwrap();
            drop(writer);
            let plan = convert::plan(ConvertSelection::Root(from), to.clone(), None).unwrap();
            let mut options = ConvertOptions::default();
            options.origin = origin;
            convert::run(&plan, &options, &|_, _| ()).unwrap();
            let made = Store::new(vec![to]).inventory().sessions.remove(0);
            let times = times(made.main_path());
            assert!(times.len() >= 8, "{layout}: {}", times.len());
            assert_rising(&times);
        }
    }
}

fn nameless(text: &str) -> Draft {
    Draft::assistant(vec![Block::Text(text.into())])
}

#[test]
fn reply_without_model_gets_the_last_model_of_its_session() {
    let models = |fresh: &Fresh| -> Vec<Option<String>> {
        let replies = chain(&fresh.writer.path()).into_iter();
        let replies = replies.filter(|line| line["type"] == "assistant");
        replies
            .map(|line| line["message"]["model"].as_str().map(str::to_owned))
            .collect()
    };
    let named = |name: &str| Some(name.to_owned());
    let alone = fresh();
    alone.writer.append(nameless("a")).unwrap();
    assert_eq!(models(&alone), [None]);
    let both = fresh();
    both.writer.append(nameless("a").model("m-1")).unwrap();
    both.writer
        .append(nameless("b").model("<synthetic>"))
        .unwrap();
    both.writer.append(nameless("c")).unwrap();
    both.second().append(nameless("d")).unwrap();
    both.second().append(nameless("e").model("m-2")).unwrap();
    both.second().append(nameless("f")).unwrap();
    let wanted = ["m-1", "<synthetic>", "m-1", "m-1", "m-2", "m-2"];
    assert_eq!(models(&both), wanted.map(named));
    // The first entry of a batch gets the model that a later one names.
    let batch = fresh();
    let drafts = vec![nameless("a"), nameless("b").model("m-3")];
    batch.writer.append_all(drafts).unwrap();
    assert_eq!(models(&batch), ["m-3", "m-3"].map(named));
}

#[test]
fn each_block_of_a_prompt_is_written_as_its_own_line() {
    let fresh = fresh();
    let image = Block::Image {
        media_type: "image/png".into(),
        data: "iVBORw0KGgo=".into(),
    };
    let blocks = vec![Block::Text("a".into()), image, Block::Text("b".into())];
    let draft = Draft::new(Body::Message(Message::new(Role::User, blocks)));
    let named = draft.with_id(EntryId::new("00000000-0000-4000-8000-00000000000a"));
    let written = fresh.writer.append_all(vec![named]).unwrap();
    assert_eq!(written.len(), 3);
    let chain = chain(&fresh.writer.path());
    assert_eq!(chain[0]["message"]["content"], "a");
    assert_eq!(chain[1]["message"]["content"].as_array().unwrap().len(), 1);
    assert_eq!(chain[2]["message"]["content"], "b");
    assert_eq!(chain[1]["parentUuid"], chain[0]["uuid"]);
    assert_eq!(chain[2]["parentUuid"], chain[1]["uuid"]);
    assert_eq!(chain[2]["uuid"], "00000000-0000-4000-8000-00000000000a");
}

fn compaction() -> Draft {
    Draft::new(Body::Compaction {
        text: "Conversation compacted".into(),
    })
}

fn summary() -> Draft {
    let mut message = Message::new(Role::User, vec![Block::Text("SUMMARY".into())]);
    message.compact_summary = true;
    Draft::new(Body::Message(message))
}

#[test]
fn only_a_summary_has_a_compaction_as_parent() {
    let parents = |fresh: &Fresh| -> Vec<Option<usize>> {
        let chain = chain(&fresh.writer.path());
        let place = |line: &serde_json::Value| {
            let parent = &line["parentUuid"];
            chain.iter().position(|one| one["uuid"] == *parent)
        };
        chain.iter().map(place).collect()
    };
    // In one batch, in several, and by a writer that rereads the log.
    let once = fresh();
    let drafts = vec![
        Draft::user("a"),
        compaction(),
        Draft::user("b"),
        nameless("c"),
    ];
    once.writer.append_all(drafts).unwrap();
    assert_eq!(parents(&once), [None, None, Some(0), Some(2)]);
    let one_by_one = fresh();
    one_by_one.writer.append(Draft::user("a")).unwrap();
    one_by_one.writer.append(compaction()).unwrap();
    one_by_one.writer.append(Draft::user("b")).unwrap();
    assert_eq!(parents(&one_by_one), [None, None, Some(0)]);
    let anew = fresh();
    anew.writer.append(Draft::user("a")).unwrap();
    anew.second().append(compaction()).unwrap();
    anew.second().append(Draft::user("b")).unwrap();
    assert_eq!(parents(&anew), [None, None, Some(0)]);
    let summed = fresh();
    summed.writer.append(Draft::user("a")).unwrap();
    summed.second().append(compaction()).unwrap();
    summed.second().append(summary()).unwrap();
    summed.second().append(Draft::user("b")).unwrap();
    assert_eq!(parents(&summed), [None, None, Some(1), Some(2)]);
}

#[test]
fn parent_is_the_inner_entry_that_last_prompt_names() {
    let fresh = fresh();
    let ids: Vec<EntryId> = ["a", "b", "c", "d"]
        .map(|text| id(&fresh.writer.append(Draft::user(text)).unwrap()))
        .into();
    let other = foreign(1, Some(&ids[1]), "2026-03-02T09:00:00.000Z");
    let name = |leaf: &EntryId| {
        format!(r#"{{"type":"last-prompt","leafUuid":"{leaf}","sessionId":"{ID}"}}"#) + "\n"
    };
    write_raw(&fresh.writer.path(), (name(&ids[2]) + &other).as_bytes());
    let next = fresh.second().append(Draft::user("next")).unwrap();
    assert_eq!(next.parent, Some(ids[2].clone()));
    // A named leaf that is not in the log is ignored.
    write_raw(&fresh.writer.path(), name(&foreign_id(77)).as_bytes());
    let last = fresh.second().append(Draft::user("last")).unwrap();
    assert_eq!(last.parent, next.id);
}
