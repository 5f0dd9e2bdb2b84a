//! What it cost: every response once, at the prices of its day, to the pico-dollar.
//!
//! A [`Ledger`] knows which responses there were and whose they are, whatever layout told of them. Prices turn its
//! charges into money, reports add that up. Nothing in here reads files.

mod ledger;
pub mod prices;
mod sheet;

pub use ledger::{Account, Charge, Ledger};
pub use prices::{Mode, Prices};
pub(crate) use sheet::Opening;
pub use sheet::Sheet;
