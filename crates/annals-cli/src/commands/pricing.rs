//! What things cost, for verbs that tell it beside other things.

use annals::cost::{Charge, ContextFill, PriceMode, Prices, Tally};
use annals::model::Money;
use anstyle::Style;
use anyhow::Result;
use serde::Serialize;

use crate::config::Config;
use crate::context::Context;
use crate::render::style::{PLAIN, WARNING};
use crate::render::table::Cell;
use crate::render::{money, size};

/// The user's prices, and how costs are found: the same as `annals cost` goes by.
pub(crate) struct Pricer {
    prices: Prices,
    mode: PriceMode,
    pub(crate) config: Config,
}

impl Pricer {
    /// Whoever asks for something else is not stopped by a fault in what the user says of money.
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

    /// What a response cost; `None` if it has no price.
    pub(crate) fn price(&self, charge: &Charge) -> Option<Money> {
        self.prices.cost(charge, self.mode)
    }

    /// What some responses come to.
    pub(crate) fn tally<'a>(&self, charges: impl IntoIterator<Item = &'a Charge>) -> Tally {
        Tally::from_charges(charges, &|charge: &Charge| self.price(charge))
    }

    /// How full the context window was after a response.
    pub(crate) fn context_fill(&self, charge: &Charge) -> Option<ContextFill> {
        self.prices.context_fill(charge)
    }

    /// The context window of a model, where it is known.
    pub(crate) fn context_window(&self, model: &str) -> Option<u64> {
        self.prices.context_window(model)
    }
}

/// A cost in a table; empty where there was nothing to pay for.
pub(crate) fn cost_cell(tally: &Tally) -> Cell {
    match tally.requests {
        0 => Cell::new(""),
        _ => styled_cost_cell(tally, PLAIN, money::cents),
    }
}

/// A cost in a table, spelled by `amount`.
pub(crate) fn styled_cost_cell(tally: &Tally, style: Style, amount: fn(Money) -> String) -> Cell {
    let whole = tally.unpriced == 0;
    Cell::styled(
        format_cost(tally, amount),
        if whole { style } else { WARNING },
    )
}

/// A cost as JSON; `None` where no response is told of, or none has a price.
pub(crate) fn known_cost(tally: &Tally) -> Option<Money> {
    tally.priced().filter(|_| tally.requests > 0)
}

/// A cost among other facts; `None` where there was nothing to pay for.
pub(crate) fn text(tally: &Tally) -> Option<String> {
    (tally.requests > 0).then(|| cost_text_or_zero(tally))
}

/// A cost where one is always told.
pub(crate) fn cost_text_or_zero(tally: &Tally) -> String {
    format_cost(tally, money::cents)
}

fn format_cost(tally: &Tally, amount: fn(Money) -> String) -> String {
    match tally.priced() {
        None => "unpriced".to_owned(),
        // Some of it has no price, so it is this much at the least.
        Some(cost) if tally.unpriced > 0 => money::at_least(&amount(cost)),
        Some(cost) => amount(cost),
    }
}

/// `context 84.0k of 200k, 42 %`
pub(crate) fn filled(fill: &ContextFill) -> String {
    let tokens = size::compact(fill.tokens);
    match fill.window.zip(fill.percent()) {
        Some((window, percent)) => {
            format!("context {tokens} of {}, {percent} %", size::compact(window))
        }
        None => format!("context {tokens}"),
    }
}

/// How full a context window was, as JSON.
#[derive(Serialize)]
pub(crate) struct ContextFillJson {
    tokens: u64,
    window: Option<u64>,
    share: Option<f64>,
}

impl ContextFillJson {
    pub(crate) fn new(fill: ContextFill) -> Self {
        // For people; the counts beside it are exact.
        let rounded = |share: f64| (share * 10_000.0).round() / 10_000.0;
        ContextFillJson {
            tokens: fill.tokens,
            window: fill.window,
            share: fill.share().map(rounded),
        }
    }
}
