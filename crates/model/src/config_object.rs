//! JSON objects of network configurations, with the key rules of Go's encoding/json.
//!
//! The plugins that Ferroband replaces, and the plugins that it executes, are written in Go. Go's decoder matches keys
//! without regard to letter case, and of two equal keys the last one is used. Every part of Ferroband that reads or
//! changes a configuration uses these functions. Otherwise the daemon would check another value than the plugin uses.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A JSON object in which no two keys are equal for Go, at any depth.
///
/// Equal keys are merged when the object is decoded, because the order of the text is lost afterwards: a later value
/// replaces an earlier one, objects are merged, and `null` changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigObject(pub Map<String, Value>);

/// Whether Go's decoder regards two keys as equal. U+017F (LATIN SMALL LETTER LONG S) and U+212A (KELVIN SIGN) are the
/// only characters outside ASCII that fold to an ASCII letter (`foldName` in encoding/json).
pub fn is_same_key(one: &str, other: &str) -> bool {
    one.chars().map(fold).eq(other.chars().map(fold))
}

fn fold(character: char) -> char {
    match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

/// Returns the value of `key`. `null` counts as absent. In an object that is not a [`ConfigObject`] a key in exactly
/// this letter case takes precedence.
pub fn get_key<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let folded = || object.iter().find(|(name, _)| is_same_key(name, key)).map(|(_, value)| value);
    object.get(key).or_else(folded).filter(|value| !value.is_null())
}

/// Sets `key` and removes all other keys that are equal to it.
pub fn set_key(object: &mut Map<String, Value>, key: &str, value: Value) {
    remove_key(object, key);
    object.insert(key.to_owned(), value);
}

/// Removes all keys that are equal to `key` and returns the value that [`get_key`] would return.
pub fn remove_key(object: &mut Map<String, Value>, key: &str) -> Option<Value> {
    let value = get_key(object, key).cloned();
    object.retain(|name, _| !is_same_key(name, key));
    value
}

/// Adds a key that follows the existing ones in the text.
fn merge_key(object: &mut Map<String, Value>, key: String, value: Value) {
    let Some(written) = object.keys().find(|name| is_same_key(name, &key)).cloned() else {
        object.insert(key, value);
        return;
    };
    match (object.get_mut(&written), value) {
        (Some(Value::Object(earlier)), Value::Object(later)) => {
            later.into_iter().for_each(|(key, value)| merge_key(earlier, key, value));
        }
        (Some(earlier), Value::Null) if !earlier.is_null() => {}
        (_, value) => set_key(object, &key, value),
    }
}

impl<'de> Deserialize<'de> for ConfigObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match ConfigValue::deserialize(deserializer)?.0 {
            Value::Object(object) => Ok(Self(object)),
            _ => Err(D::Error::custom("expected a JSON object")),
        }
    }
}

/// A JSON value whose objects are [`ConfigObject`]s.
struct ConfigValue(Value);

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConfigVisitor).map(Self)
    }
}

struct ConfigVisitor;

impl<'de> Visitor<'de> for ConfigVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(ConfigValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, ConfigValue(value))) = entries.next_entry()? {
            merge_key(&mut object, key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decode(text: &str) -> Value {
        Value::Object(serde_json::from_str::<ConfigObject>(text).unwrap().0)
    }

    #[test]
    fn the_last_of_equal_keys_is_used_in_any_letter_case() {
        assert_eq!(decode(r#"{"a": 1, "A": 2}"#), json!({"A": 2}));
        assert_eq!(decode(r#"{"A": 2, "a": 1}"#), json!({"a": 1}));
        assert_eq!(decode(r#"{"a": 1, "a": 2, "b": [{"c": 1, "C": 2}]}"#), json!({"a": 2, "b": [{"C": 2}]}));
        assert_eq!(
            decode("{\"key\": 1, \"\u{212a}ey\": 2, \"ma\u{17f}ter\": 3, \"MASTER\": 4}"),
            json!({"\u{212a}ey": 2, "MASTER": 4})
        );
    }

    #[test]
    fn objects_are_merged_and_null_changes_nothing() {
        assert_eq!(
            decode(r#"{"ipam": {"type": "x", "range": "a"}, "IPAM": {"RANGE": "b"}, "Ipam": null}"#),
            json!({"ipam": {"type": "x", "RANGE": "b"}})
        );
        assert_eq!(decode(r#"{"a": null, "A": 1}"#), json!({"A": 1}));
        assert_eq!(decode(r#"{"a": {"b": 1}, "A": 5}"#), json!({"A": 5}));
    }

    #[test]
    fn values_are_unchanged() {
        let text = r#"{"a":[true,null,-1,1.5,18446744073709551615,"é",{"b":{}}]}"#;
        assert_eq!(decode(text), serde_json::from_str::<Value>(text).unwrap());
        for wrong in ["[]", "5", "null", "{", "{} x"] {
            assert!(serde_json::from_str::<ConfigObject>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<ConfigObject>(&"{\"a\":[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_key_is_found_set_and_removed_in_any_letter_case() {
        let mut object = decode(r#"{"PKey": 1, "other": 2, "gone": null}"#).as_object().cloned().unwrap();
        assert_eq!((get_key(&object, "pkey"), get_key(&object, "gone")), (Some(&json!(1)), None));
        set_key(&mut object, "pkey", json!(3));
        assert_eq!(object.get("PKey"), None);
        assert_eq!(remove_key(&mut object, "PKEY"), Some(json!(3)));
        assert_eq!(get_key(&object, "pkey"), None);
        let both = json!({"KEY": 1, "key": 2}).as_object().cloned().unwrap();
        assert_eq!((get_key(&both, "key"), get_key(&both, "KEY")), (Some(&json!(2)), Some(&json!(1))));
    }
}
