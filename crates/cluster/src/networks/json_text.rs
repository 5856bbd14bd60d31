//! Formats JSON text without changing the order of its keys.

use serde_json::value::RawValue;

/// Returns the JSON text without whitespace between tokens.
pub fn compact(json: &RawValue) -> String {
    let mut out = String::with_capacity(json.get().len());
    for part in tokens(json.get()) {
        out.push_str(part);
    }
    out
}

/// Returns the JSON text with every member and element on its own line, indented by `width` blanks per level.
pub fn indent(json: &RawValue, width: usize) -> String {
    let mut out = String::with_capacity(json.get().len() * 2);
    let mut depth = 0;
    let mut before = "";
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * width));
    };
    for part in tokens(json.get()) {
        let closes = matches!(part, "}" | "]");
        if closes {
            depth -= 1;
        }
        // Break the line before a member, an element or a closing bracket, but not inside empty brackets.
        if (matches!(before, "{" | "[") && !closes)
            || before == ","
            || (closes && !matches!(before, "{" | "["))
        {
            line(&mut out, depth);
        }
        out.push_str(part);
        match part {
            ":" => out.push(' '),
            "{" | "[" => depth += 1,
            _ => {}
        }
        before = part;
    }
    out
}

/// Splits valid JSON into tokens: brackets, colons, commas and scalars.
fn tokens(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let length = match first {
            '{' | '}' | '[' | ']' | ':' | ',' => 1,
            '"' => string_length(rest),
            _ => rest.find(|c: char| c.is_ascii_whitespace() || "{}[]:,\"".contains(c)).unwrap_or(rest.len()),
        };
        let (part, left) = rest.split_at(length);
        rest = left;
        Some(part)
    })
}

/// Returns the length in bytes of the string literal at the start of `text`, including its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn whitespace_changes_only_between_tokens() {
        let written = " { \"b\" : [ 1 , -2.50e3,true ],\n \"a\\\"} \": { } , \"c\" : [ ] }";
        assert_eq!(compact(&raw(written)), r#"{"b":[1,-2.50e3,true],"a\"} ":{},"c":[]}"#);
        let lines = [
            "{",
            "  \"b\": [",
            "    1,",
            "    -2.50e3,",
            "    true",
            "  ],",
            "  \"a\\\"} \": {},",
            "  \"c\": []",
            "}",
        ];
        assert_eq!(indent(&raw(written), 2), lines.join("\n"));
        assert_eq!(compact(&raw(&indent(&raw(written), 4))), compact(&raw(written)));
    }
}
