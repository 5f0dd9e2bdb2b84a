//! Finds similar names.

/// Returns the names nearest to any of the wanted ones: those that contain it or differ in few
/// letters.
pub(super) fn suggest(wanted: &[String], names: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut ranked: Vec<(usize, String)> = names
        .into_iter()
        .filter_map(|name| {
            let ranks = wanted.iter().filter_map(|wanted| rank(wanted, &name));
            Some((ranks.min()?, name))
        })
        .collect();
    ranked.sort();
    ranked.dedup();
    ranked
        .into_iter()
        .take(SHOWN)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the edit distance of a name from the wanted one; `None` if it is too large.
fn rank(wanted: &str, name: &str) -> Option<usize> {
    const LONGEST: usize = 80;
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    let distance = distance(wanted.as_bytes(), name.as_bytes());
    // Part of a name is a match too: `opus`.
    let part = wanted.len() > 2 && name.contains(wanted);
    (part || distance <= (wanted.len() / 3).max(2)).then_some(distance)
}

/// Returns the Levenshtein distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, y) in row
            .iter_mut()
            .zip(std::iter::once(None).chain(b.iter().map(Some)))
        {
            let Some(y) = y else {
                *cell = i + 1;
                continue;
            };
            let next = (*cell + 1).min(left + 1).min(corner + usize::from(x != y));
            corner = std::mem::replace(cell, next);
            left = next;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letter_edits() {
        for (a, b, letters) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), letters, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), letters, "{b} {a}");
        }
    }
}
