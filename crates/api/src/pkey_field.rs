//! The field `pkey`, which is an integer or a string.

use ferroband_model::{InvalidPKey, RequestedPKey};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// CEL rule for `pkey`: the values that [`RequestedPKey`] accepts, as an integer or a string.
pub(crate) const PKEY_RULE: &str = "type(self) == int \
    ? self >= 1 && self <= 65534 && self != 32767 && self != 32768 \
    : self == '' \
    || (self.matches('^[0-9]{1,5}$') && int(self) >= 1 && int(self) <= 65534 && int(self) != 32767 && int(self) != 32768) \
    || (self.matches('^0[xX][0-9a-fA-F]{1,4}$') && !self.matches('^0[xX](0{1,4}|8000|7[fF]{3}|[fF]{4})$'))";
/// Message of the API server when [`PKEY_RULE`] rejects a value.
pub(crate) const PKEY_MESSAGE: &str = "pkey must be 0x0001 to 0x7ffe (1 to 32766), or 0x8001 to 0xfffe (32769 to 65534) with the full-member bit";

/// A parsed `pkey` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PKeyField {
    /// Parsed P_Key.
    pub key: RequestedPKey,
    /// Text for CNI configurations: a string as written, an integer in decimal.
    pub text: String,
}

/// Decodes an integer or a string to text. An integer becomes decimal.
pub(crate) fn text_of_int_or_string<'de, D: Deserializer<'de>>(decoder: D) -> Result<String, D::Error> {
    Ok(match IntOrString::deserialize(decoder)? {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text,
    })
}

/// Parses a `pkey` field. Returns `None` if the field is absent or empty: the network has no partition.
pub fn parse_pkey_field(field: Option<&IntOrString>) -> Result<Option<PKeyField>, InvalidPKey> {
    let text = match field {
        None => return Ok(None),
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text.clone(),
    };
    let key = RequestedPKey::from_value(&Value::String(text.clone()))?;
    Ok(key.map(|key| PKeyField { key, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_strings_are_equivalent() {
        let of = |field| parse_pkey_field(Some(&field)).unwrap().unwrap();
        assert_eq!(of(IntOrString::Int(1000)), of(IntOrString::String("1000".into())));
        assert_eq!(of(IntOrString::String("0x10".into())).key.number(), 16);
        assert_eq!(of(IntOrString::Int(33768)).key, of(IntOrString::Int(1000)).key);
        assert_eq!(parse_pkey_field(Some(&IntOrString::String(String::new()))).unwrap(), None);
        for wrong in [0, 32767, 32768, 65535] {
            assert!(parse_pkey_field(Some(&IntOrString::Int(wrong))).is_err(), "{wrong}");
        }
        for wrong in ["zz", "0x0", "0x8000", "0x7fff", "0xffff", "32767"] {
            assert!(parse_pkey_field(Some(&IntOrString::String(wrong.into()))).is_err(), "{wrong}");
        }
        assert!(PKEY_MESSAGE.contains(RequestedPKey::EXPECTED));
    }
}
