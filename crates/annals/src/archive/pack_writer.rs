//! Writes frames and indexes of a pack, and adds files to it.
//!
//! A new pack has checkpoints between its frames: indexes of the files complete so far, so that the
//! contents before the cut are known if the pack is truncated later. A checkpoint follows each file
//! until all checkpoints together take 64 KiB. After that, one is written when 3 times the length
//! of the last one was written since, or 32 times in a pack of more than 4 MiB: about 3 percent of
//! the added bytes. The complete index follows the last file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::attributes::{self, ArchivedDir, ExtendedAttribute, Owner};
use super::pack::{self, FOOTER, HEADER, Pack};
use super::pack_index::{FRAME, Frame, FrameRange, Member, PackIndex, VERSION};
use super::resumable_sha256::ResumableSha256;
use super::update::{PackContents, open_source, rows, sessions, write_error};
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{FileId, ReadAt as _};

/// Compression level. On generated logs in 1 MiB frames, level 3 has a ratio of 2.56 at 190 MB per
/// CPU second; levels 6 and 9 gain 3 and 4 percent at less than half and a third of the speed.
const LEVEL: i32 = 3;

/// A frame with less content is rewritten when its last file grows, so that a log archived every
/// hour does not end up in that many frames.
const SHORT: u32 = 256 << 10;

/// Number of earlier versions of a document that are retained. Logs retain all.
const EARLIER: usize = 8;

/// Total length of checkpoints up to which one follows each file.
const CHECKPOINTS: u64 = 64 << 10;

/// Length of a pack from which on checkpoints are less frequent.
const LARGE: u64 = 4 << 20;

pub(super) struct PackWriter<'a> {
    /// Final path of the pack.
    pub(super) path: &'a Path,
    pub(super) file: &'a File,
    pub(super) nonce: [u8; 16],
    /// Offset of the next byte.
    pub(super) end: u64,
    pub(super) index: PackIndex,
    /// The pack before the update, to read its frames.
    pub(super) old: Option<&'a Pack>,
    /// Content of the next frame, and the members it belongs to: member number and length.
    pub(super) buffer: Vec<u8>,
    pub(super) pieces: Vec<(usize, u32)>,
    pub(super) packed: Vec<u8>,
    pub(super) compressor: Compressor<'static>,
    pub(super) added: u64,
    /// Whether anything was written or changed in the index.
    pub(super) changed: bool,
    /// Frames of the old pack that cannot be read.
    pub(super) unreadable: HashSet<u32>,
    /// Total length of all checkpoints, and length of the last one.
    checkpoints: u64,
    last_checkpoint: u64,
    /// Bytes written since the last checkpoint.
    since_checkpoint: u64,
}

impl<'a> PackWriter<'a> {
    pub(super) fn new(path: &'a Path, file: &'a File, index: PackIndex) -> Result<Self> {
        let failed = |error| Error::io("compress", path, error);
        let mut compressor = Compressor::new(LEVEL).map_err(failed)?;
        compressor
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(failed)?;
        Ok(PackWriter {
            path,
            file,
            nonce: *uuid::Uuid::new_v4().as_bytes(),
            end: 0,
            index,
            old: None,
            buffer: Vec::with_capacity(FRAME),
            pieces: Vec::new(),
            packed: Vec::new(),
            compressor,
            added: 0,
            changed: false,
            unreadable: HashSet::new(),
            checkpoints: 0,
            last_checkpoint: 0,
            since_checkpoint: 0,
        })
    }

    /// Begins a new pack.
    pub(super) fn begin(
        path: &'a Path,
        file: &'a File,
        what: &PackContents,
        now: Timestamp,
    ) -> Result<Self> {
        let index = PackIndex {
            version: VERSION,
            layout: what.layout.clone(),
            root: what.root.clone(),
            lone: what.lone,
            sessions: what.sessions.clone(),
            generation: 1,
            archived: now,
            members: Vec::new(),
            earlier: Vec::new(),
            dirs: Vec::new(),
            rows: what.rows.clone(),
            list_digest: what.list_digest,
            twice: true,
            checkpoint: false,
            frames: Vec::new(),
        };
        let mut writer = PackWriter::new(path, file, index)?;
        writer.write_header()?;
        Ok(writer)
    }

    pub(super) fn write_header(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0);
        emptied.map_err(|error| Error::io("write", self.path, error))?;
        self.end = 0;
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(pack::MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.nonce);
        self.write(&header)
    }

    /// Prepares to append to an existing pack.
    pub(super) fn append_to(
        path: &'a Path,
        file: &'a File,
        old: &'a Pack,
        now: Timestamp,
    ) -> Result<Self> {
        let mut index = PackIndex::clone(&old.index);
        index.generation += 1;
        index.archived = now;
        let mut writer = PackWriter::new(path, file, index)?;
        let nonce = file.read_exact_at(&mut writer.nonce, (HEADER - 16) as u64);
        nonce.map_err(|error| Error::io("read", path, error))?;
        writer.end = old.bytes;
        writer.old = Some(old);
        Ok(writer)
    }

    /// Returns whether the pack is already up to date.
    pub(super) fn is_unchanged(&self, old: &PackIndex, contents: &PackContents) -> bool {
        !self.changed
            && old.sessions == sessions(old, contents)
            && old.root == contents.root
            && old.rows == rows(old, contents)
            && old.list_digest == contents.list_digest
            && old.dirs == self.index.dirs
    }

    /// Adds all files that changed. Returns those that no longer exist.
    pub(super) fn take_all(
        &mut self,
        contents: &PackContents,
        now: Timestamp,
    ) -> Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let known = self.index.members.iter().enumerate();
        let known: HashMap<PathBuf, usize> = known.map(|(at, it)| (it.path.clone(), at)).collect();
        let mut left = contents.files.len();
        for (within, is_log) in &contents.files {
            let at = known.get(within).copied();
            if !self.take(&contents.root, within, at, *is_log, now)? {
                missing.push(within.clone());
            }
            // Each file has its own frames, so damage to one does not affect another.
            self.flush()?;
            left -= 1;
            if left > 0 {
                self.checkpoint()?;
            }
        }
        let order: HashMap<&Path, usize> = contents
            .files
            .iter()
            .enumerate()
            .map(|(at, (path, _))| (path.as_path(), at))
            .collect();
        // Files missing from the root stay in the pack, after the others; but session logs always
        // come first.
        let place = |member: &Member| order.get(member.path.as_path()).copied();
        let mut members = std::mem::take(&mut self.index.members);
        members.sort_by_cached_key(|member| {
            let beside = !self.index.is_session_log(&member.path);
            (beside, place(member).unwrap_or(usize::MAX))
        });
        self.index.members = members;
        self.describe_dirs(&contents.root)?;
        Ok(missing)
    }

    /// Records the metadata of all directories; directories that no longer exist keep theirs.
    fn describe_dirs(&mut self, root: &Path) -> Result<()> {
        let members = self.index.members.iter();
        let above = members.flat_map(|member| member.path.ancestors().skip(1));
        let above: BTreeSet<&Path> = above.filter(|dir| !dir.as_os_str().is_empty()).collect();
        let mut dirs = Vec::with_capacity(above.len());
        for within in above {
            let known = || self.index.dirs.iter().find(|dir| dir.path == within);
            dirs.extend(ArchivedDir::read(root, within)?.or_else(|| known().cloned()));
        }
        self.index.dirs = dirs;
        Ok(())
    }

    /// Adds a file, or updates member `at`. Returns `false` if the file does not exist.
    pub(super) fn take(
        &mut self,
        root: &Path,
        within: &Path,
        at: Option<usize>,
        is_log: bool,
        now: Timestamp,
    ) -> Result<bool> {
        let path = root.join(within);
        let known = at.and_then(|at| Some((at, self.index.members.get(at)?.clone())));
        let is_sound = known.as_ref().is_none_or(|(_, member)| {
            let mut parts = member.parts.iter();
            !parts.any(|part| self.unreadable.contains(&part.frame))
        });
        if let Some((_, member)) = &known
            && is_sound
            && let Ok(metadata) = path.symlink_metadata()
            && member.id().untouched(&FileId::from(&metadata))
            && member.owner.is_some()
        {
            return Ok(true);
        }
        let Some((file, metadata)) = open_source(&path)? else {
            return Ok(false);
        };
        self.changed = true;
        let mut fresh = OpenedSource {
            path: &path,
            file,
            id: FileId::from(&metadata),
            mode: metadata.mode() & 0o7777,
            owner: Owner::from(&metadata),
            attributes: attributes::read(&path)?,
        };
        let Some((at, member)) = known else {
            self.index.members.push(fresh.member(within));
            return self
                .put_all(self.index.members.len() - 1, &mut fresh)
                .map(|()| true);
        };
        let goes_on = fresh.goes_on(&member)?;
        if goes_on && is_sound {
            self.grow(at, &member, &mut fresh)?;
            return Ok(true);
        }
        // Replaced, truncated or changed: keep the old version too. If only the pack is damaged,
        // the source has everything.
        if !goes_on {
            let earlier = Member {
                until: Some(now),
                ..member
            };
            self.index.earlier.push(earlier);
            if !is_log {
                self.drop_oldest_versions(within);
            }
        }
        if let Some(place) = self.index.members.get_mut(at) {
            *place = fresh.member(within);
        }
        self.put_all(at, &mut fresh).map(|()| true)
    }

    /// Adds the bytes that were appended to a file.
    pub(super) fn grow(
        &mut self,
        at: usize,
        member: &Member,
        fresh: &mut OpenedSource<'_>,
    ) -> Result<()> {
        let failed = |error| Error::io("read", fresh.path, error);
        let grew = fresh.id.len > member.len;
        let mut rest = vec![0; ResumableSha256::partial_block_len(member.len) as usize];
        let from = member.len - rest.len() as u64;
        fresh.file.read_exact_at(&mut rest, from).map_err(failed)?;
        let mut sum = ResumableSha256::resume(&member.state, member.len, &rest);
        let mut parts = member.parts.clone();
        let last = parts.last().copied().filter(|last| {
            let frame = self.index.frames.get(last.frame as usize);
            grew && frame.is_some_and(|frame| frame.len < SHORT)
        });
        let mut again = Vec::new();
        if let (Some(last), Some(old)) = (last, self.old) {
            again.resize(last.len as usize, 0);
            let start = member.len - u64::from(last.len);
            let read = old.file(member).read_exact_at(&mut again, start);
            read.map_err(|error| Error::io("read", self.path, error))?;
            parts.pop();
        }
        if let Some(place) = self.index.members.get_mut(at) {
            *place = Member {
                parts,
                ..fresh.member(&member.path)
            };
        }
        self.put(at, &again)?;
        self.put_range(at, fresh, member.len, &mut sum)
    }

    pub(super) fn put_all(&mut self, at: usize, fresh: &mut OpenedSource<'_>) -> Result<()> {
        self.put_range(at, fresh, 0, &mut ResumableSha256::new())
    }

    /// Adds the content of a file from offset `from` to its end.
    pub(super) fn put_range(
        &mut self,
        at: usize,
        fresh: &OpenedSource<'_>,
        from: u64,
        sum: &mut ResumableSha256,
    ) -> Result<()> {
        let whole = fresh.read(from, fresh.id.len, |bytes| {
            sum.update(bytes);
            self.added += bytes.len() as u64;
            self.put(at, bytes)
        })?;
        if !whole {
            // The file got shorter while it was read.
            return Err(Error::File(FileError::Changed {
                path: fresh.path.to_owned(),
            }));
        }
        if let Some(member) = self.index.members.get_mut(at) {
            member.sha256 = sum.sum();
            member.state = sum.state();
        }
        Ok(())
    }

    /// Drops the oldest versions of a document beyond the limit.
    pub(super) fn drop_oldest_versions(&mut self, within: &Path) {
        let versions = self.index.earlier.iter().filter(|it| it.path == within);
        let mut excess = versions.count().saturating_sub(EARLIER);
        self.index.earlier.retain(|it| {
            let goes = it.path == within && excess > 0;
            excess -= usize::from(goes);
            !goes
        });
    }

    pub(super) fn put(&mut self, at: usize, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = FRAME.saturating_sub(self.buffer.len());
            let (some, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(some);
            match self.pieces.last_mut() {
                Some((member, len)) if *member == at => *len += some.len() as u32,
                _ => self.pieces.push((at, some.len() as u32)),
            }
            bytes = rest;
            if self.buffer.len() >= FRAME {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the buffered content as a frame.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        packed.reserve(zstd::zstd_safe::compress_bound(self.buffer.len()));
        let made = self
            .compressor
            .compress_to_buffer(&self.buffer, &mut packed);
        made.map_err(|error| Error::io("compress", self.path, error))?;
        let number = self.add_frame(&packed, self.buffer.len() as u32)?;
        self.packed = packed;
        let mut at = 0;
        for (member, len) in self.pieces.drain(..) {
            if let Some(member) = self.index.members.get_mut(member) {
                member.parts.push(FrameRange {
                    frame: number,
                    at,
                    len,
                });
            }
            at += len;
        }
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn add_frame(&mut self, packed: &[u8], len: u32) -> Result<u32> {
        let number = self.index.frames.len() as u32;
        self.index.frames.push(Frame {
            at: self.end,
            bytes: packed.len() as u32,
            len,
        });
        self.write(packed)?;
        self.since_checkpoint += packed.len() as u64;
        Ok(number)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.file;
        file.write_all(bytes)
            .map_err(|error| write_error(self.path, error))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes an index of the files complete so far, if a checkpoint is due (see the module docs).
    /// Not needed when appending: the pack has an index already.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        let many = if self.end > LARGE { 32 } else { 3 };
        let is_due =
            self.checkpoints < CHECKPOINTS || self.since_checkpoint >= many * self.last_checkpoint;
        if self.old.is_some() || self.since_checkpoint == 0 || !is_due {
            return Ok(());
        }
        let frames = self.index.frames.len();
        let is_whole = |member: &Member| {
            let parts = member.parts.iter();
            let len: u64 = parts.clone().map(|part| u64::from(part.len)).sum();
            len == member.len && parts.clone().all(|part| (part.frame as usize) < frames)
        };
        let mut index = self.index.clone();
        index.members.retain(is_whole);
        index.earlier.retain(is_whole);
        // An index with a directory that has no file is refused.
        let dirs = std::mem::take(&mut index.dirs).into_iter();
        let holds = |dir: &ArchivedDir| index.all().any(|it| it.path.starts_with(&dir.path));
        index.dirs = dirs.filter(holds).collect();
        index.drop_unused_frames();
        index.twice = false;
        index.checkpoint = true;
        let begin = self.end;
        let (packed, footer) = self.pack_index(&index)?;
        self.write(&[&packed[..], &footer].concat())?;
        self.last_checkpoint = self.end - begin;
        self.checkpoints += self.last_checkpoint;
        self.since_checkpoint = 0;
        Ok(())
    }

    /// Encodes an index and its footer.
    fn pack_index(&mut self, index: &PackIndex) -> Result<(Vec<u8>, [u8; FOOTER])> {
        // Readers would refuse this index, so it is not written.
        if let Some(fault) = index.fault(HEADER as u64..self.end) {
            return Err(pack::refused(
                self.path,
                &format!("cannot be written: {fault}"),
            ));
        }
        let json = serde_json::to_vec(index);
        let json =
            json.map_err(|error| pack::refused(self.path, &format!("cannot be written: {error}")))?;
        let packed = self.compressor.compress(&json);
        let packed = packed.map_err(|error| Error::io("compress", self.path, error))?;
        let footer = pack::footer(&self.nonce, self.end, json.len() as u64, &packed);
        Ok((packed, footer))
    }

    /// Writes the index and syncs the pack.
    pub(super) fn close(&mut self) -> Result<()> {
        let synced = |file: &File| file.sync_all().map_err(|e| Error::io("sync", self.path, e));
        if self.old.is_some() {
            synced(self.file)?;
        }
        self.index.drop_unused_frames();
        self.index.twice = true;
        self.index.checkpoint = false;
        let index = self.index.clone();
        // Twice, so that damage to one copy leaves the other. To a reader of the second copy, the
        // first is an older index.
        for _ in 0..2 {
            let (packed, footer) = self.pack_index(&index)?;
            self.write(&[&packed[..], &footer].concat())?;
        }
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", self.path, e))
    }
}

/// A file to archive, with its metadata when it was opened.
pub(super) struct OpenedSource<'a> {
    pub(super) path: &'a Path,
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) mode: u32,
    pub(super) owner: Owner,
    pub(super) attributes: Vec<ExtendedAttribute>,
}

impl OpenedSource<'_> {
    /// Returns the member for this file, without content.
    pub(super) fn member(&self, within: &Path) -> Member {
        let empty = ResumableSha256::new();
        Member {
            path: within.to_owned(),
            len: self.id.len,
            sha256: empty.sum(),
            state: empty.state(),
            mode: self.mode,
            owner: Some(self.owner),
            attributes: self.attributes.clone(),
            mtime_ns: self.id.mtime_ns,
            ctime_ns: self.id.ctime_ns,
            dev: self.id.dev,
            ino: self.id.ino,
            parts: Vec::new(),
            until: None,
        }
    }

    /// Returns whether the file still starts with all archived bytes.
    pub(super) fn goes_on(&self, member: &Member) -> Result<bool> {
        if self.id.len < member.len {
            return Ok(false);
        }
        let mut sum = ResumableSha256::new();
        let whole = self.read(0, member.len, |bytes| {
            sum.update(bytes);
            Ok(())
        })?;
        Ok(whole && sum.sum() == member.sha256)
    }

    /// Passes the bytes from `from` to `to`. Returns `false` if the file ends before `to`.
    pub(super) fn read(
        &self,
        from: u64,
        to: u64,
        mut give: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut block = vec![0; (256 << 10).min(to.saturating_sub(from)) as usize];
        let mut at = from;
        while at < to {
            let want = (block.len() as u64).min(to - at) as usize;
            let some = block.get_mut(..want).unwrap_or_default();
            let read = self.file.fill_at(some, at);
            let read = read.map_err(|error| Error::io("read", self.path, error))?;
            if read < want {
                return Ok(false);
            }
            give(some)?;
            at += want as u64;
        }
        Ok(true)
    }
}
