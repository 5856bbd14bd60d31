//! P_Keys that users may assign. Every value that a user writes is parsed here.

use crate::PKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The base (15 bits without the membership bit) of a P_Key that users may assign: 0x0001 to 0x7ffe.
///
/// 0 is not a valid partition (IBTA volume 1, 10.9.1.1), and opensm replaces it by a number of its own. 0x7fff is the
/// default partition, which belongs to the subnet manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestedPKey(u16);

/// A P_Key that users may not assign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("P_Key {text:?} {problem}; expected {}", RequestedPKey::EXPECTED)]
pub struct InvalidPKey {
    /// The P_Key as the user wrote it.
    pub text: String,
    /// Why it is invalid.
    pub problem: &'static str,
}

impl RequestedPKey {
    /// The P_Keys that users may assign, for messages.
    pub const EXPECTED: &str =
        "0x0001 to 0x7ffe (1 to 32766), or 0x8001 to 0xfffe (32769 to 65534) with the full-member bit";
    /// The lowest P_Key that users may assign.
    pub const FIRST: Self = Self(1);
    /// The highest P_Key that users may assign.
    pub const LAST: Self = Self(0x7ffe);

    /// Returns the P_Key with this base, or `None` if users may not assign it.
    pub const fn new(number: u16) -> Option<Self> {
        if number == 0 || number >= 0x7fff { None } else { Some(Self(number)) }
    }

    /// The number without the membership bit.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The P_Key table entry of a full member.
    pub fn full(self) -> PKey {
        PKey::new(self.0 | 0x8000).unwrap_or(PKey::DEFAULT)
    }

    /// The P_Key table entry of a limited member.
    pub fn limited(self) -> PKey {
        PKey::new(self.0).unwrap_or(PKey::DEFAULT)
    }

    /// Parses a configuration value: a string, or a number as from unquoted YAML. `None` if absent or empty.
    pub fn from_value(value: &Value) -> Result<Option<Self>, InvalidPKey> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) if text.trim().is_empty() => Ok(None),
            Value::String(text) => text.parse().map(Some),
            Value::Number(number) => number.to_string().parse().map(Some),
            other => {
                Err(InvalidPKey { text: other.to_string(), problem: "is neither a string nor a number" })
            }
        }
    }
}

impl FromStr for RequestedPKey {
    type Err = InvalidPKey;

    /// Accepts `0x3e8` and the equivalent `1000`. Both forms may include the full-member bit, as in the kernel's
    /// P_Key tables: `0x83e8` and `33768` are the same P_Key.
    fn from_str(text: &str) -> Result<Self, InvalidPKey> {
        let bad = |problem| InvalidPKey { text: text.to_owned(), problem };
        let trimmed = text.trim();
        let (digits, radix) = match trimmed.strip_prefix("0x").or(trimmed.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (trimmed, 10),
        };
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err(bad("is not a number"));
        }
        let value = u32::from_str_radix(digits, radix).map_err(|_| bad("is too large"))?;
        let number = match value {
            0x8001..=0xffff => value & 0x7fff,
            other => other,
        };
        match number {
            0 | 0x8000 => Err(bad("is the invalid P_Key")),
            0x7fff => Err(bad("is the default partition, which belongs to the subnet manager")),
            1..=0x7ffe => u16::try_from(number).map(Self).map_err(|_| bad("is too large")),
            _ => Err(bad("is too large")),
        }
    }
}

impl fmt::Display for RequestedPKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Debug for RequestedPKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl Serialize for RequestedPKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestedPKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match Self::from_value(&value).map_err(serde::de::Error::custom)? {
            Some(key) => Ok(key),
            None => Err(serde::de::Error::custom("the P_Key is missing")),
        }
    }
}

/// The P_Keys that Ferroband manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PKeyRange {
    /// First P_Key, inclusive.
    pub first: RequestedPKey,
    /// Last P_Key, inclusive.
    pub last: RequestedPKey,
}

impl PKeyRange {
    /// Whether the range contains the P_Key.
    pub fn contains(self, key: RequestedPKey) -> bool {
        (self.first..=self.last).contains(&key)
    }
}

impl Default for PKeyRange {
    fn default() -> Self {
        Self { first: RequestedPKey::FIRST, last: RequestedPKey::LAST }
    }
}

impl FromStr for PKeyRange {
    type Err = InvalidPKey;

    /// Parses a range such as `0x100-0x1ff`, or a single P_Key.
    fn from_str(text: &str) -> Result<Self, InvalidPKey> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: first.parse()?, last: last.parse()? };
        if range.first > range.last {
            return Err(InvalidPKey { text: text.to_owned(), problem: "ends before it begins" });
        }
        Ok(range)
    }
}

impl fmt::Display for PKeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decimal_and_hexadecimal_are_equivalent() {
        for value in [
            json!(1000),
            json!("1000"),
            json!("0x3e8"),
            json!("0X3E8"),
            json!("0x83e8"),
            json!(" 1000 "),
            json!(33768),
            json!("33768"),
        ] {
            assert_eq!(RequestedPKey::from_value(&value).unwrap().unwrap().to_string(), "0x03e8", "{value}");
        }
        assert_eq!(RequestedPKey::from_value(&json!("")), Ok(None));
        assert_eq!(RequestedPKey::from_value(&Value::Null), Ok(None));
    }

    #[test]
    fn invalid_pkey_is_rejected_with_the_valid_range() {
        for value in [
            json!(0),
            json!("0x0"),
            json!("0x7fff"),
            json!(32767),
            json!("0x8000"),
            json!(32768),
            json!(65535),
            json!("65535"),
            json!("0xffff"),
            json!("0x10005"),
            json!(70000),
            json!("abc"),
            json!("0x"),
            json!("-1"),
            json!(-1),
            json!(1.5),
            json!(true),
            json!({}),
            json!("+5"),
            json!("99999999999999999999"),
        ] {
            let error = RequestedPKey::from_value(&value).expect_err(&value.to_string());
            assert!(error.to_string().contains("0x0001 to 0x7ffe"), "{error}");
        }
    }

    // IBTA volume 1, 10.9.1.1: 0 is invalid, with and without the membership bit. 0x7fff is the default partition.
    #[test]
    fn refusal_tells_invalid_default_and_too_large_pkeys_apart() {
        for (texts, problem) in [
            (["0", "0x0000", "0x8000"], "is the invalid P_Key"),
            (["32767", "0x7fff", "0xffff"], "is the default partition, which belongs to the subnet manager"),
            (["65536", "0x10001", "4294967296"], "is too large"),
            (["", "0x", "1e3"], "is not a number"),
        ] {
            for text in texts {
                let error = text.parse::<RequestedPKey>().expect_err(text);
                assert_eq!((error.text.as_str(), error.problem), (text, problem));
            }
        }
    }

    #[test]
    fn only_assignable_numbers_are_a_base() {
        for number in [0, 0x7fff, 0x8000, 0x8001, 0xffff] {
            assert_eq!(RequestedPKey::new(number), None, "{number:#x}");
        }
        for number in [1, 0x3e8, 0x7ffe] {
            assert_eq!(RequestedPKey::new(number).map(RequestedPKey::number), Some(number));
        }
    }

    #[test]
    fn full_member_bit_is_not_part_of_the_base() {
        for (text, number) in [("0x8001", 1), ("0xfffe", 0x7ffe), ("0x0001", 1), ("0x7ffe", 0x7ffe)] {
            let key: RequestedPKey = text.parse().unwrap();
            assert_eq!(key.number(), number, "{text}");
            assert_eq!((key.full().value(), key.limited().value()), (number | 0x8000, number), "{text}");
        }
    }

    #[test]
    fn ranges_are_parsed() {
        let range: PKeyRange = "0x100-0x1ff".parse().unwrap();
        assert!(range.contains("0x1ff".parse().unwrap()) && !range.contains("0x200".parse().unwrap()));
        assert!("0x200-0x100".parse::<PKeyRange>().is_err());
        assert_eq!("7".parse::<PKeyRange>().unwrap().to_string(), "0x0007-0x0007");
    }

    #[test]
    fn table_entries_have_the_membership_bit() {
        let key: RequestedPKey = "0x3e8".parse().unwrap();
        assert_eq!((key.full().value(), key.limited().value()), (0x83e8, 0x03e8));
    }
}
