//! Names that somebody may have meant.

/// The names most like `wanted`, the closest first; none that is not much alike.
pub(crate) fn suggest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Vec<&'n str> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (similarity(&wanted, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    // Next to a name that is nearly right, others only confuse.
    let best = found.first().map_or(0.0, |(likeness, _)| *likeness);
    found.retain(|(likeness, _)| *likeness > best - 0.05);
    found.into_iter().take(most).map(|(_, name)| name).collect()
}

/// People also leave out what comes before the last slash: `Berlin`.
fn similarity(wanted: &str, name: &str) -> f64 {
    let last = name.rsplit('/').next().unwrap_or(name);
    // The whole name counts a little more, so that exact parts do not tie with exact wholes.
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
