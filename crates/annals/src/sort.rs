//! Stable sorting with one copy of the algorithm.
//!
//! Each use of `slice::sort_by` compiles the whole algorithm again, about 6 kB. These functions sort
//! the positions of the items, which needs one copy, and then move the items. Code that sorts
//! hundreds of thousands of items uses the methods of `slice`, which are faster.

use std::cmp::Ordering;

/// Sorts like `slice::sort_by`.
pub(crate) fn by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order = order(
        items.len(),
        &mut |a, b| match (items.get(a), items.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        },
    );
    permute(&mut order, &mut |a, b| items.swap(a, b));
}

/// Sorts like `slice::sort_by_key`.
pub(crate) fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Returns the positions of the items in their new order.
#[inline(never)]
fn order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Moves each item to its place: follows the cycles of the permutation.
#[inline(never)]
fn permute(order: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut at = start;
        while let Some(slot) = order.get_mut(at) {
            let from = std::mem::replace(slot, at);
            if from == start {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_like_the_standard_library(keys in prop::collection::vec(0_u8..12, 0..80)) {
            let items: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let (mut own, mut standard) = (items.clone(), items);
            super::by_key(&mut own, |(key, _)| *key);
            standard.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&own, &standard);

            super::by(&mut own, |(a, _), (b, _)| b.cmp(a));
            standard.sort_by(|(a, _), (b, _)| b.cmp(a));
            prop_assert_eq!(own, standard);
        }
    }
}
