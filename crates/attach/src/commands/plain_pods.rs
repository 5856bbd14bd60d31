//! Plain pods: pods that get only the network that Ferroband wraps.
//!
//! ```text
//! daemon ── plainPods in the CNI configuration ─┐
//! runtime ── the pod's annotations ─────────────┴─▶ ADD: the wrapped network, without the daemon
//! ```
//!
//! The daemon decides which pods are plain. The program only compares, so that it needs neither the daemon nor the API
//! server for pods that do not use Ferroband.

use crate::ipc::plan::Attachment;
use crate::protocol::{ConfigError, Error, Invocation};
use ferroband_config::{limit_to_capabilities, set_runtime_config};
use ferroband_model::PodRef;

/// Whether the pod of an ADD is plain. A pod whose annotations the runtime does not pass is not.
pub(crate) fn is_plain(call: &Invocation, pod: Option<&PodRef>) -> bool {
    let (Some(plain), Some(pod)) = (call.config.plain_pods(), pod) else { return false };
    plain.contains(&pod.namespace, call.config.map()) && call.config.wrapped_networks().next().is_some()
}

/// The network that the configuration wraps.
pub(crate) fn wrapped_network(call: &Invocation) -> Result<Attachment, Error> {
    let missing = || ConfigError::field("delegates", "a list that contains the wrapped network");
    let wrapped = call.config.wrapped_networks().next().ok_or_else(missing)?;
    let mut network = Attachment::foreign(wrapped, &call.ifname, true)?;
    if let Some(runtime_config) = call.config.runtime_config() {
        for step in &mut network.steps {
            set_runtime_config(&mut step.config, runtime_config.clone());
            // The annotations of a pod may be large, so the journal contains only what the plugin gets.
            limit_to_capabilities(&mut step.config);
        }
    }
    Ok(network)
}
