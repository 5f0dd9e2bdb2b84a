//! Budget names and warnings.

use annals::cost::{BudgetUsage, Unit};
use annals::model::Money;
use annals::view::BudgetJson;
use jiff::{Timestamp, ToSpan as _};

use crate::commands::pricing;
use crate::config::BUDGETS;
use annals_render::money;
use annals_render::size::pluralize;
use annals_render::style::{PLAIN, WARNING};
use annals_render::time::Clock;
use annals_render::width::Span;

/// Returns a budget's name.
pub(crate) fn name(spending: &BudgetUsage) -> &'static str {
    let unit = spending.budget.unit;
    let found = BUDGETS.iter().find(|(_, known)| *known == unit);
    found.map_or("", |(name, _)| name)
}

/// Returns the use of a budget as JSON.
pub(crate) fn json(spending: &BudgetUsage) -> BudgetJson<'static> {
    BudgetJson::new(spending, name(spending))
}

/// Returns a warning if a budget is nearly used up, or if its use is unknown.
pub(crate) fn warning_line(spending: &BudgetUsage, clock: &Clock) -> Option<Span> {
    let unpriced = spending.tally.unpriced;
    let unknown = spending.tally.priced().is_none();
    if !spending.is_near_limit() && !unknown {
        return None;
    }
    let name = name(spending);
    let limit = format_limit(spending.budget.limit);
    let spent = pricing::cost_text_or_zero(&spending.tally);
    let percent = spending.percent();
    let least = if unpriced > 0 { "At least " } else { "" };
    let pace = format!(
        "at this pace {} by {}",
        money::cents(spending.projected),
        format_end(spending, clock)
    );
    let mut line = match () {
        () if spending.is_exceeded() => format!(
            "! The {name} budget of {limit} is exceeded: {spent} is used, {percent} %; {pace}"
        ),
        () if unknown => {
            format!("! Usage of the {name} budget of {limit} is unknown")
        }
        () => format!("{least}{percent} % of the {name} budget of {limit} is used; {pace}"),
    };
    if unpriced > 0 {
        let count = pluralize(unpriced, "request");
        line += &format!(" ({count} without a price not counted)");
    }
    let style = if line.starts_with('!') {
        WARNING
    } else {
        PLAIN
    };
    Some(Span::new(&line, style))
}

/// Formats a limit without zero cents: `$200`.
fn format_limit(limit: Money) -> String {
    let exact = money::exact(limit);
    exact.strip_suffix(".00").unwrap_or(&exact).to_owned()
}

fn format_end(spending: &BudgetUsage, clock: &Clock) -> String {
    let last = spending.period.end.checked_sub(1.nanosecond());
    let last = last.unwrap_or(Timestamp::MAX);
    match spending.budget.unit {
        Unit::Month => clock.format(last, "%-d %B"),
        Unit::Week => "Sunday".to_owned(),
        _ => "midnight".to_owned(),
    }
}
