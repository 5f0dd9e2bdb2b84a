//! Suggestions for misspelled names.

/// The names most similar to `wanted`, closest first; names that differ much are omitted.
pub(crate) fn suggest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Vec<&'n str> {
    suggest_above(0.8, wanted, names, most)
}

/// Like [`suggest`], with the similarity that a name must exceed; 1 is the same name.
pub(crate) fn suggest_above<'n>(
    least: f64,
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Vec<&'n str> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (similarity(&wanted, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness > least)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    // Omits names that are clearly less similar than the best one.
    let best = found.first().map_or(0.0, |(likeness, _)| *likeness);
    found.retain(|(likeness, _)| *likeness > best - 0.05);
    found.into_iter().take(most).map(|(_, name)| name).collect()
}

/// Also compares the part after the last slash, which people type alone: `Berlin`.
fn similarity(wanted: &str, name: &str) -> f64 {
    let last = name.rsplit('/').next().unwrap_or(name);
    // The whole name counts slightly more, so that an exact part does not tie with an exact name.
    let whole = strsim::jaro_winkler(wanted, name);
    whole.max(strsim::jaro_winkler(wanted, last) * 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggest_finds_typos_and_last_path_parts() {
        let zones = ["Europe/Berlin", "Europe/Dublin", "America/New_York", "UTC"];
        assert_eq!(suggest("Europe/Berlim", zones, 3), ["Europe/Berlin"]);
        assert_eq!(suggest("berlin", zones, 1), ["Europe/Berlin"]);
        assert_eq!(suggest("new york", zones, 1), ["America/New_York"]);
        assert_eq!(suggest("qqqq", zones, 3), [""; 0]);
        assert_eq!(suggest("yearly", ["daily", "monthly"], 1), [""; 0]);
    }
}
