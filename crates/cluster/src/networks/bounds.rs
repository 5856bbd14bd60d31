//! Limits of the JSON texts in networks. They are checked before anything is generated from a text: indented text grows
//! with the depth of its nesting, and a generated configuration becomes part of the plan of every pod that uses it.

use super::NetworkSpecError;

/// Maximum size of one JSON text.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum nesting of objects and lists. CNI configurations need about six levels.
const MAX_DEPTH: usize = 32;
/// Maximum number of chained plugins.
const MAX_PLUGINS: usize = 32;
/// Maximum size of the generated CNI configuration. The node daemon refuses larger ones.
const MAX_CONFIG_BYTES: usize = 128 << 10;

/// Checks the size and the depth of a JSON text in the field `field`. The text need not be valid.
pub fn check_text(field: &str, text: &str) -> Result<(), NetworkSpecError> {
    check_size(field, text, MAX_TEXT_BYTES)?;
    match depth(text) > MAX_DEPTH {
        true => Err(NetworkSpecError::TooDeep { field: field.to_owned(), max: MAX_DEPTH }),
        false => Ok(()),
    }
}

pub fn check_plugin_count(field: &str, count: usize) -> Result<(), NetworkSpecError> {
    match count > MAX_PLUGINS {
        true => Err(NetworkSpecError::TooManyPlugins { field: field.to_owned(), count, max: MAX_PLUGINS }),
        false => Ok(()),
    }
}

/// Checks the size of the generated configuration.
pub fn check_config(text: &str) -> Result<(), NetworkSpecError> {
    check_size("the generated CNI configuration", text, MAX_CONFIG_BYTES)
}

fn check_size(field: &str, text: &str, max: usize) -> Result<(), NetworkSpecError> {
    match text.len() > max {
        true => Err(NetworkSpecError::TooLong { field: field.to_owned(), bytes: text.len(), max }),
        false => Ok(()),
    }
}

/// Returns the deepest nesting of brackets outside of strings.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert_eq!(depth(r#"{"a[[[\"{{": [1, {"b": "]"}], "c": []}"#), 3);
        assert_eq!((depth(""), depth("]]]["), depth("[[]")), (0, 1, 2));
    }

    #[test]
    fn size_and_depth_are_limited() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check_text("f", &nested(MAX_DEPTH)).is_ok());
        let fault = check_text("spec.ipam", &nested(MAX_DEPTH + 1)).unwrap_err().fault("x").to_string();
        assert!(fault.contains("spec.ipam is nested deeper than 32 levels"), "{fault}");
        assert!(check_text("f", &"x".repeat(MAX_TEXT_BYTES)).is_ok());
        assert!(check_text("f", &"x".repeat(MAX_TEXT_BYTES + 1)).is_err());
        assert!(check_plugin_count("f", MAX_PLUGINS).is_ok() && check_plugin_count("f", 33).is_err());
    }
}
