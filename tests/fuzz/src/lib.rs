//! Fuzzing of untrusted input: no input may cause a panic, a hang or an inconsistent result.
//!
//! ```text
//! target: stdin │ annotation │ netlink ◀── cargo test: seeds, mutated with a fixed random seed, for a limited time
//!                                      ◀── cargo fuzz: the same functions (directory fuzz/), with a nightly compiler
//! ```

mod corpus;
pub mod mutation;

pub use corpus::{ANNOTATIONS, CONFIGURATIONS, netlink_messages};

use ferroband_api::annotation::NetworkSelection;
use ferroband_attach::plan::StepKind;
use ferroband_attach::{CniCommand, CniEnvironment, CniResult, CniVersion, Invocation, PluginConfig};
use serde_json::Value;

/// Fuzz a plugin's standard input through all parsers that run before any change.
pub fn stdin(bytes: &[u8]) {
    let variables = CniEnvironment::from_iter([
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_IFNAME", "net1"),
        ("CNI_NETNS", "/var/run/netns/t"),
        ("CNI_PATH", "/opt/cni/bin"),
    ]);
    if let Err(error) = Invocation::read(CniCommand::Add, &variables, &mut &*bytes) {
        assert!(!error.fault().remedy.is_empty() && error.code() > 0);
    }
    let Ok(config) = PluginConfig::parse(bytes.to_vec()) else { return };
    if let Err(error) = StepKind::from_config(config.map()) {
        assert!(!error.fault().cause.is_empty());
    }
    if let Some(previous) = config.fields().get("prevResult")
        && let Ok(result) = CniResult::read(previous, CniVersion::NEWEST)
    {
        // A parsed result can be written and parsed again.
        let written = result.write(CniVersion::NEWEST).unwrap_or(Value::Null);
        assert_eq!(CniResult::read(&written, CniVersion::NEWEST).ok(), Some(result));
    }
}

/// Fuzz a pod's networks annotation.
pub fn annotation(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match NetworkSelection::parse_networks(&text, "default") {
        Ok(selections) => {
            for selection in selections {
                assert!(!selection.display_name().is_empty());
            }
        }
        Err(error) => assert!(!error.fault().remedy.is_empty()),
    }
    let _ = NetworkSelection::parse_default_network(&text, "kube-system");
}

/// Fuzz a netlink datagram.
pub fn netlink(bytes: &[u8]) {
    ferroband_kernel::rtnetlink::decode_anything(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Duration of each test; `FERROBAND_FUZZ_SECONDS` overrides the default.
    fn duration() -> Duration {
        let seconds = std::env::var("FERROBAND_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(3))
    }

    #[test]
    fn mutated_configurations_do_not_panic() {
        let seeds: Vec<_> = CONFIGURATIONS.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(mutation::run(&seeds, duration(), stdin) > 1000);
    }

    #[test]
    fn mutated_annotations_do_not_panic() {
        let seeds: Vec<_> = ANNOTATIONS.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(mutation::run(&seeds, duration(), annotation) > 1000);
    }

    #[test]
    fn mutated_netlink_messages_do_not_panic() {
        assert!(mutation::run(&netlink_messages(), duration(), netlink) > 1000);
    }
}
