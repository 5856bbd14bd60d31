//! A physical function and some of its virtual ones: `eno1#0,3-5,7`.

use std::ops::RangeInclusive;

/// A name with the virtual functions that are meant; without a list, all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfVfRange {
    name: String,
    ranges: Option<Vec<RangeInclusive<usize>>>,
}

impl PfVfRange {
    /// Read `name[#list]`; nothing when the list cannot be read.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, list) = match text.split_once('#') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let part = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = parse_index(first)?..=parse_index(last)?;
            (!range.is_empty()).then_some(range)
        };
        let parts = match list {
            Some(list) => Some(list.split(',').map(part).collect::<Option<_>>()?),
            None => None,
        };
        (!name.is_empty()).then(|| Self { name: name.to_lowercase(), ranges: parts })
    }

    /// Whether it means virtual function `index` of `name`.
    pub fn matches(&self, name: &str, index: Option<usize>) -> bool {
        let listed = |parts: &Vec<RangeInclusive<usize>>| {
            index.is_some_and(|index| parts.iter().any(|range| range.contains(&index)))
        };
        self.name == name.to_lowercase() && self.ranges.as_ref().is_none_or(listed)
    }
}

fn parse_index(text: &str) -> Option<usize> {
    // `parse` alone would take a sign.
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_upstream_writes_them() {
        let some = PfVfRange::parse("eno1#0,3-5,7").unwrap();
        let chosen: Vec<_> = (0..10).filter(|index| some.matches("ENO1", Some(*index))).collect();
        assert_eq!(chosen, [0, 3, 4, 5, 7]);
        assert!(!some.matches("eno2", Some(0)) && !some.matches("eno1", None));
        assert!(PfVfRange::parse("eno1").unwrap().matches("eno1", Some(99)));
        for wrong in ["pf#x", "pf#1-2-3", "pf#1#2", "pf#", "pf#3-1", "pf#+1", "#1", ""] {
            assert_eq!(PfVfRange::parse(wrong), None, "{wrong}");
        }
    }
}
