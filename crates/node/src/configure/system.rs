//! Node-wide settings: firmware and the RDMA namespace mode.

use super::{
    ObservedNode,
    card::{CardPort, FirmwarePlan, card_address, lockdown_fault, needs_firmware, plan_firmware},
    want::DesiredNodeConfig,
};
use crate::{Error, install::write_atomically};
use ferroband_kernel::{
    Errno, Hardware, NetnsMode,
    firmware::{self, Firmware, FirmwareError},
};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::{collections::BTreeMap, fs, io::ErrorKind};
use tracing::info;

/// PCI vendor id of the adapters whose firmware `mstconfig` can change.
pub const MELLANOX: u16 = 0x15b3;
/// File with the options of the module ib_core, written by Ferroband.
const MODPROBE_CONF: &str = "etc/modprobe.d/ferroband.conf";

/// Result of applying the node-wide settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemChanges {
    /// Descriptions of the settings that take effect only after a reboot, for messages.
    pub reboot: Vec<String>,
    pub faults: Vec<Fault>,
}

/// Applies the desired firmware settings and RDMA namespace mode. Settings that need a reboot are returned in
/// `reboot`.
pub fn apply_system_settings(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    desired: &DesiredNodeConfig,
    observed: &ObservedNode,
) -> Result<SystemChanges, Error> {
    let mut changes = SystemChanges::default();
    if !desired.skip_firmware {
        apply_firmware(hardware, firmware, desired, observed, &mut changes);
    }
    apply_rdma_mode(hardware, desired.rdma_mode, observed.rdma_mode, &mut changes)?;
    Ok(changes)
}

fn apply_firmware(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    desired: &DesiredNodeConfig,
    observed: &ObservedNode,
    changes: &mut SystemChanges,
) {
    let mut cards: BTreeMap<_, Vec<CardPort<'_>>> = BTreeMap::new();
    for adapter in observed.adapters.iter().filter(|adapter| adapter.vendor == MELLANOX) {
        cards
            .entry(card_address(adapter.pci))
            .or_default()
            .push((adapter, desired.adapters.get(&adapter.pci)));
    }
    for ports in cards.values().filter(|ports| needs_firmware(ports)) {
        let lockdown = fs::read_to_string(hardware.root().sys("kernel/security/lockdown")).ok();
        if let Some(fault) = lockdown_fault(lockdown.as_deref()) {
            changes.faults.push(fault);
            return;
        }
        let Some(pci) = ports.first().map(|(adapter, _)| adapter.pci) else { continue };
        match apply_card_firmware(firmware, pci, ports) {
            Ok(plan) if plan.needs_reboot => changes.reboot.push(format!("firmware of {pci}")),
            Ok(_) => {}
            Err(fault) => changes.faults.push(fault),
        }
    }
}

fn apply_card_firmware(
    firmware: &dyn Firmware,
    pci: PciAddress,
    ports: &[CardPort<'_>],
) -> Result<FirmwarePlan, Fault> {
    let settings = firmware::query(firmware, pci).map_err(|e| firmware_fault(pci, ports, &e))?;
    let plan = plan_firmware(ports, &settings)?;
    if !plan.set.is_empty() {
        info!(%pci, settings = ?plan.set, "changing firmware settings");
        firmware::set(firmware, pci, &plan.set).map_err(|e| firmware_fault(pci, ports, &e))?;
    }
    Ok(plan)
}

fn firmware_fault(pci: PciAddress, ports: &[CardPort<'_>], error: &FirmwareError) -> Fault {
    let shortage = ports.iter().find_map(|(adapter, desired_adapter)| {
        desired_adapter.filter(|desired_adapter| desired_adapter.vf_count > adapter.total_vfs).map(
            |desired_adapter| {
                format!(
                    "{} virtual functions requested, but sriov_totalvfs is {}; ",
                    desired_adapter.vf_count, adapter.total_vfs
                )
            },
        )
    });
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {pci}"),
        format!(
            "{}cannot query or change the firmware settings: {}",
            shortage.unwrap_or_default(),
            ferroband_daemon::error_chain(error)
        ),
        "install mstconfig (package mstflint) where the node daemon runs, set NUM_OF_VFS and LINK_TYPE manually, \
         or change the policy",
    )
}

/// Sets the RDMA namespace mode at runtime and for the next boot. A node that already has the desired mode is not
/// changed.
fn apply_rdma_mode(
    hardware: &dyn Hardware,
    desired: Option<NetnsMode>,
    current: Option<NetnsMode>,
    changes: &mut SystemChanges,
) -> Result<(), Error> {
    let path = hardware.root().path(MODPROBE_CONF);
    let written = fs::read_to_string(&path).ok();
    let Some(desired) = desired else {
        // The spec sets no RDMA namespace mode. Remove Ferroband's options, so that the next boot uses the
        // administrator's.
        return match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(Error::File { action: "remove", path, source })
            }
            _ => Ok(()),
        };
    };
    // A kernel without RDMA has no RDMA namespace mode. That is no error, because the other settings still
    // apply.
    let Some(current) = current else { return Ok(()) };
    let options = format!("options ib_core netns_mode={}\n", desired.number());
    if written.as_deref() != Some(&options) && (current != desired || written.is_some()) {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|source| Error::File {
                action: "create",
                path: dir.to_owned(),
                source,
            })?;
        }
        write_atomically(&path, &mut options.as_bytes(), 0o644)?;
    }
    if current == desired {
        return Ok(());
    }
    match hardware.set_rdma_netns_mode(desired) {
        Ok(()) => info!(mode = %desired, "changed the RDMA namespace mode"),
        // The kernel refuses to change the mode while other network namespaces exist. The options written
        // above apply at the next boot.
        Err(e) if e.errno() == Some(Errno::EBUSY) => changes.reboot.push(format!("RDMA mode {desired}")),
        Err(e) => changes.faults.push(e.fault()),
    }
    Ok(())
}
