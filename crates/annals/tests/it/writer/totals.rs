//! Running totals of a writer.

use annals::model::Usage;
use annals::store::{MessageCounts, Totals};

use super::*;
use crate::support::writable_layouts;

fn whole(fresh: &Fresh) -> MessageCounts {
    fresh.read().stats(&jiff::tz::TimeZone::UTC).total
}

fn sum(session: &Session) -> MessageCounts {
    let mut sum = Totals::default();
    let (_, scan, _) = session.main_log().unwrap();
    scan.outlines.iter().for_each(|outline| sum.add(outline));
    sum.sum()
}

#[test]
fn writer_totals_equal_the_log() {
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some())
    {
        let copy = case.copy();
        for files in copy.sessions() {
            if files.log.is_none() {
                continue;
            }
            let writer = copy.store().open_writer(&files, QUICK).unwrap();
            let session = Session::read(files).unwrap();
            let place = || format!("{} {}", case.name, session.files.id);
            assert_eq!(writer.totals().unwrap(), sum(&session), "{}", place());
        }
    }
}

#[test]
fn writer_totals_grow_in_every_layout() {
    for layout in writable_layouts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout.name(), dir.path().join("root")).unwrap();
        let store = Store::new(vec![root]);
        let writer = store.begin("/w/app").unwrap();
        for round in 1..=3 {
            writer.append(Draft::user("ask")).unwrap();
            let usage = Usage::new(10 * round, round);
            let reply = Draft::assistant(vec![Block::Text("say".to_owned())]);
            let reply = reply.usage(usage).model("claude-sonnet-4-5");
            writer.append(reply).unwrap();
            let totals = writer.totals().unwrap();
            let session = store.session(writer.session().as_str()).unwrap();
            assert_eq!(totals, sum(&session), "{}", layout.name());
            assert_eq!(totals.messages, 2 * round, "{}", layout.name());
        }
    }
}

#[test]
fn writer_totals_grow_with_any_writer() {
    let fresh = fresh();
    let reply = |output| {
        let usage = Usage {
            input: 10,
            output,
            ..Usage::default()
        };
        let blocks = vec![Block::Text("a".to_owned()), Block::Text("b".to_owned())];
        Draft::assistant(blocks).usage(usage)
    };
    assert_eq!(fresh.writer.totals().unwrap(), MessageCounts::default());
    fresh.writer.append(Draft::user("ask")).unwrap();
    fresh.writer.append(reply(1)).unwrap();
    let sum = fresh.writer.totals().unwrap();
    assert_eq!((sum.messages, sum.responses, sum.usage.output), (3, 1, 1));
    // Another writer, another program, and an unterminated line.
    let other = fresh.second();
    other.append(reply(2)).unwrap();
    assert_eq!(fresh.writer.totals().unwrap(), whole(&fresh));
    assert_eq!(other.totals().unwrap(), whole(&fresh));
    let line = foreign(1, None, "2026-03-01T10:00:00.000Z");
    let (begun, rest) = line.split_at(50);
    write_raw(&fresh.writer.path(), begun.as_bytes());
    let sum = fresh.writer.totals().unwrap();
    assert_eq!((sum, sum.messages), (whole(&fresh), 5));
    write_raw(&fresh.writer.path(), rest.trim_end().as_bytes());
    let sum = fresh.writer.totals().unwrap();
    assert_eq!((sum, sum.messages), (whole(&fresh), 6));
    write_raw(&fresh.writer.path(), b"\n");
    assert_eq!(fresh.writer.totals().unwrap(), sum);
    // A truncated or replaced log is counted again.
    let bytes = fs::read(fresh.writer.path()).unwrap();
    let half = bytes.len() / 2;
    fs::write(fresh.writer.path(), &bytes[..half]).unwrap();
    assert_eq!(fresh.writer.totals().unwrap(), whole(&fresh));
    fs::write(fresh.writer.path(), line.repeat(3)).unwrap();
    assert_eq!(fresh.writer.totals().unwrap().messages, 3);
}
