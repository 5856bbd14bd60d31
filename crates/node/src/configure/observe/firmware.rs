//! Reads the firmware settings of adapters.

use ferroband_daemon::error_chain;
use ferroband_kernel::{
    Root,
    firmware::{self, Firmware, FirmwareSettings},
};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::{collections::BTreeMap, fs};

/// Firmware settings of the cards that were queried. A query takes seconds, so a card is queried only if a policy
/// may need other settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedFirmware {
    /// Why the kernel blocks access to the firmware; `None` if it does not.
    pub blocked: Option<Fault>,
    /// Settings of each card, or why they cannot be read, by the address of the card's first port.
    pub cards: BTreeMap<PciAddress, Result<FirmwareSettings, String>>,
}

/// Queries the firmware of the cards whose first ports are `cards`.
pub fn observe_firmware(root: &Root, firmware: &dyn Firmware, cards: &[PciAddress]) -> ObservedFirmware {
    if cards.is_empty() {
        return ObservedFirmware::default();
    }
    let lockdown = fs::read_to_string(root.sys("kernel/security/lockdown")).ok();
    let blocked = lockdown_fault(lockdown.as_deref());
    let query = |pci: &PciAddress| (*pci, firmware::query(firmware, *pci).map_err(|e| error_chain(&e)));
    let cards = if blocked.is_some() { BTreeMap::new() } else { cards.iter().map(query).collect() };
    ObservedFirmware { blocked, cards }
}

/// Returns a fault if the kernel's lockdown mode blocks firmware access. `text` is the content of
/// `/sys/kernel/security/lockdown`.
pub(in crate::configure) fn lockdown_fault(text: Option<&str>) -> Option<Fault> {
    let mode = ["integrity", "confidentiality"]
        .into_iter()
        .find(|mode| text.is_some_and(|text| text.contains(&format!("[{mode}]"))))?;
    Some(Fault::new(
        FaultCode::KernelRefused,
        "firmware of the adapters",
        format!("the kernel is locked down ({mode}), so mstconfig cannot access the firmware"),
        "disable Secure Boot, or set NUM_OF_VFS and LINK_TYPE by other means and reboot the node",
    ))
}
