//! Taking a function back, and putting it right.
//!
//! Every part is done as far as it is still to be done, and a part that fails does not stop the others: what is left is
//! found by the record, which stays until nothing is left.

use super::held::{self, SavedVfState};
use super::interface::{self, InterfaceLocation};
use super::{ObservedVf, VfLease, VfOwner};
use crate::daemon::NodeClient;
use crate::{CniContext, DeviceOp, Error, FailPoint, Lock, rdma};
use ferroband_kernel::rtnetlink::GuidKind;
use ferroband_kernel::{Hardware, Netns, RouteSocket, boot_id};
use ferroband_model::{Guid, PciAddress};

/// The surroundings of a restoration.
pub(crate) struct VfTeardown<'a> {
    pub(crate) machine: &'a CniContext<'a>,
    /// The sandbox that has the function, if it still exists.
    pub(crate) netns: Option<&'a Netns>,
    pub(crate) daemon: Option<&'a mut NodeClient>,
}

impl VfTeardown<'_> {
    /// Take `function` back from the holder of the journal `stem`. One that somebody else has by now is left alone.
    pub(crate) fn run(mut self, function: PciAddress, stem: &str) -> Result<(), Error> {
        let lock = held::lock_function(self.machine.root, function, self.machine.timeouts.lock)?;
        match VfLease::load(self.machine.root, function)? {
            Some(held) if held.owner.stem == stem => self.restore(&held, &lock)?,
            Some(_) => return Ok(()),
            None => {}
        }
        lock.release_and_remove();
        Ok(())
    }

    /// Take back everything that `ours` says belongs to a sandbox of which no journal can be read.
    pub(crate) fn run_matching(
        machine: &CniContext<'_>,
        netns: Option<&Netns>,
        ours: impl Fn(&VfOwner) -> bool,
    ) -> Vec<Error> {
        let all = match VfLease::list(machine.root) {
            Ok(all) => all,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for held in all.into_iter().filter(|held| ours(&held.owner)) {
            let own = held.owner.netns(machine.root).ok().flatten();
            let restoring = VfTeardown { machine, netns: netns.or(own.as_ref()), daemon: None };
            errors.extend(restoring.run(held.function, &held.owner.stem).err());
        }
        errors
    }

    /// Put the function right. The caller holds its lock.
    pub(crate) fn restore(&mut self, held: &VfLease, lock: &Lock) -> Result<(), Error> {
        // Nothing of an earlier boot is left, and what the function is like now is for others to say.
        let same_boot = boot_id(self.machine.root)? == held.owner.boot;
        if same_boot {
            let hardware = self.machine.require_hardware()?;
            if ObservedVf::find(hardware, held.function)?.is_some() {
                Error::combine(self.revert(hardware, held, lock))?;
            }
        }
        held.remove(self.machine.root)?;
        (self.machine.fail_point)(FailPoint::StepUndone);
        Ok(())
    }

    fn revert(&mut self, hardware: &dyn Hardware, held: &VfLease, lock: &Lock) -> Vec<Error> {
        let mut errors = Vec::new();
        if let Some(device) = &held.rdma {
            let back = rdma::move_to_host(
                self.machine,
                hardware,
                self.netns,
                Some(held.function),
                device,
                self.daemon.as_deref_mut(),
                lock,
            );
            errors.extend(back.err());
        }
        if let Some(netns) = self.netns.filter(|_| !held.vfio_bound) {
            errors.extend(self.move_interface_back(hardware, held, netns).err());
        }
        errors.extend(self.restore_settings(hardware, held).err());
        if !held.vfio_bound {
            errors.extend(self.rebind_if_stale(hardware, held, lock).err());
            errors.extend(self.restore_interface(hardware, held).err());
        }
        errors
    }

    fn move_interface_back(
        &self,
        hardware: &dyn Hardware,
        held: &VfLease,
        netns: &Netns,
    ) -> Result<(), Error> {
        match interface::find_in_sandbox(hardware, held.function, netns)? {
            Some(link) => {
                interface::move_to_host(self.machine, held.function, &link, netns, &held.saved.name)
            }
            None => Ok(()),
        }
    }

    fn restore_settings(&self, hardware: &dyn Hardware, held: &VfLease) -> Result<(), Error> {
        let SavedVfState { node_guid, port_guid, state, .. } = &held.saved;
        let function = ObservedVf::get(hardware, held.function)?;
        if held.link_state_set {
            let (physical, index) = function.require_pf_index()?;
            hardware.set_vf_link_state(physical, index, state.unwrap_or_default())?;
            (self.machine.fail_point)(FailPoint::VfConfigured);
        }
        if held.guid.is_some() {
            let (physical, index) = function.require_pf_index()?;
            for (kind, guid) in [(GuidKind::Node, node_guid), (GuidKind::Port, port_guid)] {
                // Zero is no GUID that could be set; all ones says as much, as upstream has it.
                let guid = guid.unwrap_or(Guid::new(u64::MAX));
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.machine.fail_point)(FailPoint::VfConfigured);
            }
        }
        Ok(())
    }

    /// A driver that has taken on a GUID which is no longer set must be bound anew; so must one that is not there, or
    /// whose interface is not: something was broken off.
    fn rebind_if_stale(&mut self, hardware: &dyn Hardware, held: &VfLease, lock: &Lock) -> Result<(), Error> {
        let function = ObservedVf::get(hardware, held.function)?;
        let (node, port) = function.active_guids();
        let stale = held.guid.is_some_and(|guid| {
            let SavedVfState { node_guid, port_guid, .. } = held.saved;
            node == Some(guid) && node_guid != node || port == Some(guid) && port_guid != port
        });
        let bare = function.driver.is_none()
            || interface::wait_for_interface(self.machine, hardware, held.function, self.netns)?.is_none();
        if stale || bare {
            let work = DeviceOp::Rebind { function: held.function };
            work.delegate(self.machine, self.daemon.as_deref_mut(), None, lock)?;
        }
        Ok(())
    }

    fn restore_interface(&self, hardware: &dyn Hardware, held: &VfLease) -> Result<(), Error> {
        let appeared = interface::wait_for_interface(self.machine, hardware, held.function, None)?;
        let Some(InterfaceLocation::Host(link)) = appeared else {
            return Err(Error::NoNetdev { function: held.function });
        };
        let before = &held.saved;
        // It had no driver before.
        if before.name.is_empty() {
            return Ok(());
        }
        let mut route = RouteSocket::open()?;
        if link.name != before.name {
            route.set_down(link.index)?;
            interface::restore_name(
                (self.machine, hardware),
                &mut route,
                held.function,
                &link,
                &before.name,
            )?;
        }
        for altname in before.altnames.iter().filter(|altname| !link.altnames.contains(altname)) {
            // Somebody else may have it by now.
            if route.link(altname)?.is_none() {
                route.add_altname(link.index, altname)?;
            }
        }
        if let Some(mtu) = before.mtu.filter(|mtu| *mtu != link.mtu) {
            route.set_mtu(link.index, mtu)?;
        }
        match (before.up, link.up && link.name == before.name) {
            (true, false) => Ok(route.set_up(link.index)?),
            (false, true) => Ok(route.set_down(link.index)?),
            _ => Ok(()),
        }
    }
}
