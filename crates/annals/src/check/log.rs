//! How the entries of one log hang together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use jiff::SignedDuration;

use crate::error::{Error, Result};
use crate::jsonl;
use crate::layout::{Decoded, Record};
use crate::model::{Body, EntryKey, Fact, Flaw, FlawKind, KeyMap, KeySet, Link, Outline, Span};
use crate::store::{LogScan, Root, RootFile, scope, strip_line_ending};
use crate::tree::Tree;

use super::line::{LogTraces, RecordLocation, folded_key};
use super::{pluralize, resume};

/// Programs write lines a little out of order; clocks are set by more than this.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Checks a log of a conversation, and notes what the checks across files want to know of it.
pub(super) fn check(
    scan: &LogScan,
    flaws: &mut Vec<Flaw>,
    traces: &mut LogTraces<'_>,
) -> Result<()> {
    let file = traces.file;
    if !file.artifact.kind.is_conversation() {
        return Ok(());
    }
    let outlines = &scan.outlines;
    let (tree, parents) = Tree::build_with_parents(outlines, scope(&file.artifact));
    if traces.root.layout.follows_parent_links() && !file.artifact.is_agent_log() {
        flaws.extend(resume::unresumable(scan, &tree, &parents));
    }
    flaws.extend(unanswered(outlines, &tree));
    flaws.extend(out_of_order(outlines, &parents));
    flaws.extend(several_roots(outlines, &tree));
    flaws.extend(foreign_records(file, outlines));
    flaws.extend(link_flaws(traces, outlines, tree.flaws)?);
    collect_traces(outlines, traces);
    Ok(())
}

/// What the tree says of links and ids, told apart by what it means.
fn link_flaws(traces: &LogTraces<'_>, outlines: &[Outline], told: Vec<Flaw>) -> Result<Vec<Flaw>> {
    let (twins, mut flaws): (Vec<Flaw>, Vec<Flaw>) = told
        .into_iter()
        .partition(|flaw| flaw.kind == FlawKind::DuplicateId);
    for flaw in flaws
        .iter_mut()
        .filter(|flaw| flaw.kind == FlawKind::Orphan)
    {
        if let Some(Link::Continues(_)) = flawed_outline(outlines, flaw).map(|outline| outline.link)
        {
            flaw.kind = FlawKind::CutHistory;
            flaw.detail = "a compaction goes on from an entry that is not in this file".into();
        }
    }
    flaws.extend(duplicate_ids(traces, outlines, &twins)?);
    Ok(flaws)
}

/// The outline that a flaw is about.
fn flawed_outline<'a>(outlines: &'a [Outline], flaw: &Flaw) -> Option<&'a Outline> {
    let place = |outline: &Outline| (outline.volume, outline.span.offset);
    let found = outlines.binary_search_by_key(&(flaw.volume, flaw.span.offset), place);
    found.ok().and_then(|found| outlines.get(found))
}

/// Tells copies from entries that say something else under one id.
///
/// Where records are linked by ids, only the newest of an id is shown; elsewhere all are.
fn duplicate_ids(
    traces: &LogTraces<'_>,
    outlines: &[Outline],
    twins: &[Flaw],
) -> Result<Vec<Flaw>> {
    let key = |flaw: &Flaw| flawed_outline(outlines, flaw)?.key;
    let wanted: KeySet = twins.iter().filter_map(key).collect();
    let mut by_key: BTreeMap<[u64; 2], Vec<&Outline>> = BTreeMap::new();
    for outline in outlines.iter().filter(|_| !wanted.is_empty()) {
        if let Some(key) = outline.key.filter(|key| wanted.contains(key)) {
            by_key.entry(key.halves()).or_default().push(outline);
        }
    }
    let mut records = Records::new(traces);
    let mut flaws = Vec::new();
    for same in by_key.values() {
        for (one, next) in same.iter().zip(same.iter().skip(1)) {
            let repeated = next.facts.contains(&Fact::RepeatedId);
            let later = same.last().filter(|_| !repeated).unwrap_or(next);
            let line = one.span.line;
            let differs = format!("line {line} has the same id and says something else");
            let (kind, detail) = match (records.has_same_content(one, later)?, repeated) {
                (true, _) => (FlawKind::DuplicateId, format!("a copy of line {line}")),
                (false, true) => (
                    FlawKind::RepeatedId,
                    format!("{differs}; both are shown, each in its place"),
                ),
                (false, false) => (FlawKind::CollidingId, format!("{differs}; it is hidden")),
            };
            flaws.push(RecordLocation::new(later).flaw(kind, detail));
        }
    }
    Ok(flaws)
}

/// Reads single records of a log again.
struct Records<'a> {
    root: &'a Root,
    file: &'a RootFile,
    open: BTreeMap<u16, File>,
}

impl<'a> Records<'a> {
    fn new(traces: &LogTraces<'a>) -> Self {
        Records {
            root: traces.root,
            file: traces.file,
            open: BTreeMap::new(),
        }
    }

    /// Whether two records are copies, or differ only in what surrounds what they say.
    fn has_same_content(&mut self, one: &Outline, other: &Outline) -> Result<bool> {
        let (one, other) = (self.bytes(one)?, self.bytes(other)?);
        if one == other {
            return Ok(true);
        }
        Ok(match (self.body(&one), self.body(&other)) {
            (Some(Body::Message(one)), Some(Body::Message(other))) => {
                one.role == other.role && one.blocks == other.blocks
            }
            (one, other) => one == other,
        })
    }

    fn body(&self, bytes: &[u8]) -> Option<Body> {
        let record = Record {
            span: Span::default(),
            bytes,
            terminated: true,
            oversize: false,
        };
        let mut sink = Decoded::default();
        let mut decoder = self.root.decoder(self.file);
        decoder.decode(&record, &mut sink);
        sink.items.into_iter().next().map(|entry| entry.body)
    }

    fn bytes(&mut self, outline: &Outline) -> Result<Vec<u8>> {
        let path = &self.file.volume(outline.volume).path;
        let failed = |error| Error::io("read", path, error);
        let handle = match self.open.remove(&outline.volume) {
            Some(handle) => handle,
            None => jsonl::open_to_read(path).map_err(failed)?,
        };
        let span = outline.span;
        let bytes = jsonl::read_span(&handle, span.offset, span.len).map_err(failed)?;
        self.open.insert(outline.volume, handle);
        Ok(strip_line_ending(bytes, span))
    }
}

/// Calls without results after which the conversation went on, and results without calls.
fn unanswered(outlines: &[Outline], tree: &Tree) -> Vec<Flaw> {
    let mut open: KeyMap<usize> = KeyMap::default();
    let mut lone: Vec<(EntryKey, &Outline)> = Vec::new();
    for (at, outline) in outlines.iter().enumerate() {
        open.extend(outline.calls().iter().map(|call| (*call, at)));
        for call in &outline.results {
            // A result without an id may be of a call that has one.
            let unnamed = outline.facts.contains(&Fact::UnnamedAnswer(*call));
            if open.remove(call).is_none() && !unnamed {
                lone.push((*call, outline));
            }
        }
    }
    let mut flaws = Vec::new();
    // Lines are not in causal order, and either side may stand there twice.
    if !lone.is_empty() {
        let calls = outlines.iter().flat_map(Outline::calls);
        let calls: KeySet = calls.copied().collect();
        for (call, outline) in lone.into_iter().filter(|(call, _)| !calls.contains(call)) {
            let detail = "it answers a tool call that is not in this file";
            flaws.push(RecordLocation::new(outline).flaw(FlawKind::LoneResult, detail));
            open.remove(&call);
        }
    }
    open.retain(|_, at| tree.continues_after(*at));
    if !open.is_empty() {
        for call in outlines.iter().flat_map(|outline| &outline.results) {
            open.remove(call);
        }
    }
    let dangling: BTreeSet<usize> = open.into_values().collect();
    for outline in dangling.into_iter().filter_map(|at| outlines.get(at)) {
        let detail = "a tool call without a result, and yet the conversation went on";
        flaws.push(RecordLocation::new(outline).flaw(FlawKind::DanglingCall, detail));
    }
    flaws
}

/// Entries that are older than what they hang from; told once, at the first.
fn out_of_order(outlines: &[Outline], parents: &[Option<usize>]) -> Option<Flaw> {
    let early = |(outline, parent): (&'_ Outline, &Option<usize>)| {
        let before = outlines.get((*parent)?)?.time?;
        let by = before.duration_since(outline.time?);
        (by > SLACK).then_some(by)
    };
    let pairs = outlines.iter().zip(parents);
    let mut found = pairs.filter_map(|pair| Some((pair.0, early(pair)?)));
    let (first, by) = found.next()?;
    let detail = match found.count() {
        0 => format!("{by:#} older than what it hangs from"),
        more => format!("{by:#} older than what it hangs from, and {more} more like it"),
    };
    Some(RecordLocation::new(first).flaw(FlawKind::OutOfOrder, detail))
}

/// Conversations that begin anew within the log; told once, at the second beginning.
fn several_roots(outlines: &[Outline], tree: &Tree) -> Option<Flaw> {
    if tree.conversations.len() < 2 {
        return None;
    }
    // What hangs from nothing because its parent is lost is told as that.
    let of_itself = |at: usize| outlines.get(at).filter(|one| one.link == Link::None);
    let firsts: Vec<&Outline> = tree
        .first_entries()
        .into_iter()
        .filter_map(of_itself)
        .collect();
    let second = firsts.get(1)?;
    let detail = format!(
        "{} begin in this log",
        pluralize(firsts.len(), "conversation")
    );
    Some(RecordLocation::new(second).flaw(FlawKind::SeveralRoots, detail))
}

/// Records that name another session than the file does; told once, at the first.
fn foreign_records(file: &RootFile, outlines: &[Outline]) -> Option<Flaw> {
    // Where sessions share a log, that is how they are told apart.
    let own = file
        .artifact
        .session
        .as_ref()
        .filter(|_| file.slice.is_none())?;
    let mut first = None;
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for outline in outlines {
        for fact in &outline.facts {
            if let Fact::Session(name) = fact
                && **name != *own.as_str()
            {
                first.get_or_insert((outline, &**name));
                names.insert(name);
            }
        }
    }
    let (first, name) = first?;
    let detail = match names.len() {
        1 => format!("records of session {name}"),
        many => format!("records of session {name}, and of {} more", many - 1),
    };
    Some(RecordLocation::new(first).flaw(FlawKind::ForeignLines, detail))
}

/// Notes what the checks across files want to know.
fn collect_traces(outlines: &[Outline], traces: &mut LogTraces<'_>) {
    let layout = traces.root.layout;
    let folder = traces.file.artifact.folder.as_deref();
    traces.ids = outlines
        .iter()
        .filter_map(|one| one.key)
        .map(folded_key)
        .collect();
    for outline in outlines {
        for fact in &outline.facts {
            match fact {
                Fact::Summary(_, Some(leaf)) => {
                    traces.leaves.push((*leaf, RecordLocation::new(outline)))
                }
                Fact::Cwd(path)
                    if folder.is_some()
                        && !traces.directories.contains(&**path)
                        && layout.folder(path).as_deref() == folder =>
                {
                    traces.directories.insert(path.to_string());
                }
                _ => {}
            }
        }
    }
}
