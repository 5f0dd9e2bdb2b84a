//! Counts for the report, rows for the session list.

use jiff::Timestamp;

use crate::store::RootFile;
use annals_layouts::layout::{Decoded, Layout, Record, RowUpdate, title_prefix};
use annals_layouts::model::{ArtifactKind, Block, Body, Draft, Entry, Role};

/// Prefix that distinguishes members of records from kinds of records in the report.
pub(super) const MEMBER_PREFIX: &str = "member ";

/// Returns the members of a record that affect no entry: without origins they are lost.
pub(super) fn lost_members(
    layout: &dyn Layout,
    file: &RootFile,
    record: &Record<'_>,
    entries: &[Entry],
) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(record.bytes) else {
        return Vec::new();
    };
    let members: annals_layouts::json::Pairs<'_> = serde_json::from_str(text).unwrap_or_default();
    let mut lost = Vec::new();
    for (name, value) in &members.0 {
        if matches!(
            value.0,
            None | Some("null" | "false" | "{}" | "[]" | "\"\"")
        ) {
            continue;
        }
        let members = [(&**name, "null")];
        let Some(without) = annals_layouts::json::set_members(record.bytes, &members) else {
            continue;
        };
        let mut sink = Decoded::default();
        let bare = Record {
            bytes: &without,
            ..*record
        };
        layout.decoder(&file.artifact).decode(&bare, &mut sink);
        if sink.items == entries {
            lost.push(name.chars().take(40).collect());
        }
    }
    lost
}

/// Returns the kind of an entry, for the report.
pub(super) fn body_kind(body: &Body) -> String {
    match body {
        Body::Resume { .. } => "resume point",
        Body::Files(_) => "file versions",
        Body::Queue { .. } => "queue-operation",
        Body::Agent { .. } => "sub-agent",
        Body::Opaque { flaw: Some(_), .. } => "damaged line",
        Body::Opaque { kind: None, .. } => "untyped",
        Body::Opaque {
            kind: Some(kind), ..
        } => return kind.chars().take(40).collect(),
        other => other.kind(),
    }
    .to_owned()
}

/// Returns the kind of a file, for the report.
pub(super) fn artifact_label(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::AgentMeta => "sub-agent's description",
        ArtifactKind::FileVersion => "saved file",
        ArtifactKind::ToolResult => "long output",
        ArtifactKind::TitleFile => "title file",
        ArtifactKind::Origin => "origins",
        _ => "other file",
    }
}

/// Updates a session list row with an entry of its log.
pub(super) fn update_row(
    row: &mut RowUpdate,
    entries: usize,
    draft: &Draft,
    time: Option<Timestamp>,
) {
    row.messages += entries as u64;
    row.started = row.started.or(time);
    row.updated = row.updated.max(time);
    let Body::Message(message) = &draft.body else {
        return;
    };
    row.answered |= message.role == Role::Assistant;
    if row.prompt.is_none() && message.human {
        row.prompt = message.blocks.iter().find_map(|block| match block {
            Block::Text(text) => Some(title_prefix(text).into()),
            _ => None,
        });
    }
}
