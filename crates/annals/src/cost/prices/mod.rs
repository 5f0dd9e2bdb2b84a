//! What tokens cost: the built-in price list, users' own lists over it, and the match of names to models.
//!
//! The list is data (`data/prices.csv`); this module has no price in it. Rows are looked up when a model is first asked
//! for, so that a program that prices two models reads twenty lines. All arithmetic is exact.

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

use crate::error::{Error, Result};
use crate::model::{BillingTerms, Money, SYNTHETIC, ServiceTier, Usage};

use super::Charge;
use list::{Rows, normalize};
use name::{LONG_CONTEXT_SUFFIX, MAX_NAME_LEN, NameSimplifier};
use overrides::apply_overrides;
use tariff::{Tariff, first_day, row_in_effect};

pub use list::PriceError;
pub use row::{PriceColumn, PriceRow};

/// Which of two prices counts: that of the tokens, or the one that the log recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriceMode {
    /// By tokens; what was recorded where there are no tokens, or no price for them.
    #[default]
    Auto,
    /// By tokens alone.
    Tokens,
    /// What was recorded alone.
    Recorded,
}

/// Price lists, one over the other.
#[derive(Debug, Default)]
pub struct Prices {
    /// Users' own, the later over the earlier; the built-in one lies below them all.
    own: Vec<Rows>,
    memo: Mutex<Memo>,
}

/// The tariffs that were looked up, and the names that have none.
#[derive(Debug, Default)]
struct Memo {
    known: HashMap<Box<str>, Option<Arc<Tariff>>>,
    /// Charges in a row often share the text of their model.
    last: Option<(Arc<str>, Option<Arc<Tariff>>)>,
}

/// How a name was found in the price list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceMatch {
    /// The name that was asked for.
    pub asked: String,
    /// The model's name in the list.
    pub model: String,
    /// Who makes it.
    pub provider: String,
    /// What was done to the name until the list had it, in words.
    pub steps: Vec<String>,
    /// All rows of the model: by pace, then by day, then by context.
    pub rows: Vec<PriceRow>,
}

impl PriceMatch {
    /// The row that holds on a day; without a day, the newest.
    pub fn row(&self, on: Option<Date>, pace: ServiceTier, context: u64) -> Option<&PriceRow> {
        let day = on.map_or(i64::MAX, first_day);
        let place = |row: &PriceRow| (row.tier, row.from.map_or(i64::MIN, first_day), row.above);
        row_in_effect(&self.rows, place, day, pace, context)
    }

    /// The context window, in tokens.
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
    /// The list that comes with the library.
    pub fn built_in() -> Self {
        Prices::default()
    }

    /// Lays a user's list over these prices. `name` is how its place is told.
    ///
    /// A row replaces the one of the same model, day, context and pace, or is added. One that names no day holds on all
    /// of them: it replaces the rows of its model, context and pace whatever their day, and if it names no context
    /// either, those for long contexts too; with the standard pace as well, it replaces all rows of the model. Other
    /// rows of the same list count beside it.
    ///
    /// Of a replaced row it keeps what is no price of a token: the provider, the context window, the price of searches
    /// and that of the United States.
    pub fn with_list(mut self, text: &str, name: &str) -> Result<Self> {
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
                    "`{}` is said to be the same as `{}`, which has no prices",
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

    /// Lays a user's list over these prices, as [`Prices::with_list`] does, from the bytes of a file.
    pub fn with_list_bytes(self, bytes: &[u8], name: &str) -> Result<Self> {
        match list::decode_utf8(bytes) {
            Ok(text) => self.with_list(text, name),
            Err(fault) => Err(invalid_list(name, vec![fault])),
        }
    }

    /// What a response cost; `None` if nobody knows.
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
        // Who recorded a cost and no tokens had some.
        let untold = || charge.usage.is_zero() && recorded.is_some_and(|cost| cost > Money::ZERO);
        match mode {
            PriceMode::Tokens if untold() => None,
            PriceMode::Tokens => by_tokens(),
            PriceMode::Recorded => recorded,
            PriceMode::Auto if charge.usage.is_zero() => recorded.or_else(by_tokens),
            PriceMode::Auto => by_tokens().or(recorded),
        }
    }

    /// What tokens of a model cost at today's price; `None` if the model is not listed.
    pub fn cost_today(&self, usage: &Usage, model: &str) -> Option<Money> {
        self.tariff(&model.into())?
            .cost(usage, BillingTerms::default(), None)
    }

    /// The cost of several responses. Those without a price are left out.
    pub fn total(&self, charges: &[Charge]) -> Money {
        let costs = charges
            .iter()
            .filter_map(|it| self.cost(it, PriceMode::Auto));
        costs.sum()
    }

    /// Whether a name stands for no model at all: what a client says in an agent's place costs nothing.
    pub fn is_free(name: &str) -> bool {
        name == SYNTHETIC
    }

    /// The context window of a model, in tokens, where it is known.
    pub fn context_window(&self, model: &str) -> Option<u64> {
        self.find(model)?.context()
    }

    /// Finds a model in the lists by any of its names. One above 200 bytes is no name of a model.
    pub fn find(&self, asked: &str) -> Option<PriceMatch> {
        // A name may stand for another, which may stand for a third: no list of a person's goes further.
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

    /// All rows: by model, then by pace, day and context. Names that stand for others are among them.
    pub fn rows(&self) -> Vec<PriceRow> {
        // Each model's rows are at hand: looking them up one by one would count the list's lines for each.
        let mut all = list::all_built_in();
        for name in self.own.iter().flat_map(BTreeMap::keys) {
            if !all.contains_key(name) {
                all.insert(name.clone(), Vec::new());
            }
        }
        let laid = |(name, rows): (String, Vec<PriceRow>)| self.with_own(&name, rows);
        all.into_iter().flat_map(laid).collect()
    }

    /// The listed names that are most like one that is not listed.
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

    /// The model of a name, or the name that it stands for, after as few steps as it takes.
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
                    steps.push(format!("spelled `{}`", first.model));
                }
                let other = rows.iter().find_map(|row| row.same_as.as_ref());
                return Some(match other {
                    Some(other) => {
                        steps.push(format!("another name of `{other}`"));
                        Listed::Name(other.clone())
                    }
                    None => Listed::Model(rows),
                });
            }
            steps.push(simpler.step()?);
        }
    }

    /// The rows of a spelled name in all lists.
    fn rows_of(&self, name: &str) -> Vec<PriceRow> {
        self.with_own(name, list::built_in(name))
    }

    /// The built-in rows of a spelled name, with those of the other lists laid over them.
    fn with_own(&self, name: &str, mut rows: Vec<PriceRow>) -> Vec<PriceRow> {
        for own in self.own.iter().filter_map(|rows| rows.get(name)) {
            rows = apply_overrides(rows, own);
        }
        rows.sort_by_key(PriceRow::sort_key);
        rows
    }
}

fn invalid_list(name: &str, mut faults: Vec<PriceError>) -> Error {
    const TOLD: usize = 20;
    let count = faults.len();
    faults.truncate(TOLD);
    Error::Prices {
        file: name.to_owned(),
        faults,
        count,
    }
}

/// What a name is in the lists.
enum Listed {
    Model(Vec<PriceRow>),
    /// Another name.
    Name(String),
}
