//! What strangers may send, sent by the million: nothing of it may panic, hang or be believed.
//!
//! ```text
//! target: stdin │ annotation │ netlink ◀── cargo test: seeds, mutated from a fixed number, for a bounded time
//!                                      ◀── cargo fuzz: the same functions (folder fuzz/), on a nightly compiler
//! ```

mod corpus;
pub mod mutation;

pub use corpus::{ANNOTATIONS, CONFIGURATIONS, netlink_messages};

use ferroband_api::annotation::NetworkSelection;
use ferroband_attach::plan::StepKind;
use ferroband_attach::{CniCommand, CniEnvironment, CniResult, CniVersion, Invocation, PluginConfig};
use serde_json::Value;

/// A plugin's standard input, through everything that reads it before anything is done.
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
        // What was understood can be told, and is understood again.
        let written = result.write(CniVersion::NEWEST).unwrap_or(Value::Null);
        assert_eq!(CniResult::read(&written, CniVersion::NEWEST).ok(), Some(result));
    }
}

/// A pod's annotation.
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

/// A datagram of the kernel's, or of somebody who says so.
pub fn netlink(bytes: &[u8]) {
    ferroband_kernel::rtnetlink::decode_anything(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Short enough for every run; `FERROBAND_FUZZ_SECONDS` makes it longer.
    fn long() -> Duration {
        let asked = std::env::var("FERROBAND_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        Duration::from_secs(asked.unwrap_or(3))
    }

    #[test]
    fn standard_input() {
        let seeds: Vec<_> = CONFIGURATIONS.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(mutation::run(&seeds, long(), stdin) > 1000);
    }

    #[test]
    fn annotations() {
        let seeds: Vec<_> = ANNOTATIONS.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(mutation::run(&seeds, long(), annotation) > 1000);
    }

    #[test]
    fn answers_of_the_kernel() {
        assert!(mutation::run(&netlink_messages(), long(), netlink) > 1000);
    }
}
