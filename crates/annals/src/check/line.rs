//! Checks single lines and documents, and collects data for the checks across files.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::repair;
use crate::store::{LogScan, Root, RootFile, VolumeScan, outline_with};
use annals_jsonl as jsonl;
use annals_layouts::layout::{Decoded, Decoder, Record};
use annals_layouts::model::{
    ArtifactKind, Body, EntryKey, Fact, Flaw, FlawKind, HistoryBase, Outline, Span,
};

use super::{FileReport, log, pluralize, whole_file};

/// Data of one log for the checks across files.
#[derive(Debug)]
pub(super) struct LogTraces<'a> {
    pub(super) root: &'a Root,
    pub(super) file: &'a RootFile,
    /// The ids in it, folded to half their length: a false match only hides a note.
    pub(super) ids: Vec<u64>,
    /// Leaves that its summaries refer to.
    pub(super) leaves: Vec<(EntryKey, RecordLocation)>,
    /// Files of its session that it names, with their first location.
    pub(super) named: BTreeMap<(ArtifactKind, String), RecordLocation>,
    /// Working directories that map to its folder.
    pub(super) directories: BTreeSet<String>,
    /// What a fork by reference continues.
    pub(super) base: Option<(HistoryBase, RecordLocation)>,
    /// Number of lines that are not blank.
    pub(super) lines: u64,
}

/// Location of a record in a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordLocation {
    pub(super) span: Span,
    pub(super) volume: u16,
}

impl RecordLocation {
    pub(super) fn new(outline: &Outline) -> Self {
        RecordLocation {
            span: outline.span,
            volume: outline.volume,
        }
    }

    pub(super) fn flaw(self, kind: FlawKind, detail: impl Into<String>) -> Flaw {
        Flaw {
            kind,
            span: self.span,
            volume: self.volume,
            detail: detail.into(),
        }
    }
}

impl<'a> LogTraces<'a> {
    fn new(root: &'a Root, file: &'a RootFile) -> Self {
        LogTraces {
            root,
            file,
            ids: Vec::new(),
            leaves: Vec::new(),
            named: BTreeMap::new(),
            directories: BTreeSet::new(),
            base: None,
            lines: 0,
        }
    }
}

/// Folds an id to half its length.
pub(super) fn folded_key(key: EntryKey) -> u64 {
    let [high, low] = key.halves();
    // Consecutive ids may differ in one half only.
    high.rotate_left(32) ^ low
}

/// Reads and checks one file, or the volumes of one log.
pub(super) fn examine<'a>(
    root: &'a Root,
    file: &'a RootFile,
) -> Result<(Vec<FileReport>, LogTraces<'a>)> {
    let mut traces = LogTraces::new(root, file);
    let (mut flaws, volumes) = if file.artifact.kind.is_log() {
        let mut lines = LineChecker::new(root, file);
        let scan = outline_with(root, file, &mut |volume, record, outlines| {
            lines.check_record(volume, record, outlines);
        })?;
        let found = lines.finish();
        traces.named = found.named;
        traces.lines = scan.lines;
        let mut flaws = found.flaws;
        log::check(&scan, &mut flaws, &mut traces)?;
        flaws.extend(scan.flaws);
        flaws.extend(empty_file(file, &scan.volumes));
        (flaws, scan.volumes)
    } else {
        let scan = LogScan::read_document(root, file)?;
        let mut flaws = scan.flaws;
        flaws.extend(empty_file(file, &scan.volumes));
        (flaws, scan.volumes)
    };
    crate::sort::by_key(&mut flaws, |flaw| {
        (flaw.volume, flaw.span.offset, flaw.kind)
    });
    let left = unrepairable_kinds(root, file, &flaws);
    let volumes = file.volumes().zip(volumes).enumerate();
    let reports = volumes.map(|(number, (volume, counted))| FileReport {
        path: volume.path.clone(),
        read: true,
        lines: counted.lines,
        valid: counted.valid,
        bytes: counted.bytes,
        flaws: flaws
            .iter()
            .filter(|flaw| usize::from(flaw.volume) == number)
            .cloned()
            .collect(),
        unrepairable: left.clone(),
        framing: volume.artifact.framing,
    });
    Ok((reports.collect(), traces))
}

/// Returns the kinds that a repair fixes elsewhere but not in this file. A stale index is always
/// rebuilt, whatever else is wrong with it.
fn unrepairable_kinds(root: &Root, file: &RootFile, flaws: &[Flaw]) -> BTreeSet<FlawKind> {
    let kind = file.artifact.kind;
    let stays = |flaw: &&Flaw| match flaw.kind {
        FlawKind::StaleIndex => false,
        _ if root.layout.writer().is_none() => true,
        _ if !repair::is_repairable(&file.artifact) => true,
        FlawKind::BadHeader => !can_add_header(root, file, flaw),
        of_links if of_links.is_link_flaw() => !repair::can_relink(kind),
        _ => false,
    };
    let fixable = flaws.iter().filter(|flaw| flaw.kind.fixable());
    fixable.filter(stays).map(|flaw| flaw.kind).collect()
}

/// Returns whether a repair adds a header before the first line. An existing header is never
/// changed.
fn can_add_header(root: &Root, file: &RootFile, flaw: &Flaw) -> bool {
    let volume = file.volume(flaw.volume);
    let line = root.failures.ok(volume.open()).and_then(|handle| {
        let span = flaw.span;
        let line = jsonl::read_span(&handle, span.offset, span.len);
        root.failures.ok_io(&volume.path, line)
    });
    let header = line.and_then(|line| {
        let line = line.trim_ascii().to_vec();
        root.layout
            .repair_rules()
            .missing_header(&volume.artifact, &[line])
    });
    header.is_some()
}

/// Reports a file without content. Shared logs, and files of notes, history and origins, may start
/// empty.
fn empty_file(file: &RootFile, volumes: &[VolumeScan]) -> Option<Flaw> {
    let begins_so = matches!(
        file.artifact.kind,
        ArtifactKind::SharedLog
            | ArtifactKind::Notes
            | ArtifactKind::History
            | ArtifactKind::Origin
    );
    let nothing = volumes.iter().all(|volume| volume.lines == 0);
    let detail = match file.id.len {
        0 => "no bytes".to_owned(),
        bytes => format!("{bytes} bytes of blank lines"),
    };
    (nothing && !begins_so).then(|| whole_file(FlawKind::EmptyFile, detail))
}

/// Checks the records of a log while they are read.
struct LineChecker<'a> {
    root: &'a Root,
    file: &'a RootFile,
    decoder: Option<Box<dyn Decoder>>,
    /// The log's first record.
    first: Option<String>,
    /// Number of records that the layout's own program would not read.
    faults: usize,
    /// The first of these beyond the limit, and its kind.
    unnamed: Option<(FlawKind, RecordLocation)>,
    /// For each volume: the number of lines that end with CR LF, and the first of them.
    endings: BTreeMap<u16, (usize, Span)>,
    found: LineFindings,
}

#[derive(Default)]
struct LineFindings {
    flaws: Vec<Flaw>,
    named: BTreeMap<(ArtifactKind, String), RecordLocation>,
}

impl<'a> LineChecker<'a> {
    /// Maximum number of such records reported one by one.
    const NAMED: usize = 20;

    fn new(root: &'a Root, file: &'a RootFile) -> Self {
        LineChecker {
            root,
            file,
            decoder: None,
            first: None,
            faults: 0,
            unnamed: None,
            endings: BTreeMap::new(),
            found: LineFindings::default(),
        }
    }

    fn check_record(&mut self, volume: u16, record: &Record<'_>, outlines: &[Outline]) {
        self.check_bytes(volume, record);
        self.check_faults(volume, record);
        for outline in outlines {
            let place = RecordLocation {
                span: outline.span,
                volume,
            };
            for fact in &outline.facts {
                match fact {
                    Fact::Untyped => {
                        let detail = "no string member `type`";
                        self.found.flaws.push(place.flaw(FlawKind::NoType, detail));
                    }
                    Fact::NoId => {
                        let detail = "message without a string member `uuid`";
                        self.found.flaws.push(place.flaw(FlawKind::NoId, detail));
                    }
                    Fact::NoCall => {
                        let detail = "tool result without the id of its call";
                        let flaw = place.flaw(FlawKind::LoneResult, detail);
                        self.found.flaws.push(flaw);
                    }
                    Fact::UnknownType(kind) => {
                        let detail = format!("type `{kind}` is unknown to its program");
                        let flaw = place.flaw(FlawKind::UnknownType, detail);
                        self.found.flaws.push(flaw);
                    }
                    Fact::StoredOutput(name) => {
                        self.found.add_name(ArtifactKind::ToolResult, name, place)
                    }
                    Fact::Files => self.collect_file_names(record, place),
                    _ => {}
                }
            }
        }
    }

    fn check_bytes(&mut self, volume: u16, record: &Record<'_>) {
        if record.oversize {
            return;
        }
        // The span includes the line ending and the byte order mark, the bytes do not.
        let mut beyond = record.span.len.saturating_sub(record.bytes.len() as u64);
        if record.span.offset == 0 && beyond >= 3 {
            beyond -= 3;
            let place = RecordLocation {
                span: record.span,
                volume,
            };
            let detail = "the file begins with a byte order mark";
            self.found.flaws.push(place.flaw(FlawKind::Bom, detail));
        }
        if beyond == 2 {
            let (lines, _) = self.endings.entry(volume).or_insert((0, record.span));
            *lines += 1;
        }
    }

    /// Records why the layout's own program would not read a record. A line that is no record is
    /// reported separately.
    fn check_faults(&mut self, volume: u16, record: &Record<'_>) {
        if !self.file.artifact.kind.is_conversation() || record.oversize {
            return;
        }
        let Ok(text) = std::str::from_utf8(record.bytes) else {
            return;
        };
        let text = text.trim();
        let is_object = |text: &str| {
            let parsed = serde_json::from_str::<&serde_json::value::RawValue>(text);
            text.starts_with('{') && parsed.is_ok()
        };
        if !is_object(text) {
            return;
        }
        let first = self.first.get_or_insert_with(|| text.to_owned());
        let artifact = &self.file.volume(volume).artifact;
        let Some((kind, why)) = self.root.layout.record_fault(artifact, first, text) else {
            return;
        };
        let place = RecordLocation {
            span: record.span,
            volume,
        };
        self.faults += 1;
        match self.faults <= Self::NAMED {
            true => self.found.flaws.push(place.flaw(kind, why)),
            false => _ = self.unnamed.get_or_insert((kind, place)),
        }
    }

    /// Records the file versions that a record refers to. Few records do, so decoding them is
    /// cheap.
    fn collect_file_names(&mut self, record: &Record<'_>, place: RecordLocation) {
        let decoder = self
            .decoder
            .get_or_insert_with(|| self.root.decoder(self.file));
        let mut sink = Decoded::default();
        decoder.decode(record, &mut sink);
        for entry in sink.items {
            if let Body::Files(change) = entry.body {
                for name in change
                    .backups
                    .into_iter()
                    .filter_map(|backup| backup.stored)
                {
                    self.found.add_name(ArtifactKind::FileVersion, &name, place);
                }
            }
        }
    }

    fn finish(mut self) -> LineFindings {
        if let Some((kind, place)) = self.unnamed {
            let more = self.faults - Self::NAMED;
            let detail = format!("{} like those above", pluralize(more, "more record"));
            self.found.flaws.push(place.flaw(kind, detail));
        }
        for (volume, (lines, span)) in self.endings {
            let detail = format!("CR LF line endings in {}", pluralize(lines, "line"));
            let place = RecordLocation { span, volume };
            self.found.flaws.push(place.flaw(FlawKind::Crlf, detail));
        }
        self.found
    }
}

impl LineFindings {
    fn add_name(&mut self, kind: ArtifactKind, name: &str, place: RecordLocation) {
        let key = (kind, name.to_owned());
        self.named.entry(key).or_insert(place);
    }
}
