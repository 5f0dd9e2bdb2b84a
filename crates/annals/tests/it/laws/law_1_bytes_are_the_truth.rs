//! Reading and writing preserve all existing bytes.

use std::collections::HashSet;

use super::*;
use annals::model::{Draft, FlawKind};

use crate::gates::{self, Counts};

#[test]
fn record_spans_concatenate_to_the_file() {
    let mut points = 0;
    for case in cases() {
        for (file, bytes) in logs(&case) {
            let mut together: Vec<u8> = Vec::new();
            let mut number = 0;
            for line in lines(&bytes) {
                number += 1;
                assert_eq!(line.span.offset as usize, together.len(), "{}", case.name);
                assert_eq!(line.span.line, number, "{}", case.name);
                let span = line.span.offset as usize..line.span.end() as usize;
                together.extend(&bytes[span]);
            }
            assert_eq!(together, bytes, "{}", file.path.display());
            points += 1;
        }
    }
    let counts = Counts {
        points,
        ..Counts::default()
    };
    gates::print_counts(9, "every fixture's bytes", counts);
}

/// Gate 9's control: parsing records to values and writing them again changes bytes.
#[test]
fn control_value_round_trip_is_caught() {
    let (mut same, mut other) = (0, 0);
    for case in cases() {
        for (_, bytes) in logs(&case) {
            for line in lines(&bytes) {
                let value = serde_json::from_slice::<serde_json::Value>(&line.bytes);
                let again = value.ok().and_then(|value| serde_json::to_vec(&value).ok());
                match again.as_deref() == Some(&line.bytes[..]) {
                    true => same += 1,
                    false => other += 1,
                }
            }
        }
    }
    assert!(other > 100 && same > 0, "{other} of {}", same + other);
    gates::print_control(9, "values");
}

#[test]
fn opening_and_closing_a_writer_changes_nothing() {
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some())
    {
        let copy = case.copy();
        let store = copy.store();
        if !store
            .repairs()
            .stale_session_lists(&store.inventory())
            .is_empty()
        {
            // Opening a log repairs an outdated session list.
            continue;
        }
        let before = picture(&copy.root.path);
        for files in copy.sessions() {
            if files.log.is_some() {
                drop(copy.store().open_writer(&files, QUICK).unwrap());
            }
            for agent in &files.agents {
                let id = agent.artifact.agent.as_ref().unwrap();
                drop(SessionWriter::open_agent(&copy.store(), &files, id.as_str(), QUICK).unwrap());
            }
        }
        assert_eq!(picture(&copy.root.path), before, "{}", case.name);
    }
}

#[test]
fn append_preserves_every_byte_before_it() {
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some())
    {
        let copy = case.copy();
        for files in copy.sessions() {
            let Some(log) = &files.log else { continue };
            let before = fs::read(&log.path).unwrap();
            let writer = copy.store().open_writer(&files, QUICK).unwrap();
            if case.is_closed_session(&files) {
                let refused = writer.append(Draft::user("one more"));
                assert!(refused.is_err(), "{}", case.name);
                assert_eq!(fs::read(&log.path).unwrap(), before, "{}", case.name);
                continue;
            }
            writer.append(Draft::user("one more")).unwrap();
            writer.retitle("another title").unwrap();
            let after = fs::read(&log.path).unwrap();
            assert!(after.starts_with(&before), "{}", case.name);
            // The session may have continued in another file.
            let volume = fs::read(writer.path()).unwrap();
            assert!(volume.ends_with(b"\n"), "{}", case.name);
        }
    }
}

/// Returns a difference that a fork must not make; it may change ids and links, and the time of the
/// last record.
fn unlike(original: &[u8], copied: &[u8], last: bool, parted: bool) -> Option<String> {
    const MAY: [&[u8]; 11] = [
        br#""sessionId""#,
        br#""conversationId""#,
        br#""threadId""#,
        br#""forkedFrom""#,
        br#""parentUuid""#,
        br#""logicalParentUuid""#,
        br#""isSidechain""#,
        br#""metadata""#,
        br#""annals""#,
        br#""parentId""#,
        br#""ordinal""#,
    ];
    // An id derived from the offset must be written into the copy.
    let named = members(original)
        .iter()
        .any(|(key, value)| key == br#""uuid""# && value.len() > 2);
    let has_id = members(original).iter().any(|(key, _)| key == br#""id""#);
    let own = |object: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let all = members(object).into_iter();
        // A line of the program may become one that it skips, and the other way round.
        let shown = |value: Vec<u8>| match value.strip_prefix(br#""annals_"#) {
            Some(rest) => [b"\"", rest].concat(),
            None => value,
        };
        let all = all.map(|(key, value)| match key == br#""type""# {
            true => (key, shown(value)),
            false => (key, value),
        });
        all.filter(|(key, _)| named || key != br#""uuid""#)
            .filter(|(key, _)| has_id || key != br#""id""#)
            .filter(|(key, _)| !MAY.contains(&key.as_slice()))
            .filter(|(key, _)| {
                let time = key == br#""timestamp""# || key == br#""createdAt""#;
                !last || !time
            })
            .collect()
    };
    let (mut original, mut copied) = (own(original), own(copied));
    if parted {
        // Members from the companion file follow those of the log.
        original.sort();
        copied.sort();
    }
    (original != copied).then(|| format!("{original:?}\nbecame\n{copied:?}"))
}

#[test]
fn fork_changes_only_ids_and_links() {
    let mut forked = 0;
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some())
    {
        let copy = case.copy();
        for files in copy
            .sessions()
            .into_iter()
            .filter(|files| files.log.is_some())
        {
            let session = Session::read(files).unwrap();
            let (log, scan, tree) = session.main_log().unwrap();
            let original: Vec<Vec<u8>> = log
                .volumes()
                .map(|volume| volume.read_records().unwrap())
                .collect();
            // Its first record names the session that it was forked from.
            let has_header = matches!(case.layout.name(), "codex" | "copilot" | "gemini" | "pi");
            let spec = case.layout.writer().unwrap().writer_spec();
            for (at, conversation) in tree.conversations.iter().enumerate() {
                let path = tree.path(conversation);
                let to =
                    SessionId::new(&format!("{forked:08x}-ffff-4000-8000-000000000000")).unwrap();
                let before = picture(&copy.root.path);
                let made = copy
                    .store()
                    .fork(&session, &path, to.clone(), None, jiff::Timestamp::now())
                    .unwrap();
                forked += 1;
                let bytes = fs::read(&made.path).unwrap();
                let whole = whole_records(&copy.files(made.session.as_str()), &bytes);
                // A record with several entries is copied once.
                let place = |at: &usize| (scan.outlines[*at].volume, scan.outlines[*at].span);
                let mut records = path.clone();
                if spec.copies_entries {
                    // Each message of a record is a record of its own.
                    records.clear();
                }
                records.dedup_by_key(|at| place(at));
                let mut copied: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
                if has_header {
                    let header = String::from_utf8_lossy(copied[0]);
                    assert!(header.contains(session.files.id.as_str()), "{}", case.name);
                }
                if log.slice.is_some() || case.layout.name() == "clog" || has_header {
                    // Skip the existing records, and the record that starts the session.
                    let own = copied.len() - records.len();
                    copied.drain(..own);
                }
                assert_eq!(copied.len(), records.len(), "{} {at}", case.name);
                // Some readers resume at the newest entry: if the last is not the newest, it gets a
                // later time.
                let times: Vec<_> = path.iter().map(|at| scan.outlines[*at].time).collect();
                let (own, others) = times.split_last().unwrap();
                let raised = others.iter().flatten().any(|other| Some(*other) >= *own);
                for (number, (copy, entry)) in copied.iter().zip(&records).enumerate() {
                    let Outline { span, volume, .. } = scan.outlines[*entry];
                    let old = &original[usize::from(volume)];
                    let old = &old[span.offset as usize..span.end() as usize];
                    let old = old.strip_prefix(b"\xef\xbb\xbf").unwrap_or(old);
                    let derived = match log.artifact.framing.keeps_lines() {
                        true => members(old.trim_ascii()),
                        false => Vec::new(),
                    };
                    let record = |(key, _): &&(Vec<u8>, Vec<u8>)| key == br#""record""#;
                    let old = derived.iter().find(record).map_or(old, |(_, value)| value);
                    let last = raised && number + 1 == records.len();
                    if let Some(difference) = unlike(old, copy, last, log.slice.is_some()) {
                        panic!("{} {at}: {difference}", case.name);
                    }
                    let said = |key: &[u8]| {
                        let mut all = members(copy);
                        let inner = all.iter().rfind(|(name, _)| name == br#""metadata""#);
                        let inner = inner.map(|(_, value)| members(value));
                        all.extend(inner.unwrap_or_default());
                        let found = all.into_iter().rfind(|(name, _)| name == key);
                        found.map(|(_, value)| String::from_utf8(value).unwrap())
                    };
                    if has_header {
                        continue;
                    }
                    // In Chorus this is the session of another program.
                    if case.layout.name() != "chorus" {
                        let named = said(br#""sessionId""#);
                        let named = named.or_else(|| said(br#""conversationId""#));
                        let writer = case.layout.writer().unwrap();
                        let session = writer.conversation_id(&made.session);
                        let session = session.unwrap_or_else(|| made.session.to_string());
                        assert_eq!(named, Some(format!("\"{session}\"")), "{}", case.name);
                    }
                    let origin = said(br#""forkedFrom""#).expect(&case.name);
                    assert!(origin.contains(session.files.id.as_str()), "{}", case.name);
                }
                // The fork has the same conversation, no other, and no new flaw.
                let fork = Session::read(copy.files(made.session.as_str())).unwrap();
                let (new, resume) = paths(&fork);
                let old: Vec<String> = path
                    .iter()
                    .map(|&at| session.entry_id(at).unwrap().to_string())
                    .collect();
                let repeats = old.iter().collect::<HashSet<_>>().len() < old.len();
                assert_eq!((new, resume), (vec![old], Some(0)), "{} {at}", case.name);
                let mut flaws = fork.trees[0].flaws.iter();
                // An id that is duplicated in the session is duplicated in its fork.
                let own = flaws.find(|flaw| !repeats || flaw.kind != FlawKind::DuplicateId);
                assert_eq!(own, None, "{} {at}", case.name);
                let outlines = fork.logs[0].outlines.iter();
                let times: Vec<_> = outlines
                    .filter(|outline| outline.key.is_some())
                    .map(|outline| outline.time)
                    .collect();
                let (own, others) = times.split_last().unwrap();
                let is_last = case.layout.writer().unwrap().resumes_at_last_line();
                if let Some(newest) = others.iter().flatten().max().filter(|_| !is_last) {
                    assert!(own.is_some_and(|own| own > *newest), "{} {at}", case.name);
                }
                if log.slice.is_none()
                    || !before.contains_key(made.path.strip_prefix(&copy.root.path).unwrap())
                {
                    fs::remove_file(made.path).unwrap();
                }
            }
        }
    }
    assert!(forked > 100, "{forked}");
}

/// Returns the lines of a session's log merged with its companion file.
fn whole_records(files: &annals::store::SessionFiles, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = files.root.decoder(files.log.as_ref().unwrap());
    let mut offset = 0;
    let lines = bytes.split_inclusive(|b| *b == b'\n').map(|line| {
        let span = annals::model::Span {
            offset,
            len: line.len() as u64,
            line: 0,
        };
        offset = span.end();
        let record = Record {
            span,
            bytes: line.strip_suffix(b"\n").unwrap_or(line),
            terminated: true,
            oversize: false,
        };
        match decoder.full_record(&record) {
            Some(whole) => [whole.as_slice(), b"\n"].concat(),
            None => line.to_vec(),
        }
    });
    lines.collect()
}

#[test]
fn control_rewritten_value_is_caught() {
    let original = br#"{"uuid":"a","n":1e5,"sessionId":"s","t":"\u00e9"}"#;
    assert_eq!(
        unlike(
            original,
            br#"{"uuid":"a","n":1e5,"sessionId":"x","t":"\u00e9","forkedFrom":{}}"#,
            false,
            false,
        ),
        None
    );
    assert!(
        unlike(
            original,
            br#"{"uuid":"a","n":100000.0,"sessionId":"x","t":"\u00e9"}"#,
            false,
            false,
        )
        .is_some()
    );
    assert!(
        unlike(
            original,
            "{\"uuid\":\"a\",\"n\":1e5,\"t\":\"é\"}".as_bytes(),
            false,
            false,
        )
        .is_some()
    );
    assert!(
        unlike(
            original,
            br#"{"n":1e5,"uuid":"a","t":"\u00e9"}"#,
            false,
            false
        )
        .is_some()
    );
}
