//! The field `pkey`, which is an integer or a string.

use ferroband_model::{MalformedValue, PKey};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// CEL rule for `pkey`: an integer, or an integer as a string. Base 0 is not a valid partition.
pub(crate) const PKEY_RULE: &str = "type(self) == int ? self >= 1 && self <= 65535 && self != 32768 : \
    (self == '' || self.matches('^([0-9]{1,5}|0[xX][0-9a-fA-F]{1,4})$'))";
/// Message of the API server when [`PKEY_RULE`] rejects a value.
pub(crate) const PKEY_MESSAGE: &str =
    "pkey must be 1 to 65535 except 32768, as a number or as a decimal or hexadecimal (0x8001) string";

/// A parsed `pkey` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PKeyField {
    /// Parsed P_Key, including the membership bit.
    pub key: PKey,
    /// Text for CNI configurations: a string as written, an integer in decimal.
    pub text: String,
}

/// Parses a `pkey` field. Returns `None` if the field is absent or empty: the network has no partition.
pub fn parse_pkey_field(field: Option<&IntOrString>) -> Result<Option<PKeyField>, MalformedValue> {
    let text = match field {
        None => return Ok(None),
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) if text.is_empty() => return Ok(None),
        Some(IntOrString::String(text)) => text.clone(),
    };
    Ok(Some(PKeyField { key: text.parse()?, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_strings_are_equivalent() {
        let of = |field| parse_pkey_field(Some(&field)).unwrap().unwrap();
        assert_eq!(of(IntOrString::Int(1000)), of(IntOrString::String("1000".into())));
        assert_eq!(of(IntOrString::String("0x10".into())).key.value(), 16);
        assert_eq!(parse_pkey_field(Some(&IntOrString::String(String::new()))).unwrap(), None);
        for wrong in [IntOrString::Int(0), IntOrString::Int(32768), IntOrString::String("zz".into())] {
            assert!(parse_pkey_field(Some(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
