//! The word somebody probably meant.

/// The candidate nearest to `word`, if it is near: one slip, or one in four letters, and no more than three.
pub(super) fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let bound = (word.len() / 4).clamp(1, 3);
    // A longer word is none of ours, and measuring it would cost its length.
    if 64 < word.len() {
        return None;
    }
    candidates
        .iter()
        .map(|&candidate| (distance(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= bound)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Slips between two words: letters left out, put in, exchanged, or swapped with the next (optimal string
/// alignment). Case, and `-` for `_`, are no slips.
fn distance(left: &str, right: &str) -> usize {
    let fold = |word: &str| -> Vec<u8> {
        word.bytes().map(|b| if b == b'-' { b'_' } else { b.to_ascii_lowercase() }).collect()
    };
    let (left, right) = (fold(left), fold(right));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    let mut last_left = None;
    for (i, &l) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        let mut last_right = None;
        for (j, &r) in right.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let exchanged = at(&above, j) + usize::from(l != r);
            let mut best = exchanged.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            if 0 < j && last_left == Some(r) && last_right == Some(l) {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
            last_right = Some(r);
        }
        before = std::mem::replace(&mut above, row);
        last_left = Some(l);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (left, right, expected) in [
            ("burst", "burst", 0),
            ("burts", "burst", 1),
            ("Burst", "burst", 0),
            ("path-prefix", "path_prefix", 0),
            ("tokenbucket", "token_bucket", 1),
            ("", "rate", 4),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn only_near_words_are_meant() {
        let known = ["burst", "rate", "path_prefix"];
        assert_eq!(nearest("burts", &known), Some("burst"));
        assert_eq!(nearest("rat", &known), Some("rate"));
        assert_eq!(nearest("pathprefix", &known), Some("path_prefix"));
        assert_eq!(nearest("limit", &known), None);
        assert_eq!(nearest(&"x".repeat(10_000), &known), None);
    }
}
