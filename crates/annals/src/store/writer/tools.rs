//! Tool names of results, in layouts whose result records name the tool.
//!
//! Open calls are known from the end of the log. A result may also answer an earlier call, or one
//! that already has a result: then the log is searched.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::store::Root;
use crate::store::append_point::AppendPoint;
use crate::store::inventory::RootFile;
use crate::store::log_reader::each_record;
use annals_layouts::layout::{Decoded, calls_of_unknown_tools};
use annals_layouts::model::{Block, Body, Draft, Entry, EntryKey, Outline};

use super::SessionWriter;

/// Maximum number of calls for which the log's bytes are searched first. With more, the log is
/// decoded at once.
const SEARCHES: usize = 8;

impl SessionWriter {
    /// Fails if the tool of a result is unknown, in layouts whose result records name the tool.
    pub fn check_tools(&self, drafts: &[Draft]) -> Result<()> {
        if !self.layout_writer()?.results_name_tools() {
            return Ok(());
        }
        let mut tail = self.append_point();
        load_answered_calls(&self.root, &mut tail, drafts)?;
        let unknown = calls_of_unknown_tools(&tail.state, drafts);
        match unknown.first() {
            None => Ok(()),
            Some(call) => Err(Error::refused(format!(
                "the session has no call `{call}`, so the tool of its result is not known; \
                 give the tool as \"name\" in the tool_result block"
            ))),
        }
    }
}

/// Adds the tools of calls that drafts answer and that the end of the log does not contain.
pub(super) fn load_answered_calls(
    root: &Root,
    tail: &mut AppendPoint,
    drafts: &[Draft],
) -> Result<()> {
    let unknown = calls_of_unknown_tools(&tail.state, drafts);
    if unknown.is_empty() || !annals_jsonl::exists(&tail.file.path)? {
        return Ok(());
    }
    let mut wanted = BTreeSet::new();
    let many = unknown.len() > SEARCHES;
    for call in unknown {
        if many || tail.file.may_have_call(root, &call)? {
            wanted.insert(call);
        }
    }
    if !wanted.is_empty() {
        let found = calls_in(root, &tail.file, &wanted)?;
        tail.state.open_calls.extend(found);
    }
    Ok(())
}

/// Returns the wanted calls in a log, with their tools.
fn calls_in(
    root: &Root,
    file: &RootFile,
    wanted: &BTreeSet<String>,
) -> Result<Vec<(String, String)>> {
    let keys: BTreeSet<EntryKey> = wanted
        .iter()
        .map(|call| EntryKey::from_text(call))
        .collect();
    let mut outlines: Decoded<Outline> = Decoded::default();
    let mut entries: Decoded<Entry> = Decoded::default();
    let mut found = Vec::new();
    for volume in file.volumes() {
        let mut decoder = root.decoder(volume);
        each_record(root, volume, |record| {
            outlines.flaws.clear();
            decoder.outline(record, &mut outlines);
            let mut made = outlines.items.drain(..);
            if !made.any(|outline| outline.calls().iter().any(|call| keys.contains(call))) {
                return Ok(true);
            }
            drop(made);
            entries.flaws.clear();
            decoder.decode(record, &mut entries);
            for entry in entries.items.drain(..) {
                let Body::Message(message) = entry.body else {
                    continue;
                };
                found.extend(message.blocks.into_iter().filter_map(|block| match block {
                    Block::ToolUse { id, name, .. } if wanted.contains(&id) => Some((id, name)),
                    _ => None,
                }));
            }
            Ok(true)
        })?;
    }
    Ok(found)
}
