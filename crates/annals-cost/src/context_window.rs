//! Fill level of a context window.

use annals_layouts::model::Usage;

use super::{Charge, Prices};

/// Fill level of the context window after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextFill {
    /// Tokens in the window: all input of the model, and its output.
    pub tokens: u64,
    /// Size of the window, if known.
    pub window: Option<u64>,
}

impl ContextFill {
    /// Returns the fill level after a response; `None` if there are no token counts.
    ///
    /// A window smaller than its content is ignored: some models offer a larger window on request,
    /// and logs do not record that.
    pub fn new(usage: &Usage, window: Option<u64>) -> Option<Self> {
        let tokens = usage.context().saturating_add(usage.output);
        let window = window.filter(|window| *window >= tokens);
        (tokens > 0).then_some(ContextFill { tokens, window })
    }

    /// Returns the used part of the window, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.tokens as f64 / window as f64)
    }

    /// Returns the used part of the window in percent, rounded half up.
    pub fn percent(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        let hundredths = (u128::from(self.tokens) * 200 / u128::from(window)).div_ceil(2);
        u64::try_from(hundredths).ok()
    }
}

impl Prices {
    /// Returns the fill level of the context window after a response.
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
