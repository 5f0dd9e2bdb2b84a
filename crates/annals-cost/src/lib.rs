//! Cost accounting: every response counted once, at the prices of its day, exact to the
//! pico-dollar.
//!
//! A [`Ledger`] holds the responses of all layouts and the sessions that pay for them. [`Prices`]
//! turn charges into money, and a [`CostReport`] adds them up. Nothing here reads files,
//! the environment or the clock.
//!
//! ```
//! # use annals_cost::{Charge, CostReport, Dimension, Ledger, PriceMode, Prices, ReportOptions};
//! # use annals_layouts::model::{Money, Usage};
//! # use jiff::tz::TimeZone;
//! # let mut charge = Charge::new(0);
//! # charge.time = "2026-11-15T10:00:00Z".parse().ok();
//! # charge.source_mut().model = Some("claude-sonnet-4-5".into());
//! # charge.usage = Usage { input: 1_000, output: 50, ..Usage::default() };
//! # let ledger = Ledger::new(Vec::new(), vec![charge; 100]);
//! let prices = Prices::built_in();
//! let price = |charge: &Charge| prices.cost(charge, PriceMode::Auto);
//! let options = ReportOptions::new(TimeZone::UTC, &price);
//! let report = CostReport::new(&ledger, &[Dimension::Day], &options);
//! assert_eq!(report.rows[0].key(), "2026-11-15");
//! assert_eq!(report.total.priced(), Money::parse("0.375"));
//! ```

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]

mod block;
mod budget;
mod calendar;
mod context_window;
mod dimension;
mod first_seen;
mod ledger;
mod log_charges;
pub mod prices;
mod report;
mod tally;

pub use block::{BLOCK_LENGTH, BillingBlock, BurnRate, Projection, blocks};
pub use budget::{Budget, BudgetUsage};
pub use calendar::{Period, Unit};
pub use context_window::ContextFill;
pub use dimension::Dimension;
pub use ledger::{Account, Charge, ChargeSource, Ledger};
pub use log_charges::LogCharges;
pub use log_charges::{DirectoryOwner, LogStart, SIDECHAIN, sidechain_of};
pub use prices::{PriceMode, Prices};
pub use report::{
    AgentKindFn, BranchFn, BranchName, CostReport, ModelTally, PriceFn, ReportOptions, ReportRow,
    RowPart, Sort, Unpriced,
};
pub use tally::Tally;
