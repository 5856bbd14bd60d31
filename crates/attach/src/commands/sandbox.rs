//! What an ADD checks first: the pod's network namespace, the default network's readiness, whether the pod is plain, and
//! whether the daemon must permit the call.
//!
//! ```text
//! daemon ── plainPods in the CNI configuration ─┐
//! runtime ── the pod's annotations ─────────────┴─▶ ADD: the wrapped network, without the daemon
//! ```
//!
//! The daemon decides which pods are plain. The program only compares, so that it needs neither the daemon nor the API
//! server for pods that do not use Ferroband.

use crate::ipc::node_client::is_daemon_installed;
use crate::ipc::plan::{Attachment, StepKind};
use crate::protocol::{CniContext, ConfigError, Error, Invocation, PluginConfig, PluginType};
use crate::state::journal::Journal;
use ferroband_config::{limit_to_capabilities, set_runtime_config};
use ferroband_kernel::{Error as KernelError, Netns, Root, boot_id};
use ferroband_model::PodRef;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Open the namespace of an ADD or CHECK. It must exist and must not be the plugin's own network namespace.
pub(crate) fn open(call: &Invocation) -> Result<Netns, Error> {
    let path = call.netns.as_deref().unwrap_or_default();
    let netns = Netns::open(path)?;
    refuse_own(call, &netns)?;
    Ok(netns)
}

/// Fail if the sandbox is the plugin's own network namespace. This is checked before anything is changed, not
/// afterwards as in libcni's skel package.
fn refuse_own(call: &Invocation, netns: &Netns) -> Result<(), Error> {
    if !call.netns_override && netns.id() == Netns::current()?.id() {
        return Err(Error::OwnNamespace { path: call.netns.clone().unwrap_or_default() });
    }
    Ok(())
}

/// The namespace of a sandbox that is being deleted.
#[derive(Debug)]
pub(crate) struct SandboxState {
    /// The namespace, if it still exists.
    pub(crate) netns: Option<Netns>,
    /// Value of `CNI_NETNS` for foreign plugins; empty if the path must not be passed to them.
    pub(crate) cni_netns: String,
}

impl SandboxState {
    /// The sandbox of a DEL without a journal, from `CNI_NETNS`.
    pub(crate) fn from_call(call: &Invocation) -> Result<Self, Error> {
        let path = call.netns.clone().unwrap_or_default();
        match Netns::open(&path) {
            Ok(netns) => {
                refuse_own(call, &netns)?;
                Ok(Self { netns: Some(netns), cni_netns: path })
            }
            // Foreign plugins handle a path that does not exist, but not a path that is not a namespace.
            Err(KernelError::NoNetns { .. }) => Ok(Self { netns: None, cni_netns: path }),
            Err(_) => Ok(Self { netns: None, cni_netns: String::new() }),
        }
    }

    /// The sandbox of `journal`. The path of the call is tried first, then the path of the ADD. A path is
    /// used only if it still leads to the namespace of the ADD.
    pub(crate) fn from_journal(
        root: &Root,
        call: Option<&Invocation>,
        journal: &Journal,
    ) -> Result<Self, Error> {
        let of_call = call.map(Self::from_call).transpose()?;
        let cni_netns = match &of_call {
            // Do not pass another sandbox's namespace to this sandbox's plugins: keep the path only if it
            // leads nowhere.
            Some(sandbox) if sandbox.netns.is_none() => sandbox.cni_netns.clone(),
            _ => String::new(),
        };
        let same = |netns: &Netns| netns.id() == journal.netns_id;
        let same_boot = boot_id(root)? == journal.boot;
        let named = of_call.filter(|sandbox| same_boot && sandbox.netns.as_ref().is_some_and(same));
        if let Some(sandbox) = named {
            return Ok(sandbox);
        }
        match Netns::open(&journal.netns).ok().filter(same) {
            Some(netns) if same_boot => Ok(Self { netns: Some(netns), cni_netns: journal.netns.clone() }),
            _ => Ok(Self { netns: None, cni_netns }),
        }
    }
}

/// Interval between checks whether the file exists.
const PAUSE: Duration = Duration::from_millis(100);

/// Wait at most `timeout` for the readiness indicator file (`readinessindicatorfile` of Multus), if the configuration
/// names one. Before it exists, an ADD would call plugins whose agent is not running yet.
pub(crate) fn wait_until_ready(
    context: &CniContext<'_>,
    call: &Invocation,
    timeout: Duration,
) -> Result<(), Error> {
    let Some(named) = call.config.readiness_file()? else { return Ok(()) };
    let path: PathBuf = context.root.path(named.trim_start_matches('/'));
    let end = Instant::now() + timeout;
    while !path.exists() {
        if (context.should_stop)() {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= end {
            return Err(Error::DefaultNetworkNotReady { path });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

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

/// Whether the daemon must permit what a plugin called on its own is configured to use. On a node that never had a
/// daemon, nobody manages P_Keys and GUIDs.
pub(crate) fn needs_permission(root: &Root, plugin_type: PluginType, config: &PluginConfig) -> bool {
    let kind = StepKind::for_plugin(plugin_type, config.map());
    let has_daemon = |kind: &StepKind| kind.uses_daemon_ipam() || is_daemon_installed(root);
    kind.is_ok_and(|kind| kind.uses_fabric_identity() && has_daemon(&kind))
}
