//! What it cost: every response once, at the prices of its day, to the pico-dollar.
//!
//! A [`Ledger`] knows which responses there were and whose they are, whatever layout told of them. Prices turn its
//! charges into money, a [`Report`] adds that up. Nothing in here reads files.
//!
//! ```
//! # use annals::cost::{Charge, Dimension, Ledger, Mode, Options, Prices, Report};
//! # use annals::model::{Money, Usage};
//! # use jiff::tz::TimeZone;
//! # let mut charge = Charge::to(0);
//! # charge.time = "2026-11-15T10:00:00Z".parse().ok();
//! # charge.source_mut().model = Some("claude-sonnet-4-5".into());
//! # charge.usage = Usage { input: 1_000, output: 50, ..Usage::default() };
//! # let ledger = Ledger::new(Vec::new(), vec![charge; 100]);
//! let prices = Prices::built_in();
//! let price = |charge: &Charge| prices.cost(charge, Mode::Auto);
//! let options = Options::new(TimeZone::UTC, &price);
//! let report = Report::make(&ledger, &[Dimension::Day], &options);
//! assert_eq!(report.rows[0].key(), "2026-11-15");
//! assert_eq!(report.total.priced(), Money::parse("0.375"));
//! ```

mod axis;
mod block;
mod budget;
mod calendar;
mod dimension;
mod fill;
mod ledger;
mod places;
pub mod prices;
mod report;
mod sheet;
mod tally;

pub use block::{BLOCK, Block, BurnRate, Projection, blocks};
pub use budget::{Budget, Spending};
pub use calendar::{Period, Unit};
pub use dimension::Dimension;
pub use fill::Fill;
pub use ledger::{Account, Charge, Ledger, Source};
pub use prices::{Mode, Prices};
pub use report::{
    BranchName, Branching, ModelTally, Options, Part, Pricing, Report, Row, Sort, Unpriced,
};
pub use sheet::Sheet;
pub(crate) use sheet::{Opening, Owner};
pub use tally::Tally;
