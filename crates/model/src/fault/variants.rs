//! All codes, without a list of them: serde's derive knows the variants, and tells them to whoever decodes.

use super::FaultCode;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

impl FaultCode {
    /// Every code, in the order of their definition.
    pub fn all() -> Vec<Self> {
        let mut names: &'static [&'static str] = &[];
        // It always fails: there is nothing to decode. What counts is that it was told the names.
        let _ = Self::deserialize(VariantNames(&mut names));
        names.iter().filter_map(|name| Self::from_name(name)).collect()
    }

    /// The code of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let text: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(text).ok()
    }
}

struct VariantNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for VariantNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("only an enumeration can be asked for its names"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(de::Error::custom("the names are all that was wanted"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found_and_each_by_its_reason() {
        let all = FaultCode::all();
        assert_eq!(all.first(), Some(&FaultCode::BadCall));
        assert!(all.contains(&FaultCode::DeviceBusy) && all.len() >= 23, "{all:?}");
        for code in all {
            assert_eq!(FaultCode::from_name(code.reason()), Some(code), "its reason is not its name");
        }
        assert_eq!(FaultCode::from_name("NoSuchCode"), None);
    }

    #[test]
    fn numbers_of_our_own_are_not_shared() {
        let mut ours: Vec<u32> =
            FaultCode::all().into_iter().map(FaultCode::cni_code).filter(|n| *n >= 100).collect();
        let count = ours.len();
        ours.sort_unstable();
        ours.dedup();
        assert_eq!(ours.len(), count, "two codes have one number");
    }
}
