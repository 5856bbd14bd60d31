//! Ranges of VF indices, written as `0-3`.

use std::{fmt, ops::RangeInclusive};

/// A range of VF indices, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VfRange {
    pub first: i64,
    pub last: i64,
}

impl VfRange {
    /// Returns the range of all VFs of an adapter that has `count` VFs.
    pub fn all(count: i64) -> Self {
        Self { first: 0, last: count - 1 }
    }

    /// Parses `first-last`. Returns `None` if the text has another form or `first` is greater than `last`.
    pub fn parse(text: &str) -> Option<Self> {
        let number =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (first, last) = text.split_once('-')?;
        let range = Self { first: number(first)?, last: number(last)? };
        (range.first <= range.last).then_some(range)
    }

    /// Parses an entry of `pfNames`: a PF name with an optional range, for example `ibs1#0-3`. Returns `None` if the
    /// range is invalid.
    pub fn parse_pf_name(text: &str) -> Option<(&str, Option<Self>)> {
        match text.split_once('#') {
            None => Some((text, None)),
            Some((name, range)) => Some((name, Some(Self::parse(range)?))),
        }
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn numbers(self) -> RangeInclusive<i64> {
        self.first..=self.last
    }
}

impl fmt::Display for VfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
