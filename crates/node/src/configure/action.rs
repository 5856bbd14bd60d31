//! The actions that change the node. `diff` lists them, `apply` runs them one by one.

use super::AdapterOriginalState;
use ferroband_api::sriov::{PendingAction, VfHolder};
use ferroband_kernel::NetnsMode;
use ferroband_model::{Guid, PciAddress};
use std::{collections::BTreeMap, fmt};

/// One change to the node. `pf` is the physical function of the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change firmware settings of a card, which take effect at the next boot. `shortage` says why more virtual
    /// functions are needed; it is empty if only the link type changes.
    SetFirmware {
        card: PciAddress,
        settings: BTreeMap<String, String>,
        shortage: String,
    },
    /// Write the RDMA namespace mode of the next boot.
    WriteModprobeOptions {
        options: String,
    },
    /// Remove these options, so that the next boot uses the administrator's.
    RemoveModprobeOptions,
    SetRdmaMode {
        mode: NetnsMode,
    },
    /// Save the state of an adapter before its first change.
    SaveOriginalState {
        pf: PciAddress,
        state: AdapterOriginalState,
    },
    /// Remove all virtual functions and create this many.
    SetVfCount {
        pf: PciAddress,
        count: u16,
    },
    /// Set the GUID and bind the driver again, because the GUID takes effect then. With `link_auto`, the link state
    /// follows the adapter's port.
    SetVfGuid {
        pf: PciAddress,
        vf: PciAddress,
        index: u32,
        guid: Guid,
        link_auto: bool,
    },
    /// Unbind the current driver and bind this one.
    BindVfDriver {
        pf: PciAddress,
        vf: PciAddress,
        driver: VfDriver,
    },
    SetVfMtu {
        pf: PciAddress,
        vf: PciAddress,
        interface: String,
        mtu: u32,
    },
    /// Set the MTU of the adapter's interface.
    SetMtu {
        pf: PciAddress,
        mtu: u32,
    },
    /// Set the adapter's interface up or down.
    SetLink {
        pf: PciAddress,
        up: bool,
    },
    /// Remove the saved original state, because nothing is left to restore.
    RemoveOriginalState {
        pf: PciAddress,
    },
}

/// The driver to bind to a virtual function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VfDriver {
    /// The kernel's network driver.
    Kernel,
    Vfio,
}

impl Action {
    /// The adapter that is changed; `None` for settings of a card or the node. After a failed action, the remaining
    /// actions of the same adapter are skipped.
    pub fn adapter(&self) -> Option<PciAddress> {
        match self {
            Self::SetFirmware { .. }
            | Self::WriteModprobeOptions { .. }
            | Self::RemoveModprobeOptions
            | Self::SetRdmaMode { .. } => None,
            Self::SaveOriginalState { pf, .. }
            | Self::SetVfCount { pf, .. }
            | Self::SetVfGuid { pf, .. }
            | Self::BindVfDriver { pf, .. }
            | Self::SetVfMtu { pf, .. }
            | Self::SetMtu { pf, .. }
            | Self::SetLink { pf, .. }
            | Self::RemoveOriginalState { pf } => Some(*pf),
        }
    }

    /// The virtual function, if the action changes only one.
    pub fn vf(&self) -> Option<PciAddress> {
        match self {
            Self::SetVfGuid { vf, .. } | Self::BindVfDriver { vf, .. } | Self::SetVfMtu { vf, .. } => {
                Some(*vf)
            }
            _ => None,
        }
    }

    /// Whether the action interrupts a pod that holds the function.
    pub fn is_disruptive(&self) -> bool {
        matches!(self, Self::SetVfGuid { .. } | Self::BindVfDriver { .. })
    }

    /// Whether the action removes all functions of the adapter, so that pods which hold one must be drained first.
    pub fn resets_adapter(&self) -> bool {
        matches!(self, Self::SetVfCount { .. })
    }

    /// What the action changes: a PCI address or the node.
    pub fn target(&self) -> String {
        match (self, self.vf().or(self.adapter())) {
            (Self::SetFirmware { card, .. }, _) => card.to_string(),
            (_, Some(pci)) => pci.to_string(),
            (_, None) => "node".to_owned(),
        }
    }

    /// Returns the entry for the status, with what the action waits for.
    pub fn pending(&self, wait: Option<&Wait>) -> PendingAction {
        let waits_for = wait.map(ToString::to_string);
        PendingAction { target: self.target(), change: self.to_string(), waits_for }
    }
}

/// Names the change without its target: `GUID 02:…` or `MTU 4092`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetFirmware { settings, .. } => {
                let pairs: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "firmware {}", pairs.join(" "))
            }
            Self::WriteModprobeOptions { options } => write!(f, "modprobe {}", options.trim_end()),
            Self::RemoveModprobeOptions => f.write_str("remove the modprobe options of ib_core"),
            Self::SetRdmaMode { mode } => write!(f, "RDMA mode {mode}"),
            Self::SaveOriginalState { .. } => f.write_str("save the original state"),
            Self::SetVfCount { count, .. } => write!(f, "set the number of virtual functions to {count}"),
            Self::SetVfGuid { guid, .. } => write!(f, "GUID {guid}"),
            Self::BindVfDriver { driver: VfDriver::Kernel, .. } => f.write_str("the kernel's network driver"),
            Self::BindVfDriver { driver: VfDriver::Vfio, .. } => f.write_str("driver vfio-pci"),
            Self::SetVfMtu { mtu, .. } | Self::SetMtu { mtu, .. } => write!(f, "MTU {mtu}"),
            Self::SetLink { up, .. } => write!(f, "link {}", if *up { "up" } else { "down" }),
            Self::RemoveOriginalState { .. } => f.write_str("remove the saved original state"),
        }
    }
}

/// An action that cannot run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingAction {
    pub action: Action,
    pub wait: Wait,
}

/// Why an action cannot run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Pods that hold functions of the adapter are drained first.
    Drain,
    /// These pods hold the function, and no pod is drained for it. Empty if the kubelet's checkpoint cannot be read.
    InUse(Vec<VfHolder>),
    /// The kernel accepts the change only after a reboot.
    Reboot,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain => f.write_str("drain of the pods that hold the adapter's functions"),
            Self::InUse(holders) if holders.is_empty() => f.write_str("held by an unknown pod"),
            Self::InUse(holders) => {
                let pods: Vec<_> =
                    holders.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
                write!(f, "held by {}", pods.join(", "))
            }
            Self::Reboot => f.write_str("reboot"),
        }
    }
}
