//! Licences, sources and bans of `deny.toml`, for all crates in Cargo.lock.
//!
//! cargo-deny checks them if it is installed. It is not everywhere, so the same rules are checked here from
//! `cargo metadata`. Advisories need a database, and are left to cargo-deny.

mod deny_file;
mod licence;

use super::sources::Source;
use anyhow::{Context, Result, bail};
use deny_file::DenyFile;
use ferroband_lab::cache;
use ferroband_lab::command::{command, output, run, succeeds};
use serde_json::Value;
use std::fs;

/// Fails if a crate has a licence or a source that is not allowed, or is banned.
pub fn check(_: &[Source]) -> Result<()> {
    let checkout = cache::checkout();
    if succeeds(&mut command("cargo", ["deny", "--version"])) {
        let args = ["deny", "--offline", "--log-level=error", "check", "bans", "licenses", "sources"];
        return run(command("cargo", args).current_dir(&checkout));
    }
    let text = fs::read_to_string(checkout.join("deny.toml")).context("cannot read deny.toml")?;
    let args = ["metadata", "--format-version=1", "--locked"];
    let metadata = output(command("cargo", args).current_dir(&checkout))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let wrong = violations(&DenyFile::parse(&text)?, &metadata);
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// One line for each rule that a package breaks.
fn violations(rules: &DenyFile, metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str();
        let name = text("name").unwrap_or("?");
        match text("license") {
            Some(expression) => match licence::is_allowed(expression, &rules.licences) {
                Ok(true) => {}
                Ok(false) => wrong.push(format!("{name}: licence {expression} is not in deny.toml")),
                Err(problem) => wrong.push(format!("{name}: licence {expression:?}: {problem}")),
            },
            None => wrong.push(format!("{name}: no licence")),
        }
        // A package without a source is part of this workspace.
        if let Some(source) = text("source")
            && !source.starts_with("registry+")
        {
            wrong.push(format!("{name}: source {source} is not a registry"));
        }
        if let Some((_, reason)) = rules.banned.iter().find(|(banned, _)| banned == name) {
            wrong.push(format!("{name} is banned: {reason}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licences_sources_and_bans_are_checked() {
        let rules = DenyFile { licences: vec!["MIT".into()], banned: vec![("bad".into(), "because".into())] };
        let package = |name: &str, license: Value, source: &str| json!({"name": name, "license": license, "source": source});
        let good = "registry+https://example.org/index";
        let of = |package: Value| violations(&rules, &json!({"packages": [package]})).join("; ");
        assert_eq!(of(package("a", json!("MIT OR GPL-3.0"), good)), "");
        assert_eq!(of(json!({"name": "own", "license": "MIT", "source": null})), "");
        assert_eq!(of(package("a", json!("GPL-3.0"), good)), "a: licence GPL-3.0 is not in deny.toml");
        assert_eq!(of(package("a", Value::Null, good)), "a: no licence");
        assert_eq!(of(package("bad", json!("MIT"), good)), "bad is banned: because");
        let git = "git+https://example.org/a";
        assert_eq!(of(package("a", json!("MIT"), git)), format!("a: source {git} is not a registry"));
    }

    #[test]
    fn all_crates_of_this_workspace_are_allowed() {
        check(&[]).unwrap();
    }
}
