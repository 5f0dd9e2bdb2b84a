//! Decoders are total: any bytes give entries and flaws, never a panic; outlines and entries agree.

use annals::layout::{Decoded, LAYOUTS, Layout, Record};
use annals::model::{
    Artifact, ArtifactKind, Block, Body, Entry, EntryId, EntryKey, Flaw, FlawKind, Outline,
    OutlineKind, SessionId, Span,
};
use proptest::prelude::*;

use crate::support::{cases, disk_path, fixtures, processor_time};

fn artifact(kind: ArtifactKind) -> Artifact {
    Artifact {
        folder: Some("-w".to_owned()),
        session: Some(SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap()),
        ..Artifact::new(kind)
    }
}

fn claude_code() -> &'static dyn Layout {
    annals::layout::by_name("claude-code").unwrap()
}

struct Read {
    outlines: Vec<Outline>,
    entries: Vec<Entry>,
    flaws: Vec<Flaw>,
}

/// Reads one record as outline and as entry, and compares them.
fn read(layout: &dyn Layout, kind: ArtifactKind, bytes: &[u8], terminated: bool) -> Read {
    let artifact = artifact(kind);
    let record = Record {
        span: Span {
            offset: 0,
            len: bytes.len() as u64 + 1,
            line: 1,
        },
        bytes,
        terminated,
        oversize: false,
    };
    let mut shallow = Decoded::default();
    layout.decoder(&artifact).outline(&record, &mut shallow);
    let mut deep: Decoded<Entry> = Decoded::default();
    layout.decoder(&artifact).decode(&record, &mut deep);
    assert_eq!(
        shallow.flaws,
        deep.flaws,
        "{}",
        String::from_utf8_lossy(bytes)
    );
    let readable: Vec<&Entry> = deep
        .items
        .iter()
        .filter(|entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. }))
        .collect();
    assert_eq!(
        shallow.items.len(),
        readable.len(),
        "{}",
        String::from_utf8_lossy(bytes)
    );
    for (outline, entry) in shallow.items.iter().zip(readable) {
        assert_eq!(outline.id(), entry.id);
        assert_eq!(
            outline.link.key(),
            entry.parent.as_ref().map(|id| id.key()),
            "{}, {kind:?}: {}",
            layout.name(),
            String::from_utf8_lossy(bytes)
        );
        assert_eq!(outline.time, entry.time);
        assert_eq!(outline.sidechain, entry.sidechain);
        let human = matches!(&entry.body, Body::Message(message) if message.human);
        assert_eq!(outline.human, human, "{}", String::from_utf8_lossy(bytes));
    }
    for span in deep.items.iter().map(|entry| entry.span) {
        let end = span.offset + span.len;
        assert!(end <= record.span.len, "{span:?} is not within the record");
    }
    // A record that is not blank gives an entry or a flaw.
    let blank = bytes.iter().all(u8::is_ascii_whitespace);
    let text = || String::from_utf8_lossy(bytes);
    assert!(
        blank || !deep.items.is_empty(),
        "{}, {kind:?}: {}",
        layout.name(),
        text()
    );
    Read {
        outlines: shallow.items,
        entries: deep.items,
        flaws: shallow.flaws,
    }
}

fn line(json: &str) -> Read {
    read(
        claude_code(),
        ArtifactKind::SessionLog,
        json.as_bytes(),
        true,
    )
}

const KINDS: [ArtifactKind; 12] = [
    ArtifactKind::SessionLog,
    ArtifactKind::AgentLog,
    ArtifactKind::AgentMeta,
    ArtifactKind::Todos,
    ArtifactKind::Task,
    ArtifactKind::FileVersion,
    ArtifactKind::ToolResult,
    ArtifactKind::History,
    ArtifactKind::Settings,
    ArtifactKind::Plan,
    ArtifactKind::Index,
    ArtifactKind::TitleFile,
];

/// Returns fixture lines that are short enough to be mutated thousands of times.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = std::collections::BTreeMap::new();
    for case in cases() {
        for file in case.files() {
            for line in std::fs::read(disk_path(&file.path))
                .unwrap()
                .split(|byte| *byte == b'\n')
            {
                if (1..3_000).contains(&line.len()) {
                    // One line per fixture, kind of file and length is enough.
                    let key = (case.name.clone(), file.artifact.kind, line.len() / 64);
                    seeds.entry(key).or_insert_with(|| line.to_vec());
                }
            }
        }
    }
    seeds.into_values().collect()
}

/// Tests whether a log writer could have written this line.
fn is_whole(line: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else {
        return false;
    };
    let filled = |name: &str| line[name].as_str().is_some_and(|text| !text.is_empty());
    let names = ["uuid", "sessionId", "leafUuid", "messageId"];
    filled("type") && names.into_iter().any(filled)
}

/// Replacements for random bytes: JSON tokens and noise.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"99999999999999999999999999",
    b"\"\\ud83d\"",
    b"\\u0000",
    b"\xff",
    b"\xc3",
    b"\0\0\0",
    b"\r",
    b"}{",
    b"[[[[[[[[[[",
    b"\"type\":\"user\",",
    b"\"uuid\":1,",
    b"\"content\":{\"x\":[]}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_lines_never_panic_and_both_depths_agree(
        seed in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..24, 0usize..12, any::<u8>()), 1..6),
        terminated in any::<bool>(),
        kind in 0usize..12,
        log in any::<bool>(),
    ) {
        thread_local!(static SEEDS: Vec<Vec<u8>> = seeds());
        let mut bytes = SEEDS.with(|seeds| seeds[seed.index(seeds.len())].clone());
        for (at, piece, cut, byte) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            let single = [byte];
            let put: &[u8] = if byte < 128 { PIECES[piece] } else { &single };
            bytes.splice(at..end, put.iter().copied());
        }
        bytes.retain(|byte| *byte != b'\n');
        let kind = if log { ArtifactKind::SessionLog } else { KINDS[kind] };
        for layout in LAYOUTS {
            read(*layout, kind, &bytes, terminated);
        }
    }

    /// A writer was interrupted at any byte, and the next one appended without a check.
    #[test]
    fn a_record_glued_to_a_torn_one_is_found(
        torn in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        whole in any::<prop::sample::Index>(),
    ) {
        thread_local!(static SEEDS: (Vec<Vec<u8>>, Vec<Vec<u8>>) = {
            let seeds = seeds();
            let whole = seeds.iter().filter(|seed| is_whole(seed)).cloned().collect();
            (seeds, whole)
        });
        let (mut bytes, whole) = SEEDS.with(|(seeds, records)| {
            let torn = &seeds[torn.index(seeds.len())];
            (torn[..cut.index(torn.len())].to_vec(), records[whole.index(records.len())].clone())
        });
        // After whitespace alone the record would not be damaged.
        bytes.insert(0, b'{');
        let start = bytes.len() as u64;
        bytes.extend(&whole);
        let alone = read(claude_code(), ArtifactKind::SessionLog, &whole, true);
        let glued = read(claude_code(), ArtifactKind::SessionLog, &bytes, true);
        let (alone, glued) = (&alone.outlines[0], glued.outlines.last());
        let seen = |outline: &Outline| (outline.kind, outline.key, outline.link, outline.time);
        prop_assert_eq!(glued.map(seen), Some(seen(alone)), "{}", String::from_utf8_lossy(&bytes));
        prop_assert_eq!(glued.map(|outline| outline.span.offset), Some(start));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..12, terminated in any::<bool>()) {
        for layout in LAYOUTS {
            read(*layout, KINDS[kind], &bytes, terminated);
        }
    }
}

/// Every member of every shape of line, with values of wrong types.
#[test]
fn wrong_types_in_any_member_never_panic() {
    const WRONG: [&str; 9] = [
        "null",
        "true",
        "-0",
        "1e999",
        "\"\"",
        "\"\\ud83d\"",
        "[]",
        "[[[]]]",
        "{\"a\":{\"type\":[]}}",
    ];
    let mut tried = 0;
    for seed in seeds() {
        let Ok(text) = std::str::from_utf8(&seed) else {
            continue;
        };
        // Each value starts after a colon outside of strings, roughly: a wrong guess makes bad
        // JSON, which must not panic either.
        let colons: Vec<usize> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
        for (nth, &at) in colons.iter().enumerate().take(60) {
            let end = text[at..]
                .find([',', '}'])
                .map_or(text.len(), |len| at + len);
            let wrong = WRONG[(nth + seed.len()) % WRONG.len()];
            let changed = format!("{}{wrong}{}", &text[..at], &text[end..]);
            for kind in [
                ArtifactKind::SessionLog,
                ArtifactKind::Todos,
                ArtifactKind::History,
            ] {
                read(claude_code(), kind, changed.as_bytes(), true);
            }
            tried += 1;
        }
    }
    assert!(tried > 2_000, "{tried}");
}

#[test]
fn line_of_wrong_types_is_decoded_as_far_as_possible() {
    let read = line(
        r#"{"type":"assistant","uuid":7,"parentUuid":[],"timestamp":{},"isSidechain":"yes","message":{"id":1,"role":null,"model":[],"content":{"a":1},"usage":{"input_tokens":{}}}}"#,
    );
    let entry = &read.entries[0];
    assert_eq!(
        (entry.id.as_ref(), entry.parent.as_ref(), entry.time),
        (Some(&EntryId::new("at-0")), None, None)
    );
    assert!(entry.derived_id && !entry.sidechain);
    let Body::Message(message) = &entry.body else {
        panic!("{entry:?}")
    };
    assert_eq!(
        (
            message.blocks.len(),
            message.usage,
            message.model.as_deref()
        ),
        (1, None, None)
    );
    assert_eq!(read.flaws.len(), 1);
    assert_eq!(read.flaws[0].kind, FlawKind::BadUsage);
    // A message that is not an object; blocks that are not objects.
    for message in [
        "null",
        "[]",
        "7",
        "\"text\"",
        "{\"content\":[1,null,\"x\",[],{}]}",
    ] {
        let read = line(&format!(
            r#"{{"type":"user","uuid":"u","message":{message}}}"#
        ));
        assert_eq!(read.flaws, [], "{message}");
        assert_eq!(read.outlines[0].kind, OutlineKind::User);
        assert!(!read.outlines[0].human, "{message}");
    }
}

#[test]
fn deep_nesting_is_decoded_in_any_member() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let objects = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
    for n in [100, 127, 128, 129, 5_000, 100_000] {
        for value in [deep(n), objects(n)] {
            for place in [
                format!(r#"{{"type":"user","uuid":"u","x":{value}}}"#),
                format!(r#"{{"type":"user","uuid":"u","message":{{"content":{value}}}}}"#),
                format!(
                    r#"{{"type":"user","uuid":"u","message":{{"content":[{{"type":"tool_result","content":{value}}}]}}}}"#
                ),
                format!(
                    r#"{{"type":"assistant","uuid":"u","message":{{"content":[{{"type":"tool_use","id":"t","name":"Task","input":{value}}}]}}}}"#
                ),
                format!(r#"{{"type":"file-history-snapshot","uuid":"u","snapshot":{value}}}"#),
                format!(r#"{{"type":"attachment","uuid":"u","attachment":{value}}}"#),
                format!(
                    r#"{{"type":"assistant","uuid":"u","message":{{"usage":{{"cache_creation":{value}}}}}}}"#
                ),
            ] {
                let read = line(&place);
                assert_eq!(read.outlines.len(), 1, "{n}: {}", &place[..60]);
                assert_eq!(read.entries[0].id.as_ref().unwrap().as_str(), "u");
            }
        }
        // Unclosed, it is torn; the stack must not overflow.
        read(
            claude_code(),
            ArtifactKind::SessionLog,
            "[".repeat(n).as_bytes(),
            false,
        );
        read(
            claude_code(),
            ArtifactKind::Todos,
            "{\"a\":".repeat(n).as_bytes(),
            true,
        );
    }
}

#[test]
fn lone_surrogates_in_keys_and_values_are_replaced() {
    let read = line(
        r#"{"\ud83d":1,"type":"user","uuid":"\ude00","x":{"\udfff":"\ud83d\ud83d"},"message":{"content":[{"type":"text","text":"a\ud83db","\ud800":[]}]}}"#,
    );
    assert_eq!(read.flaws, []);
    assert_eq!(read.entries[0].id.as_ref().unwrap().as_str(), "\u{fffd}");
    let Body::Message(message) = &read.entries[0].body else {
        panic!()
    };
    assert_eq!(message.blocks, [Block::Text("a\u{fffd}b".to_owned())]);
    assert!(message.human);
    // As a plain string, and in a tool input, whose bytes are preserved.
    let read = line(r#"{"type":"user","uuid":"u","message":{"content":"\ud83d hi"}}"#);
    assert!(read.outlines[0].human);
    assert_eq!(read.outlines[0].prompt(), Some("\u{fffd} hi"));
}

#[test]
fn last_of_duplicate_keys_wins() {
    let read = line(
        r#"{"type":"assistant","type":"user","uuid":"a","uuid":"b","message":{"content":"x"},"message":{"content":"y","content":"z"}}"#,
    );
    assert_eq!(read.outlines[0].kind, OutlineKind::User);
    assert_eq!(read.outlines[0].key, Some(EntryKey::from_text("b")));
    let Body::Message(message) = &read.entries[0].body else {
        panic!()
    };
    assert_eq!(message.blocks, [Block::Text("z".to_owned())]);
}

#[test]
fn invalid_utf8_is_a_flaw_and_loses_nothing() {
    let read = read(
        claude_code(),
        ArtifactKind::SessionLog,
        b"{\"type\":\"user\",\"uuid\":\"u\",\"message\":{\"content\":\"caf\xe9 \xed\xa0\xbd\"}}",
        true,
    );
    assert_eq!(read.flaws.len(), 1);
    assert_eq!(read.flaws[0].kind, FlawKind::BadUtf8);
    assert_eq!(read.outlines[0].key, Some(EntryKey::from_text("u")));
    assert!(
        read.outlines[0]
            .prompt()
            .unwrap()
            .starts_with("caf\u{fffd}")
    );
}

#[test]
fn each_kind_of_damage_is_named() {
    use FlawKind as F;
    let whole = r#"{"type":"user","uuid":"u"}"#;
    for (bytes, terminated, kind) in [
        (whole[..10].to_owned(), false, F::TornTail),
        (whole[..10].to_owned(), true, F::BadJson),
        ("[]".to_owned(), true, F::NotAnObject),
        ("\"text\"".to_owned(), false, F::NotAnObject),
        (format!("{whole}{whole}"), true, F::Glued),
        (format!("{}{whole}", &whole[..10]), true, F::Glued),
        (format!("\0\0{whole}"), true, F::NulRun),
        ("\0\0\0".to_owned(), true, F::NulRun),
        ("not json".to_owned(), true, F::BadJson),
    ] {
        let read = read(
            claude_code(),
            ArtifactKind::SessionLog,
            bytes.as_bytes(),
            terminated,
        );
        let kinds: Vec<FlawKind> = read.flaws.iter().map(|flaw| flaw.kind).collect();
        assert_eq!(kinds, [kind], "{bytes:?}");
    }
}

/// Returns the ids found in a damaged line and its flaw; checks that each piece lies within the
/// line.
fn salvaged(bytes: &[u8]) -> (Vec<String>, FlawKind) {
    let read = read(claude_code(), ArtifactKind::SessionLog, bytes, true);
    let mut end = 0;
    for outline in &read.outlines {
        let span = outline.span;
        assert!(span.offset >= end, "{span:?} overlaps the one before");
        end = span.offset + span.len;
        assert!(end <= bytes.len() as u64, "{span:?} is not within the line");
        let piece = &bytes[span.offset as usize..end as usize];
        assert!(piece.starts_with(b"{") && piece.ends_with(b"}"));
    }
    let ids = read.outlines.iter().map(|outline| {
        let id = outline.id().map(|id| id.as_str().to_owned());
        id.unwrap_or_else(|| format!("{:?}", outline.facts))
    });
    (ids.collect(), read.flaws[0].kind)
}

#[test]
fn record_torn_within_a_character_does_not_hide_a_glued_one() {
    let mut bytes = br#"{"type":"user","uuid":"torn","message":{"content":"caf"#.to_vec();
    bytes.push(0xc3);
    bytes.extend(br#"{"type":"user","uuid":"whole","message":{"content":"hi"}}"#);
    assert_eq!(
        salvaged(&bytes),
        (vec!["whole".to_owned()], FlawKind::Glued)
    );
    // A piece that is not UTF-8 is still a record.
    bytes.extend(b"{\"type\":\"user\",\"uuid\":\"latin\",\"x\":\"\xe9\"}");
    assert_eq!(
        salvaged(&bytes),
        (
            vec!["whole".to_owned(), "latin".to_owned()],
            FlawKind::Glued
        )
    );
}

#[test]
fn many_nested_objects_do_not_hide_a_glued_record() {
    let many = vec![r#"{"a":{"b":[{"c":1}]}}"#; 500].join(",");
    let whole = r#"{"type":"user","uuid":"whole"}"#;
    let full = format!(r#"{{"type":"user","uuid":"full","toolUseResult":[{many}]}}"#);
    for (bytes, ids) in [
        (
            format!(r#"{{"type":"user","uuid":"torn","toolUseResult":[{many},{{"a":{whole}"#),
            vec!["whole"],
        ),
        (format!(r#"{{"type":"user","uuid":"to{full}"#), vec!["full"]),
        (format!("{full}{whole}"), vec!["full", "whole"]),
        (
            format!(r#"{{"type":"user","uui{whole}{full}{whole}"#),
            vec!["whole", "full", "whole"],
        ),
    ] {
        let (found, kind) = salvaged(bytes.as_bytes());
        assert_eq!(
            (found.as_slice(), kind),
            (
                &ids.iter().map(ToString::to_string).collect::<Vec<_>>()[..],
                FlawKind::Glued
            )
        );
    }
}

#[test]
fn glued_metadata_lines_are_found() {
    for (aside, fact) in [
        (
            r#"{"type":"custom-title","customTitle":"Mine","sessionId":"s"}"#,
            "Mine",
        ),
        (
            r#"{"type":"last-prompt","leafUuid":"l","sessionId":"s"}"#,
            "Resume",
        ),
        (
            r#"{"type":"summary","summary":"Short","leafUuid":"l"}"#,
            "Short",
        ),
        (
            r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}"#,
            "Files",
        ),
        (
            r#"{"type":"custom-title","customTitle":"\ud83d","sessionId":"s"}"#,
            "Title",
        ),
    ] {
        let (found, kind) =
            salvaged(format!(r#"{{"type":"user","uuid":"u","mess{aside}"#).as_bytes());
        assert_eq!((found.len(), kind), (1, FlawKind::Glued), "{aside}");
        assert!(found[0].contains(fact), "{found:?}");
    }
}

#[test]
fn nested_object_of_a_torn_record_is_not_a_record() {
    let inner = r#"{"type":"user","uuid":"inner","message":{"content":"x"}}"#;
    for bytes in [
        format!(r#"{{"type":"progress","uuid":"p","data":{{"message":{inner},"n":1"#),
        format!(r#"{{"type":"progress","uuid":"p","data":[{inner}],@@@}}"#),
    ] {
        assert_eq!(salvaged(bytes.as_bytes()), (Vec::new(), FlawKind::BadJson));
    }
    // A record written into the middle of another one is found.
    let bytes = format!(r#"{{"type":"user","uuid":"around","te{inner}xt":"x"}}"#);
    assert_eq!(
        salvaged(bytes.as_bytes()),
        (vec!["inner".to_owned()], FlawKind::Glued)
    );
}

#[test]
fn adversarial_lines_decode_in_linear_time() {
    for (unit, len) in [
        (r#"{""#, 5_000_000),
        (r#"{"a":"#, 1_000_000),
        (r#"{"{":"#, 1_000_000),
        (r#"[{"a":["#, 1_000_000),
        (r#"{"a":1}"#, 1_000_000),
        ("{ ", 1_000_000),
    ] {
        let bytes = unit.repeat(len / unit.len());
        let begun = processor_time();
        read(
            claude_code(),
            ArtifactKind::SessionLog,
            bytes.as_bytes(),
            true,
        );
        // This takes about a second; parsing from each start to the end would take hours.
        let took = processor_time() - begun;
        assert!(took.as_secs() < 20, "{unit}: {took:?}");
    }
}

#[test]
fn invalid_token_counts_add_nothing() {
    let usage = |json: &str| {
        let read = line(&format!(
            r#"{{"type":"assistant","uuid":"u","message":{{"usage":{json}}}}}"#
        ));
        let flaws = read.flaws.len();
        let Body::Message(message) = &read.entries[0].body else {
            panic!()
        };
        assert_eq!(
            read.outlines[0].reply.as_ref().unwrap().usage,
            message.usage
        );
        (message.usage.map(|usage| usage.total()), flaws)
    };
    assert_eq!(usage("{}"), (None, 0));
    assert_eq!(usage("null"), (None, 0));
    assert_eq!(usage("[]"), (None, 1));
    assert_eq!(usage("\"x\""), (None, 1));
    assert_eq!(
        usage(r#"{"input_tokens":5,"output_tokens":7}"#),
        (Some(12), 0)
    );
    assert_eq!(
        usage(r#"{"input_tokens":5,"output_tokens":-7}"#),
        (Some(5), 1)
    );
    assert_eq!(
        usage(r#"{"input_tokens":5,"output_tokens":null}"#),
        (Some(5), 0)
    );
    assert_eq!(usage(r#"{"input_tokens":18446744073709551615}"#), (None, 1));
    assert_eq!(usage(r#"{"input_tokens":1000000000000}"#), (None, 1));
    assert_eq!(
        usage(r#"{"input_tokens":999999999999}"#),
        (Some(999_999_999_999), 0)
    );
    assert_eq!(
        usage(
            r#"{"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}"#
        ),
        (Some(9), 0)
    );
    assert_eq!(
        usage(
            r#"{"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5}}"#
        ),
        (Some(9), 0)
    );
}

#[test]
fn only_typed_text_is_a_prompt() {
    let human =
        |json: &str| line(&format!(r#"{{"type":"user","uuid":"u",{json}}}"#)).outlines[0].human;
    assert!(human(r#""message":{"content":"hello"}"#));
    assert!(human(
        r#""message":{"content":[{"type":"text","text":"hello"}]}"#
    ));
    // The client puts opened files before the typed text.
    assert!(human(
        r#""message":{"content":[{"type":"text","text":"<ide_opened_file>x</ide_opened_file>"},{"type":"text","text":"hello"}]}"#
    ));
    for not in [
        r#""message":{"content":""}"#,
        r#""message":{"content":" \n"}"#,
        r#""message":{"content":"<command-name>/x</command-name>"}"#,
        r#""message":{"content":"Caveat: the messages below"}"#,
        r#""message":{"content":"hello"},"isMeta":true"#,
        r#""message":{"content":"hello"},"isSidechain":true"#,
        r#""message":{"content":"hello"},"isCompactSummary":true"#,
        r#""message":{"content":[{"type":"text","text":"hello"},{"type":"tool_result","tool_use_id":"t"}]}"#,
        r#""message":{"content":[{"type":"image"}]}"#,
        r#""message":{"content":"hello"},"toolUseResult":{"stdout":"x"}"#,
        r#""message":{"content":"hello"},"toolUseResult":"Error""#,
    ] {
        assert!(!human(not), "{not}");
    }
}

#[test]
fn fixtures_exist() {
    assert!(fixtures().join("claude-code").is_dir());
}
