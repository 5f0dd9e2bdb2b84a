//! Whose a log is, and what its session is about.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::cost::{Account, Charge, LogCharges};
use crate::model::{ArtifactKind, Project, SessionId};
use crate::store::inventory::{RootFile, SessionLists};
use crate::store::{Root, info, shared_log};

/// What was entered so far.
#[derive(Debug, Default)]
pub(super) struct LedgerEntries {
    pub(super) accounts: Vec<Account>,
    pub(super) charges: Vec<Charge>,
    /// How many records could not be read whole.
    pub(super) uncounted: u64,
}

/// What a log spent, as someone else keeps it.
pub(crate) trait StoredUsage {
    /// It spent nothing.
    fn is_empty(&self) -> bool;
    /// How many records could not be read whole.
    fn uncounted(&self) -> u64;
    /// The session named first.
    fn first(&self) -> Option<&str>;
    /// The working directories in which a model answered, the newest last.
    fn directories(&self) -> Vec<Arc<str>>;
    /// Adds the charges, for the session with that number, whose log it is alone; `None` if they
    /// turn out to be damaged.
    fn charges(&self, account: usize, only: &SessionId, to: &mut Vec<Charge>) -> Option<()>;
}

/// Whose a log is.
fn owning_session(file: &RootFile, first: Option<&str>) -> Option<SessionId> {
    let named = || SessionId::new(first?).ok();
    // A log that tells nobody's session is a session of its own.
    let own = || SessionId::new(file.path.file_stem()?.to_str()?).ok();
    let session = file.artifact.session.clone();
    session.or_else(named).or_else(own)
}

/// Whether a session's log is that of a sub-agent. One that is named after the session is its own.
fn is_aside(file: &RootFile, session: &SessionId) -> bool {
    let own = file.artifact.session.is_none()
        && file.path.file_stem().and_then(OsStr::to_str) == Some(session.as_str());
    file.artifact.is_agent_log() && !own
}

/// The sessions of a root.
#[derive(Debug)]
pub(super) struct Attribution<'a> {
    pub(super) root: &'a Root,
    session_lists: SessionLists,
    /// Where each is among the sessions, and the number of its account.
    known: HashMap<(SessionId, Option<String>), (usize, usize)>,
    sessions: Vec<AttributedSession>,
    /// Who was asked about last.
    last: Option<(usize, usize)>,
    /// With whom the volume before ended, and the folder it lies in.
    volume_before: Option<(Option<String>, shared_log::VolumeEnd)>,
}

#[derive(Debug)]
struct AttributedSession {
    account: usize,
    folder: Option<String>,
    /// Its own log was entered.
    has_log: bool,
    /// Directories that its logs name, with whether the log is a sub-agent's and its number.
    directories: Vec<((bool, usize), Arc<str>)>,
}

impl<'a> Attribution<'a> {
    /// For up to `most` logs.
    pub(super) fn new(root: &'a Root, registers: SessionLists, most: usize) -> Self {
        Attribution {
            root,
            session_lists: registers,
            known: HashMap::with_capacity(most),
            sessions: Vec::new(),
            last: None,
            volume_before: None,
        }
    }

    /// Enters what a log spent.
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

    /// The same of a log that is one session's, as it was told; `None` if that was damaged.
    pub(super) fn add_stored_log(
        &mut self,
        number: usize,
        file: &RootFile,
        told: &impl StoredUsage,
        entries: &mut LedgerEntries,
    ) -> Option<()> {
        let session = owning_session(file, told.first()).filter(|_| !told.is_empty());
        if let Some(session) = session {
            let aside = is_aside(file, &session);
            let (at, account) = self.account(&session, file, aside, entries);
            let before = entries.charges.len();
            let added = told.charges(account, &session, &mut entries.charges);
            if added.is_none() {
                entries.charges.truncate(before);
                return None;
            }
            self.add_directories(at, (aside, number), &told.directories());
        }
        entries.uncounted += told.uncounted();
        Some(())
    }

    /// Enters what a log spent in which several sessions lie.
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
        let Some(owner) = owner.or_else(|| file.artifact.session.clone()) else {
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

    /// The number of a session's account, which is opened if need be.
    fn account(
        &mut self,
        session: &SessionId,
        file: &RootFile,
        aside: bool,
        entries: &mut LedgerEntries,
    ) -> (usize, usize) {
        let folder = &file.artifact.folder;
        let next = (self.sessions.len(), entries.accounts.len());
        // A session's logs mostly follow each other.
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
            // The newest volume of its own log stands for a session, or else its first sub-agent's
            // log, whichever was read first.
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

    /// Takes note of the directories that a log names.
    fn add_directories(&mut self, at: usize, log: (bool, usize), directories: &[Arc<str>]) {
        if let Some(payer) = self.sessions.get_mut(at) {
            let named = directories.iter().map(|path| (log, path.clone()));
            payer.directories.extend(named);
        }
    }

    /// Says what each session is about.
    pub(super) fn assign_projects(mut self, accounts: &mut [Account]) {
        let mut doubt = false;
        for payer in &mut self.sessions {
            let Some(account) = accounts.get_mut(payer.account) else {
                continue;
            };
            // Its own log first, whichever was read first.
            payer.directories.sort_by_key(|(log, _)| *log);
            let named = payer.directories.iter();
            let directories: Vec<&str> = named.map(|(_, path)| &**path).collect();
            let folder = payer.folder.as_deref();
            let about = self.session_lists.rows(folder, &account.session);
            let told = about.iter().find_map(|about| about.cwd.clone());
            (account.project, account.other_directories) =
                info::infer_project(self.root, folder, &directories, told);
            // The nearest counts, so it is taken in last.
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

    /// Where a session names no directory, others of its folder may, if there is no doubt.
    fn infer_projects(&self, accounts: &mut [Account]) {
        let mut homes: HashMap<&str, BTreeSet<String>> = HashMap::new();
        for payer in &self.sessions {
            let project = accounts.get(payer.account).map(|account| &account.project);
            let Some(project) = project.filter(|project| !project.guessed) else {
                continue;
            };
            let Some(folder) = payer.folder.as_deref() else {
                continue;
            };
            if self.root.layout.folder(&project.path).as_deref() == Some(folder) {
                homes
                    .entry(folder)
                    .or_default()
                    .insert(project.path.clone());
            }
        }
        for payer in &self.sessions {
            let folder = payer.folder.as_deref();
            let homes = folder.and_then(|folder| homes.get(folder));
            let home = homes.filter(|homes| homes.len() == 1);
            let home = home.and_then(|homes| homes.first());
            if let Some(account) = accounts.get_mut(payer.account)
                && account.project.guessed
                && let Some(path) = home
            {
                account.project = Project {
                    path: path.clone(),
                    guessed: false,
                };
            }
        }
    }
}
