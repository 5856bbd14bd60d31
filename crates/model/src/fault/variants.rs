//! Lists all codes without a hand-written list: serde's derive passes the variant names to the deserializer.

use super::FaultCode;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

impl FaultCode {
    /// Returns all codes, in the order of their definition.
    pub fn all() -> Vec<Self> {
        let mut names: &'static [&'static str] = &[];
        // This always fails because there is no value to decode. The call only captures the variant names.
        let _ = Self::deserialize(VariantNames(&mut names));
        names.iter().filter_map(|name| Self::from_name(name)).collect()
    }

    /// Returns the code whose [`Self::reason`] is `name`; `None` if there is no such code.
    pub fn from_name(name: &str) -> Option<Self> {
        let text: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(text).ok()
    }

    /// Returns the last code in brackets in `text`. Programs that pass on an error of Ferroband, such as the kubelet,
    /// put their own words around it.
    pub fn find_in(text: &str) -> Option<Self> {
        let words = text.rsplit('[').filter_map(|part| Some(part.split_once(']')?.0));
        words.into_iter().find_map(Self::from_name)
    }
}

struct VariantNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for VariantNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("only enums have variant names"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(de::Error::custom("only the variant names are needed"))
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
    fn all_codes_are_listed_and_named_by_their_reason() {
        let all = FaultCode::all();
        assert_eq!(all.first(), Some(&FaultCode::BadCall));
        assert!(all.contains(&FaultCode::DeviceBusy) && all.len() >= 23, "{all:?}");
        for code in all {
            assert_eq!(FaultCode::from_name(code.reason()), Some(code), "reason and name differ");
        }
        assert_eq!(FaultCode::from_name("NoSuchCode"), None);
    }

    /// The codes of the CNI specification 1.1.0, section "Error". containerd shows them, and 11 means that the
    /// runtime may try again later.
    #[test]
    fn cni_codes_are_those_of_the_specification() {
        for (code, number) in [
            (FaultCode::IncompatibleVersion, 1),
            (FaultCode::BadCall, 4),
            (FaultCode::Journal, 5),
            (FaultCode::Undecodable, 6),
            (FaultCode::InvalidConfig, 7),
            (FaultCode::BadNamespace, 8),
        ] {
            assert_eq!((code.cni_code(), code.is_retried()), (number, false), "{code:?}");
        }
        for code in [FaultCode::DaemonAway, FaultCode::AddressHeld, FaultCode::DeviceBusy] {
            assert_eq!((code.cni_code(), code.is_retried()), (11, true), "{code:?}");
        }
        assert!(!FaultCode::PoolExhausted.is_retried());
    }

    #[test]
    fn code_is_found_in_the_words_of_other_programs() {
        let kubelet = "Failed to create pod sandbox: rpc error: plugin type=\"ferroband\" failed (add): network a/b: \
                       values [1] and [2]; correct the field [InvalidConfig]";
        assert_eq!(FaultCode::find_in(kubelet), Some(FaultCode::InvalidConfig));
        assert_eq!(FaultCode::find_in("[DaemonAway]: again"), Some(FaultCode::DaemonAway));
        assert_eq!(FaultCode::find_in("[NoParent] [Unknown]"), Some(FaultCode::NoParent));
        for text in ["", "[", "]", "[]", "NoParent", "[NoParent", "no [code] here"] {
            assert_eq!(FaultCode::find_in(text), None, "{text}");
        }
    }

    #[test]
    fn own_cni_codes_are_unique() {
        let mut codes: Vec<u32> =
            FaultCode::all().into_iter().map(FaultCode::cni_code).filter(|n| *n >= 100).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "two codes share a number");
    }
}
