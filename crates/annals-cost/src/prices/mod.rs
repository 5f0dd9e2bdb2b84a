//! Token prices: the built-in price list, users' own lists, and the matching of model names.
//!
//! The list is data (`data/prices.csv`); this module contains no price. Rows are parsed when a
//! model is first priced, so pricing two models reads about twenty lines. All arithmetic is exact.

mod list;
mod name;
mod overrides;
mod row;
mod suggest;
mod tariff;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::Date;

use annals_layouts::model::{Money, SYNTHETIC, ServiceTier};

use super::Charge;
use list::{Rows, normalize};
use name::{LONG_CONTEXT_SUFFIX, MAX_NAME_LEN, NameSimplifier};
use overrides::apply_overrides;
use tariff::{Tariff, first_day, row_in_effect};

pub use list::{PriceError, PriceListError};
pub use row::{PriceColumn, PriceRow};

/// Source of a price: the token counts, or the cost recorded in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriceMode {
    /// By tokens; the recorded cost if there are no tokens or no price for them.
    #[default]
    Auto,
    /// By tokens only.
    Tokens,
    /// Recorded cost only.
    Recorded,
}

/// Stack of price lists.
#[derive(Debug, Default)]
pub struct Prices {
    /// Users' lists in ascending priority; the built-in list has the lowest.
    own: Vec<Rows>,
    memo: Mutex<Memo>,
}

/// Cache of tariffs by model name, including names without one.
#[derive(Debug, Default)]
struct Memo {
    known: HashMap<Box<str>, Option<Arc<Tariff>>>,
    /// Last lookup: consecutive charges often share the text of their model.
    last: Option<(Arc<str>, Option<Arc<Tariff>>)>,
}

/// Result of a lookup in the price lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceMatch {
    /// Name that was looked up.
    pub asked: String,
    /// Name of the model in the list.
    pub model: String,
    /// Provider of the model.
    pub provider: String,
    /// Changes made to the name until it was found, in words.
    pub steps: Vec<String>,
    /// All rows of the model, sorted by service tier, day and context.
    pub rows: Vec<PriceRow>,
}

impl PriceMatch {
    /// Returns the row in effect on a day; without a day, the newest.
    pub fn row(&self, on: Option<Date>, pace: ServiceTier, context: u64) -> Option<&PriceRow> {
        let day = on.map_or(i64::MAX, first_day);
        let place = |row: &PriceRow| (row.tier, row.from.map_or(i64::MIN, first_day), row.above);
        row_in_effect(&self.rows, place, day, pace, context)
    }

    /// Returns the context window in tokens.
    pub fn context(&self) -> Option<u64> {
        match self
            .asked
            .to_ascii_lowercase()
            .contains(LONG_CONTEXT_SUFFIX)
        {
            true => Some(1_000_000),
            false => self.rows.iter().rev().find_map(|row| row.context),
        }
    }
}

impl Prices {
    /// Returns the built-in prices.
    pub fn built_in() -> Self {
        Prices::default()
    }

    /// Adds a user's list on top of these prices. `name` identifies it in error messages.
    ///
    /// A row replaces the row of the same model, day, context and service tier (column `pace`), or
    /// is added. A row without a day applies to all days: it replaces the rows of its model,
    /// context and tier on any day. If it has no context either, it also replaces the rows for long
    /// contexts. If its tier is also the standard one, it replaces all rows of the model. Other
    /// rows of the same list are always kept.
    ///
    /// A replacing row inherits what is not a token price: the provider, the context window, the
    /// price of searches and the surcharge for the United States.
    pub(crate) fn with_list(mut self, text: &str, name: &str) -> Result<Self, PriceListError> {
        let faulty = |faults: Vec<PriceError>| invalid_list(name, faults);
        let rows = list::parse(text, &name.into()).map_err(faulty)?;
        self.own.push(rows);
        self.memo = Mutex::default();
        let rows = self.own.last().into_iter().flat_map(BTreeMap::values);
        let unknown = |row: &&PriceRow| row.same_as.is_some() && self.find(&row.model).is_none();
        let mut faults: Vec<PriceError> = rows
            .flatten()
            .filter(unknown)
            .map(|row| PriceError {
                line: row.line,
                column: 1,
                what: format!(
                    "`{}` is an alias of `{}`, which has no prices",
                    row::brief(&row.model),
                    row::brief(row.same_as.as_deref().unwrap_or_default())
                ),
            })
            .collect();
        faults.sort_by_key(|fault| fault.line);
        match faults.is_empty() {
            true => Ok(self),
            false => Err(faulty(faults)),
        }
    }

    /// Adds a user's list from the bytes of a file.
    pub fn with_list_bytes(self, bytes: &[u8], name: &str) -> Result<Self, PriceListError> {
        match list::decode_utf8(bytes) {
            Ok(text) => self.with_list(text, name),
            Err(fault) => Err(invalid_list(name, vec![fault])),
        }
    }

    /// Returns the cost of a response; `None` if it is unknown.
    pub fn cost(&self, charge: &Charge, mode: PriceMode) -> Option<Money> {
        let model = charge.source.model.as_ref();
        if model.is_some_and(|model| Prices::is_free(model)) {
            return Some(Money::ZERO);
        }
        let by_tokens = || {
            let tariff = self.tariff(model?)?;
            tariff.cost(&charge.usage, charge.source.terms, charge.time)
        };
        let recorded = charge.recorded.as_deref().copied();
        // A recorded cost without tokens means that the tokens are missing, not zero.
        let lacks_tokens =
            || charge.usage.is_zero() && recorded.is_some_and(|cost| cost > Money::ZERO);
        match mode {
            PriceMode::Tokens if lacks_tokens() => None,
            PriceMode::Tokens => by_tokens(),
            PriceMode::Recorded => recorded,
            PriceMode::Auto if charge.usage.is_zero() => recorded.or_else(by_tokens),
            PriceMode::Auto => by_tokens().or(recorded),
        }
    }

    /// Returns the cost of several responses. Responses without a price are ignored.
    pub fn total(&self, charges: &[Charge]) -> Money {
        let costs = charges
            .iter()
            .filter_map(|it| self.cost(it, PriceMode::Auto));
        costs.sum()
    }

    /// Returns true for the placeholder model of messages that the client wrote itself, which cost
    /// nothing.
    pub fn is_free(name: &str) -> bool {
        name == SYNTHETIC
    }

    /// Returns the context window of a model in tokens, if known.
    pub fn context_window(&self, model: &str) -> Option<u64> {
        self.find(model)?.context()
    }

    /// Finds a model by any of its names. Names over 200 bytes are never found.
    pub fn find(&self, asked: &str) -> Option<PriceMatch> {
        // Maximum length of an alias chain.
        const HOPS: usize = 4;
        let mut steps = Vec::new();
        let mut name = asked.to_owned();
        for _ in 0..HOPS {
            match self.listed(&name, &mut steps)? {
                Listed::Model(rows) => {
                    let first = rows.first()?;
                    return Some(PriceMatch {
                        asked: asked.to_owned(),
                        model: first.model.clone(),
                        provider: first.provider.clone(),
                        steps,
                        rows,
                    });
                }
                Listed::Name(other) => name = other,
            }
        }
        None
    }

    /// Returns all rows, sorted by model, service tier, day and context. Aliases are included.
    pub fn rows(&self) -> Vec<PriceRow> {
        // Parses the list once; a lookup per model would count its lines each time.
        let mut all = list::all_built_in();
        for name in self.own.iter().flat_map(BTreeMap::keys) {
            if !all.contains_key(name) {
                all.insert(name.clone(), Vec::new());
            }
        }
        let laid = |(name, rows): (String, Vec<PriceRow>)| self.with_own(&name, rows);
        all.into_iter().flat_map(laid).collect()
    }

    /// Returns the listed names most similar to an unlisted one.
    pub fn suggest(&self, asked: &str) -> Vec<String> {
        let Some(mut simpler) = NameSimplifier::new(asked) else {
            return Vec::new();
        };
        let mut wanted = vec![simpler.name().to_owned()];
        while simpler.step().is_some() {
            wanted.push(simpler.name().to_owned());
        }
        let models = self.rows().into_iter().filter(|row| row.same_as.is_none());
        let mut names: Vec<String> = models.map(|row| row.model).collect();
        names.dedup();
        suggest::suggest(&wanted, names)
    }

    fn tariff(&self, model: &Arc<str>) -> Option<Arc<Tariff>> {
        // Logs may name any number of models.
        const KEPT: usize = 4096;
        if model.len() > MAX_NAME_LEN {
            return None;
        }
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, tariff)) = &memo.last
            && Arc::ptr_eq(last, model)
        {
            return tariff.clone();
        }
        let tariff = match memo.known.get(&**model) {
            Some(known) => known.clone(),
            None => {
                let found = self.find(model);
                let tariff = found.map(|found| Arc::new(Tariff::new(&found.rows)));
                if memo.known.len() >= KEPT {
                    memo.known.clear();
                }
                memo.known.insert((**model).into(), tariff.clone());
                tariff
            }
        };
        memo.last = Some((model.clone(), tariff.clone()));
        tariff
    }

    /// Returns the rows of a name, or the name that it is an alias of, after as few simplifications
    /// as possible.
    fn listed(&self, asked: &str, steps: &mut Vec<String>) -> Option<Listed> {
        let mut simpler = NameSimplifier::new(asked)?;
        loop {
            let rows = self.rows_of(&normalize(simpler.name()));
            if let Some(first) = rows.first() {
                let shown = if steps.is_empty() {
                    asked
                } else {
                    simpler.name()
                };
                if first.model != shown {
                    steps.push(format!("listed as `{}`", first.model));
                }
                let other = rows.iter().find_map(|row| row.same_as.as_ref());
                return Some(match other {
                    Some(other) => {
                        steps.push(format!("alias of `{other}`"));
                        Listed::Name(other.clone())
                    }
                    None => Listed::Model(rows),
                });
            }
            steps.push(simpler.step()?);
        }
    }

    /// Returns the rows of a normalized name in all lists.
    fn rows_of(&self, name: &str) -> Vec<PriceRow> {
        self.with_own(name, list::built_in(name))
    }

    /// Returns the built-in rows of a normalized name with the users' rows applied.
    fn with_own(&self, name: &str, mut rows: Vec<PriceRow>) -> Vec<PriceRow> {
        for own in self.own.iter().filter_map(|rows| rows.get(name)) {
            rows = apply_overrides(rows, own);
        }
        rows.sort_by_key(PriceRow::sort_key);
        rows
    }
}

fn invalid_list(name: &str, mut faults: Vec<PriceError>) -> PriceListError {
    const TOLD: usize = 20;
    let count = faults.len();
    faults.truncate(TOLD);
    PriceListError {
        file: name.to_owned(),
        faults,
        count,
    }
}

/// Result of a lookup of one name.
enum Listed {
    Model(Vec<PriceRow>),
    /// Alias of this name.
    Name(String),
}
