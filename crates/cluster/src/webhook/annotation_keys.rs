//! Finds annotation keys that look like the networks annotation but are not.

use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORK_STATUS, NETWORKS};

/// Parts of the prefixes of the keys that are checked, each with the key that the user probably means. The API server
/// sends every pod with such a key to the webhook.
pub const CHECKED_PREFIXES: [(&str, &str); 2] =
    [("cni.cncf.io/", NETWORKS), ("multus-cni.io/", DEFAULT_NETWORK)];

/// Keys that have a meaning. The last one is the former name of [`NETWORK_STATUS`].
const KNOWN_KEYS: [&str; 4] =
    [NETWORKS, DEFAULT_NETWORK, NETWORK_STATUS, "k8s.v1.cni.cncf.io/networks-status"];

/// Returns the warning for an annotation key that has no meaning, although it looks as if it had.
pub fn mistyped_key_warning(key: &str) -> Option<String> {
    if KNOWN_KEYS.contains(&key) || !key.to_ascii_lowercase().contains("network") {
        return None;
    }
    let (_, meant) = CHECKED_PREFIXES.into_iter().find(|(prefix, _)| key.contains(prefix))?;
    Some(format!("the annotation {key} has no effect; use the key {meant} to attach networks"))
}
