//! The tools of results, in layouts whose records of results name the tool.
//!
//! The end of a log tells the calls that are open. A result may also answer a call that stands further
//! back, or one that was answered before: then the log is read for it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::layout::{Sink, calls_of_unknown_tools};
use crate::model::{Block, Body, Draft, Entry, Key, Outline};
use crate::store::Root;
use crate::store::inventory::FoundFile;
use crate::store::log::each_record;
use crate::store::tail::Tail;

use super::{SessionWriter, writer_of};

/// The bytes of a log are searched for so many calls before it is read for all of them.
const SEARCHES: usize = 8;

impl SessionWriter {
    /// Refuses results whose tool nothing tells, in layouts whose records of results name the tool.
    pub fn check_tools(&self, drafts: &[Draft]) -> Result<()> {
        if !writer_of(&self.root)?.results_name_tools() {
            return Ok(());
        }
        let mut tail = self.tail();
        learn(&self.root, &mut tail, drafts)?;
        let unknown = calls_of_unknown_tools(&tail.head, drafts);
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
pub(super) fn learn(root: &Root, tail: &mut Tail, drafts: &[Draft]) -> Result<()> {
    let unknown = calls_of_unknown_tools(&tail.head, drafts);
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
        tail.head.calls.extend(found);
    }
    Ok(())
}

/// Those of the wanted calls that stand in a log, with their tools.
fn calls_in(
    root: &Root,
    file: &FoundFile,
    wanted: &BTreeSet<String>,
) -> Result<Vec<(String, String)>> {
    let keys: BTreeSet<Key> = wanted.iter().map(|call| Key::of(call)).collect();
    let mut outlines: Sink<Outline> = Sink::default();
    let mut entries: Sink<Entry> = Sink::default();
    let mut found = Vec::new();
    for volume in file.volumes() {
        let mut decoder = root.decoder(volume);
        each_record(root, volume, |record| {
            outlines.flaws.clear();
            decoder.outline(record, &mut outlines);
            let mut made = outlines.found.drain(..);
            if !made.any(|outline| outline.calls().iter().any(|call| keys.contains(call))) {
                return Ok(true);
            }
            drop(made);
            entries.flaws.clear();
            decoder.decode(record, &mut entries);
            for entry in entries.found.drain(..) {
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
