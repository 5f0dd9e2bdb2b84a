//! Back to where a session came from: its origins give the source again, byte for byte.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::jsonl::{MAX_LINE, Scanner, open_to_read};
use crate::layout::{Decoder, ORIGIN};
use crate::model::ArtifactKind;
use crate::store::{FoundFile, Root, SessionFiles, is_gone, uncounted};

use super::forward::Target;
use super::origin::{self, Found, Header, Spot};
use super::stage::Staged;
use super::{Settled, since};

/// What a restored file may be to anyone at most, whatever its origin says: what the user may do with
/// any new file of annals.
const PRIVATE: u32 = 0o600;

/// Lines of shared logs, by path and number: they come from several sessions.
pub(super) type SharedLines = BTreeMap<PathBuf, BTreeMap<(u64, usize), Vec<u8>>>;

/// The origins of a session, if it was converted from that layout. A file that is none is carried
/// along like any other.
pub(super) fn header_of(layout: &str, files: &SessionFiles) -> Result<Option<Header>> {
    let mut beside = files.beside.iter();
    let file = beside.find(|file| file.artifact.kind == ArtifactKind::Origin);
    file.map_or(Ok(None), |file| header_from(layout, &file.path))
}

/// The origins of what belongs to no session, if the root was converted from that layout.
pub(super) fn header_of_root(layout: &str, root: &Root) -> Result<Option<Header>> {
    header_from(layout, &root.path.join(ORIGIN))
}

/// The header of a file of origins, if there is one and it is of that layout. One that cannot be read
/// is an error: without it, a session would be converted again that is to be restored.
fn header_from(layout: &str, path: &Path) -> Result<Option<Header>> {
    match read_header(path) {
        Ok(header) => Ok((header.layout == layout).then_some(header)),
        Err(error @ Error::Io { .. }) if !is_gone(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

pub(super) fn read_header(path: &Path) -> Result<Header> {
    let failed = |error| Error::io("read", path, error);
    let file = open_to_read(path).map_err(failed)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(file.take(MAX_LINE as u64));
    reader.read_until(b'\n', &mut line).map_err(failed)?;
    Header::parse(&line, path)
}

/// Restores a session.
pub(super) fn session(
    target: &Target<'_>,
    files: &SessionFiles,
    header: &Header,
    shared: &mut SharedLines,
) -> Result<Settled> {
    let mut streams = Vec::new();
    let beside = files.beside.iter();
    for file in beside.filter(|file| file.artifact.kind == ArtifactKind::Origin) {
        streams.push(Stream::open(&file.path)?);
    }
    let logs = files.logs().flat_map(FoundFile::volumes);
    for file in logs.chain(files.notes()) {
        streams.push(Stream::of_log(&files.root, file)?);
    }
    let mut settled = write(target, header, &mut streams, shared)?;
    let mut fresh: HashMap<PathBuf, Vec<u64>> = HashMap::new();
    for stream in streams {
        if !stream.fresh.is_empty() {
            fresh.entry(stream.path).or_default().extend(stream.fresh);
        }
    }
    fresh
        .values_mut()
        .for_each(|offsets| offsets.sort_unstable());
    settled.since = since::find(target.writer, files, header, &fresh)?;
    settled.id = header
        .session
        .as_deref()
        .and_then(|id| crate::model::SessionId::new(id).ok());
    settled.restored = true;
    Ok(settled)
}

/// Restores what a root's own file of origins holds.
pub(super) fn root(
    target: &Target<'_>,
    path: &Path,
    header: &Header,
    shared: &mut SharedLines,
) -> Result<Settled> {
    let mut streams = vec![Stream::open(path)?];
    let settled = write(target, header, &mut streams, shared)?;
    for dir in header.dirs.iter().filter_map(|dir| origin::within(dir)) {
        if target.allowed.directory(&dir) {
            let dir = target.root.path.join(dir);
            target.root.guard(&dir)?;
            crate::jsonl::ensure_dir(&dir)?;
        }
    }
    Ok(settled)
}

fn write(
    target: &Target<'_>,
    header: &Header,
    streams: &mut [Stream],
    shared: &mut SharedLines,
) -> Result<Settled> {
    let mut settled = Settled::default();
    for (number, source) in header.files.iter().enumerate() {
        let Some(within) = origin::within(&source.path) else {
            return Err(Error::refused(format!(
                "`{}` leads out of its root, so it is not restored",
                source.path
            )));
        };
        if !target.allowed.file(&within) {
            each_of(number, streams, |_, _| Ok(()))?;
            continue;
        }
        let meaning = target.root.layout.classify(&within);
        let shared_kinds = [ArtifactKind::SharedLog, ArtifactKind::Companion];
        let is_shared = meaning.is_some_and(|meaning| shared_kinds.contains(&meaning.kind));
        if is_shared {
            let lines = shared.entry(within).or_default();
            let mut piece = 0;
            each_of(number, streams, |spot, bytes| {
                piece += 1;
                lines.insert((spot.line, piece), bytes);
                Ok(())
            })?;
            continue;
        }
        let mut out: Option<Staged> = None;
        each_of(number, streams, |_, bytes| {
            if out.is_none() {
                out = Some(target.stage.file(&within)?);
            }
            match &mut out {
                Some(out) => out.put(&bytes),
                None => Ok(()),
            }
        })?;
        // A file in which nothing stood.
        let mut out = match out {
            Some(out) => out,
            None if header.partial => continue,
            None => target.stage.file(&within)?,
        };
        out.like(source.mode & PRIVATE, source.mtime);
        if out.written() != source.len && !header.partial {
            settled.damaged.push(target.root.path.join(&within));
        }
        if target.stage.commit(out)? {
            settled.files += 1;
        } else {
            settled.there.push(target.root.path.join(&within));
        }
    }
    Ok(settled)
}

/// Hands over the lines of one file in their order.
fn each_of(
    number: usize,
    streams: &mut [Stream],
    mut put: impl FnMut(Spot, Vec<u8>) -> Result<()>,
) -> Result<()> {
    loop {
        let mut first: Option<&mut Stream> = None;
        for stream in streams.iter_mut() {
            let Some(spot) = stream.spot().filter(|spot| spot.file == number) else {
                continue;
            };
            let earlier = first
                .as_ref()
                .and_then(|first| first.spot())
                .is_none_or(|known| spot < known);
            if earlier {
                first = Some(stream);
            }
        }
        let Some(stream) = first else {
            return Ok(());
        };
        if let Some((spot, bytes)) = stream.next.take() {
            put(spot, bytes)?;
        }
        stream.advance()?;
    }
}

/// The origins in one file, in the order of their spots.
struct Stream {
    path: PathBuf,
    file: File,
    lines: Scanner<Take<File>>,
    /// What of the file is still to be read, where several sessions lie in it.
    stretches: VecDeque<Range<u64>>,
    /// Reads the records of a log, which have the origins in them; a file of origins needs none.
    decoder: Option<Box<dyn Decoder>>,
    next: Option<(Spot, Vec<u8>)>,
    /// The offsets of records that were written after the conversion.
    fresh: Vec<u64>,
}

impl Stream {
    fn open(path: &Path) -> Result<Self> {
        Stream::over(path, None, std::iter::once(0..u64::MAX).collect())
    }

    fn of_log(root: &Root, file: &FoundFile) -> Result<Self> {
        let stretches = match &file.share {
            None => std::iter::once(0..u64::MAX).collect(),
            Some(share) => share
                .stretches
                .iter()
                .map(|one| one.bytes.clone())
                .collect(),
        };
        Stream::over(&file.path, Some(root.decoder(file)), stretches)
    }

    fn over(
        path: &Path,
        decoder: Option<Box<dyn Decoder>>,
        stretches: VecDeque<Range<u64>>,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = open_to_read(path).map_err(failed)?;
        let nothing = file.try_clone().map_err(failed)?.take(0);
        let mut stream = Stream {
            path: path.to_owned(),
            file,
            lines: Scanner::new(nothing),
            stretches,
            decoder,
            next: None,
            fresh: Vec::new(),
        };
        stream.advance()?;
        Ok(stream)
    }

    fn spot(&self) -> Option<Spot> {
        self.next.as_ref().map(|(spot, _)| *spot)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = None;
        loop {
            let failed = |error| Error::io("read", &self.path, error);
            while let Some(line) = self.lines.next().map_err(failed)? {
                let found = match &mut self.decoder {
                    None => std::str::from_utf8(line.bytes)
                        .ok()
                        .and_then(origin::of_line),
                    Some(decoder) => {
                        let whole = decoder.whole(&uncounted(&line));
                        match origin::of_record(whole.as_deref().unwrap_or(line.bytes)) {
                            Found::Line(spot, bytes) => Some((spot, bytes)),
                            Found::Made => None,
                            Found::New => {
                                self.fresh.push(line.offset);
                                None
                            }
                        }
                    }
                };
                if found.is_some() {
                    self.next = found;
                    return Ok(());
                }
            }
            let Some(stretch) = self.stretches.pop_front() else {
                return Ok(());
            };
            let mut file = self.file.try_clone().map_err(failed)?;
            file.seek(SeekFrom::Start(stretch.start)).map_err(failed)?;
            let within = file.take(stretch.end - stretch.start);
            self.lines.reset_to(within, stretch.start, 1);
        }
    }
}
