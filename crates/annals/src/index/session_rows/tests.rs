use std::collections::BTreeMap;

use jiff::civil::Date;

use crate::store::SessionState;
use crate::store::conversations::{ConversationSegment, ConversationSummary};
use annals_layouts::model::{
    FlawKind, Money, Project, ResponseKey, ServiceTier, TitleSource, Usage,
};
use annals_layouts::tree::Title;

use super::*;

fn charge(number: u64) -> Charge {
    let mut charge = Charge::new(0);
    charge.response =
        (!number.is_multiple_of(3)).then(|| ResponseKey::new(&number.to_string(), "r"));
    charge.time = Timestamp::from_millisecond(number as i64 * 1_000_001 - 7).ok();
    charge.source_mut().model = Some(format!("model-{}", number % 4).into());
    charge.usage = Usage::from_counters([number, 127, 128, u64::MAX, 1 << 35, 0]);
    charge.source_mut().terms.tier = *ServiceTier::ALL.get(number as usize % 5).unwrap();
    charge.source_mut().terms.us_only = !number.is_multiple_of(2);
    charge.recorded = number
        .is_multiple_of(7)
        .then(|| Box::new(Money::from_pico(i128::MAX / 3)));
    charge.source_mut().agent = (!number.is_multiple_of(2)).then(|| "agent".into());
    charge.source_mut().git_branch = (!number.is_multiple_of(5)).then(|| "main".into());
    charge.copied = number.is_multiple_of(6);
    charge
}

fn facts() -> SessionSummary {
    let text = |text: &str| text.to_owned();
    let day = |year, month, day| Date::new(year, month, day).unwrap();
    SessionSummary {
        project: Project {
            path: text("/w"),
            guessed: false,
        },
        other_directories: vec![text("/x"), text("/é")],
        title: Some(Title {
            text: text("A title"),
            source: TitleSource::Ai,
        }),
        tag: Some(text("tag")),
        attributes: [
            (text("channel"), text("telegram")),
            (text("thread"), text("t1")),
        ]
        .into(),
        state: SessionState::Resumed,
        started: Timestamp::new(-7, -5).ok(),
        updated: Timestamp::new(1_800_000_000, 999_999_999).ok(),
        entries: 300,
        messages: 129,
        conversations: 2,
        agents: 1,
        row_bytes: 0,
        agent_names: [text("a1"), text("Explore")].into(),
        agent_kinds: [(text("a1"), text("Explore"))].into(),
        flaw_kinds: [(FlawKind::TornTail, 1), (FlawKind::BadHeader, 70_000)].into(),
        models: [text("model-1")].into(),
        charges: (0..40).map(charge).collect(),
        messages_by_day: [(day(2026, 12, 31), 4), (day(-9999, 1, 1), 1)].into(),
        untitled_keys: vec![EntryKey::from_text("one"), EntryKey::from_text("other")],
        summaries: vec![(EntryKey::from_text("leaf"), "what it was about".into())],
        is_folder_directory: true,
        folder_directories: vec![],
    }
}

fn conversations() -> Conversations {
    let talk = |limb: usize| ConversationSummary {
        leaf: match limb {
            1 => "8c549c46-16ca-47dd-b731-f4c264becc53".to_owned(),
            _ => format!("leaf-{limb}"),
        },
        title: facts().title.filter(|_| limb == 1),
        untitled: limb > 0,
        branch: (limb > 0).then(|| "another way".to_owned()),
        messages: 200,
        started: None,
        updated: Timestamp::from_second(5).ok(),
        resumes: limb == 1,
        segment: limb,
    };
    let limb = |parent: Option<usize>| ConversationSegment {
        parent,
        keys: vec![EntryKey::from_text("k")],
        charges: (3..6).chain([77]).map(charge).collect(),
    };
    Conversations {
        list: vec![talk(1), talk(2)],
        segments: vec![limb(None), limb(Some(0)), limb(Some(0))],
    }
}

fn decode(row: &[u8]) -> Option<SessionSummary> {
    SessionRow::new(b"id", row)?.summary(&mut Names::default())
}

fn encode(summary: &SessionSummary) -> Vec<u8> {
    encode_summary(summary, 7).unwrap()
}

/// A session with most fields empty.
fn plain() -> SessionSummary {
    SessionSummary {
        project: Project {
            path: "/w".to_owned(),
            guessed: true,
        },
        other_directories: vec![],
        title: None,
        tag: None,
        attributes: BTreeMap::new(),
        started: None,
        updated: None,
        agent_names: Default::default(),
        agent_kinds: Default::default(),
        flaw_kinds: Default::default(),
        models: Default::default(),
        charges: vec![],
        messages_by_day: Default::default(),
        untitled_keys: vec![],
        summaries: vec![],
        is_folder_directory: false,
        ..facts()
    }
}

#[test]
fn session_rows_round_trip() {
    let directories = SessionSummary {
        folder_directories: vec!["/v".into(), "/w".into()],
        ..facts()
    };
    for wanted in [facts(), plain(), directories] {
        let row = encode(&wanted);
        assert_eq!(decode(&row), Some(wanted.clone()));
        let row = SessionRow::new(b"id", &row).unwrap();
        let without = SessionSummary {
            charges: vec![],
            ..wanted.clone()
        };
        assert_eq!(row.summary_without_charges(), Some(without));
        assert_eq!(row.summaries().collect::<Vec<_>>(), wanted.summaries);
        assert_eq!(row.has_summaries(), !wanted.summaries.is_empty());
        assert_eq!(row.updated(), wanted.updated);
        assert_eq!(row.is_project_guessed(), wanted.project.guessed);
        let mut messages = Vec::new();
        row.messages(|message| messages.push(message)).unwrap();
        let named = wanted.charges.iter().filter_map(|charge| charge.response);
        assert_eq!(
            messages,
            named.map(|key| key.message).collect::<Vec<EntryKey>>()
        );
    }
    let row = encode_conversations(&conversations(), 7).unwrap();
    let found = decode_conversations(&row, &mut Names::default());
    assert_eq!(found, Some((7, conversations())));
}

/// Damaged rows never cause a panic, and a truncated row is not decoded.
#[test]
fn damaged_session_rows_never_panic() {
    let whole = encode(&facts());
    for at in 0..whole.len() {
        assert_eq!(decode(&whole[..at]), None, "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        decode(&changed);
    }
    let names = &mut Names::default();
    let whole = encode_conversations(&conversations(), 7).unwrap();
    for at in 0..whole.len() {
        assert_eq!(
            decode_conversations(&whole[..at], names),
            None,
            "cut at {at}"
        );
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        decode_conversations(&changed, names);
    }
}
