//! Checks the links between the entries of one log.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use crate::error::{Error, Result};
use crate::store::{LogScan, Root, RootFile, scope, strip_line_ending};
use annals_jsonl::{self as jsonl, OpenLog};
use annals_layouts::layout::{Decoded, Record};
use annals_layouts::model::{
    Body, EntryKey, Fact, Flaw, FlawKind, KeyMap, KeySet, Link, Outline, Span,
};
use annals_layouts::tree::Tree;

use super::line::{LogTraces, RecordLocation, folded_key};
use super::{pluralize, resume};

/// Tolerance for times out of order: programs write lines slightly out of order, but clock changes
/// are larger.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Checks the log of a conversation, and collects data for the checks across files.
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
    let layout = traces.root.layout.spec();
    if layout.follows_parent_links && !file.artifact.is_agent_log() {
        flaws.extend(resume::unresumable(
            scan,
            &tree,
            &parents,
            layout.older_client,
        ));
    }
    flaws.extend(unanswered(outlines, &tree));
    flaws.extend(out_of_order(outlines, &parents));
    flaws.extend(several_roots(outlines, &tree));
    flaws.extend(foreign_records(file, outlines));
    flaws.extend(link_flaws(traces, outlines, tree.flaws)?);
    collect_traces(outlines, traces);
    Ok(())
}

/// Classifies the link and id flaws of the tree.
fn link_flaws(
    traces: &LogTraces<'_>,
    outlines: &[Outline],
    tree_flaws: Vec<Flaw>,
) -> Result<Vec<Flaw>> {
    let (twins, mut flaws): (Vec<Flaw>, Vec<Flaw>) = tree_flaws
        .into_iter()
        .partition(|flaw| flaw.kind == FlawKind::DuplicateId);
    for flaw in flaws
        .iter_mut()
        .filter(|flaw| flaw.kind == FlawKind::Orphan)
    {
        if let Some(Link::Continues(_)) = flawed_outline(outlines, flaw).map(|outline| outline.link)
        {
            flaw.kind = FlawKind::CutHistory;
            flaw.detail = "a compaction continues from an entry that is not in this file".into();
        }
    }
    flaws.extend(duplicate_ids(traces, outlines, &twins)?);
    Ok(flaws)
}

/// Returns the outline that a flaw refers to.
fn flawed_outline<'a>(outlines: &'a [Outline], flaw: &Flaw) -> Option<&'a Outline> {
    let place = |outline: &Outline| (outline.volume, outline.span.offset);
    let found = outlines.binary_search_by_key(&(flaw.volume, flaw.span.offset), place);
    found.ok().and_then(|found| outlines.get(found))
}

/// Distinguishes copies from entries with the same id but different content.
///
/// In layouts that link records by id, only the newest entry of an id is shown; in others, all are.
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
            let differs = format!("line {line} has the same id but different content");
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
    open: BTreeMap<u16, OpenLog>,
}

impl<'a> Records<'a> {
    fn new(traces: &LogTraces<'a>) -> Self {
        Records {
            root: traces.root,
            file: traces.file,
            open: BTreeMap::new(),
        }
    }

    /// Returns whether two records are copies, or differ only outside their content.
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
        let volume = self.file.volume(outline.volume);
        let failed = |error| Error::io("read", &volume.path, error);
        let handle = match self.open.remove(&outline.volume) {
            Some(handle) => handle,
            None => volume.open()?,
        };
        let span = outline.span;
        let bytes = jsonl::read_span(&handle, span.offset, span.len).map_err(failed)?;
        self.open.insert(outline.volume, handle);
        Ok(strip_line_ending(bytes, span))
    }
}

/// Reports tool calls without a result after which the conversation continues, and results without
/// a call.
fn unanswered(outlines: &[Outline], tree: &Tree) -> Vec<Flaw> {
    let mut open: KeyMap<usize> = KeyMap::default();
    let mut lone: Vec<(EntryKey, &Outline)> = Vec::new();
    for (at, outline) in outlines.iter().enumerate() {
        open.extend(outline.calls().iter().map(|call| (*call, at)));
        for call in &outline.results {
            // A result without an id may belong to a call that has one.
            let unnamed = outline.facts.contains(&Fact::UnnamedAnswer(*call));
            if open.remove(call).is_none() && !unnamed {
                lone.push((*call, outline));
            }
        }
    }
    let mut flaws = Vec::new();
    // Lines are not in causal order, and both calls and results may be repeated.
    if !lone.is_empty() {
        let calls = outlines.iter().flat_map(Outline::calls);
        let calls: KeySet = calls.copied().collect();
        for (call, outline) in lone.into_iter().filter(|(call, _)| !calls.contains(call)) {
            let detail = "result of a tool call that is not in this file";
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
        let detail = "tool call without a result, though the conversation continues";
        flaws.push(RecordLocation::new(outline).flaw(FlawKind::DanglingCall, detail));
    }
    flaws
}

/// Reports entries that are older than their parent, once, at the first.
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
        0 => format!("{by:#} older than its parent"),
        more => format!("{by:#} older than its parent, and {more} more like it"),
    };
    Some(RecordLocation::new(first).flaw(FlawKind::OutOfOrder, detail))
}

/// Reports several conversations that start in one log, once, at the second start.
fn several_roots(outlines: &[Outline], tree: &Tree) -> Option<Flaw> {
    if tree.conversations.len() < 2 {
        return None;
    }
    // An entry without a parent because its parent is lost is reported separately.
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

/// Reports records that name another session than the file does, once, at the first.
fn foreign_records(file: &RootFile, outlines: &[Outline]) -> Option<Flaw> {
    // In a log shared by sessions, the name is what distinguishes them.
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

/// Collects data for the checks across files.
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
                // Earlier volumes are the beginnings of parents, which continue others.
                Fact::HistoryBase(base)
                    if usize::from(outline.volume) == traces.file.earlier.len() =>
                {
                    traces.base = Some(((**base).clone(), RecordLocation::new(outline)));
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
