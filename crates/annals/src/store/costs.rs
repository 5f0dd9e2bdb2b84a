//! Costs of a store's sessions: the ledger, and the attribution of responses to conversations.
//!
//! [`Store::costs`] returns the handle, [`Costs`]. usage_collector.rs reads the ledger,
//! branch_attribution.rs the attribution.

use super::Store;

/// The costs of a store's sessions.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    pub(super) store: &'a Store,
}

impl Store {
    /// Returns the costs of the sessions.
    pub fn costs(&self) -> Costs<'_> {
        Costs { store: self }
    }
}
