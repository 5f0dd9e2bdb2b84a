//! What is known of roots from before, and what there is to remember of them.

use super::Root;
use super::inventory::Folders;
use super::owners::{Owned, Owners};
use super::share::KnownShares;

/// What somebody remembers of roots. Whatever it is, answers are the same; they come sooner.
pub(crate) trait Recall {
    /// Whose logs are where only their contents tell.
    fn owners(&self, root: &Root) -> Vec<Owned>;

    /// Whose the stretches of shared logs are, as it was learnt.
    fn shares(&self, root: &Root) -> Vec<u8>;

    /// What directories held, as it was learnt.
    fn folders(&self, root: &Root) -> Vec<u8>;
}

/// What is remembered while roots are gone through.
pub(crate) struct Memory<'a> {
    recall: Option<&'a dyn Recall>,
    pub(super) owners: Owners<'a>,
    pub(super) shares: KnownShares<'a>,
    /// What directories hold, where that is not what was known.
    learnt: Vec<(Root, Vec<u8>)>,
}

/// What is not remembered yet.
pub(crate) struct Learnt {
    pub(crate) owners: Vec<(Root, Vec<Owned>)>,
    pub(crate) shares: Vec<(Root, Vec<u8>)>,
    pub(crate) folders: Vec<(Root, Vec<u8>)>,
}

impl<'a> Memory<'a> {
    /// Nothing is known, and nothing is to be remembered.
    pub(crate) fn none() -> Self {
        Memory {
            recall: None,
            owners: Owners::unknown(),
            shares: KnownShares::unknown(),
            learnt: Vec::new(),
        }
    }

    /// What someone remembers.
    pub(crate) fn of(recall: &'a dyn Recall) -> Self {
        Memory {
            recall: Some(recall),
            owners: Owners::new(|root| recall.owners(root)),
            shares: KnownShares::new(|root| recall.shares(root)),
            learnt: Vec::new(),
        }
    }

    /// Goes through a root with what is known of its directories.
    pub(super) fn folders<T>(
        &mut self,
        root: &Root,
        walk: impl FnOnce(&mut Folders<'_>) -> T,
    ) -> T {
        let Some(recall) = self.recall else {
            return walk(&mut Folders::unknown());
        };
        let known = recall.folders(root);
        let mut folders = Folders::recall(&known);
        let walked = walk(&mut folders);
        let found = folders.told();
        if *found != known {
            self.learnt.push((root.clone(), found.into_owned()));
        }
        walked
    }

    /// What there is to remember.
    pub(crate) fn learnt(self) -> Learnt {
        Learnt {
            owners: self.owners.learnt,
            shares: self.shares.learnt,
            folders: self.learnt,
        }
    }
}
