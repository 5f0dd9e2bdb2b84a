//! A push: reads what grew, cuts, masks, sends, and saves what was acknowledged.

use std::path::{Path, PathBuf};

use annals::store::Inventory;
use annals_jsonl::{Cursor, FileId, FileIdParts, OpenLog, ReadAt as _};
use annals_segments::protocol::{KnownEnd, MAX_BODY};
use annals_segments::{Digest, Header, Kind, MAX_LINES_CONTENT, Segment, SegmentWriter};

use crate::client::Client;
use crate::cut::{Lines, next_lines};
use crate::error::{Error, Result};
use crate::mask::{Mask, MaskPolicy};
use crate::source::{self, SourceFile};
use crate::state::{self, Part, Pushed, State, StateFile};

/// Options of a push.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The policy for masking.
    pub mask: MaskPolicy,
    /// The current time, in seconds since 1970, from which new generations get their numbers.
    pub now: i64,
}

/// What was pushed.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Files of which something was sent.
    pub files: usize,
    /// Segments that the hub has stored.
    pub segments: usize,
    /// Bytes of files that they cover.
    pub bytes: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Places that were masked.
    pub masked: usize,
    /// Sessions in databases of their programs, which are not pushed.
    pub in_databases: usize,
    /// Files that could not be pushed.
    pub failed: Vec<Failure>,
}

/// A file that could not be pushed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its path.
    pub path: PathBuf,
    /// The reason.
    pub error: String,
}

/// What a push would send.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// Whether something was pushed to this hub before.
    pub is_known: bool,
    /// Files of which everything is stored.
    pub current: usize,
    /// Files of which something is not stored.
    pub behind: usize,
    /// Bytes of them that are not stored.
    pub behind_bytes: u64,
    /// Sessions in databases of their programs, which are not pushed.
    pub in_databases: usize,
}

/// Sends everything that the hub does not have. `progress` gets the number of files done and of all.
///
/// Can be killed at any time: what the hub has stored is not sent again, or dropped by the hub.
pub fn push(
    inventory: &Inventory,
    client: &Client,
    state_dir: &Path,
    options: Options,
    progress: &dyn Fn(u64, u64),
) -> Result<Report> {
    let machine = client.machine()?;
    let file = StateFile::lock(state_dir, machine.source)?;
    let mut state = match file.read()? {
        Some(state) => state,
        None => State::new(client.url(), client.ends()?),
    };
    state.hub = client.url().to_owned();
    let mut pusher = Pusher {
        client,
        file,
        state,
        writer: SegmentWriter::new()?,
        mask: Mask::new(options.mask)?,
        now: u32::try_from(options.now).unwrap_or(0),
        batch: Batch::default(),
        is_unsaved: false,
        report: Report::default(),
    };
    let found = source::files(inventory);
    pusher.report.in_databases = found.in_databases;
    for path in found.unnamed {
        pusher.fail(path, "its path is not UTF-8, or has control characters");
    }
    let total = found.files.len() as u64;
    for (done, file) in found.files.iter().enumerate() {
        progress(done as u64, total);
        if let Err(error) = pusher.push_file(file) {
            match error {
                // A file that cannot be read does not stop the others.
                Error::File(_) | Error::Library(_) | Error::Segment(_) => {
                    pusher.fail(file.full_path.clone(), error);
                }
                error => return Err(error),
            }
        }
    }
    pusher.flush()?;
    pusher.file.save(&pusher.state)?;
    pusher.report.masked = pusher.mask.places();
    Ok(pusher.report)
}

/// Returns what a push would send. Opens no file and no connection.
pub fn status(inventory: &Inventory, hub: &str, state_dir: &Path) -> Result<Status> {
    let state = state::find(state_dir, hub.trim_end_matches('/'))?;
    let found = source::files(inventory);
    let mut status = Status {
        is_known: state.is_some(),
        in_databases: found.in_databases,
        ..Status::default()
    };
    for file in &found.files {
        let pushed = state.as_ref().and_then(|state| state.files.get(&file.key));
        let behind = match pushed {
            Some(pushed) if pushed.is_current(&file.id) => 0,
            Some(Pushed {
                part: Part::Lines { offset, .. },
                ..
            }) => file.id.len.saturating_sub(*offset),
            _ => file.id.len,
        };
        match behind {
            0 => status.current += 1,
            behind => {
                status.behind += 1;
                status.behind_bytes += behind;
            }
        }
    }
    Ok(status)
}

struct Pusher<'a> {
    client: &'a Client,
    file: StateFile,
    state: State,
    writer: SegmentWriter,
    mask: Mask,
    now: u32,
    batch: Batch,
    /// Whether a generation began that is not saved.
    is_unsaved: bool,
    report: Report,
}

/// Segments of one request, and what is known when they are acknowledged.
#[derive(Default)]
struct Batch {
    body: Vec<u8>,
    segments: usize,
    bytes: u64,
    pushed: Vec<(annals_segments::FileKey, Pushed)>,
}

impl Pusher<'_> {
    fn fail(&mut self, path: PathBuf, error: impl ToString) {
        self.report.failed.push(Failure {
            path,
            error: error.to_string(),
        });
    }

    fn push_file(&mut self, file: &SourceFile) -> Result<()> {
        let known = self.state.files.get(&file.key);
        if known.is_some_and(|known| known.is_current(&file.id)) {
            return Ok(());
        }
        let failed = |error| annals_jsonl::Error::io("read", &file.full_path, error);
        let log = match OpenLog::open(&file.full_path) {
            Ok(log) => log,
            // It was removed since it was found.
            Err(error) if annals_jsonl::is_absence(&error) => return Ok(()),
            Err(error) => return Err(failed(error).into()),
        };
        let id = log.id().map_err(failed)?;
        let segments = self.report.segments + self.batch.segments;
        match file.is_log {
            true => self.push_lines(file, &log, &id)?,
            false => self.push_document(file, &log, &id)?,
        }
        if self.report.segments + self.batch.segments > segments {
            self.report.files += 1;
        }
        Ok(())
    }

    fn push_lines(&mut self, file: &SourceFile, log: &OpenLog, id: &FileId) -> Result<()> {
        let failed = |error| annals_jsonl::Error::io("read", &file.full_path, error);
        let (generation, mut offset) = match self.continued(file, log, id)? {
            Some(continued) => continued,
            None => (
                self.begin(
                    file,
                    Part::lines(&Cursor::with_id(id, log, 0).map_err(failed)?),
                    id,
                ),
                0,
            ),
        };
        loop {
            let lines = match next_lines(log, offset).map_err(failed)? {
                Lines::Some(lines) => lines,
                Lines::End => break,
                Lines::TooLong => {
                    self.fail(file.full_path.clone(), format!("the line at offset {offset} is longer than 64 MiB; what follows is not pushed"));
                    break;
                }
            };
            let end = offset + lines.len() as u64;
            let (content, masked) = self.mask.lines(&lines);
            let header = Header {
                masked,
                ..self.header(file, generation, Kind::Lines, offset, end, id)
            };
            let segment = self.writer.write(header, &content)?;
            let cursor = Cursor::with_id(id, log, end).map_err(failed)?;
            let pushed = Pushed {
                generation,
                id: unfinished(id),
                part: Part::lines(&cursor),
            };
            self.add(file, &segment, pushed)?;
            offset = end;
        }
        let cursor = Cursor::with_id(id, log, offset).map_err(failed)?;
        self.note(
            file,
            Pushed {
                generation,
                id: id.parts(),
                part: Part::lines(&cursor),
            },
        );
        Ok(())
    }

    /// Returns the generation that a log continues, and the offset from which on it is not stored.
    fn continued(
        &mut self,
        file: &SourceFile,
        log: &OpenLog,
        id: &FileId,
    ) -> Result<Option<(u32, u64)>> {
        let failed = |error| annals_jsonl::Error::io("read", &file.full_path, error);
        if let Some(pushed) = self.state.files.get(&file.key) {
            let Part::Lines { offset, guard } = &pushed.part else {
                return Ok(None);
            };
            let cursor = Cursor {
                dev: id.dev,
                ino: id.ino,
                offset: *offset,
                guard: *guard.as_bytes(),
            };
            let same = FileId::from_parts(pushed.id).same_file(id);
            let continues = same && cursor.continues_in(log).map_err(failed)?;
            return Ok(continues.then_some((pushed.generation, *offset)));
        }
        let Some(end) = self.state.unclaimed.get(&file.key).cloned() else {
            return Ok(None);
        };
        match self.has_content(file, log, &end)? {
            true => Ok(Some((end.generation, end.end))),
            false => Ok(None),
        }
    }

    /// Returns whether a log has the last segment that the hub knows of it.
    fn has_content(&mut self, file: &SourceFile, log: &OpenLog, end: &KnownEnd) -> Result<bool> {
        let failed = |error| annals_jsonl::Error::io("read", &file.full_path, error);
        let len = end.end.saturating_sub(end.last_start);
        if end.kind != Kind::Lines
            || end.end > log.size().map_err(failed)?
            || len > annals_segments::MAX_CONTENT
        {
            return Ok(false);
        }
        let mut lines = vec![0; len as usize];
        let read = log.fill_at(&mut lines, end.last_start).map_err(failed)?;
        let (content, _) = self.mask.lines(&lines);
        Ok(read == lines.len() && Digest::new(&content) == end.last_digest)
    }

    fn push_document(&mut self, file: &SourceFile, log: &OpenLog, id: &FileId) -> Result<()> {
        let failed = |error| annals_jsonl::Error::io("read", &file.full_path, error);
        let size = log.size().map_err(failed)?;
        if size > annals_segments::MAX_CONTENT {
            self.fail(file.full_path.clone(), "the document is longer than 64 MiB");
            return Ok(());
        }
        let mut bytes = vec![0; size as usize];
        let read = log.fill_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(read);
        let content = self.mask.document(&bytes).into_owned();
        let digest = Digest::new(&content);
        let kind = Kind::Document {
            len: content.len() as u64,
            digest,
        };
        let part = |complete| Part::Document { digest, complete };
        let known = self.state.files.get(&file.key);
        let unclaimed = self.state.unclaimed.get(&file.key);
        let stored = match (known, unclaimed) {
            (Some(known), _) if known.part == part(true) => Some(known.generation),
            (None, Some(end)) if end.kind == kind && end.end == content.len() as u64 => {
                Some(end.generation)
            }
            _ => None,
        };
        if let Some(generation) = stored {
            self.note(
                file,
                Pushed {
                    generation,
                    id: id.parts(),
                    part: part(true),
                },
            );
            return Ok(());
        }
        let generation = match (known, unclaimed) {
            (Some(known), _) if known.part == part(false) => known.generation,
            (None, Some(end)) if end.kind == kind => end.generation,
            _ => self.begin(file, part(false), id),
        };
        let done = Pushed {
            generation,
            id: id.parts(),
            part: part(true),
        };
        for (index, chunk) in content.chunks(MAX_LINES_CONTENT as usize).enumerate() {
            let start = index as u64 * MAX_LINES_CONTENT;
            let end = start + chunk.len() as u64;
            let header = self.header(file, generation, kind, start, end, id);
            let segment = self.writer.write(header, chunk)?;
            let pushed = match end == content.len() as u64 {
                true => done.clone(),
                false => Pushed {
                    part: part(false),
                    ..done.clone()
                },
            };
            self.add(file, &segment, pushed)?;
        }
        if content.is_empty() {
            self.note(file, done);
        }
        Ok(())
    }

    fn header(
        &self,
        file: &SourceFile,
        generation: u32,
        kind: Kind,
        start: u64,
        end: u64,
        id: &FileId,
    ) -> Header {
        Header {
            source: self.state.source,
            layout: file.layout.to_owned(),
            root: file.root.clone(),
            path: file.path.clone(),
            generation,
            kind,
            start,
            end,
            len: 0,
            digest: Digest::new(b""),
            mtime: id.mtime_ns,
            masked: Vec::new(),
        }
    }

    /// Begins a generation: its number is the time in seconds, or one more than the last.
    fn begin(&mut self, file: &SourceFile, part: Part, id: &FileId) -> u32 {
        let known = self
            .state
            .files
            .get(&file.key)
            .map(|known| known.generation);
        let known = known.max(
            self.state
                .unclaimed
                .get(&file.key)
                .map(|end| end.generation),
        );
        let generation = known
            .map_or(0, |known| known.saturating_add(1))
            .max(self.now);
        let pushed = Pushed {
            generation,
            id: unfinished(id),
            part,
        };
        self.state.files.insert(file.key, pushed);
        self.state.unclaimed.remove(&file.key);
        self.is_unsaved = true;
        generation
    }

    /// Adds a segment to the batch, and sends the batch before it becomes too long.
    fn add(&mut self, file: &SourceFile, segment: &Segment, pushed: Pushed) -> Result<()> {
        if self.batch.segments > 0 && self.batch.body.len() + segment.bytes().len() > MAX_BODY {
            self.flush()?;
        }
        self.batch.body.extend(segment.bytes());
        self.batch.segments += 1;
        self.batch.bytes += segment.header.end - segment.header.start;
        self.batch.pushed.push((file.key, pushed));
        Ok(())
    }

    /// Sets how far a file is pushed once the batch is acknowledged.
    fn note(&mut self, file: &SourceFile, pushed: Pushed) {
        self.batch.pushed.push((file.key, pushed));
    }

    /// Sends the batch.
    fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.segments > 0 {
            if self.is_unsaved {
                self.file.save(&self.state)?;
                self.is_unsaved = false;
            }
            self.client.send(&batch.body, batch.segments)?;
        }
        for (key, pushed) in batch.pushed {
            self.state.unclaimed.remove(&key);
            self.state.files.insert(key, pushed);
        }
        if batch.segments > 0 {
            self.file.save(&self.state)?;
        }
        self.report.segments += batch.segments;
        self.report.bytes += batch.bytes;
        self.report.sent += batch.body.len() as u64;
        Ok(())
    }
}

/// The id of a file of which not everything is sent: it counts as changed.
fn unfinished(id: &FileId) -> FileIdParts {
    let id = FileId {
        dev: id.dev,
        ino: id.ino,
        ..FileId::default()
    };
    id.parts()
}
