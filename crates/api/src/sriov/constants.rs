//! Annotations by which the two daemons, and whoever drains nodes in place of ours, speak about a node.

/// On a node state, by the node: what it needs to go on, [`IDLE`], [`DRAIN_REQUIRED`] or [`REBOOT_REQUIRED`].
pub const DESIRED_STATE: &str = "sriovnetwork.openshift.io/desired-state";
/// On a node state, by whoever drains: [`IDLE`], [`DRAINING`] or [`DRAIN_COMPLETE`].
pub const CURRENT_STATE: &str = "sriovnetwork.openshift.io/current-state";
/// On a node state: somebody else drains this node.
pub const EXTERNAL_DRAINER: &str = "sriovnetwork.openshift.io/use-external-drainer";
/// On the state of a node that is gone: until when it is kept.
pub const KEEP_STATE_UNTIL: &str = "sriovnetwork.openshift.io/keep-state-until";
/// On a Node: it was us who made it unschedulable, so we may make it schedulable again.
pub const CORDONED: &str = "ferroband.io/cordoned";

/// Nothing is needed, nothing is done.
pub const IDLE: &str = "Idle";
/// The pods that hold what changes must go.
pub const DRAIN_REQUIRED: &str = "Drain_Required";
/// All pods must go, for a reboot.
pub const REBOOT_REQUIRED: &str = "Reboot_Required";
/// They are going.
pub const DRAINING: &str = "Draining";
/// They are gone.
pub const DRAIN_COMPLETE: &str = "DrainComplete";

/// In `syncStatus`: the node is as it should be.
pub const SUCCEEDED: &str = "Succeeded";
/// In `syncStatus`: it cannot be.
pub const FAILED: &str = "Failed";
/// In `syncStatus`: it will be.
pub const IN_PROGRESS: &str = "InProgress";
