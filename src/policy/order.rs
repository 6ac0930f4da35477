//! Sorting, in one place.
//!
//! The standard library's sort is compiled anew for each type and each way to compare, at 5 KiB of wasm a time. This one
//! is compiled once: it sorts numbers of places, and then moves the items there.

use std::cmp::Ordering;

/// Sorts; equal items stay in the order they had.
pub(crate) fn sort<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(items.len(), &|left, right| match (items.get(left), items.get(right)) {
        (Some(left), Some(right)) => compare(left, right),
        _ => Ordering::Equal,
    });
    let mut places: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|place| places.get_mut(place)?.take()));
}

#[inline(never)]
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|left, right| compare(*left, *right));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_stay_in_order() {
        let mut items = vec![(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (1, 'e')];
        sort(&mut items, |left, right| left.0.cmp(&right.0));
        assert_eq!(items, [(1, 'b'), (1, 'e'), (2, 'd'), (3, 'a'), (3, 'c')]);
    }

    #[test]
    fn nothing_is_in_order() {
        let mut items: Vec<u8> = Vec::new();
        sort(&mut items, Ord::cmp);
        assert!(items.is_empty());
    }
}
