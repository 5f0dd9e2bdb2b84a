//! Forks: a conversation copied into a session of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_layouts::layout::{AppendState, Change, Edit, ForkEdit, ForkParent, NewSession, Writer};
use annals_layouts::model::{
    Artifact, ArtifactKind, Body, Draft, EntryId, Fact, Framing, Link, Outline, OutlineKind,
    SessionId, TitleSource,
};

use super::session::Session;
use super::writer::{self, WriteOptions};
use super::{Root, RootFile, Store, log_reader, session_list, thread};

/// A session that was copied from another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkedSession {
    /// Its id.
    pub session: SessionId,
    /// Its log.
    pub path: PathBuf,
}

impl Store {
    /// Copies a conversation, up to and including one of its entries, into a new session.
    ///
    /// The copies keep their ids and form one chain, which every reader follows completely. The
    /// layout derives the session's id from `to`. Where the layout stores the title at the
    /// beginning of a log, a fork without a title keeps that of its source.
    pub fn fork(
        &self,
        session: &Session,
        path: &[usize],
        to: SessionId,
        title: Option<&str>,
        now: Timestamp,
    ) -> Result<ForkedSession> {
        let root = session.root();
        if let Some((file, scan, _)) = session.main_log()
            && let Framing::Rows(format) = file.artifact.framing
        {
            return self.fork_rows(session, format, &scan.outlines, path, &to, title, now);
        }
        let writer = writer::layout_writer(root)?;
        let (file, scan, _) = session
            .main_log()
            .ok_or_else(|| Error::refused("the session has no messages to fork"))?;
        let from = &session.files.id;
        let copies = CopiedRecords::new(writer, root, file, &scan.outlines, path, from, &to)?;
        let cwd = session.directories().last().map(|path| (*path).to_owned());
        let words = header_fields(writer, session, &to, title);
        let new = NewSession {
            copied_from: Some(file.artifact.clone()),
            folder: file.artifact.folder.clone(),
            title: words.get(AppendState::TITLE).cloned(),
            requested_id: Some(to.to_string()),
            ..NewSession::new(to.clone(), cwd.clone().unwrap_or_default())
        };
        let title = title.filter(|_| !writer.title_in_header());
        let lone = session.files.is_lone();
        let mut now = now;
        loop {
            let place = if lone {
                // A log outside of a root is forked into its own directory.
                let artifact = Artifact {
                    session: Some(to.clone()),
                    ..file.artifact.clone()
                };
                (file.path.with_file_name(format!("{to}.jsonl")), artifact)
            } else {
                let artifact = writer::with_plan_context(Some(now), &self.zone(), |stamp| {
                    writer.new_session_log(&new, stamp)
                })?;
                (root.locate(&artifact)?, artifact)
            };
            let (path, artifact) = place;
            let shared = artifact.kind == ArtifactKind::SharedLog;
            let id = match &artifact.session {
                Some(id) if !shared => id.clone(),
                _ => to.clone(),
            };
            let head = AppendState {
                cwd: cwd.clone(),
                writer_state: words.clone(),
                ..AppendState::new(id.clone(), artifact)
            };
            let plan = |change| {
                let zone = self.zone();
                writer::plan(
                    writer,
                    &head,
                    &change,
                    Some(now),
                    &zone,
                    &mut writer::random_id,
                )
            };
            let begin = plan(Change::Fork { from: from.clone() })?;
            let titled = title.map(|title| plan(retitle(title)));
            let titled = titled.transpose()?.unwrap_or_default();
            let own = root.layout.path_for(&head.log);
            let (first, mut others) = split_edits(begin.edits, &own, lone);
            let (last, more) = split_edits(titled.edits, &own, lone);
            others.extend(more);
            let write = || {
                writer::create_parent_dirs(root, &path)?;
                copies.write(&path, shared, &id, &first, &last)
            };
            let made = match lone {
                true => write(),
                false => writer::with_id_lock(root, &head.log, || {
                    if id == to {
                        writer::refuse_known_id(root, &id)?;
                    }
                    thread::refuse_known_thread(root, writer, &new, &head.log)?;
                    write()
                }),
            };
            match made {
                // The log is named after the time; a millisecond later gives another name.
                Err(Error::File(FileError::Io { source, .. }))
                    if source.kind() == io::ErrorKind::AlreadyExists && id != to =>
                {
                    now = now
                        .checked_add(jiff::SignedDuration::from_millis(1))
                        .unwrap_or(now);
                    continue;
                }
                made => made?,
            }
            for edit in others {
                if let Edit::Append { path, lines } = edit {
                    writer::append_to_sibling(root, &path, &lines, WriteOptions::default())?;
                }
            }
            let title = titled.title;
            session_list::add_to_list(root, writer, &head, title)?;
            return Ok(ForkedSession { session: id, path });
        }
    }
}

/// Returns the fields that the first record of a fork may need.
fn header_fields(
    writer: &dyn Writer,
    session: &Session,
    to: &SessionId,
    title: Option<&str>,
) -> BTreeMap<String, String> {
    let mut words = writer::requested_id_field(to.as_str());
    let outlines = session.main_log().map(|(_, scan, _)| &scan.outlines);
    for fact in outlines.into_iter().flatten().flat_map(|it| &it.facts) {
        if let Fact::WriterState(name, value) = fact
            && writer.fork_members().contains(&&**name)
        {
            words.insert(name.to_string(), value.to_string());
        }
    }
    if writer.title_in_header() {
        let source = session.title();
        let source = source.filter(|title| title.source > TitleSource::Summary);
        let title = title.map(str::to_owned).or(source.map(|title| title.text));
        words.extend(title.map(|title| (AppendState::TITLE.to_owned(), title)));
    }
    words
}

pub(super) fn retitle(title: &str) -> Change {
    Change::Append(vec![Draft::new(Body::Title {
        text: title.to_owned(),
        source: TitleSource::Custom,
    })])
}

/// Separates the lines for the log itself from edits of other files.
fn split_edits(edits: Vec<Edit>, own: &Path, lone: bool) -> (Vec<Vec<u8>>, Vec<Edit>) {
    let mut lines = Vec::new();
    let mut others = Vec::new();
    for edit in edits {
        match edit {
            Edit::Append { path, lines: more } if lone || path == own => lines.extend(more),
            other => others.push(other),
        }
    }
    (lines, others)
}

/// The records of a fork.
struct CopiedRecords<'a> {
    writer: &'static dyn Writer,
    root: &'a Root,
    file: &'a RootFile,
    outlines: &'a [Outline],
    from: &'a SessionId,
    /// The requested id.
    wanted: &'a SessionId,
    /// Each entry and its id, in the order of the chain.
    chain: Vec<(usize, &'a Outline, EntryId)>,
    /// A new time for the last entry, if another is as new: some readers resume at the newest.
    last_time: Option<Timestamp>,
}

impl<'a> CopiedRecords<'a> {
    fn new(
        writer: &'static dyn Writer,
        root: &'a Root,
        file: &'a RootFile,
        outlines: &'a [Outline],
        path: &[usize],
        from: &'a SessionId,
        wanted: &'a SessionId,
    ) -> Result<Self> {
        let chain: Vec<(usize, &Outline, EntryId)> = path
            .iter()
            .filter_map(|&at| {
                let outline = outlines.get(at)?;
                Some((at, outline, outline.id()?))
            })
            .collect();
        let Some((_, last, _)) = chain.last() else {
            return Err(Error::refused("there are no messages to fork"));
        };
        let newest = chain
            .iter()
            .rev()
            .skip(1)
            .filter_map(|(_, outline, _)| outline.time)
            .max();
        let late = newest.filter(|newest| last.time.is_none_or(|time| time <= *newest));
        let late = late.filter(|_| !writer.resumes_at_last_line());
        let millisecond = jiff::SignedDuration::from_millis(1);
        let late = late.and_then(|newest| newest.checked_add(millisecond).ok());
        Ok(CopiedRecords {
            writer,
            root,
            file,
            outlines,
            from,
            wanted,
            chain,
            last_time: late,
        })
    }

    fn write(
        &self,
        path: &Path,
        shared: bool,
        to: &SessionId,
        first: &[Vec<u8>],
        last: &[Vec<u8>],
    ) -> Result<()> {
        if shared {
            let mut lines = first.to_vec();
            self.each_record(to, |line| {
                lines.push(line);
                Ok(())
            })?;
            lines.extend_from_slice(last);
            return writer::append_with_companion(self.root, path, &lines, WriteOptions::default());
        }
        jsonl::create_with(path, |put| {
            let mut line = |line: &[u8]| {
                put(line)?;
                put(b"\n")
            };
            first.iter().try_for_each(|text| line(text))?;
            self.each_record(to, |text| line(&text))?;
            last.iter().try_for_each(|text| line(text))
        })
    }

    fn each_record(
        &self,
        to: &SessionId,
        mut put: impl FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut reader = log_reader::RecordReader::new(self.root, self.file, self.outlines);
        let mut parent: Option<&EntryId> = None;
        let end = self.chain.len().saturating_sub(1);
        let mut last_record = None;
        // Further entries of the record before, which the next one may have as its parent.
        let mut same_record: Vec<&EntryId> = Vec::new();
        for (number, (at, outline, id)) in self.chain.iter().enumerate() {
            // A record may have several entries, such as a compaction and its summary.
            let place = Some((outline.volume, outline.span));
            if last_record == place && !self.writer.writer_spec().copies_entries {
                same_record.push(id);
                continue;
            }
            last_record = place;
            let named = same_record.iter().copied();
            let mut named = named.filter(|id| outline.link == Link::Parent(id.key()));
            parent = named.next_back().or(parent);
            same_record.clear();
            let record = reader.full_record(*at)?;
            // A compaction starts a new chain; any other entry has the previous one as its parent.
            let new_parent = match parent {
                None => ForkParent::None,
                Some(_) if outline.kind == OutlineKind::Compaction => ForkParent::Keep,
                Some(above) => ForkParent::Entry(above),
            };
            let graft = ForkEdit {
                from: self.from,
                to,
                requested_id: self.wanted,
                id,
                parent: new_parent,
                previous: parent,
                time: self.last_time.filter(|_| number == end),
            };
            let copy = self.writer.copy_record(&record, &graft)?;
            if !copy.is_empty() {
                put(copy)?;
            }
            // Older programs do not follow links through types that they do not know, and no
            // program finds a message without an id.
            let opaque =
                |fact: &Fact| matches!(fact, Fact::NewerType | Fact::UnlinkedType | Fact::NoId);
            if !outline.facts.iter().any(opaque) {
                parent = Some(id);
            }
        }
        Ok(())
    }
}
