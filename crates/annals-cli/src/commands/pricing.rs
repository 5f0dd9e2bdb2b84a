//! Costs, for verbs that show them among other data.

use annals::cost::{Charge, ContextFill, PriceMode, Prices, Tally};
use annals::model::Money;
use anstyle::Style;
use anyhow::Result;

use crate::config::Config;
use crate::context::Context;
use annals_render::style::{PLAIN, WARNING};
use annals_render::table::Cell;
use annals_render::{money, size};

/// The user's prices and price mode, as `annals cost` uses them.
pub(crate) struct Pricer {
    pub(crate) prices: Prices,
    pub(crate) mode: PriceMode,
    pub(crate) config: Config,
}

impl Pricer {
    /// Loads prices and settings. Mistakes in them are only warnings, because cost is not the main
    /// output.
    pub(crate) fn new(context: &mut Context) -> Result<Self> {
        let mut config = context.config_or_default();
        if let Some(Err(error)) = config.zone.as_deref().map(super::cost::parse_zone) {
            let path = Config::path(&context.config_dir);
            context.print_warning(&format!(
                "{}: {error:#} (the system's zone is used)",
                path.display()
            ));
            config.zone = None;
        }
        Ok(Pricer {
            prices: context.prices_or_built_in()?,
            mode: config.mode.unwrap_or_default().mode(),
            config,
        })
    }

    /// Returns the cost of a response; `None` if it has no price.
    pub(crate) fn price(&self, charge: &Charge) -> Option<Money> {
        self.prices.cost(charge, self.mode)
    }

    /// Sums the costs of responses.
    pub(crate) fn tally<'a>(&self, charges: impl IntoIterator<Item = &'a Charge>) -> Tally {
        Tally::from_charges(charges, &|charge: &Charge| self.price(charge))
    }

    /// Returns how full the context window was after a response.
    pub(crate) fn context_fill(&self, charge: &Charge) -> Option<ContextFill> {
        self.prices.context_fill(charge)
    }

    /// Returns the context window of a model, if known.
    pub(crate) fn context_window(&self, model: &str) -> Option<u64> {
        self.prices.context_window(model)
    }
}

/// Table cell of a cost; empty if there were no requests.
pub(crate) fn cost_cell(tally: &Tally) -> Cell {
    match tally.requests {
        0 => Cell::new(""),
        _ => styled_cost_cell(tally, PLAIN, money::cents),
    }
}

/// Table cell of a cost, formatted by `amount`.
pub(crate) fn styled_cost_cell(tally: &Tally, style: Style, amount: fn(Money) -> String) -> Cell {
    let whole = tally.unpriced == 0;
    Cell::styled(
        format_cost(tally, amount),
        if whole { style } else { WARNING },
    )
}

/// Text of a cost; `None` if there were no requests.
pub(crate) fn text(tally: &Tally) -> Option<String> {
    (tally.requests > 0).then(|| cost_text_or_zero(tally))
}

/// Text of a cost, also if there were no requests.
pub(crate) fn cost_text_or_zero(tally: &Tally) -> String {
    format_cost(tally, money::cents)
}

fn format_cost(tally: &Tally, amount: fn(Money) -> String) -> String {
    match tally.priced() {
        None => "unpriced".to_owned(),
        // Some responses have no price, so this is a lower bound.
        Some(cost) if tally.unpriced > 0 => money::at_least(&amount(cost)),
        Some(cost) => amount(cost),
    }
}

/// Formats a fill as `context 84.0k of 200k, 42 %`.
pub(crate) fn format_context_fill(fill: &ContextFill) -> String {
    let tokens = size::compact(fill.tokens);
    match fill.window.zip(fill.percent()) {
        Some((window, percent)) => {
            format!("context {tokens} of {}, {percent} %", size::compact(window))
        }
        None => format!("context {tokens}"),
    }
}
