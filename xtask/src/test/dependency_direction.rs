//! Allowed dependencies between crates (ARCHITECTURE.md); a crate with a forbidden dependency fails here.

use anyhow::{Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};

/// Crate, forbidden dependencies, reason.
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
    ("ferroband-model", &["ferroband-kernel", "nix", "tokio", "kube"], "the model is pure"),
    (
        "ferroband-config",
        &["ferroband-kernel", "nix", "tokio", "kube"],
        "configurations are parsed without I/O",
    ),
    (
        "ferroband-address",
        &["ferroband-kernel", "ferroband-api", "tokio", "kube", "nix"],
        "the engine is pure",
    ),
    (
        "ferroband-partition",
        &["ferroband-kernel", "ferroband-api", "kube", "nix"],
        "partitions depend neither on the kernel nor on Kubernetes",
    ),
    (
        "ferroband-cli",
        &["ferroband-testbed", "reqwest", "openssl"],
        "test code is not part of the product, and there is one HTTP client and one TLS library",
    ),
    (
        "ferroband-api",
        &["ferroband-kernel", "ferroband-address", "nix"],
        "API types do not depend on the kernel",
    ),
    ("ferroband-node", &["ferroband-cluster"], "the daemons communicate through API objects only"),
    (
        "ferroband-cluster",
        &["ferroband-node", "ferroband-kernel", "ferroband-sim", "ferroband-attach"],
        "it runs on any node; node work is done by the node daemon",
    ),
    (
        "ferroband-kernel",
        &["ferroband-sim", "tokio", "kube"],
        "simulation replaces the kernel, never the reverse",
    ),
];

/// Checks every rule against the tree of normal dependencies.
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
