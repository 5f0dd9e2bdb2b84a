//! Opens sessions for writing: new ones, existing ones, and their sub-agents.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::append_point::{self, AppendPoint};
use crate::store::inventory::{RootFile, SessionFiles};
use crate::store::lifecycle::SessionState;
use crate::store::session_list::{self, ListUpdater};
use crate::store::shared_log::SessionSlice;
use crate::store::{Root, Store, thread};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, Create, Log};
use annals_layouts::Subject;
use annals_layouts::layout::{AppendState, Change, NewSession, PlanContext, Writer};
use annals_layouts::model::{Artifact, ArtifactKind, Framing, SessionId};

use super::new_id::{is_chosen, refuse_chosen};
use super::rows::row_writer;
use super::{
    SessionWriter, WriteOptions, create_parent_dirs, existing_file, header_fields, layout_writer,
    open_or_create, real_directory, refuse_unknown, with_id_lock, with_plan_context,
};

impl Store {
    /// Begins a session and opens it for writing.
    pub fn create(
        &self,
        root: &Root,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = layout_writer(root).or_else(|_| row_writer(root))?;
        refuse_unknown(root, writer.session_members(), |_| true, &new.members)?;
        if new
            .title
            .as_deref()
            .is_some_and(|title| title.trim().is_empty())
        {
            return Err(Error::refused("a title must not be empty"));
        }
        session_list::refuse_damaged(root, writer)?;
        let cwd = root.layout.spelled_directory(&new.cwd);
        let cwd = cwd.unwrap_or_else(|| real_directory(&new.cwd));
        let home = || session_list::folder_for_directory(root, writer, &cwd);
        let new = &NewSession {
            folder: new.folder.clone().or_else(home),
            cwd: cwd.clone(),
            ..new.clone()
        };
        let log = with_plan_context(options.now, &self.zone(), |stamp| {
            writer.new_session_log(new, stamp)
        })?;
        if matches!(log.framing, Framing::Rows(_)) {
            return self.create_rows(root, new, log, Vec::new(), options);
        }
        let begin = || self.begin_session(root, writer, new, options);
        match is_chosen(&log, new) {
            true => with_id_lock(root, &log, || {
                thread::refuse_known_thread(root, writer, new, &log)?;
                begin()
            }),
            false => begin(),
        }
    }

    fn begin_session(
        &self,
        root: &Root,
        writer: &dyn Writer,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let (file, log) = self.create_log(root, new, options)?;
        let session = match &file.slice {
            Some(share) => share.name.clone(),
            None => file.session(&new.id),
        };
        let head = AppendState {
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            writer_state: header_fields(new),
            ..AppendState::new(session, file.artifact.clone())
        };
        let listing = ListUpdater::for_new_log(writer, &head);
        let session = SessionWriter {
            root: root.clone(),
            options,
            zone: self.zone(),
            log: Mutex::new(Some(Arc::new(log))),
            log_totals: Mutex::default(),
            append_point: Mutex::new(AppendPoint::new(head, file, options.allows_live(root))),
            lone: false,
            archived_todos: Vec::new(),
            list_updater: listing,
            state: Mutex::new(SessionState::Created),
            unwritten: false,
        };
        session.apply_change(&Change::Begin)?;
        let has_title = writer.title_in_header() || writer.title_in_session_list();
        if let Some(title) = new.title.as_deref().filter(|_| !has_title) {
            session.retitle(title)?;
        }
        Ok(session)
    }

    /// Returns the own session of the log that a session would use if it began at this time, or
    /// now.
    pub(in crate::store) fn current_log_session(
        &self,
        root: &Root,
        new: &NewSession,
        now: Option<Timestamp>,
    ) -> Result<Option<SessionId>> {
        let writer = layout_writer(root)?;
        let log = with_plan_context(now, &self.zone(), |stamp| {
            writer.new_session_log(new, stamp)
        })?;
        Ok(log.session)
    }

    /// Creates a new session's log, or opens the one that it will share.
    pub(in crate::store) fn create_log(
        &self,
        root: &Root,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<(RootFile, Log)> {
        let writer = layout_writer(root)?;
        let mut now = options.now.unwrap_or_else(Timestamp::now);
        loop {
            let stamp = |stamp: &mut PlanContext<'_>| writer.new_session_log(new, stamp);
            let artifact = with_plan_context(Some(now), &self.zone(), stamp)?;
            let path = root.locate(&artifact)?;
            create_parent_dirs(root, &path)?;
            let shared = artifact.kind == ArtifactKind::SharedLog;
            if let Some(own) = artifact.session.clone().filter(|_| shared && new.unnamed) {
                // A session without a chosen id is the log's own session if it is the first in the
                // log. An empty log that another program created counts as a session that begins
                // now.
                let create = match is_untouched(root, &path, &artifact)? {
                    true => Create::Never,
                    false => Create::New,
                };
                match root.open_log(&path, options.log_options(create)) {
                    Err(Error::File(FileError::Io { source, .. }))
                        if source.kind() == io::ErrorKind::AlreadyExists => {}
                    opened => {
                        let log = opened?;
                        let mut file = existing_file(path, artifact)?;
                        file.slice = Some(SessionSlice::empty(own).into());
                        return Ok((file, log));
                    }
                }
            }
            refuse_chosen(root, &artifact, new)?;
            let opened = match shared {
                true => open_or_create(root, &path, options),
                false => root.open_log(&path, options.log_options(Create::New)),
            };
            // If the log is named after the time, retry with a later time.
            let named = artifact.session.as_ref() != Some(&new.id);
            let taken = matches!(&opened, Err(Error::File(FileError::Io { source, .. })) if source.kind() == io::ErrorKind::AlreadyExists);
            if taken && named && !shared {
                now = now
                    .checked_add(jiff::SignedDuration::from_millis(1))
                    .unwrap_or(now);
                continue;
            }
            let log = opened?;
            let mut file = existing_file(path, artifact)?;
            file.slice = shared.then(|| SessionSlice::empty(new.id.clone()).into());
            return Ok((file, log));
        }
    }

    /// Opens a session's main log for writing.
    pub fn open_writer(
        &self,
        files: &SessionFiles,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        files.refuse_archived()?;
        if let Some(file) = files.unwritten.as_deref() {
            return self.open_unwritten(files, file, options);
        }
        let Some(file) = &files.log else {
            return Err(Error::refused(format!(
                "session {} has no log of its own to write to",
                files.id
            )));
        };
        self.open_log_writer(files, file, options)
    }
}

impl SessionFiles {
    /// Fails if annals reads the session's layout but does not write it: then it removes nothing
    /// either.
    pub fn refuse_read_only(&self) -> Result<()> {
        layout_writer(&self.root).map(|_| ())
    }

    /// Fails if the session is in a database: it also holds other data of its program, such as
    /// secrets, so it is not copied.
    pub(crate) fn refuse_database(&self) -> Result<()> {
        match self.is_in_database() {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "session {} is in a database or in single files of its program, which annals does not copy; `annals export` or `annals convert` copies the session",
                self.id
            ))),
        }
    }

    /// Returns whether its log is part of a database, or is spread over files of single messages.
    pub(crate) fn is_in_database(&self) -> bool {
        let mut logs = self.logs();
        logs.any(|file| match file.artifact.framing {
            Framing::Rows(_) => true,
            Framing::Files(format) => !format.is_whole,
            Framing::Lines | Framing::Document(_) | Framing::LinesOrDocument(_) => false,
        })
    }

    /// Fails with [`Error::Live`] if another program is writing to the session right now, and with
    /// [`Held`](annals_jsonl::Error::Held) if one has a file of it open for writing.
    pub fn ensure_not_in_use(&self) -> Result<()> {
        self.refuse_held()?;
        let mut logs = self.logs();
        logs.try_for_each(|file| append_point::ensure_not_in_use(&self.root, file))
    }
}

impl SessionWriter {
    /// Opens a sub-agent's log for writing. Requires the full id: a prefix could select another
    /// sub-agent.
    pub fn open_agent(
        store: &Store,
        files: &SessionFiles,
        agent: &str,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        files.refuse_archived()?;
        let is_it = |file: &&RootFile| {
            let id = file.artifact.agent.as_ref();
            id.is_some_and(|id| id.as_str() == agent)
        };
        match files.agents.iter().find(is_it) {
            Some(file) => store.open_log_writer(files, file, options),
            None => Err(Error::NotFound {
                what: Subject::SubAgent,
                id: agent.to_owned(),
            }),
        }
    }
}

impl Store {
    /// Opens a session that is in a session list and has no log yet. Its first message creates the
    /// log.
    fn open_unwritten(
        &self,
        files: &SessionFiles,
        file: &RootFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = layout_writer(&files.root)?;
        files.root.ensure_inside(&file.path)?;
        if jsonl::exists(&file.path)? {
            // Another program has created it meanwhile.
            let file = existing_file(file.path.clone(), file.artifact.clone())?;
            let files = SessionFiles {
                log: Some(file.clone()),
                unwritten: None,
                ..files.clone()
            };
            return self.open_log_writer(&files, &file, options);
        }
        let head = AppendState {
            attachments: files
                .attachments
                .iter()
                .map(|it| it.artifact.clone())
                .collect(),
            cwd: files.listed(|about| about.cwd.clone()),
            git_branch: files.listed(|about| about.git_branch.clone()),
            writer_state: thread::words_of_stand_in(&files.root, &file.artifact)?,
            ..AppendState::new(files.id.clone(), file.artifact.clone())
        };
        Ok(SessionWriter {
            root: Root::clone(&files.root),
            options,
            zone: self.zone(),
            log: Mutex::new(None),
            list_updater: ListUpdater::for_log(writer, files, &head),
            append_point: Mutex::new(AppendPoint::new(head, file.clone(), options.live)),
            log_totals: Mutex::default(),
            lone: false,
            archived_todos: Vec::new(),
            state: Mutex::new(SessionState::Created),
            unwritten: true,
        })
    }

    fn open_log_writer(
        &self,
        files: &SessionFiles,
        file: &RootFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        if matches!(file.artifact.framing, Framing::Rows(_)) {
            return self.open_rows(files, file, options);
        }
        let writer = layout_writer(&files.root)?;
        let file = &continued_volume(&files.root, file)?;
        if file.is_archived() {
            return Err(Error::refused(format!(
                "{} is archived and cannot be changed; {} restores it",
                file.path.display(),
                annals_layouts::text::quoted_command(
                    "annals restore",
                    files.id.as_str(),
                    "--apply"
                )
            )));
        }
        files.root.ensure_inside(&file.path)?;
        let log = files
            .root
            .open_log(&file.path, options.log_options(Create::Never))?;
        // An empty notes log still needs its header.
        let begun = |file: &&RootFile| file.artifact.kind != ArtifactKind::Notes || file.id.len > 0;
        // Files that are only in the archive are recreated when they change; todos from the
        // archived copy.
        let begun = |file: &&RootFile| begun(file) && !file.is_archived();
        let beside = files.attachments.iter().filter(begun);
        let head = AppendState {
            attachments: beside.map(|file| file.artifact.clone()).collect(),
            cwd: files.listed(|about| about.cwd.clone()),
            git_branch: files.listed(|about| about.git_branch.clone()),
            writer_state: match file.id.len {
                0 => thread::words_of_stand_in(&files.root, &file.artifact)?,
                _ => BTreeMap::new(),
            },
            ..AppendState::new(files.id.clone(), file.artifact.clone())
        };
        let mut tail = AppendPoint::new(head, file.clone(), options.allows_live(&files.root));
        log.with_lock(|handle| tail.locate(&files.root, handle))?;
        let resumed = tail.state.leaf.is_some();
        if files.is_lone() && tail.state.leaf.is_none() {
            return Err(Error::refused(format!(
                "{} is outside of any root and contains no message, so it may not be a session",
                file.path.display()
            )));
        }
        let listing = ListUpdater::for_log(writer, files, &tail.state);
        let kept = files.attachments.iter();
        let kept = kept.filter(|it| it.is_archived() && it.artifact.kind == ArtifactKind::Todos);
        let session = SessionWriter {
            root: Root::clone(&files.root),
            options,
            zone: self.zone(),
            log: Mutex::new(Some(Arc::new(log))),
            append_point: Mutex::new(tail),
            log_totals: Mutex::default(),
            lone: files.is_lone(),
            archived_todos: kept.cloned().collect(),
            list_updater: listing,
            state: Mutex::new(match resumed {
                true => SessionState::Resumed,
                false => SessionState::Created,
            }),
            unwritten: false,
        };
        session.refresh_list()?;
        Ok(session)
    }
}

/// Returns a log with the volume that its program resumes as the last one.
fn continued_volume(root: &Root, file: &RootFile) -> Result<RootFile> {
    let spec = root.layout.spec();
    let (Some(is_idle), false) = (spec.is_idle_volume, file.earlier.is_empty()) else {
        return Ok(file.clone());
    };
    let mut volumes: Vec<RootFile> = file.volumes().cloned().collect();
    for volume in &mut volumes {
        volume.earlier.clear();
    }
    for at in (0..volumes.len()).rev() {
        let Some(volume) = volumes.get(at) else {
            continue;
        };
        if !is_idle(&root.entries(volume)?) {
            let volume = volumes.remove(at);
            return Ok(RootFile {
                earlier: volumes,
                ..volume
            });
        }
    }
    Ok(file.clone())
}

/// Returns whether a log is empty and annals has begun no session in it.
fn is_untouched(root: &Root, log: &Path, artifact: &Artifact) -> Result<bool> {
    let is_empty = |it: &std::fs::Metadata| it.is_file() && it.len() == 0;
    if !jsonl::metadata_if_exists(log)?.is_some_and(|it| is_empty(&it)) {
        return Ok(false);
    }
    let companion = root.layout.companion(artifact);
    let companion = companion.and_then(|companion| root.locate(&companion).ok());
    let Some(companion) = companion else {
        return Ok(true);
    };
    let companion = jsonl::metadata_if_exists(&companion)?;
    Ok(companion.is_none_or(|it| is_empty(&it)))
}
