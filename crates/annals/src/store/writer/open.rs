//! Opens sessions for writing: new ones, those that are there, and their sub-agents.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{self, Create, Log};
use crate::layout::{Change, Head, NewSession, Stamp, Writer};
use crate::model::{Artifact, ArtifactKind, SessionId};
use crate::store::inventory::{FoundFile, SessionFiles};
use crate::store::life::State;
use crate::store::register::{self, Listing};
use crate::store::share::Share;
use crate::store::tail::{self, Tail};
use crate::store::{Root, Store, thread};

use super::new_id::{is_chosen, refuse_chosen};
use super::{
    SessionWriter, WriteOptions, begin_alone, found, make_parent, open_or_make, real_directory,
    refuse_unknown, stamped, words_of, writer_of,
};

impl Store {
    /// Begins a session and opens it for writing.
    pub fn create(
        &self,
        root: &Root,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = writer_of(root)?;
        refuse_unknown(root, writer.session_members(), |_| true, &new.members)?;
        if new
            .title
            .as_deref()
            .is_some_and(|title| title.trim().is_empty())
        {
            return Err(Error::refused("a title must not be empty"));
        }
        register::refuse_damaged(root, writer)?;
        let cwd = root.layout.spelled_directory(&new.cwd);
        let cwd = cwd.unwrap_or_else(|| real_directory(&new.cwd));
        let home = || register::home(root, writer, &cwd);
        let new = &NewSession {
            folder: new.folder.clone().or_else(home),
            cwd: cwd.clone(),
            ..new.clone()
        };
        let log = stamped(options.now, &self.zone(), |stamp| {
            writer.session(new, stamp)
        })?;
        let begin = || self.begin_session(root, writer, new, options);
        match is_chosen(&log, new) {
            true => begin_alone(root, &log, || {
                thread::refuse_known(root, writer, new, &log)?;
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
        let (file, log) = self.make(root, new, options)?;
        let session = match &file.share {
            Some(share) => share.name.clone(),
            None => file.session(&new.id),
        };
        let head = Head {
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            words: words_of(new),
            ..Head::new(session, file.artifact.clone())
        };
        let listing = Listing::of_new(writer, &head);
        let session = SessionWriter {
            root: root.clone(),
            options,
            zone: self.zone(),
            log: Mutex::new(Some(Arc::new(log))),
            tally: Mutex::default(),
            tail: Mutex::new(Tail::new(head, file, options.live_in(root))),
            lone: false,
            kept: Vec::new(),
            listing,
            state: Mutex::new(State::Created),
            unwritten: false,
        };
        session.change(&Change::Begin)?;
        let has_title = writer.begins_with_title() || writer.lists_title();
        if let Some(title) = new.title.as_deref().filter(|_| !has_title) {
            session.retitle(title)?;
        }
        Ok(session)
    }

    /// The id that a session would have if it began at this time, or now.
    pub(crate) fn name_of(
        &self,
        root: &Root,
        new: &NewSession,
        now: Option<Timestamp>,
    ) -> Result<SessionId> {
        let writer = writer_of(root)?;
        let artifact = stamped(now, &self.zone(), |stamp| writer.session(new, stamp))?;
        let own = artifact.session;
        let own = own.filter(|_| artifact.kind != ArtifactKind::SharedLog);
        Ok(own.unwrap_or_else(|| new.id.clone()))
    }

    /// The own session of the log that a session would be written to if it began at this time, or now.
    pub(in crate::store) fn log_of_now(
        &self,
        root: &Root,
        new: &NewSession,
        now: Option<Timestamp>,
    ) -> Result<Option<SessionId>> {
        let writer = writer_of(root)?;
        let log = stamped(now, &self.zone(), |stamp| writer.session(new, stamp))?;
        Ok(log.session)
    }

    /// Makes a new session's log, or finds the one that it will share.
    pub(in crate::store) fn make(
        &self,
        root: &Root,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<(FoundFile, Log)> {
        let writer = writer_of(root)?;
        let mut now = options.now.unwrap_or_else(Timestamp::now);
        loop {
            let stamp = |stamp: &mut Stamp<'_>| writer.session(new, stamp);
            let artifact = stamped(Some(now), &self.zone(), stamp)?;
            let path = root.locate(&artifact)?;
            make_parent(root, &path)?;
            let shared = artifact.kind == ArtifactKind::SharedLog;
            if let Some(own) = artifact.session.clone().filter(|_| shared && new.unnamed) {
                // A session that nobody named is the log's own, if it is the first in it. A log that
                // another program made and left empty is a session that begins now.
                let create = match is_untouched(root, &path, &artifact)? {
                    true => Create::Never,
                    false => Create::New,
                };
                match root.open_log(&path, options.log(create)) {
                    Err(Error::Io { source, .. })
                        if source.kind() == io::ErrorKind::AlreadyExists => {}
                    opened => {
                        let log = opened?;
                        let mut file = found(path, artifact)?;
                        file.share = Some(Share::none(own).into());
                        return Ok((file, log));
                    }
                }
            }
            refuse_chosen(root, &artifact, new)?;
            let opened = match shared {
                true => open_or_make(root, &path, options),
                false => root.open_log(&path, options.log(Create::New)),
            };
            // Where a log is named after the time, a moment later there is another name.
            let named = artifact.session.as_ref() != Some(&new.id);
            let taken = matches!(&opened, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists);
            if taken && named && !shared {
                now = now
                    .checked_add(jiff::SignedDuration::from_millis(1))
                    .unwrap_or(now);
                continue;
            }
            let log = opened?;
            let mut file = found(path, artifact)?;
            file.share = shared.then(|| Share::none(new.id.clone()).into());
            return Ok((file, log));
        }
    }

    /// Opens a session's main log for writing.
    pub fn write(&self, files: &SessionFiles, options: WriteOptions) -> Result<SessionWriter> {
        files.refuse_archived()?;
        if let Some(file) = files.unwritten.as_deref() {
            return self.write_first(files, file, options);
        }
        let Some(file) = &files.log else {
            return Err(Error::refused(format!(
                "session {} has no log of its own to write to",
                files.id
            )));
        };
        self.write_log(files, file, options)
    }

    /// Fails with [`Error::Live`] if another program is writing to the session right now, and with
    /// [`Error::Held`] if one has a file of it open for writing.
    pub fn is_free(&self, files: &SessionFiles) -> Result<()> {
        files.refuse_held()?;
        let mut logs = files.logs();
        logs.try_for_each(|file| tail::check_free(&files.root, file))
    }

    /// Opens the log of one of a session's sub-agents for writing. The id must be whole: what is meant
    /// for one sub-agent is never written to another whose id begins so.
    pub fn write_agent(
        &self,
        files: &SessionFiles,
        agent: &str,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        files.refuse_archived()?;
        let is_it = |file: &&FoundFile| {
            let id = file.artifact.agent.as_ref();
            id.is_some_and(|id| id.as_str() == agent)
        };
        match files.agents.iter().find(is_it) {
            Some(file) => self.write_log(files, file, options),
            None => Err(Error::NotFound {
                what: "sub-agent",
                id: agent.to_owned(),
            }),
        }
    }

    /// Opens a session that a session list names and that has no log yet. The log is made by its
    /// first message.
    fn write_first(
        &self,
        files: &SessionFiles,
        file: &FoundFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = writer_of(&files.root)?;
        files.root.guard(&file.path)?;
        if jsonl::exists(&file.path)? {
            // Someone else has made it since it was looked for.
            let file = found(file.path.clone(), file.artifact.clone())?;
            let files = SessionFiles {
                log: Some(file.clone()),
                unwritten: None,
                ..files.clone()
            };
            return self.write_log(&files, &file, options);
        }
        let head = Head {
            beside: files.beside.iter().map(|it| it.artifact.clone()).collect(),
            cwd: files.told(|about| about.cwd.clone()),
            git_branch: files.told(|about| about.git_branch.clone()),
            words: thread::words_of_stand_in(&files.root, &file.artifact)?,
            ..Head::new(files.id.clone(), file.artifact.clone())
        };
        Ok(SessionWriter {
            root: Root::clone(&files.root),
            options,
            zone: self.zone(),
            log: Mutex::new(None),
            listing: Listing::of(writer, files, &head),
            tail: Mutex::new(Tail::new(head, file.clone(), options.live)),
            tally: Mutex::default(),
            lone: false,
            kept: Vec::new(),
            state: Mutex::new(State::Created),
            unwritten: true,
        })
    }

    fn write_log(
        &self,
        files: &SessionFiles,
        file: &FoundFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = writer_of(&files.root)?;
        if file.is_kept() {
            return Err(Error::refused(format!(
                "{} is archived and cannot be changed; {} puts it back",
                file.path.display(),
                crate::text::hint("annals restore", files.id.as_str(), "--apply")
            )));
        }
        files.root.guard(&file.path)?;
        let log = files
            .root
            .open_log(&file.path, options.log(Create::Never))?;
        // A log in which nothing stands still wants what stands first in it.
        let begun =
            |file: &&FoundFile| file.artifact.kind != ArtifactKind::Notes || file.id.len > 0;
        // What is only in the archive is made anew where it is changed; of todos, from what is kept.
        let begun = |file: &&FoundFile| begun(file) && !file.is_kept();
        let beside = files.beside.iter().filter(begun);
        let head = Head {
            beside: beside.map(|file| file.artifact.clone()).collect(),
            cwd: files.told(|about| about.cwd.clone()),
            git_branch: files.told(|about| about.git_branch.clone()),
            words: match file.id.len {
                0 => thread::words_of_stand_in(&files.root, &file.artifact)?,
                _ => BTreeMap::new(),
            },
            ..Head::new(files.id.clone(), file.artifact.clone())
        };
        let mut tail = Tail::new(head, file.clone(), options.live_in(&files.root));
        log.locked(|handle| tail.find(&files.root, handle))?;
        let resumed = tail.head.leaf.is_some();
        if files.is_lone() && tail.head.leaf.is_none() {
            return Err(Error::refused(format!(
                "{} lies outside of any root and holds no message, so it may be no session at all",
                file.path.display()
            )));
        }
        let listing = Listing::of(writer, files, &tail.head);
        let kept = files.beside.iter();
        let kept = kept.filter(|it| it.is_kept() && it.artifact.kind == ArtifactKind::Todos);
        let session = SessionWriter {
            root: Root::clone(&files.root),
            options,
            zone: self.zone(),
            log: Mutex::new(Some(Arc::new(log))),
            tail: Mutex::new(tail),
            tally: Mutex::default(),
            lone: files.is_lone(),
            kept: kept.cloned().collect(),
            listing,
            state: Mutex::new(match resumed {
                true => State::Resumed,
                false => State::Created,
            }),
            unwritten: false,
        };
        session.heal()?;
        Ok(session)
    }
}

/// Whether a log is empty, and annals has begun no session in it.
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
