//! The charges of one log, as far as it has been read.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use annals_layouts::layout::ReplyDelta;
use annals_layouts::model::{Fact, Outline, OutlineKind, ResponseKey, SYNTHETIC, SessionId};

use super::first_seen::FirstSeen;
use super::{Charge, ChargeSource};

/// Collector of the charges of one log, from its outlines in order.
///
/// It does not assign them to sessions: a log may hold several sessions, and some logs name their
/// session only in their records.
#[derive(Clone, Debug, Default)]
pub struct LogCharges {
    /// Each response once, with the session that its record names.
    pub charges: Vec<(Charge, Option<Arc<str>>)>,
    first_seen: FirstSeen,
    /// Working directories in which a model answered, with the order of the last answer in each.
    directories: HashMap<(DirectoryOwner, Arc<str>), usize>,
    /// Counter for that order.
    moves: usize,
    /// True if a model answered since the last change of directory or session.
    cwd_unchanged: bool,
    /// Current working directory of each owner.
    pub cwd: HashMap<DirectoryOwner, Arc<str>>,
    /// True if the log holds several sessions.
    pub shared: bool,
    /// Number of records that are damaged or have impossible token counts.
    pub uncounted: u64,
    /// First session named.
    pub first: Option<Arc<str>>,
    /// Last session named.
    pub session: Option<Arc<str>>,
    /// Last git branch named.
    pub git_branch: Option<Arc<str>>,
    /// Start of the log.
    pub start: Option<LogStart>,
    /// Time of the newest record.
    pub latest: Option<Timestamp>,
    /// Charge of the newest reply.
    last: Option<Charge>,
}

/// Owner of a working directory: a session, if the log holds several.
pub type DirectoryOwner = Option<Arc<str>>;

/// Start of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// True if the first record continues another log.
    pub continues_other_log: bool,
    /// Time of the first record.
    pub time: Option<Timestamp>,
}

/// Agent of the replies that early clients wrote into the main log: of sub-agents without ids.
pub const SIDECHAIN: &str = "sidechain";

/// Returns the name of the sub-agent without an id that received a response.
pub fn sidechain_of(response: ResponseKey) -> String {
    let [high, low] = response.message.halves();
    format!("{SIDECHAIN} {high:016x}{low:016x}")
}

impl LogCharges {
    /// Adds the next record.
    pub fn add(&mut self, outline: &Outline) {
        if self.start.is_none() {
            self.start = Some(LogStart {
                continues_other_log: outline.kind == OutlineKind::Assistant
                    || !outline.results.is_empty(),
                time: outline.time,
            });
        }
        self.latest = self.latest.max(outline.time);
        for fact in &outline.facts {
            match fact {
                Fact::Session(id) => {
                    let id: Arc<str> = (**id).into();
                    self.first.get_or_insert_with(|| id.clone());
                    self.session = Some(id);
                    self.cwd_unchanged = false;
                }
                Fact::GitBranch(name) => {
                    self.git_branch = (!name.is_empty()).then(|| (**name).into());
                }
                Fact::Cwd(path) => {
                    self.cwd.insert(self.owner(), (**path).into());
                    self.cwd_unchanged = false;
                }
                _ => {}
            }
        }
        if outline.kind == OutlineKind::Assistant && !self.cwd_unchanged {
            self.cwd_unchanged = true;
            let owner = self.owner();
            if let Some(path) = self.cwd.get(&owner).cloned() {
                self.add_directory(owner, path);
            }
        }
        let Some(reply) = &outline.reply else { return };
        // The client's own error messages are not replies of a model.
        if reply.model.as_deref() == Some(SYNTHETIC) {
            return;
        }
        if reply.usage.is_none() && reply.recorded.is_none() {
            return;
        }
        let agent = outline.agent.as_ref().map(|agent| agent.as_str());
        let agent = agent.or(outline.sidechain.then_some(SIDECHAIN));
        let charge = self.last.get_or_insert_with(|| Charge::new(0));
        charge.response = reply.response;
        charge.time = outline.time;
        charge.usage = reply.usage.unwrap_or_default();
        charge.recorded = reply.recorded.map(Box::new);
        charge.copied = reply.copied;
        let source = &*charge.source;
        let model = reply.model.as_deref();
        let same = source.model.as_deref() == model
            && source.terms == reply.terms
            && source.agent.as_deref() == agent
            && source.git_branch == self.git_branch;
        if !same {
            charge.source = Arc::new(ChargeSource {
                model: reuse_text(&source.model, model),
                terms: reply.terms,
                agent: reuse_text(&source.agent, agent),
                git_branch: self.git_branch.clone(),
            });
        }
        self.push_charge();
    }

    /// Adds a reply that repeats the previous one except for the fields of `again`. Does nothing if
    /// there is no previous reply.
    pub fn add_delta(&mut self, again: &ReplyDelta) {
        let Some(charge) = &mut self.last else { return };
        self.latest = self.latest.max(again.time);
        charge.response = again.response;
        charge.time = again.time;
        charge.usage = again.usage;
        self.push_charge();
    }

    /// Returns the owner of the last record.
    fn owner(&self) -> DirectoryOwner {
        self.session.clone().filter(|_| self.shared)
    }

    /// Adds a directory as the most recent one.
    pub fn add_directory(&mut self, owner: DirectoryOwner, path: Arc<str>) {
        self.moves += 1;
        self.directories.insert((owner, path), self.moves);
    }

    /// Returns the working directories in which a model answered, most recent last, with their
    /// owners.
    pub fn directories(&self) -> Vec<&(DirectoryOwner, Arc<str>)> {
        let named = self.directories.iter().map(|(path, when)| (when, path));
        let mut named: Vec<(&usize, &(DirectoryOwner, Arc<str>))> = named.collect();
        named.sort_unstable();
        named.into_iter().map(|(_, path)| path).collect()
    }

    /// Returns the time of the newest charge.
    pub fn latest_charge(&self) -> Option<Timestamp> {
        self.charges
            .iter()
            .filter_map(|(charge, _)| charge.time)
            .max()
    }

    /// Rebuilds the duplicate table of a stored collection, so that more records can be added.
    pub fn resume(mut self) -> Self {
        self.first_seen = FirstSeen::with_capacity(self.charges.len());
        for at in 0..self.charges.len() {
            self.earlier_duplicate(at);
        }
        self
    }

    /// Returns the earlier position of the response at `at`, if it is a duplicate.
    fn earlier_duplicate(&mut self, at: usize) -> Option<usize> {
        let charges = &self.charges;
        let name = |at: usize| charges.get(at).and_then(|(charge, _)| charge.response);
        self.first_seen.find_or_insert(at, name(at)?, name)
    }

    /// Adds the charge of the newest reply, merged with earlier records of the same response.
    fn push_charge(&mut self) {
        let Some(charge) = &self.last else { return };
        // The records of a response are mostly consecutive.
        if let Some((last, _)) = self.charges.last_mut()
            && charge.response.is_some()
            && last.response == charge.response
        {
            return last.merge(charge);
        }
        let last = self.charges.len();
        self.charges.push((charge.clone(), self.session.clone()));
        if let Some(first) = self.earlier_duplicate(last)
            && let Some((charge, _)) = self.charges.pop()
            && let Some((known, _)) = self.charges.get_mut(first)
        {
            known.merge(&charge);
        }
    }

    /// Returns the charges of the log, assigned to an account.
    ///
    /// If the log belongs to `only` one session, records that name another one are marked as
    /// copies.
    pub fn charges(self, account: usize, only: Option<&SessionId>) -> impl Iterator<Item = Charge> {
        self.charges.into_iter().map(move |(mut charge, named)| {
            let foreign =
                |session: &SessionId| named.is_some_and(|name| *name != *session.as_str());
            charge.account = account;
            charge.copied |= only.is_some_and(foreign);
            charge
        })
    }
}

/// Returns `text`; shares the last one if it is the same.
fn reuse_text(last: &Option<Arc<str>>, text: Option<&str>) -> Option<Arc<str>> {
    let same = last.as_ref().filter(|last| Some(&***last) == text);
    same.cloned().or_else(|| text.map(Arc::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_layouts::model::{ResponseKey, Span};

    fn answer(facts: &[Fact]) -> Outline {
        let mut outline = Outline::new(Span {
            offset: 0,
            len: 1,
            line: 1,
        });
        outline.kind = OutlineKind::Assistant;
        outline.facts = facts.to_vec();
        outline
    }

    #[test]
    fn directory_of_last_reply_is_listed_last() {
        let cwd = |path: &str| Fact::Cwd(path.into());
        let mut sheet = LogCharges::default();
        for facts in [&[cwd("/a")][..], &[], &[cwd("/b")], &[cwd("/a")], &[]] {
            sheet.add(&answer(facts));
        }
        let mut prompt = answer(&[cwd("/c")]);
        prompt.kind = OutlineKind::User;
        sheet.add(&prompt);
        let paths = |sheet: &LogCharges| {
            let named = sheet.directories().into_iter();
            named.map(|(_, path)| path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&sheet), ["/b", "/a"]);
        sheet.add(&answer(&[]));
        assert_eq!(paths(&sheet), ["/b", "/a", "/c"]);
    }

    #[test]
    fn session_named_again_keeps_its_directory() {
        let session = |id: &str| Fact::Session(id.into());
        let cwd = |path: &str| Fact::Cwd(path.into());
        let mut sheet = LogCharges {
            shared: true,
            ..LogCharges::default()
        };
        sheet.add(&answer(&[session("s"), cwd("/a")]));
        sheet.add(&answer(&[session("t"), cwd("/b")]));
        sheet.add(&answer(&[session("s")]));
        let named = sheet.directories().into_iter();
        let named: Vec<_> = named
            .map(|(owner, path)| (owner.as_deref(), &**path))
            .collect();
        assert_eq!(named, [(Some("t"), "/b"), (Some("s"), "/a")]);
    }

    #[test]
    fn response_is_counted_once_across_its_lines() {
        let line = |id: &str, output: u64| {
            let mut charge = Charge::new(0);
            charge.response = Some(ResponseKey::new(id, "r"));
            charge.usage.output = output;
            charge
        };
        let mut sheet = LogCharges::default();
        let push = |sheet: &mut LogCharges, charge: Charge| {
            sheet.last = Some(charge);
            sheet.push_charge();
        };
        push(&mut sheet, line("a", 1));
        push(&mut sheet, line("b", 2));
        push(&mut sheet, line("a", 3));
        push(&mut sheet, Charge::new(0));
        let mut sheet = sheet.resume();
        push(&mut sheet, line("b", 4));
        push(&mut sheet, Charge::new(0));
        let outputs = sheet.charges.iter().map(|(charge, _)| charge.usage.output);
        assert_eq!(outputs.collect::<Vec<_>>(), [3, 4, 0, 0]);
    }
}

#[cfg(test)]
mod template_tests;
