//! The GUID range of ib-kubernetes' configuration.

use crate::SettingError;
use ferroband_model::Guid;

/// A range of GUIDs, both ends inclusive. All zeros and all ones are not valid GUIDs and never in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidRange {
    pub first: Guid,
    pub last: Guid,
}

impl GuidRange {
    /// The default range of ib-kubernetes: 2^56 locally administered GUIDs.
    pub const DEFAULT: Self =
        Self { first: Guid::new(0x0200_0000_0000_0000), last: Guid::new(0x02ff_ffff_ffff_ffff) };

    /// Creates a range. Returns an error if it is empty or includes the all-zeros or the all-ones GUID.
    pub fn new(first: Guid, last: Guid) -> Result<Self, SettingError> {
        let wrong = |problem: &'static str| SettingError::Range { first, last, problem };
        match () {
            () if first.value() == 0 => Err(wrong("starts with the all-zeros GUID, which is invalid")),
            () if last.value() == u64::MAX => Err(wrong("ends with the all-ones GUID, which is invalid")),
            () if first > last => Err(wrong("ends before it starts")),
            () => Ok(Self { first, last }),
        }
    }

    /// Parses the values of `GUID_POOL_RANGE_START` and `GUID_POOL_RANGE_END`.
    pub fn parse(first: &str, last: &str) -> Result<Self, SettingError> {
        let read = |name: &'static str, text: &str| {
            parse_guid(text).ok_or_else(|| SettingError::Value {
                name,
                value: text.to_owned(),
                expected: "eight bytes such as 02:00:00:00:00:00:00:00",
            })
        };
        Self::new(read("GUID_POOL_RANGE_START", first)?, read("GUID_POOL_RANGE_END", last)?)
    }

    pub fn contains(self, guid: Guid) -> bool {
        (self.first..=self.last).contains(&guid)
    }

    pub fn size(self) -> u64 {
        // No overflow: `last` is never u64::MAX, and `first` is never 0.
        self.last.value() - self.first.value() + 1
    }
}

/// Parses a GUID in each format that ib-kubernetes and the CNI plugins accept: bytes separated by colons or
/// dashes, groups separated by dots, or 16 hexadecimal digits with or without 0x. Case-insensitive.
pub fn parse_guid(text: &str) -> Option<Guid> {
    let text = text.trim();
    if text.contains('-') && !text.contains([':', '.']) {
        return text.replace('-', ":").parse().ok();
    }
    if text.contains('.') && !text.contains(':') {
        return text.replace('.', ":").parse().ok();
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: partitions 3
    #[test]
    fn invalid_range_ends_are_rejected() {
        let range = |first, last| GuidRange::parse(first, last);
        assert!(range("00:00:00:00:00:00:00:00", "02:00:00:00:00:00:00:09").is_err());
        assert!(range("02:00:00:00:00:00:00:00", "FF:FF:FF:FF:FF:FF:FF:FF").is_err());
        assert!(range("02:00:00:00:00:00:00:09", "02:00:00:00:00:00:00:08").is_err());
        assert_eq!(range("02:00:00:00:00:00:00:09", "02:00:00:00:00:00:00:09").unwrap().size(), 1);
        assert!(
            range("nonsense", "02:00:00:00:00:00:00:09")
                .unwrap_err()
                .to_string()
                .contains("GUID_POOL_RANGE_START")
        );
        assert_eq!(GuidRange::new(GuidRange::DEFAULT.first, GuidRange::DEFAULT.last), Ok(GuidRange::DEFAULT));
    }

    #[test]
    fn every_guid_format_is_parsed() {
        let expected = Some(Guid::new(0x0200_0000_0000_00ab));
        for text in [
            "02:00:00:00:00:00:00:ab",
            "02-00-00-00-00-00-00-AB",
            "0200.0000.0000.00ab",
            "02000000000000AB",
            "0x02000000000000ab",
        ] {
            assert_eq!(parse_guid(text), expected, "{text}");
        }
        for text in [
            "",
            "02",
            "02-00:00:00:00:00:00:ab",
            "0200:0000.0000:00ab",
            "0200.0000.0000",
            "zz:00:00:00:00:00:00:ab",
        ] {
            assert_eq!(parse_guid(text), None, "{text}");
        }
    }
}
