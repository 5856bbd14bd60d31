//! Annotations and states by which the node daemon, the cluster daemon and external drainers coordinate.

/// On a SriovNetworkNodeState, set by the node daemon: [`IDLE`], [`DRAIN_REQUIRED`] or [`REBOOT_REQUIRED`].
pub const DESIRED_STATE: &str = "sriovnetwork.openshift.io/desired-state";
/// On a SriovNetworkNodeState, set by the drainer: [`IDLE`], [`DRAINING`] or [`DRAIN_COMPLETE`].
pub const CURRENT_STATE: &str = "sriovnetwork.openshift.io/current-state";
/// On a SriovNetworkNodeState: an external component drains this node, so Ferroband evicts no pods.
pub const EXTERNAL_DRAINER: &str = "sriovnetwork.openshift.io/use-external-drainer";
/// On the SriovNetworkNodeState of a deleted node: the time after which the object is deleted.
pub const KEEP_STATE_UNTIL: &str = "sriovnetwork.openshift.io/keep-state-until";
/// On a Node: Ferroband cordoned it and may uncordon it.
pub const CORDONED: &str = "ferroband.io/cordoned";

/// No drain is required or in progress.
pub const IDLE: &str = "Idle";
/// The pods that use the functions to be changed must be evicted.
pub const DRAIN_REQUIRED: &str = "Drain_Required";
/// All pods must be evicted for a reboot.
pub const REBOOT_REQUIRED: &str = "Reboot_Required";
/// Pods are being evicted.
pub const DRAINING: &str = "Draining";
/// All pods that had to be evicted are gone.
pub const DRAIN_COMPLETE: &str = "DrainComplete";

/// `syncStatus`: the node is configured as desired.
pub const SUCCEEDED: &str = "Succeeded";
/// `syncStatus`: the configuration failed.
pub const FAILED: &str = "Failed";
/// `syncStatus`: the configuration is in progress.
pub const IN_PROGRESS: &str = "InProgress";
