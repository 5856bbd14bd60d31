//! GUIDs: 64-bit identifiers of nodes, ports and virtual functions on the fabric.

use crate::MalformedValue;
use crate::macros::string_conversions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An EUI-64, written `24:8a:07:03:00:a1:b2:c3`. The number has the same bytes, most significant first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guid(u64);

impl Guid {
    /// Creates a GUID from a number whose most significant byte is the first byte of the GUID.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number, as netlink carries it in host byte order.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The eight bytes in network byte order.
    pub const fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Whether the value means that no GUID is set. A VF has all zeros until a GUID is set, and a reset writes all
    /// ones.
    pub const fn is_unset(self) -> bool {
        self.0 == 0 || self.0 == u64::MAX
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.bytes().into_iter().enumerate() {
            let colon = if position == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

impl FromStr for Guid {
    type Err = MalformedValue;

    /// Accepts bytes with colons, sysfs's four groups (`248a:0703:00a1:b2c3`), and sixteen digits with or without
    /// `0x`, in any case. Rejects shorter forms: with a missing digit the GUID would identify another port.
    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        let malformed = || MalformedValue::Guid(text.to_owned());
        let digits: String = match text.split(':').collect::<Vec<_>>().as_slice() {
            [whole] => whole.strip_prefix("0x").or(whole.strip_prefix("0X")).unwrap_or(whole).to_owned(),
            groups if groups.len() == 8 && groups.iter().all(|group| group.len() == 2) => groups.concat(),
            groups if groups.len() == 4 && groups.iter().all(|group| group.len() == 4) => groups.concat(),
            _ => return Err(malformed()),
        };
        // from_str_radix alone would accept a sign.
        if digits.len() != 16 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        u64::from_str_radix(&digits, 16).map(Self).map_err(|_| malformed())
    }
}

string_conversions!(Guid);

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Guid = Guid::new(0x248a_0703_00a1_b2c3);

    #[test]
    fn all_notations_parse_to_the_same_guid() {
        for text in [
            "24:8a:07:03:00:a1:b2:c3",
            "24:8A:07:03:00:A1:B2:C3",
            "248a:0703:00a1:b2c3",
            "248a070300a1b2c3",
            "0x248a070300a1b2c3",
        ] {
            assert_eq!(text.parse(), Ok(SAMPLE), "{text}");
        }
        assert_eq!(SAMPLE.to_string(), "24:8a:07:03:00:a1:b2:c3");
    }

    #[test]
    fn malformed_guids_are_rejected() {
        for text in [
            "",
            "0x",
            "24:8a:07:03:00:a1:b2",
            "24:8a:07:03:00:a1:b2:c3:d4",
            "24:8a:07:03:00:a1:b2:g3",
            "24-8a-07-03-00-a1-b2-c3",
            "2:48:a0:70:30:0a:1b:2c3",
            "248a0:703:00a1:b2c3",
            "48a070300a1b2c3",
            "+48a070300a1b2c3",
            "0x0x48a070300a1b",
            " 24:8a:07:03:00:a1:b2:c3",
        ] {
            assert_eq!(text.parse::<Guid>(), Err(MalformedValue::Guid(text.to_owned())));
        }
    }

    #[test]
    fn number_has_most_significant_byte_first() {
        assert_eq!("01:23:45:67:89:ab:cd:ef".parse::<Guid>().unwrap().value(), 0x0123_4567_89ab_cdef);
        assert_eq!(SAMPLE.bytes(), [0x24, 0x8a, 0x07, 0x03, 0x00, 0xa1, 0xb2, 0xc3]);
    }

    #[test]
    fn all_zeros_and_all_ones_are_unset() {
        assert!(Guid::new(0).is_unset());
        assert!(Guid::new(u64::MAX).is_unset());
        assert!(!SAMPLE.is_unset());
    }

    #[test]
    fn json_uses_the_colon_form() {
        assert_eq!(serde_json::to_string(&SAMPLE).unwrap(), "\"24:8a:07:03:00:a1:b2:c3\"");
        assert_eq!(serde_json::from_str::<Guid>("\"0x248a070300a1b2c3\"").unwrap(), SAMPLE);
        assert!(serde_json::from_str::<Guid>("\"248a\"").is_err());
    }
}
