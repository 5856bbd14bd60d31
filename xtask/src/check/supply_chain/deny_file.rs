//! The parts of `deny.toml` that are checked without cargo-deny.

use anyhow::{Result, ensure};

/// Rules about crates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DenyFile {
    pub licences: Vec<String>,
    /// Names of crates, and why each is banned.
    pub banned: Vec<(String, String)>,
}

impl DenyFile {
    /// Parses the file. Only strings, lists of strings and inline tables of strings are understood, which is all that
    /// this project's file contains.
    pub fn parse(text: &str) -> Result<Self> {
        let strings = |section, key| value(text, section, key).map(quoted).unwrap_or_default();
        let tables = value(text, "bans", "deny").unwrap_or_default();
        let field = |table: &str, key: &str| {
            let (_, rest) = table.split_once(&format!("{key} = \""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let banned = tables
            .split('{')
            .filter_map(|table| Some((field(table, "crate")?, field(table, "reason").unwrap_or_default())));
        let rules = Self { licences: strings("licenses", "allow"), banned: banned.collect() };
        let is_complete = !rules.licences.is_empty() && !rules.banned.is_empty();
        ensure!(is_complete, "deny.toml lacks licenses.allow or bans.deny");
        Ok(rules)
    }
}

/// The text of a list: from its key to the line that ends it.
fn value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let start = text.find(&format!("\n[{section}]\n"))? + 1;
    let rest = &text[start..];
    let section = rest.split_once("\n[").map_or(rest, |(section, _)| section);
    let (_, list) = section.split_once(&format!("\n{key} = ["))?;
    Some(list.split_once(']')?.0)
}

fn quoted(list: &str) -> Vec<String> {
    let code = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code: String = code.map(|line| format!("{line}\n")).collect();
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_tables_are_read() {
        let text = "# x\n\n[licenses]\nallow = [\n  # \"GPL\" is not\n  \"MIT\",\n  \"ISC\",\n]\n\n[bans]\nother = 1\n\
                    deny = [\n  { crate = \"a\", reason = \"b\" },\n  { crate = \"c\" },\n]\n";
        let rules = DenyFile::parse(text).unwrap();
        assert_eq!(rules.licences, ["MIT", "ISC"]);
        let banned = [("a", "b"), ("c", "")].map(|(name, why)| (name.to_owned(), why.to_owned()));
        assert_eq!(rules.banned, banned);
        assert!(DenyFile::parse("[licenses]\n").is_err());
    }
}
