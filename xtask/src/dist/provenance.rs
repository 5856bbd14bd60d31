//! Where the files of a release come from: an in-toto statement with a SLSA provenance (v1), beside the bill of materials.
//!
//! It contains no time and no number of a run, so that two builds of one commit have the same provenance. It is not
//! signed: whoever publishes a release signs `SHA256SUMS`, which lists this file.

use anyhow::{Context, Result};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use serde_json::{Value, json};
use std::path::Path;

/// File name of the statement.
pub const FILE: &str = "provenance.json";

/// What a release is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSource {
    /// Commit of the checkout; `None` outside of a Git checkout.
    pub commit: Option<String>,
    /// Whether files of the checkout differ from the commit.
    pub changed: bool,
    /// SHA-256 of Cargo.lock.
    pub lock: String,
    /// Version of the compiler.
    pub compiler: String,
    /// Rust target of the programs.
    pub target: String,
}

impl ReleaseSource {
    /// Reads the state of this checkout.
    pub fn of_checkout(target: &str) -> Result<Self> {
        let git = |args: &[&str]| output(command("git", args).current_dir(cache::checkout()));
        let commit = git(&["rev-parse", "HEAD"]).ok().map(|commit| commit.trim().to_owned());
        let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
        let lock = output(command("sha256sum", ["Cargo.lock"]).current_dir(cache::checkout()))?;
        let compiler = output(&mut command("rustc", ["--version"]))?;
        Ok(Self {
            commit,
            changed: !changes.trim().is_empty(),
            lock: lock.split_whitespace().next().context("sha256sum printed nothing")?.to_owned(),
            compiler: compiler.trim().to_owned(),
            target: target.to_owned(),
        })
    }
}

/// The statement about all files in `folder`.
pub fn statement_of(folder: &Path, source: &ReleaseSource) -> Result<String> {
    Ok(format!("{:#}\n", statement(&super::checksums::sums(folder)?, source)))
}

/// The statement about files with these checksums, in the format of `sha256sum`.
fn statement(sums: &str, source: &ReleaseSource) -> Value {
    let files = sums.lines().filter_map(|line| line.split_once("  "));
    let subjects = files.map(|(sum, name)| json!({"name": name, "digest": {"sha256": sum}}));
    let mut inputs = vec![
        json!({"uri": "file:Cargo.lock", "digest": {"sha256": source.lock}}),
        json!({"uri": "pkg:generic/rustc", "annotations": {"version": source.compiler}}),
    ];
    if let Some(commit) = &source.commit {
        inputs.push(json!({
            "uri": "git+file:.", "digest": {"gitCommit": commit}, "annotations": {"changed": source.changed},
        }));
    }
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://ferroband.io/build/xtask-dist/v1",
                "externalParameters": {"command": "cargo xtask dist", "target": source.target},
                "resolvedDependencies": inputs,
            },
            "runDetails": {"builder": {"id": "https://ferroband.io/build/local"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_names_every_file_and_what_it_was_built_from() {
        let source = ReleaseSource {
            commit: Some("c0ffee".into()),
            changed: true,
            lock: "ab".into(),
            compiler: "rustc 1.95.0".into(),
            target: "x86_64-unknown-linux-musl".into(),
        };
        let statement = statement("11  ferroband-x86_64-linux\n22  man/a.1\n", &source);
        assert_eq!(
            statement["subject"][1],
            json!({"name": "man/a.1", "digest": {"sha256": "22"}}),
            "{statement}"
        );
        let definition = &statement["predicate"]["buildDefinition"];
        assert_eq!(definition["externalParameters"]["target"], "x86_64-unknown-linux-musl");
        let git = &definition["resolvedDependencies"][2];
        assert_eq!(
            (&git["digest"]["gitCommit"], &git["annotations"]["changed"]),
            (&json!("c0ffee"), &json!(true))
        );
        let without = ReleaseSource { commit: None, ..source };
        assert_eq!(super::statement("", &without)["subject"], json!([]));
    }

    #[test]
    fn the_source_of_this_checkout_is_known() {
        let source = ReleaseSource::of_checkout("t").unwrap();
        assert_eq!((source.lock.len(), source.compiler.starts_with("rustc ")), (64, true));
        assert_eq!(source, ReleaseSource::of_checkout("t").unwrap());
    }
}
