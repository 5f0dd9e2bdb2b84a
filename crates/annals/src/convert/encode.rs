//! Encodes the entries of a session as lines of another layout.
//!
//! Each entry of the source is decoded and passed to the target's own `Writer::plan`, with an
//! append state as if it were the next entry, so no layout depends on another. The parent of an
//! entry is its nearest ancestor that the target can represent. Ids that the target's program would
//! reject are replaced with ids that depend only on them (`Writer::valid_id`).

mod agent;
mod entry;
mod exported_records;
mod output;
mod session_data;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::Result;
use crate::store::{
    CallPairing, Root, RootFile, Session, folder_for_directory, header_fields, is_summary,
    list_row_from_log,
};
use annals_jsonl as jsonl;
use annals_layouts::json;
use annals_layouts::layout::{
    AppendState, Change, Decoded, Edit, EditPlan, NewSession, OpenReply, PlanContext, RowUpdate,
    Writer, is_model,
};
use annals_layouts::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, Entry, EntryId, EntryKey, Framing, Link,
    Outline, OutlineKind, SessionId, TitleSource, Usage,
};
use annals_layouts::tree::Tree;

use self::agent::agent_purpose;
use self::exported_records::{ExportedRecords, is_from_layout};

use super::links::Links;
use super::origin::{self, GENERATED, Header, MAX_INLINE, SourcePosition, have_same_sizes};
use super::other_files::{to_json, write_whole_file};
use super::restore_filter::RestoreFilter;
use super::source::{SOURCE_CHANGED, SourceLine, each_line, source_files};
use super::summary::{MEMBER_PREFIX, artifact_label, lost_members};
use super::{Counts, SessionOutcome, TargetIds, later_changes, restore};
use crate::store::staging::{StagedFile, StagingDir};

/// Member with the channel by which a message came in.
const CHANNEL: &str = "channel";

/// Target of a conversion.
pub(super) struct Target<'a> {
    pub(super) root: &'a Root,
    pub(super) writer: &'static dyn Writer,
    pub(super) zone: &'a TimeZone,
    pub(super) stage: &'a StagingDir,
    /// Whether origins are stored.
    pub(super) origin: bool,
    /// Number of records of each session that are already in each shared log.
    pub(super) existing_records: &'a HashMap<(PathBuf, SessionId), usize>,
    /// Session ids in the target.
    pub(super) ids: &'a TargetIds,
    /// Selects the files that origins may restore.
    pub(super) restore_filter: RestoreFilter<'a>,
    /// Whether the target may have other sessions. Then the files of a session are not renamed into
    /// place, but returned.
    pub(super) merge: bool,
}

/// The part of a session to convert.
pub(super) enum SessionPart<'a> {
    /// Everything.
    Whole,
    /// Entries of the main log on one path, by outline index.
    Path(&'a HashSet<usize>),
}

/// Converts a session.
pub(super) fn session(
    target: &Target<'_>,
    session: &Session,
    part: &SessionPart<'_>,
) -> Result<SessionOutcome> {
    let work = SessionEncoder::begin(target, session, part)?;
    if target.merge {
        return work.convert();
    }
    if !work.shared && jsonl::exists(&target.root.path.join(&work.main))? {
        return work.already_converted();
    }
    if work.shared
        && let Some(why) = work.difference()?
    {
        return Ok(SessionOutcome {
            already_converted: true,
            difference: Some(why),
            ..SessionOutcome::default()
        });
    }
    work.convert()
}

/// A log of the target that is being written.
struct TargetLog {
    head: AppendState,
    /// The log has a row in a session list.
    listed: bool,
    /// Tokens of a response that are not yet in an entry of the target.
    pending_usage: Option<(String, Usage)>,
    /// The last entry that a reader takes as the previous one: of the main conversation, and of
    /// each sidechain by its agent.
    last: HashMap<Option<Option<AgentId>>, EntryId>,
    /// The reply that the next entry may continue.
    reply: OpenReply,
    /// The entries that are resumed, by outline index, in layouts without branches.
    resumed: Option<HashSet<usize>>,
    /// Replies in several entries, in layouts with one record for a reply.
    replies: SplitReplies,
    /// The parent of what follows a compaction, by the ids of the compaction and of its summary.
    repeats: HashMap<EntryId, EntryId>,
}

/// Replies in several entries, by outline index.
#[derive(Default)]
struct SplitReplies {
    /// Blocks of the later entries, by the first one.
    rest: HashMap<usize, Vec<Block>>,
    /// The later entries.
    later: HashSet<usize>,
}

impl TargetLog {
    /// Returns whether the entry with an outline index is not resumed, in layouts without branches.
    fn is_aside(&self, at: Option<usize>) -> bool {
        let resumed = self.resumed.as_ref();
        resumed.is_some_and(|resumed| !at.is_some_and(|at| resumed.contains(&at)))
    }

    /// Saves the tokens of a part of a reply that the target cannot represent.
    fn save_usage(&mut self, change: &Change) {
        if let Change::Append(drafts) = change
            && let Some(Body::Message(message)) = drafts.first().map(|draft| &draft.body)
            && let (Some(response), Some(usage)) = (&message.response, message.usage)
        {
            self.pending_usage = Some((response.clone(), usage));
        }
    }

    /// Adds the saved tokens to the next part of the same reply.
    fn apply_usage(&mut self, body: &mut Body) {
        if let Body::Message(message) = body
            && let Some((response, usage)) = &self.pending_usage
            && message.response.as_ref() == Some(response)
        {
            message.usage.get_or_insert_default().keep_larger(usage);
            self.pending_usage = None;
        }
    }
}

struct SessionEncoder<'a> {
    target: &'a Target<'a>,
    session: &'a Session,
    part: &'a SessionPart<'a>,
    head: AppendState,
    /// Path of the main log within the target.
    main: PathBuf,
    shared: bool,
    started: Timestamp,
    origin: Option<StagedFile>,
    out: BTreeMap<PathBuf, OutputLog>,
    /// Documents of single values, which are written at the end.
    scalars: BTreeMap<PathBuf, Vec<u8>>,
    made_ids: u64,
    counts: Counts,
    title: Option<String>,
    /// Session list update of each log.
    rows: HashMap<Artifact, RowUpdate>,
    /// Number of sub-agents.
    agents: u64,
    /// First lines of logs, which are written unless the first record of the log is written as it was
    /// in a log of the target's layout.
    first_lines: HashMap<PathBuf, Vec<Vec<u8>>>,
    /// Whether the current record is written as it was, so that nothing of it is lost.
    keeps_record: bool,
    /// Ids of the entries of the main log in the target, by outline index.
    written: HashMap<usize, EntryId>,
    /// The last line of the main log in the target.
    last_line: Option<EntryId>,
}

enum OutputLog {
    File(StagedFile),
    /// Lines for a log shared with other sessions.
    Shared(Vec<Vec<u8>>),
}

impl<'a> SessionEncoder<'a> {
    fn begin(
        target: &'a Target<'a>,
        session: &'a Session,
        part: &'a SessionPart<'a>,
    ) -> Result<Self> {
        let info = session.info(None);
        let started = info.started.or(info.updated).unwrap_or_default();
        // If no entry records the directory, only the folder's name is known, which is not a path.
        let path = &info.project.path;
        let whole = path.starts_with('/') || path.contains(":\\");
        let cwd = match whole && !info.project.guessed {
            true => path.clone(),
            false => format!("/{}", path.trim_start_matches('/')),
        };
        let id = target.ids.target_id(&session.files);
        let mut new = NewSession::new(SessionId::new(&target.writer.valid_id(&id))?, cwd.clone());
        new.git_branch = git_branch(session);
        if target.merge {
            new.folder = folder_for_directory(target.root, target.writer, &cwd);
            let channel = info.attributes.get(CHANNEL);
            let channel = channel.filter(|_| target.writer.session_members().contains(&CHANNEL));
            new.members
                .extend(channel.map(|channel| (CHANNEL.to_owned(), json::quote(channel))));
        }
        let title = session.title();
        let title = title.filter(|title| title.source == TitleSource::Custom);
        let title = title.filter(|_| target.writer.title_in_header());
        new.title = title.map(|title| title.text);
        let mut work = SessionEncoder {
            target,
            session,
            part,
            head: AppendState::new(new.id.clone(), Artifact::new(ArtifactKind::SessionLog)),
            main: PathBuf::new(),
            shared: false,
            started,
            origin: None,
            out: BTreeMap::new(),
            scalars: BTreeMap::new(),
            made_ids: 0,
            counts: Counts::default(),
            title: None,
            rows: HashMap::new(),
            agents: 0,
            first_lines: HashMap::new(),
            keeps_record: false,
            written: HashMap::new(),
            last_line: None,
        };
        // In its own layout, a session keeps any id that a log can have.
        let mut own = new.clone();
        own.id = SessionId::new(&id)?;
        let mut artifact = None;
        if is_from_layout(target, session) {
            let log =
                work.with_context(started, |stamp| target.writer.new_session_log(&own, stamp));
            artifact = log.ok().filter(|log| target.root.locate(log).is_ok());
        }
        let artifact = match artifact {
            Some(artifact) => {
                new = own;
                artifact
            }
            None => {
                work.with_context(started, |stamp| target.writer.new_session_log(&new, stamp))?
            }
        };
        target.root.locate(&artifact)?;
        work.shared = artifact.kind == ArtifactKind::SharedLog;
        work.main = target.root.layout.path_for(&artifact);
        let id = match &artifact.session {
            Some(id) if !work.shared => id.clone(),
            _ => new.id.clone(),
        };
        let title = new.title.clone();
        let title = title.map(|title| (AppendState::TITLE.to_owned(), title));
        work.head = AppendState {
            writer_state: match target.merge {
                true => header_fields(&new),
                false => title.into_iter().collect(),
            },
            cwd: Some(cwd),
            git_branch: new.git_branch,
            ..AppendState::new(id, artifact)
        };
        Ok(work)
    }

    fn convert(mut self) -> Result<SessionOutcome> {
        self.begin_files()?;
        self.convert_logs()?;
        self.remarks()?;
        self.titles()?;
        self.todos()?;
        self.documents()?;
        self.return_to_leaf()?;
        self.finish()
    }

    /// Returns the outcome of a session that an earlier run has converted.
    fn already_converted(self) -> Result<SessionOutcome> {
        let target = self.target;
        let mut logs = vec![(self.head.log.clone(), None)];
        for (at, file) in self.session.files.logs().enumerate() {
            if let Some(agent) = &file.artifact.agent {
                let log = target.writer.new_agent_log(&self.head, agent)?;
                logs.push((log, self.agent_of(at).and_then(agent_purpose)));
            }
        }
        let mut rows = Vec::new();
        for (log, purpose) in logs {
            if target.writer.session_list(&log).is_some() {
                let row = list_row_from_log(target.root, &log)?;
                rows.extend(row.map(|row| RowUpdate { purpose, ..row }));
            }
        }
        let title = self.session.title();
        let given = title.filter(|title| title.source == TitleSource::Custom);
        for row in &mut rows {
            row.cwd.clone_from(&self.head.cwd);
            row.git_branch.clone_from(&self.head.git_branch);
            if row.log.as_ref() == Some(&self.head.log) {
                // It may have got another title since its log was written.
                row.first_title = given.as_ref().map(|title| title.text.clone());
            }
        }
        Ok(SessionOutcome {
            difference: self.difference()?,
            id: Some(self.head.session),
            already_converted: true,
            rows,
            ..SessionOutcome::default()
        })
    }

    /// Runs `work` with ids that are the same whenever the same session is converted.
    fn with_context<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&mut PlanContext<'_>) -> T,
    ) -> T {
        let session = &self.session.files.id;
        let count = &mut self.made_ids;
        let mut fresh = || {
            *count += 1;
            EntryKey::from_pair(session.as_str(), &count.to_string()).derived_uuid()
        };
        work(&mut PlanContext {
            now,
            limit: None,
            zone: self.target.zone.clone(),
            new_id: &mut fresh,
        })
    }

    fn plan(&mut self, head: &AppendState, change: &Change, now: Timestamp) -> Result<EditPlan> {
        let writer = self.target.writer;
        Ok(self.with_context(now, |stamp| writer.plan(head, change, stamp))?)
    }

    /// Creates the origin file and the logs.
    fn begin_files(&mut self) -> Result<()> {
        let listed = source_files(&self.session.files)?;
        if self.target.origin {
            let layout = self.session.root().layout.name();
            let id = self.session.files.id.as_str();
            let mut header = Header::new(layout, Some(id), listed);
            header.partial = matches!(self.part, SessionPart::Path(_));
            header.todos = later_changes::todos_digest(self.session)?;
            header.listed_title = self.session.listed_title();
            let place = self.origin_path();
            let mut staged = self.target.stage.file(&place)?;
            staged.put_line(&to_json(&header)?)?;
            self.origin = Some(staged);
        }
        let head = self.head.clone();
        let begin = self.plan(&head, &Change::Begin, self.started)?;
        self.head.writer_state.extend(begin.writer_state);
        let layout = self.target.root.layout;
        for edit in &begin.edits {
            if let Edit::Append { path, .. } = edit {
                let made = layout.classify(path).filter(|made| *made != self.head.log);
                self.head.attachments.extend(made);
            }
        }
        self.write_first_lines(begin.edits)?;
        // A session without any lines still gets a main log.
        let main = self.main.clone();
        self.output(&main)?;
        Ok(())
    }

    /// Returns the path of the origin file.
    fn origin_path(&self) -> PathBuf {
        self.target.root.layout.path_for(&Artifact {
            folder: self.head.log.folder.clone(),
            session: Some(self.head.session.clone()),
            ..Artifact::new(ArtifactKind::Origin)
        })
    }

    /// Returns why an earlier conversion of the session differs from what this run would write.
    fn difference(&self) -> Result<Option<&'static str>> {
        let path = self.target.root.path.join(self.origin_path());
        let found = jsonl::metadata_if_exists(&path)?;
        if !found.is_some_and(|it| it.is_file()) {
            return Ok(match self.target.origin && !self.shared {
                true => Some("converted without its origin"),
                false => None,
            });
        }
        let header = restore::read_header(&path)?;
        if header.partial != matches!(self.part, SessionPart::Path(_)) {
            return Ok(Some("a different part was converted"));
        }
        let same = have_same_sizes(&header.files, &source_files(&self.session.files)?);
        Ok((!same).then_some(SOURCE_CHANGED))
    }

    /// Ends the main log with a line of the conversation that is resumed, in layouts whose program
    /// resumes at the last line.
    fn return_to_leaf(&mut self) -> Result<()> {
        if !self.target.writer.resumes_at_last_line() {
            return Ok(());
        }
        let path = match self.part {
            SessionPart::Path(path) => {
                let mut path: Vec<usize> = path.iter().copied().collect();
                path.sort_unstable();
                Some(path)
            }
            SessionPart::Whole => self.session.tree().and_then(Tree::resumed_path),
        };
        let mut path = path.unwrap_or_default().into_iter().rev();
        let leaf = path.find_map(|at| self.written.get(&at).cloned());
        let Some(leaf) = leaf.filter(|leaf| self.last_line.as_ref() != Some(leaf)) else {
            return Ok(());
        };
        let now = self.head.time.unwrap_or(self.started);
        let draft = Draft::new(Body::Resume { leaf }).with_time(now);
        let head = self.head.clone();
        let plan = self.plan(&head, &Change::Append(vec![draft]), now)?;
        self.write_edits(plan.edits, GENERATED)
    }

    fn convert_logs(&mut self) -> Result<()> {
        let session = self.session;
        let mut number = 0;
        for (at, file) in session.files.logs().enumerate() {
            let mut pen = TargetLog {
                head: self.head.clone(),
                listed: self.target.writer.session_list(&self.head.log).is_some(),
                last: HashMap::new(),
                reply: OpenReply::default(),
                pending_usage: None,
                resumed: self.resumed_entries(at),
                replies: self.split_replies(at)?,
                repeats: HashMap::new(),
            };
            if file.artifact.is_agent_log() {
                if !self.wants_agent(at) {
                    number += file.volumes().count();
                    continue;
                }
                pen.head = self.agent_head(at, file)?;
                self.agents += 1;
            }
            let scan = session.logs.get(at);
            let outlines = scan.map_or(&[][..], |scan| &scan.outlines);
            let links = Links::new(outlines);
            pen.head.model = first_model(outlines);
            for (volume, one) in file.volumes().enumerate() {
                self.convert_log(one, number, volume, at, &mut pen, &links)?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Returns the entries of a log that are resumed, if the target has no branches.
    fn resumed_entries(&self, log: usize) -> Option<HashSet<usize>> {
        if !self.target.writer.is_linear() {
            return None;
        }
        let whole = || self.session.trees.get(log)?.resumed_path();
        match self.part {
            SessionPart::Path(path) if log == 0 => Some((*path).clone()),
            _ => whole().map(|path| path.into_iter().collect()),
        }
    }

    /// Finds the replies of a log that are in several entries and have calls.
    fn split_replies(&self, log: usize) -> Result<SplitReplies> {
        let mut replies = SplitReplies::default();
        let Some(scan) = self.session.logs.get(log) else {
            return Ok(replies);
        };
        if !self.target.writer.has_whole_replies() {
            return Ok(replies);
        }
        let mut run: Vec<usize> = Vec::new();
        let mut runs = Vec::new();
        for (at, outline) in scan.outlines.iter().enumerate() {
            let last = run.last().and_then(|&at| scan.outlines.get(at));
            let follows = last.is_some_and(|last| {
                let key = last.key.map(Link::Parent);
                Some(outline.link) == key && last.sidechain == outline.sidechain
            });
            match outline.kind {
                OutlineKind::Assistant if follows => run.push(at),
                OutlineKind::Assistant => runs.push(std::mem::replace(&mut run, vec![at])),
                OutlineKind::Other => {}
                _ => runs.push(std::mem::take(&mut run)),
            }
        }
        runs.push(run);
        let has_call = |at: &usize| {
            let outline = scan.outlines.get(*at);
            outline.is_some_and(|outline| !outline.calls().is_empty())
        };
        runs.retain(|run| run.len() > 1 && run.iter().any(has_call));
        for run in runs {
            let Some((first, later)) = run.split_first() else {
                continue;
            };
            let mut rest = Vec::new();
            self.session.each_entry_of_log(log, later, |entry| {
                if let Body::Message(message) = entry.body
                    && !message.api_error
                {
                    rest.extend(message.blocks);
                }
                Ok(true)
            })?;
            replies.rest.insert(*first, rest);
            replies.later.extend(later);
        }
        Ok(replies)
    }

    /// Converts the lines of one volume.
    fn convert_log(
        &mut self,
        file: &RootFile,
        number: usize,
        volume: usize,
        log: usize,
        pen: &mut TargetLog,
        links: &Links<'_>,
    ) -> Result<()> {
        let root = &self.session.files.root;
        let layout = root.layout;
        let mut decoder = root.decoder(file);
        let mut refused = HashSet::new();
        let mut pairing = CallPairing::default();
        // The lines of a document are not its bytes, which are stored whole.
        let is_document =
            matches!(file.artifact.framing, Framing::Document(format) if !format.keeps_lines);
        if let Some(beside) = self.origin.as_mut().filter(|_| is_document) {
            write_whole_file(beside, &file.path, number)?;
        }
        let mut records = ExportedRecords::new(self.target, self.session, &pen.head);
        let partial = match self.part {
            SessionPart::Path(path) if log == 0 => Some(*path),
            _ => None,
        };
        each_line(file, |line| {
            let record = line.record();
            let spot = SourcePosition {
                file: number,
                line: line.number,
            };
            let mut sink = Decoded::default();
            decoder.decode(&record, &mut sink);
            let sound = sink.flaws.is_empty();
            let exported = records
                .as_mut()
                .map(|records| records.read(&record, &sink.items));
            let exported = exported.unwrap_or_default();
            self.keeps_record = exported.is_some();
            sink.items
                .iter_mut()
                .for_each(|entry| pairing.pair_entry(entry));
            if let Some(path) = partial {
                let on_path = |entry: &Entry| {
                    let at = links.outline_index(volume, entry);
                    at.is_some_and(|at| path.contains(&at))
                };
                if !sink.items.iter().any(on_path) {
                    return Ok(());
                }
            }
            let unread = match !self.target.origin && !self.target.merge && sound {
                true => lost_members(layout, file, &record, &sink.items),
                false => Vec::new(),
            };
            let mut lines = Vec::new();
            let summary = sink.items.iter().find(|entry| is_summary(entry)).cloned();
            for entry in sink.items {
                lines.extend(self.encode_entry(entry, volume, pen, links, &mut refused)?);
            }
            if let Some(record) = exported {
                let layout = self.target.root.layout;
                let is_log = |(path, _): &(PathBuf, Vec<u8>)| {
                    layout
                        .classify(path)
                        .is_some_and(|it| it.kind.is_conversation())
                };
                let path = lines.into_iter().find(is_log).map(|(path, _)| path);
                let path = path.unwrap_or_else(|| layout.path_for(&pen.head.log));
                return self.write_record(path, record);
            }
            if lines.is_empty() && record.is_blank() {
                self.counts.add_unconverted("blank line");
            }
            // If the whole record is lost, its members are not counted.
            for member in unread.iter().filter(|_| !lines.is_empty()) {
                self.counts
                    .add_unconverted(&format!("{MEMBER_PREFIX}{member}"));
            }
            match is_document {
                true => self.write_generated(lines)?,
                false => self.write_converted(lines, spot, &line, sound)?,
            }
            let summary = summary.and_then(|summary| {
                let at = links.outline_index(volume, &summary)?;
                Some((summary, at))
            });
            match summary {
                Some((summary, at)) => self.repeat_kept(log, &summary, at, pen, links),
                None => Ok(()),
            }
        })
    }

    /// Writes the lines converted from a line that is not one of the source.
    fn write_generated(&mut self, lines: Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
        for (path, line) in lines {
            let lines = vec![line];
            self.write_edits(vec![Edit::Append { path, lines }], GENERATED)?;
        }
        Ok(())
    }

    /// Counts something that the target cannot represent.
    fn leave_out(&mut self, kind: &str) {
        match self.keeps_record {
            true => self.counts.add_converted(kind),
            false => self.counts.add_unconverted(kind),
        }
    }

    /// Writes the lines converted from one line of the source.
    fn write_converted(
        &mut self,
        lines: Vec<(PathBuf, Vec<u8>)>,
        spot: SourcePosition,
        line: &SourceLine<'_>,
        sound: bool,
    ) -> Result<()> {
        let inline = line.bytes.len() <= MAX_INLINE && !line.oversize;
        // A line that is too long for readers is stored only in the origin file.
        let room = jsonl::MAX_LINE - if inline { line.bytes.len() * 2 } else { 0 } - 1024;
        let mut lines = lines;
        if lines.iter().any(|(_, text)| text.len() > room) {
            self.counts.add_unconverted("record that is too long");
            lines.clear();
        }
        let inline = inline && !lines.is_empty();
        for (at, (path, mut text)) in lines.into_iter().enumerate() {
            if self.target.origin {
                let origin = match at {
                    0 if inline => origin::encode_line(spot, &line.bytes, line.end, sound),
                    _ => origin::encode_reference(spot),
                };
                origin::attach_origin(&mut text, &origin);
            }
            self.put(&path, text)?;
        }
        match &mut self.origin {
            Some(beside) if !inline => line.pieces(|bytes, end| {
                beside.put_line(&origin::encode_line(spot, bytes, end, false))
            }),
            _ => Ok(()),
        }
    }
}

/// Returns the first model in a log, for earlier replies that name none.
fn first_model(outlines: &[Outline]) -> Option<String> {
    let replies = outlines.iter().filter_map(|outline| outline.reply.as_ref());
    let mut models = replies.filter_map(|reply| reply.model.as_deref());
    models.find(|model| is_model(model)).map(str::to_owned)
}

fn git_branch(session: &Session) -> Option<String> {
    let mut facts = session.logs.iter().flat_map(|scan| &scan.outlines).rev();
    facts.find_map(|outline| {
        outline.facts.iter().find_map(|fact| match fact {
            annals_layouts::model::Fact::GitBranch(text) if !text.is_empty() => {
                Some(text.to_string())
            }
            _ => None,
        })
    })
}
