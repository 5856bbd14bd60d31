//! What is wanted of the whole node: firmware, and how RDMA devices and namespaces go together.

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

/// The vendor whose firmware mstconfig changes.
pub const MELLANOX: u16 = 0x15b3;
/// The options of ib_core that are ours.
const MODPROBE_CONF: &str = "etc/modprobe.d/ferroband.conf";

/// How it stands with the whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemChanges {
    /// What comes into force with a reboot only.
    pub reboot: Vec<String>,
    /// What cannot be.
    pub faults: Vec<Fault>,
}

/// Bring it to what is wanted as far as it goes without a reboot.
pub fn apply_system_settings(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    wanted: &DesiredNodeConfig,
    survey: &ObservedNode,
) -> Result<SystemChanges, Error> {
    let mut system = SystemChanges::default();
    if !wanted.skip_firmware {
        apply_firmware(hardware, firmware, wanted, survey, &mut system);
    }
    apply_rdma_mode(hardware, wanted.rdma_mode, survey.rdma_mode, &mut system)?;
    Ok(system)
}

fn apply_firmware(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    wanted: &DesiredNodeConfig,
    survey: &ObservedNode,
    system: &mut SystemChanges,
) {
    let mut all: BTreeMap<_, Vec<CardPort<'_>>> = BTreeMap::new();
    for adapter in survey.adapters.iter().filter(|adapter| adapter.vendor == MELLANOX) {
        all.entry(card_address(adapter.pci)).or_default().push((adapter, wanted.adapters.get(&adapter.pci)));
    }
    for ports in all.values().filter(|ports| needs_firmware(ports)) {
        let lockdown = fs::read_to_string(hardware.root().sys("kernel/security/lockdown")).ok();
        if let Some(fault) = lockdown_fault(lockdown.as_deref()) {
            system.faults.push(fault);
            return;
        }
        let Some(pci) = ports.first().map(|(adapter, _)| adapter.pci) else { continue };
        match apply_card_firmware(firmware, pci, ports) {
            Ok(due) if due.needs_reboot => system.reboot.push(format!("firmware of {pci}")),
            Ok(_) => {}
            Err(fault) => system.faults.push(fault),
        }
    }
}

fn apply_card_firmware(
    firmware: &dyn Firmware,
    pci: PciAddress,
    ports: &[CardPort<'_>],
) -> Result<FirmwarePlan, Fault> {
    let settings = firmware::query(firmware, pci).map_err(|e| firmware_fault(pci, ports, &e))?;
    let due = plan_firmware(ports, &settings)?;
    if !due.set.is_empty() {
        info!(%pci, settings = ?due.set, "firmware settings");
        firmware::set(firmware, pci, &due.set).map_err(|e| firmware_fault(pci, ports, &e))?;
    }
    Ok(due)
}

fn firmware_fault(pci: PciAddress, ports: &[CardPort<'_>], error: &FirmwareError) -> Fault {
    let short = ports.iter().find_map(|(seen, want)| {
        want.filter(|want| want.vf_count > seen.total_vfs).map(|want| {
            format!("{} virtual functions are wanted, sriov_totalvfs is {}; ", want.vf_count, seen.total_vfs)
        })
    });
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {pci}"),
        format!(
            "{}its firmware cannot be asked: {}",
            short.unwrap_or_default(),
            ferroband_daemon::error_chain(error)
        ),
        "install mstconfig (package mstflint) where the node daemon runs, set NUM_OF_VFS and LINK_TYPE by hand, or change the policy",
    )
}

/// The running kernel is asked first: a node that has the mode already needs nothing.
fn apply_rdma_mode(
    hardware: &dyn Hardware,
    wanted: Option<NetnsMode>,
    now: Option<NetnsMode>,
    system: &mut SystemChanges,
) -> Result<(), Error> {
    let path = hardware.root().path(MODPROBE_CONF);
    let written = fs::read_to_string(&path).ok();
    let Some(wanted) = wanted else {
        // What was ours is taken away; the next boot has what the administrator says.
        return match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(Error::File { action: "remove", path, source })
            }
            _ => Ok(()),
        };
    };
    // A kernel without RDMA has no mode; other work goes on.
    let Some(now) = now else { return Ok(()) };
    let options = format!("options ib_core netns_mode={}\n", wanted.number());
    if written.as_deref() != Some(&options) && (now != wanted || written.is_some()) {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| Error::File {
                action: "make",
                path: folder.to_owned(),
                source,
            })?;
        }
        write_atomically(&path, &mut options.as_bytes(), 0o644)?;
    }
    if now == wanted {
        return Ok(());
    }
    match hardware.set_rdma_netns_mode(wanted) {
        Ok(()) => info!(%wanted, "RDMA namespaces"),
        // Any pod's namespace keeps the kernel from it; the options above do it at the next boot.
        Err(e) if e.errno() == Some(Errno::EBUSY) => system.reboot.push(format!("RDMA mode {wanted}")),
        Err(e) => system.faults.push(e.fault()),
    }
    Ok(())
}
