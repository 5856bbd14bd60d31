//! What is wanted of the whole node: firmware, and how RDMA devices and namespaces go together.

use super::{
    Survey,
    card::{CardDue, Port, card, card_due, is_needed, locked_down},
    want::Wanted,
};
use crate::{Error, install::replace};
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
const OPTIONS: &str = "etc/modprobe.d/ferroband.conf";

/// How it stands with the whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// What comes into force with a reboot only.
    pub reboot: Vec<String>,
    /// What cannot be.
    pub faults: Vec<Fault>,
}

/// Bring it to what is wanted as far as it goes without a reboot.
pub fn bring(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    wanted: &Wanted,
    survey: &Survey,
) -> Result<System, Error> {
    let mut system = System::default();
    if !wanted.no_firmware {
        cards(hardware, firmware, wanted, survey, &mut system);
    }
    mode(hardware, wanted.mode, survey.mode, &mut system)?;
    Ok(system)
}

fn cards(
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    wanted: &Wanted,
    survey: &Survey,
    system: &mut System,
) {
    let mut all: BTreeMap<_, Vec<Port<'_>>> = BTreeMap::new();
    for adapter in survey.adapters.iter().filter(|adapter| adapter.vendor == MELLANOX) {
        all.entry(card(adapter.pci)).or_default().push((adapter, wanted.adapters.get(&adapter.pci)));
    }
    for ports in all.values().filter(|ports| is_needed(ports)) {
        let lockdown = fs::read_to_string(hardware.root().sys("kernel/security/lockdown")).ok();
        if let Some(fault) = locked_down(lockdown.as_deref()) {
            system.faults.push(fault);
            return;
        }
        let Some(pci) = ports.first().map(|(adapter, _)| adapter.pci) else { continue };
        match one(firmware, pci, ports) {
            Ok(due) if due.reboot => system.reboot.push(format!("firmware of {pci}")),
            Ok(_) => {}
            Err(fault) => system.faults.push(fault),
        }
    }
}

fn one(firmware: &dyn Firmware, pci: PciAddress, ports: &[Port<'_>]) -> Result<CardDue, Fault> {
    let settings = firmware::query(firmware, pci).map_err(|e| refused(pci, ports, &e))?;
    let due = card_due(ports, &settings)?;
    if !due.set.is_empty() {
        info!(%pci, settings = ?due.set, "firmware settings");
        firmware::set(firmware, pci, &due.set).map_err(|e| refused(pci, ports, &e))?;
    }
    Ok(due)
}

fn refused(pci: PciAddress, ports: &[Port<'_>], error: &FirmwareError) -> Fault {
    let short = ports.iter().find_map(|(seen, want)| {
        want.filter(|want| want.count > seen.total).map(|want| {
            format!("{} virtual functions are wanted, sriov_totalvfs is {}; ", want.count, seen.total)
        })
    });
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {pci}"),
        format!(
            "{}its firmware cannot be asked: {}",
            short.unwrap_or_default(),
            ferroband_daemon::chain(error)
        ),
        "install mstconfig (package mstflint) where the node daemon runs, set NUM_OF_VFS and LINK_TYPE by hand, or change the policy",
    )
}

/// The running kernel is asked first: a node that has the mode already needs nothing.
fn mode(
    hardware: &dyn Hardware,
    wanted: Option<NetnsMode>,
    now: Option<NetnsMode>,
    system: &mut System,
) -> Result<(), Error> {
    let path = hardware.root().path(OPTIONS);
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
        replace(&path, &mut options.as_bytes(), 0o644)?;
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
