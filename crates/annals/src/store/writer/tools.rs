//! The tools of results, in layouts whose records of results name the tool.
//!
//! The end of a log tells the calls that are open. A result may also answer a call that stands further
//! back, or one that was answered before: then the log is read for it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::layout::{Decoded, calls_of_unknown_tools};
use crate::model::{Block, Body, Draft, Entry, EntryKey, Outline};
use crate::store::Root;
use crate::store::append_point::AppendPoint;
use crate::store::inventory::RootFile;
use crate::store::log_reader::each_record;

use super::{SessionWriter, layout_writer};

/// The bytes of a log are searched for so many calls before it is read for all of them.
const SEARCHES: usize = 8;

impl SessionWriter {
    /// Refuses results whose tool nothing tells, in layouts whose records of results name the tool.
    pub fn check_tools(&self, drafts: &[Draft]) -> Result<()> {
        if !layout_writer(&self.root)?.results_name_tools() {
            return Ok(());
        }
        let mut tail = self.append_point();
        learn(&self.root, &mut tail, drafts)?;
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

/// Takes in the tools of the calls that drafts answer and that the end of the log does not tell.
pub(super) fn learn(root: &Root, tail: &mut AppendPoint, drafts: &[Draft]) -> Result<()> {
    let unknown = calls_of_unknown_tools(&tail.state, drafts);
    if unknown.is_empty() || !crate::jsonl::exists(&tail.file.path)? {
        return Ok(());
    }
    let mut wanted = BTreeSet::new();
    let many = unknown.len() > SEARCHES;
    for call in unknown {
        if many || tail.file.may_have_entry(root, &call)? {
            wanted.insert(call);
        }
    }
    if !wanted.is_empty() {
        let found = calls_in(root, &tail.file, &wanted)?;
        tail.state.open_calls.extend(found);
    }
    Ok(())
}

/// Those of the wanted calls that stand in a log, with their tools.
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
