//! The range that GUIDs are taken from.

use crate::SettingError;
use ferroband_model::Guid;

/// First and last GUID, both included. Neither end is a GUID that stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidRange {
    /// The first.
    pub first: Guid,
    /// The last.
    pub last: Guid,
}

impl GuidRange {
    /// What ib-kubernetes used unless told otherwise: locally administered, 2^56 of them.
    pub const DEFAULT: Self =
        Self { first: Guid::new(0x0200_0000_0000_0000), last: Guid::new(0x02ff_ffff_ffff_ffff) };

    /// A range of two GUIDs.
    pub fn new(first: Guid, last: Guid) -> Result<Self, SettingError> {
        let wrong = |problem: &'static str| SettingError::Range { first, last, problem };
        match () {
            () if first.value() == 0 => {
                Err(wrong("begins with the GUID of all zeros, which stands for none"))
            }
            () if last.value() == u64::MAX => {
                Err(wrong("ends with the GUID of all ones, which stands for none"))
            }
            () if first > last => Err(wrong("ends before it begins")),
            () => Ok(Self { first, last }),
        }
    }

    /// A range as two texts give it.
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

    /// Whether a GUID is in it.
    pub fn contains(self, guid: Guid) -> bool {
        (self.first..=self.last).contains(&guid)
    }

    /// How many there are.
    pub fn size(self) -> u64 {
        // The last is never u64::MAX, nor the first 0.
        self.last.value() - self.first.value() + 1
    }
}

/// Reads every spelling of a GUID that the systems we replace take: bytes with colons or dashes, groups with dots,
/// sixteen digits with or without 0x; any case.
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

    #[test]
    fn case_03_ends_of_the_range() {
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
    fn every_spelling() {
        let wanted = Some(Guid::new(0x0200_0000_0000_00ab));
        for text in [
            "02:00:00:00:00:00:00:ab",
            "02-00-00-00-00-00-00-AB",
            "0200.0000.0000.00ab",
            "02000000000000AB",
            "0x02000000000000ab",
        ] {
            assert_eq!(parse_guid(text), wanted, "{text}");
        }
        for text in ["", "02", "02-00:00:00:00:00:00:ab", "0200.0000.0000", "zz:00:00:00:00:00:00:ab"] {
            assert_eq!(parse_guid(text), None, "{text}");
        }
    }
}
