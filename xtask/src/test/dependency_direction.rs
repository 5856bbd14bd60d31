//! Who may depend on whom (ARCHITECTURE.md); a crate that reaches the wrong way fails here.

use crate::cache;
use crate::command::{command, output};
use anyhow::{Result, bail};

/// What must not be found below a crate, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "ferroband-cni",
        &["kube", "kube-client", "tokio", "tonic", "hyper", "rustls", "reqwest", "clap"],
        "it is executed for every pod: no Kubernetes client, no async, no TLS",
    ),
    (
        "ferroband-attach",
        &["kube", "tokio", "tonic", "hyper", "ferroband-api", "ferroband-address", "ferroband-node"],
        "it is part of ferroband-cni",
    ),
    ("ferroband-model", &["ferroband-kernel", "nix", "tokio", "kube"], "the words are pure"),
    (
        "ferroband-address",
        &["ferroband-kernel", "ferroband-api", "tokio", "kube", "nix"],
        "the engine is pure",
    ),
    (
        "ferroband-partition",
        &["ferroband-kernel", "ferroband-api", "kube", "nix"],
        "partitions know neither the kernel nor Kubernetes",
    ),
    (
        "ferroband-cli",
        &["ferroband-testbed", "reqwest", "openssl"],
        "what tests stand on is no part of the product, and there is one HTTP client and one TLS",
    ),
    ("ferroband-api", &["ferroband-kernel", "ferroband-address", "nix"], "what users write knows no kernel"),
    ("ferroband-node", &["ferroband-cluster"], "the daemons meet in objects of the API server"),
    (
        "ferroband-cluster",
        &["ferroband-node", "ferroband-kernel", "ferroband-sim", "ferroband-attach"],
        "it runs anywhere; nodes do what is done on nodes",
    ),
    (
        "ferroband-kernel",
        &["ferroband-sim", "tokio", "kube"],
        "simulation replaces the kernel, never the reverse",
    ),
];

/// Check every rule against the tree of normal dependencies.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for (package, forbidden, why) in FORBIDDEN {
        let args = ["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"];
        let tree = output(command("cargo", args).current_dir(cache::checkout()))?;
        for found in tree.lines().filter_map(|l| l.split(' ').next()) {
            if forbidden.contains(&found) {
                wrong.push(format!("{package} depends on {found}: {why}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}
