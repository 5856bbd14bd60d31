//! A partition as people write it in an object.

use ferroband_model::{MalformedValue, PKey};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What the API server checks of a `pkey`: that it is a number or the text of one. Base 0 names no partition.
pub(crate) const PKEY_RULE: &str = "type(self) == int ? self >= 1 && self <= 65535 && self != 32768 : \
    (self == '' || self.matches('^([0-9]{1,5}|0[xX][0-9a-fA-F]{1,4})$'))";
/// What it says otherwise.
pub(crate) const PKEY_MESSAGE: &str =
    "pkey must be a number of 1 to 65535 without 32768, or the text of one, decimal or hexadecimal (0x8001)";

/// A partition that an object names, and the text it goes by in configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PKeyField {
    /// The key.
    pub key: PKey,
    /// As it was written; a number in decimal.
    pub text: String,
}

/// The partition of a `pkey` field. An absent one and an empty text name none.
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
    fn numbers_and_texts_name_the_same() {
        let of = |field| parse_pkey_field(Some(&field)).unwrap().unwrap();
        assert_eq!(of(IntOrString::Int(1000)), of(IntOrString::String("1000".into())));
        assert_eq!(of(IntOrString::String("0x10".into())).key.value(), 16);
        assert_eq!(parse_pkey_field(Some(&IntOrString::String(String::new()))).unwrap(), None);
        for wrong in [IntOrString::Int(0), IntOrString::Int(32768), IntOrString::String("zz".into())] {
            assert!(parse_pkey_field(Some(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
