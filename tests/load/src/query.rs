//! The query part of a request target.

/// The values in `name=value&name=value`, in order. Nothing is decoded: what this crate reads has no escapes.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
}

/// The first value of `name` that parses.
pub(crate) fn value<T: std::str::FromStr>(query: Option<&str>, name: &str) -> Option<T> {
    pairs(query).filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_that_parses_is_taken() {
        assert_eq!(value::<u32>(Some("a=x&b=2&a=3"), "a"), Some(3));
        assert_eq!(value::<u32>(None, "a"), None);
    }
}
