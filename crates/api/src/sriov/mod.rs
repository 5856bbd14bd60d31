//! `sriovnetwork.openshift.io`: virtual functions and their networks, as the SR-IOV operator has them.

mod bridge;
mod ib_network;
mod node_policy;
mod node_state;
mod operator_config;
mod pool_config;
mod rules;
mod words;

pub use bridge::{
    NodeBridge, NodeBridges, NodeUplink, OvsBridge, OvsInterface, PolicyBridge, PolicyOvs, PolicyUplink,
};
pub use ib_network::{ConditionsStatus, SriovIBNetwork, SriovIBNetworkSpec};
pub use node_policy::{NicSelector, SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
pub use node_state::{
    Holder, InterfaceSpec, InterfaceStatus, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
    SriovNetworkNodeStateStatus, SystemState, VfGroup, VirtualFunction,
};
pub use operator_config::{SriovOperatorConfig, SriovOperatorConfigSpec, SriovOperatorConfigStatus};
pub use pool_config::{OvsHardwareOffload, SriovNetworkPoolConfig, SriovNetworkPoolConfigSpec};
pub(crate) use rules::ruled;
pub use words::*;
