//! Runs actions. If the daemon is killed between two actions, the next configuration pass plans the remaining ones.

use super::{Action, OriginalStateStore, VfDriver, diff::firmware_fault, observe::MODPROBE_CONF};
use crate::{
    Error, error_chain,
    install::{create_dir, write_atomically},
};
use ferroband_kernel::{
    Errno, Hardware, NetnsMode, Root, RouteSocket,
    files::remove_file,
    firmware::{self, Firmware},
    rtnetlink::{GuidKind, VfLinkState},
};
use ferroband_model::PciAddress;

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    Done,
    /// The kernel accepts the change only after a reboot.
    RebootRequired,
}

/// Runs one action. Creating functions blocks for seconds, so do not call this on a thread of the async runtime.
pub fn apply(
    action: &Action,
    hardware: &dyn Hardware,
    firmware: &dyn Firmware,
    original_states: &OriginalStateStore,
) -> Result<ActionOutcome, Error> {
    match action {
        Action::SetFirmware { card, settings, shortage } => firmware::set(firmware, *card, settings)
            .map_err(|e| firmware_fault(*card, shortage, &error_chain(&e)))?,
        Action::WriteModprobeOptions { options } => write_modprobe_options(hardware.root(), options)?,
        Action::RemoveModprobeOptions => remove_modprobe_options(hardware.root())?,
        Action::SetRdmaMode { mode } => return set_rdma_mode(hardware, *mode),
        Action::SaveOriginalState { pf, state } => original_states.write(*pf, state)?,
        Action::SetVfCount { pf, count } => {
            // The kernel rejects a change from one nonzero number of virtual functions to another, so set 0 first.
            hardware.set_vf_count(*pf, 0)?;
            if *count > 0 {
                hardware.set_vf_count(*pf, *count)?;
            }
        }
        Action::SetVfGuid { pf, vf, index, guid, link_auto } => {
            hardware.set_vf_guid(*pf, *index, GuidKind::Node, *guid)?;
            hardware.set_vf_guid(*pf, *index, GuidKind::Port, *guid)?;
            if *link_auto {
                hardware.set_vf_link_state(*pf, *index, VfLinkState::Auto)?;
            }
            bind_driver(hardware, *vf, VfDriver::Kernel)?;
        }
        Action::BindVfDriver { vf, driver, .. } => bind_driver(hardware, *vf, *driver)?,
        Action::SetVfMtu { interface, mtu, .. } => {
            let mut route = RouteSocket::open()?;
            if let Some(link) = route.link(interface)? {
                route.set_mtu(link.index, *mtu)?;
            }
        }
        Action::SetMtu { pf, mtu } => {
            if let Some(link) = hardware.interfaces(*pf, None)?.first() {
                RouteSocket::open()?.set_mtu(link.index, *mtu)?;
            }
        }
        Action::SetLink { pf, up } => {
            let mut route = RouteSocket::open()?;
            match hardware.interfaces(*pf, None)?.first() {
                Some(link) if *up => route.set_up(link.index)?,
                Some(link) => route.set_down(link.index)?,
                None => {}
            }
        }
        Action::RemoveOriginalState { pf } => original_states.remove(*pf)?,
    }
    Ok(ActionOutcome::Done)
}

fn bind_driver(hardware: &dyn Hardware, vf: PciAddress, driver: VfDriver) -> Result<(), Error> {
    hardware.unbind_driver(vf)?;
    match driver {
        VfDriver::Kernel => {
            hardware.set_driver_override(vf, None)?;
            hardware.probe_driver(vf)?;
        }
        VfDriver::Vfio => {
            hardware.set_driver_override(vf, Some("vfio-pci"))?;
            let bound = hardware.bind_driver(vf, "vfio-pci");
            // Clear the override, so that later binds match drivers by device id again.
            hardware.set_driver_override(vf, None)?;
            bound?;
        }
    }
    Ok(())
}

fn set_rdma_mode(hardware: &dyn Hardware, mode: NetnsMode) -> Result<ActionOutcome, Error> {
    match hardware.set_rdma_netns_mode(mode) {
        Ok(()) => Ok(ActionOutcome::Done),
        // The kernel refuses to change the mode while other network namespaces exist. The modprobe options apply at
        // the next boot.
        Err(e) if e.errno() == Some(Errno::EBUSY) => Ok(ActionOutcome::RebootRequired),
        Err(e) => Err(e.into()),
    }
}

fn write_modprobe_options(root: &Root, options: &str) -> Result<(), Error> {
    let path = root.path(MODPROBE_CONF);
    if let Some(dir) = path.parent() {
        create_dir(dir)?;
    }
    write_atomically(&path, &mut options.as_bytes(), 0o644)
}

fn remove_modprobe_options(root: &Root) -> Result<(), Error> {
    let path = root.path(MODPROBE_CONF);
    remove_file(&path).map_err(Error::file("remove", &path))
}
