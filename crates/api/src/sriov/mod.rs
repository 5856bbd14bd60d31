//! `sriovnetwork.openshift.io`: the SR-IOV network operator's kinds for virtual functions and their networks.

mod bridge;
mod constants;
mod ib_network;
mod node_policy;
mod node_state;
mod operator_config;
mod pool_config;
mod validation_rules;

pub use bridge::{
    NodeBridge, NodeBridges, NodeUplink, OvsBridge, OvsInterface, PolicyBridge, PolicyOvs, PolicyUplink,
};
pub use constants::*;
pub use ib_network::{ConditionsStatus, SriovIBNetwork, SriovIBNetworkSpec};
pub use node_policy::{NicSelector, SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
pub use node_state::{
    InterfaceSpec, InterfaceStatus, PendingAction, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
    SriovNetworkNodeStateStatus, SystemState, VfGroup, VfHolder, VirtualFunction,
};
pub use operator_config::{SriovOperatorConfig, SriovOperatorConfigSpec, SriovOperatorConfigStatus};
pub use pool_config::{OvsHardwareOffload, SriovNetworkPoolConfig, SriovNetworkPoolConfigSpec};
pub(crate) use validation_rules::with_validation_rules;
