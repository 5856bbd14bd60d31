//! Neighbouring virtual functions: `0-3`.

use std::{fmt, ops::RangeInclusive};

/// From the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VfRange {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

impl VfRange {
    /// All of so many.
    pub fn all(count: i64) -> Self {
        Self { first: 0, last: count - 1 }
    }

    /// Read `a-b`.
    pub fn parse(text: &str) -> Option<Self> {
        let number =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (first, last) = text.split_once('-')?;
        let span = Self { first: number(first)?, last: number(last)? };
        (span.first <= span.last).then_some(span)
    }

    /// A name with or without a span: `ibs1#0-3`. Nothing when the span cannot be read.
    pub fn parse_pf_name(text: &str) -> Option<(&str, Option<Self>)> {
        match text.split_once('#') {
            None => Some((text, None)),
            Some((name, span)) => Some((name, Some(Self::parse(span)?))),
        }
    }

    /// Whether any function is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The numbers.
    pub fn numbers(self) -> RangeInclusive<i64> {
        self.first..=self.last
    }
}

impl fmt::Display for VfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
