//! How full a context window is.

use crate::model::Usage;

use super::{Charge, Prices};

/// How full the context window was after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextFill {
    /// What was in it: all that the model was given, and its answer.
    pub tokens: u64,
    /// How much fits, where that is known.
    pub window: Option<u64>,
}

impl ContextFill {
    /// What a response left in a window; `None` if no tokens are told.
    ///
    /// A window that is smaller than what was in it is not the one that was used: some models can be asked for a
    /// larger one, and logs do not tell.
    pub fn new(usage: &Usage, window: Option<u64>) -> Option<Self> {
        let tokens = usage.context().saturating_add(usage.output);
        let window = window.filter(|window| *window >= tokens);
        (tokens > 0).then_some(ContextFill { tokens, window })
    }

    /// The part of the window that is used, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.tokens as f64 / window as f64)
    }

    /// The same in hundredths, rounded half up.
    pub fn percent(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        let hundredths = (u128::from(self.tokens) * 200 / u128::from(window)).div_ceil(2);
        u64::try_from(hundredths).ok()
    }
}

impl Prices {
    /// How full the context window was after a response.
    pub fn context_fill(&self, charge: &Charge) -> Option<ContextFill> {
        let model = charge.source.model.as_deref();
        let window = model.and_then(|model| self.context_window(model));
        ContextFill::new(&charge.usage, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(counts: [u64; 5]) -> Usage {
        let [input, output, cache_write_5m, cache_write_1h, cache_read] = counts;
        Usage {
            input,
            output,
            cache_write_5m,
            cache_write_1h,
            cache_read,
            web_searches: 9,
        }
    }

    #[test]
    fn context_fill_counts_all_input_and_output() {
        let full = usage([1_000, 2_000, 4_000, 8_000, 69_000]);
        let fill = ContextFill::new(&full, Some(200_000)).unwrap();
        assert_eq!((fill.tokens, fill.window), (84_000, Some(200_000)));
        assert_eq!((fill.percent(), fill.share()), (Some(42), Some(0.42)));
        assert_eq!(ContextFill::new(&Usage::default(), Some(200_000)), None);
    }

    #[test]
    fn window_smaller_than_its_content_is_unknown() {
        let all = usage([200_000, 0, 0, 0, 0]);
        let fill = |window| ContextFill::new(&all, Some(window)).unwrap();
        assert_eq!(fill(200_000).percent(), Some(100));
        let over = fill(199_999);
        assert_eq!(
            (over.window, over.percent(), over.share()),
            (None, None, None)
        );
    }

    #[test]
    fn percent_is_rounded_half_up() {
        for (tokens, percent) in [
            (1, 0),
            (4, 0),
            (5, 1),
            (14, 1),
            (15, 2),
            (994, 99),
            (995, 100),
        ] {
            let fill = ContextFill::new(&usage([tokens, 0, 0, 0, 0]), Some(1_000)).unwrap();
            assert_eq!(fill.percent(), Some(percent), "{tokens}");
        }
    }

    #[test]
    fn context_fill_uses_window_of_answering_model() {
        let prices = Prices::built_in();
        let mut charge = Charge::new(0);
        charge.usage.input = 50_000;
        let window = |charge: &Charge| prices.context_fill(charge).and_then(|fill| fill.window);
        assert_eq!(window(&charge), None);
        charge.source_mut().model = Some("claude-sonnet-4-5-20250929".into());
        assert_eq!(window(&charge), Some(200_000));
        charge.source_mut().model = Some("claude-sonnet-4-5-20250929[1m]".into());
        assert_eq!(window(&charge), Some(1_000_000));
    }
}
