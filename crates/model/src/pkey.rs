//! P_Keys: InfiniBand partition keys.

use crate::MalformedValue;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// Membership bit: full member if set, limited member if clear; IBTA volume 1, 10.9.1.
const FULL_MEMBER: u16 = 0x8000;

/// A P_Key: the 15-bit partition number and the membership bit.
///
/// Partition 0 is reserved, so 0x0000 and 0x8000 are invalid (the kernel returns EINVAL for both).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(u16);

impl PKey {
    /// The default partition, as a full member.
    pub const DEFAULT: Self = Self(0xffff);

    /// Creates a P_Key from a number with the membership bit. Returns `None` for 0x0000 and 0x8000.
    pub const fn new(value: u16) -> Option<Self> {
        if value & !FULL_MEMBER == 0 { None } else { Some(Self(value)) }
    }

    /// The number including the membership bit.
    pub const fn value(self) -> u16 {
        self.0
    }

    /// The partition number, without the membership bit.
    pub const fn base(self) -> u16 {
        self.0 & !FULL_MEMBER
    }

    /// The same partition, as a full member.
    pub const fn full(self) -> Self {
        Self(self.0 | FULL_MEMBER)
    }
}

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PKey({self})")
    }
}

impl FromStr for PKey {
    type Err = MalformedValue;

    /// Parses `0x…` as hexadecimal and plain digits as decimal; both notations are common.
    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        // from_str_radix alone would accept a sign.
        let signed = !digits.starts_with(|first: char| first.is_ascii_hexdigit());
        let value = if signed { None } else { u16::from_str_radix(digits, radix).ok() };
        value.and_then(Self::new).ok_or_else(|| MalformedValue::PKey(text.to_owned()))
    }
}

impl Serialize for PKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PKey {
    /// Reads a P_Key from a string or a number. YAML yields a number for a value without quotes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Value::String(text) = &value {
            return text.parse().map_err(D::Error::custom);
        }
        let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
        number.and_then(Self::new).ok_or_else(|| D::Error::custom(MalformedValue::PKey(value.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_excludes_the_membership_bit() {
        let limited: PKey = "0x0005".parse().unwrap();
        assert_eq!((limited.base(), limited.value()), (5, 5));
        assert_eq!((limited.full().base(), limited.full().value()), (5, 0x8005));
        assert_eq!(limited.full().full(), limited.full(), "a full member stays a full member");
        assert_eq!(PKey::DEFAULT.base(), 0x7fff);
    }

    #[test]
    fn range_limits_are_accepted_and_values_outside_rejected() {
        for (text, value) in
            [("0x1", 1), ("0x7fff", 0x7fff), ("0x8001", 0x8001), ("0xFFFF", 0xffff), ("1000", 1000)]
        {
            assert_eq!(text.parse::<PKey>().unwrap().value(), value, "{text}");
        }
        for text in
            ["0x0", "0", "0x8000", "32768", "0x10000", "65536", "", "0x", "zz", "+1", "0x+1", "-1", "ffff"]
        {
            assert_eq!(text.parse::<PKey>(), Err(MalformedValue::PKey(text.to_owned())));
        }
    }

    #[test]
    fn display_has_four_digits() {
        assert_eq!("0x1".parse::<PKey>().unwrap().to_string(), "0x0001");
        assert_eq!(PKey::DEFAULT.to_string(), "0xffff");
    }

    #[test]
    fn json_is_written_as_text_and_read_from_text_or_number() {
        assert_eq!(serde_json::to_string(&PKey::DEFAULT).unwrap(), "\"0xffff\"");
        assert_eq!(serde_json::from_str::<PKey>("\"0x8001\"").unwrap().value(), 0x8001);
        assert_eq!(serde_json::from_str::<PKey>("1000").unwrap().value(), 1000);
        for wrong in ["0", "-1", "65536", "\"zz\"", "true", "1.5"] {
            assert!(serde_json::from_str::<PKey>(wrong).is_err(), "{wrong}");
        }
    }
}
