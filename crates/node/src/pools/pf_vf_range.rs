//! Selection of virtual functions of a physical function, written as `eno1#0,3-5,7`.

use std::ops::RangeInclusive;

/// Interface name or PCI address of a physical function, and the selected VF indexes. If no indexes are
/// given, all virtual functions are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfVfRange {
    name: String,
    ranges: Option<Vec<RangeInclusive<usize>>>,
}

impl PfVfRange {
    /// Parses `name` or `name#list`. Returns `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, list) = match text.split_once('#') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let parse_range = |item: &str| {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let range = parse_index(first)?..=parse_index(last)?;
            (!range.is_empty()).then_some(range)
        };
        let ranges = match list {
            Some(list) => Some(list.split(',').map(parse_range).collect::<Option<_>>()?),
            None => None,
        };
        (!name.is_empty()).then(|| Self { name: name.to_lowercase(), ranges })
    }

    /// Whether virtual function `index` of the physical function `name` is selected. Names are case-insensitive.
    pub fn matches(&self, name: &str, index: Option<usize>) -> bool {
        let contains = |ranges: &Vec<RangeInclusive<usize>>| {
            index.is_some_and(|index| ranges.iter().any(|one| one.contains(&index)))
        };
        self.name == name.to_lowercase() && self.ranges.as_ref().is_none_or(contains)
    }
}

fn parse_index(text: &str) -> Option<usize> {
    // `parse` alone would accept a leading `+`.
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vf_ranges_are_parsed_as_upstream_does() {
        let range = PfVfRange::parse("eno1#0,3-5,7").unwrap();
        let selected: Vec<_> = (0..10).filter(|index| range.matches("ENO1", Some(*index))).collect();
        assert_eq!(selected, [0, 3, 4, 5, 7]);
        assert!(!range.matches("eno2", Some(0)) && !range.matches("eno1", None));
        assert!(PfVfRange::parse("eno1").unwrap().matches("eno1", Some(99)));
        for wrong in ["pf#x", "pf#1-2-3", "pf#1#2", "pf#", "pf#3-1", "pf#+1", "#1", ""] {
            assert_eq!(PfVfRange::parse(wrong), None, "{wrong}");
        }
    }
}
