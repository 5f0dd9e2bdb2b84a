//! Attributes logs to sessions, and sessions to projects.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::cost::{Account, Charge, LogCharges};
use crate::store::inventory::{RootFile, SessionLists};
use crate::store::{Root, info, shared_log};
use annals_layouts::model::{ArtifactKind, Project, SessionId};

/// Accounts and charges so far.
#[derive(Debug, Default)]
pub(super) struct LedgerEntries {
    pub(super) accounts: Vec<Account>,
    pub(super) charges: Vec<Charge>,
    /// Number of records that could not be read completely.
    pub(super) uncounted: u64,
}

/// Stored usage of a log.
pub(crate) trait StoredUsage {
    /// Returns whether the log has no usage.
    fn is_empty(&self) -> bool;
    /// Number of records that could not be read completely.
    fn uncounted(&self) -> u64;
    /// The first session that the log names.
    fn first(&self) -> Option<&str>;
    /// The working directories in which a model answered, the newest last.
    fn directories(&self) -> Vec<Arc<str>>;
    /// Appends the charges to `to` for an account, whose session is the only one in the log; `None`
    /// if they are damaged.
    fn charges(&self, account: usize, only: &SessionId, to: &mut Vec<Charge>) -> Option<()>;
}

/// Returns the session that owns a log.
fn owning_session(file: &RootFile, first: Option<&str>) -> Option<SessionId> {
    let named = || SessionId::new(first?).ok();
    // A log that names no session is a session of its own.
    let own = || SessionId::new(file.path.file_stem()?.to_str()?).ok();
    let session = file.artifact.session.clone();
    session.or_else(named).or_else(own)
}

/// Returns whether a log is a sub-agent's. A log named after the session is the session's own.
fn is_aside(file: &RootFile, session: &SessionId) -> bool {
    let own = file.artifact.session.is_none()
        && file.path.file_stem().and_then(OsStr::to_str) == Some(session.as_str());
    file.artifact.is_agent_log() && !own
}

/// Sessions of a root.
#[derive(Debug)]
pub(super) struct Attribution<'a> {
    pub(super) root: &'a Root,
    session_lists: SessionLists,
    /// Index in `sessions` and account number of each session.
    known: HashMap<(SessionId, Option<String>), (usize, usize)>,
    sessions: Vec<AttributedSession>,
    /// The session that was looked up last.
    last: Option<(usize, usize)>,
    /// End of the previous volume, and its folder.
    volume_before: Option<(Option<String>, shared_log::VolumeEnd)>,
}

#[derive(Debug)]
struct AttributedSession {
    account: usize,
    folder: Option<String>,
    /// Whether its own log was added.
    has_log: bool,
    /// Directories in its logs, with whether the log is a sub-agent's and its number.
    directories: Vec<((bool, usize), Arc<str>)>,
}

impl<'a> Attribution<'a> {
    /// Creates an attribution for up to `most` logs.
    pub(super) fn new(root: &'a Root, session_lists: SessionLists, most: usize) -> Self {
        Attribution {
            root,
            session_lists,
            known: HashMap::with_capacity(most),
            sessions: Vec::new(),
            last: None,
            volume_before: None,
        }
    }

    /// Adds the charges of a log.
    pub(super) fn add_log(
        &mut self,
        number: usize,
        file: &RootFile,
        sheet: LogCharges,
        entries: &mut LedgerEntries,
    ) {
        entries.uncounted += sheet.uncounted;
        if file.artifact.kind == ArtifactKind::SharedLog {
            return self.add_shared_log(number, file, sheet, entries);
        }
        if sheet.charges.is_empty() {
            return;
        }
        let Some(session) = owning_session(file, sheet.first.as_deref()) else {
            return;
        };
        let directories = sheet.directories().into_iter();
        let directories: Vec<Arc<str>> = directories.map(|(_, path)| path.clone()).collect();
        let aside = is_aside(file, &session);
        let (at, account) = self.account(&session, file, aside, entries);
        self.add_directories(at, (aside, number), &directories);
        entries
            .charges
            .extend(sheet.charges(account, Some(&session)));
    }

    /// Like `add_log`, for stored usage of a log with one session; `None` if it is damaged.
    pub(super) fn add_stored_log(
        &mut self,
        number: usize,
        file: &RootFile,
        stored: &impl StoredUsage,
        entries: &mut LedgerEntries,
    ) -> Option<()> {
        let session = owning_session(file, stored.first()).filter(|_| !stored.is_empty());
        if let Some(session) = session {
            let aside = is_aside(file, &session);
            let (at, account) = self.account(&session, file, aside, entries);
            let before = entries.charges.len();
            let added = stored.charges(account, &session, &mut entries.charges);
            if added.is_none() {
                entries.charges.truncate(before);
                return None;
            }
            self.add_directories(at, (aside, number), &stored.directories());
        }
        entries.uncounted += stored.uncounted();
        Some(())
    }

    /// Adds the charges of a log that several sessions share.
    fn add_shared_log(
        &mut self,
        number: usize,
        file: &RootFile,
        mut sheet: LogCharges,
        entries: &mut LedgerEntries,
    ) {
        let folder = file.artifact.folder.clone();
        let before = self.volume_before.take().filter(|(of, _)| *of == folder);
        let before = before.map(|(_, ending)| ending);
        let goes_on = sheet.start.is_some_and(|opening| {
            shared_log::continues_turn(opening.continues_other_log, opening.time, before.as_ref())
        });
        let owner = before.filter(|_| goes_on).map(|before| before.session);
        let owner = owner.or_else(|| owning_session(file, sheet.first.as_deref()));
        let Some(owner) = owner else {
            return;
        };
        let named = |name: Option<Arc<str>>| {
            let name = name.and_then(|name| SessionId::new(&name).ok());
            name.unwrap_or_else(|| owner.clone())
        };
        for (mut charge, name) in std::mem::take(&mut sheet.charges) {
            let (session, agent) = shared_log::parse_owner(&named(name));
            let aside = agent.is_some();
            let (_, account) = self.account(&session, file, aside, entries);
            charge.account = account;
            if let Some(agent) = agent {
                charge.source_mut().agent = Some(agent.as_str().into());
            }
            entries.charges.push(charge);
        }
        for (owner, path) in sheet.directories() {
            let (session, agent) = shared_log::parse_owner(&named(owner.clone()));
            let aside = agent.is_some();
            let known = self.known.get(&(session, folder.clone())).copied();
            let log = (aside, number);
            if let Some((at, _)) = known {
                self.add_directories(at, log, std::slice::from_ref(path));
            }
        }
        if sheet.start.is_some() {
            let ending = shared_log::VolumeEnd {
                session: named(sheet.session),
                time: sheet.latest,
            };
            self.volume_before = Some((folder, ending));
        }
    }

    /// Returns the index and account number of a session. Creates the account if necessary.
    fn account(
        &mut self,
        session: &SessionId,
        file: &RootFile,
        aside: bool,
        entries: &mut LedgerEntries,
    ) -> (usize, usize) {
        let folder = &file.artifact.folder;
        let next = (self.sessions.len(), entries.accounts.len());
        // Logs of a session are usually adjacent.
        let is_it = |&(at, account): &(usize, usize)| {
            let payer = self.sessions.get(at);
            let account = entries.accounts.get(account);
            payer.is_some_and(|payer| payer.folder == *folder)
                && account.is_some_and(|account| account.session == *session)
        };
        let known = self.last.filter(is_it).unwrap_or_else(|| {
            let name = (session.clone(), folder.clone());
            *self.known.entry(name).or_insert(next)
        });
        self.last = Some(known);
        if known == next {
            self.sessions.push(AttributedSession {
                account: next.1,
                folder: folder.clone(),
                has_log: false,
                directories: Vec::new(),
            });
            let mut account =
                Account::new(self.root.layout.name(), &self.root.path, session.clone());
            account.file.clone_from(&file.path);
            entries.accounts.push(account);
        }
        if let Some(account) = entries.accounts.get_mut(known.1)
            && let Some(payer) = self.sessions.get_mut(known.0)
        {
            // The account's file is the newest volume of the session's own log, or else its first
            // sub-agent log, in any reading order.
            let stands = match (aside, payer.has_log) {
                (false, had) => !had || account.file < file.path,
                (true, had) => !had && file.path < account.file,
            };
            payer.has_log |= !aside;
            if stands {
                account.file.clone_from(&file.path);
            }
        }
        known
    }

    /// Adds the directories that a log names.
    fn add_directories(&mut self, at: usize, log: (bool, usize), directories: &[Arc<str>]) {
        if let Some(payer) = self.sessions.get_mut(at) {
            let named = directories.iter().map(|path| (log, path.clone()));
            payer.directories.extend(named);
        }
    }

    /// Sets the project of each session.
    pub(super) fn assign_projects(mut self, accounts: &mut [Account]) {
        let mut doubt = false;
        for payer in &mut self.sessions {
            let Some(account) = accounts.get_mut(payer.account) else {
                continue;
            };
            // Its own log first, in any reading order.
            crate::sort::by_key(&mut payer.directories, |(log, _)| *log);
            let named = payer.directories.iter();
            let directories: Vec<&str> = named.map(|(_, path)| &**path).collect();
            let folder = payer.folder.as_deref();
            let about = self.session_lists.rows(folder, &account.session);
            let listed = about.iter().find_map(|about| about.cwd.clone());
            (account.project, account.other_directories) =
                info::infer_project(self.root, folder, &directories, listed);
            // The first row takes precedence, so it is collected last.
            let attributes = about
                .iter()
                .rev()
                .flat_map(|about| about.attributes.clone());
            account.aliases = info::aliases(&attributes.collect());
            doubt |= account.project.guessed;
        }
        if doubt {
            self.infer_projects(accounts);
        }
    }

    /// Infers the project of sessions without a directory from others in their folder, if
    /// unambiguous.
    fn infer_projects(&self, accounts: &mut [Account]) {
        let mut directories: HashMap<&str, BTreeSet<String>> = HashMap::new();
        for payer in &self.sessions {
            let project = accounts.get(payer.account).map(|account| &account.project);
            let Some(project) = project.filter(|project| !project.guessed) else {
                continue;
            };
            let Some(folder) = payer.folder.as_deref() else {
                continue;
            };
            if self.root.layout.folder(&project.path).as_deref() == Some(folder) {
                directories
                    .entry(folder)
                    .or_default()
                    .insert(project.path.clone());
            }
        }
        for payer in &self.sessions {
            let folder = payer.folder.as_deref();
            let directories = folder.and_then(|folder| directories.get(folder));
            let directory = directories.filter(|directories| directories.len() == 1);
            let directory = directory.and_then(|directories| directories.first());
            if let Some(account) = accounts.get_mut(payer.account)
                && account.project.guessed
                && let Some(path) = directory
            {
                account.project = Project {
                    path: path.clone(),
                    guessed: false,
                };
            }
        }
    }
}
