//! What it cost: every response once, at the prices of its day, to the pico-dollar.
//!
//! A [`Ledger`] knows which responses there were and whose they are, whatever layout told of them. Prices turn its
//! charges into money, a [`Report`] adds that up. Nothing in here reads files.

mod axis;
mod block;
mod budget;
mod calendar;
mod dimension;
mod ledger;
mod report;
mod sheet;
mod tally;

pub use block::{BLOCK, Block, BurnRate, Projection, blocks};
pub use budget::{Budget, Spending};
pub use calendar::{Period, Unit};
pub use dimension::Dimension;
pub use ledger::{Account, Charge, Ledger};
pub use report::{BranchName, Branching, ModelTally, Options, Part, Pricing, Report, Row, Sort};
pub use sheet::Sheet;
pub use tally::Tally;
