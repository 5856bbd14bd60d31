//! Reads the current state of the node. Nothing in this folder changes the node.

mod adapter;
mod firmware;
mod holders;

pub use adapter::{AdapterInterface, ObservedAdapter, ObservedFunction, observe_adapters};
#[cfg(test)]
pub(super) use firmware::lockdown_fault;
pub use firmware::{ObservedFirmware, observe_firmware};
pub use holders::{RunningHolders, holders_of, read_holder_uids, running_holders};

use super::{Action, AdapterOriginalState};
use ferroband_api::sriov::VfHolder;
use ferroband_kernel::{Error, Hardware, NetnsMode};
use ferroband_model::PciAddress;
use std::{collections::BTreeMap, fs};

/// File with the options of the module ib_core, written by Ferroband. Relative to the root directory.
pub const MODPROBE_CONF: &str = "etc/modprobe.d/ferroband.conf";

/// The state of the node: what the kernel, the firmware, the kubelet and Ferroband's own files report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedNode {
    /// Sorted by PCI address.
    pub adapters: Vec<ObservedAdapter>,
    /// RDMA namespace mode; `None` on a kernel without RDMA.
    pub rdma_mode: Option<NetnsMode>,
    /// Content of [`MODPROBE_CONF`]; `None` if the file does not exist.
    pub modprobe_options: Option<String>,
    pub firmware: ObservedFirmware,
    /// State of the managed adapters before Ferroband changed them.
    pub original_states: BTreeMap<PciAddress, AdapterOriginalState>,
    /// The pods that hold virtual functions. `None` if the kubelet's checkpoint cannot be read; then every function
    /// may be held.
    pub holders: Option<RunningHolders>,
    /// Actions that the kernel refused in this pass and accepts only after a reboot.
    pub refused: Vec<Action>,
}

impl ObservedNode {
    pub fn is_held(&self, vf: PciAddress) -> bool {
        self.holders.as_ref().is_none_or(|holders| holders.contains_key(&vf))
    }

    /// The pods that hold a function. Empty if the kubelet's checkpoint cannot be read.
    pub fn holders_of_vf(&self, vf: PciAddress) -> Vec<VfHolder> {
        self.holders.as_ref().and_then(|holders| holders.get(&vf)).cloned().unwrap_or_default()
    }
}

/// Reads what the kernel reports: all physical functions of network controllers, and the RDMA namespace mode.
pub fn observe_node(hardware: &dyn Hardware) -> Result<ObservedNode, Error> {
    hardware.refresh()?;
    Ok(ObservedNode {
        adapters: observe_adapters(hardware)?,
        // The query fails on a kernel without RDMA, which is no error.
        rdma_mode: hardware.rdma_netns_mode().ok(),
        modprobe_options: fs::read_to_string(hardware.root().path(MODPROBE_CONF)).ok(),
        ..ObservedNode::default()
    })
}
