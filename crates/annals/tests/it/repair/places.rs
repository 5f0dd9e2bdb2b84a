//! Entries with ids derived from their offset, and headers inserted before them.

use annals::layout::{Layout, by_name};
use annals::model::{Artifact, ArtifactKind, SessionId};
use annals::repair::{Action, LineEdits, RepairPlan, RepairTarget};
use jiff::Timestamp;

use super::{day_record, days};

fn actions(edits: &LineEdits) -> Vec<Action> {
    edits.steps.iter().map(|step| step.action).collect()
}

#[test]
fn entry_that_does_not_move_needs_no_written_id() {
    let second = day_record("second", r#","annals":{"parent":"20260301-0"}"#);
    let text = [
        day_record("first", ""),
        second,
        "x".repeat(50),
        String::new(),
    ];
    let (_dir, store) = days(&[(1, &text.join("\n"))]);
    let plan =
        RepairPlan::new(&RepairTarget::all(&store.inventory())[0], Timestamp::now()).unwrap();
    assert_eq!(actions(&plan.edits), [Action::Drop]);
}

fn clog() -> (&'static dyn Layout, Artifact) {
    let session = "2026-03-26T01-32-20-418Z-bare";
    let artifact = Artifact {
        session: Some(SessionId::new(session).unwrap()),
        ..Artifact::new(ArtifactKind::SessionLog)
    };
    (by_name("clog").unwrap(), artifact)
}

/// Two messages without a header; the second names the first by its offset.
const HEADLESS: &str = concat!(
    r#"{"type":"message","createdAt":1774488741418,"role":"user","content":"one"}"#,
    "\n",
    r#"{"type":"message","createdAt":1774488742418,"role":"user","content":"two","annals":{"parent":"offset-0"}}"#,
    "\n",
);

#[test]
fn entries_behind_a_new_header_keep_their_offset_ids() {
    let (layout, artifact) = clog();
    let edits = LineEdits::new(layout, &artifact, HEADLESS.as_bytes()).unwrap();
    assert_eq!(actions(&edits), [Action::Header, Action::KeepId]);
    assert!(edits.steps.iter().all(|step| step.line == 1));
    let result = String::from_utf8(edits.apply(HEADLESS.as_bytes())).unwrap();
    assert!(result.contains(r#""messageId":"offset-0""#), "{result}");
    let again = LineEdits::new(layout, &artifact, result.as_bytes()).unwrap();
    assert_eq!(actions(&again), []);
}

#[test]
fn header_is_inserted_after_a_byte_order_mark() {
    let (layout, artifact) = clog();
    let rest = HEADLESS.split_inclusive('\n').next().unwrap();
    let text = format!("\u{feff}{rest}");
    let edits = LineEdits::new(layout, &artifact, text.as_bytes()).unwrap();
    assert_eq!(actions(&edits), [Action::Header]);
    let result = String::from_utf8(edits.apply(text.as_bytes())).unwrap();
    let header = result.strip_prefix('\u{feff}').unwrap();
    assert!(
        header.starts_with(r#"{"type":"conversation-header""#),
        "{result}"
    );
    assert!(result.ends_with(rest));
    assert_eq!(result.matches('\u{feff}').count(), 1);
}
