//! Detaching a function from a sandbox and restoring its original state.
//!
//! Every part does only what is still needed, and a part that fails does not stop the others. The lease stays until
//! nothing is left to do, so the next call can continue.

use super::interface::{self, InterfaceLocation};
use super::lease::{self, SavedVfState};
use super::{ObservedVf, VfLease, VfOwner};
use crate::ipc::message::DeviceOp;
use crate::ipc::node_client::NodeClient;
use crate::protocol::{CniContext, Error, FailPoint};
use crate::state::Lock;
use crate::steps::rdma;
use ferroband_kernel::rtnetlink::GuidKind;
use ferroband_kernel::{Hardware, Netns, RouteSocket, boot_id};
use ferroband_model::{Guid, PciAddress};

/// Detaches functions and restores their original state.
pub(crate) struct VfTeardown<'a> {
    pub(crate) context: &'a CniContext<'a>,
    /// The sandbox that the function is attached to, if it still exists.
    pub(crate) netns: Option<&'a Netns>,
    pub(crate) daemon: Option<&'a mut NodeClient>,
}

impl VfTeardown<'_> {
    /// Detach `function` from the owner with journal `stem`. A function with another owner is left alone.
    pub(crate) fn run(mut self, function: PciAddress, stem: &str) -> Result<(), Error> {
        let lock = lease::lock_function(self.context.root, function, self.context.timeouts.lock)?;
        match VfLease::load(self.context.root, function)? {
            Some(lease) if lease.owner.stem == stem => self.restore(&lease, &lock)?,
            Some(_) => return Ok(()),
            None => {}
        }
        lock.release_and_remove();
        Ok(())
    }

    /// Detach all functions for whose owner `is_match` returns true. Used for sandboxes without a readable
    /// journal.
    pub(crate) fn run_matching(
        context: &CniContext<'_>,
        netns: Option<&Netns>,
        is_match: impl Fn(&VfOwner) -> bool,
    ) -> Vec<Error> {
        let all = match VfLease::list(context.root) {
            Ok(all) => all,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for lease in all.into_iter().filter(|lease| is_match(&lease.owner)) {
            let own = lease.owner.netns(context.root).ok().flatten();
            let teardown = VfTeardown { context, netns: netns.or(own.as_ref()), daemon: None };
            errors.extend(teardown.run(lease.function, &lease.owner.stem).err());
        }
        errors
    }

    /// Restore the function and remove its lease. The caller holds its lock.
    pub(crate) fn restore(&mut self, lease: &VfLease, lock: &Lock) -> Result<(), Error> {
        // After a reboot nothing of the attachment is left. The function's current state was set after the
        // boot and must stay.
        let same_boot = boot_id(self.context.root)? == lease.owner.boot;
        if same_boot {
            let hardware = self.context.require_hardware()?;
            if ObservedVf::find(hardware, lease.function)?.is_some() {
                Error::combine(self.revert(hardware, lease, lock))?;
            }
        }
        lease.remove(self.context.root)?;
        (self.context.fail_point)(FailPoint::StepUndone);
        Ok(())
    }

    fn revert(&mut self, hardware: &dyn Hardware, lease: &VfLease, lock: &Lock) -> Vec<Error> {
        let mut errors = Vec::new();
        if let Some(device) = &lease.rdma {
            let back = rdma::move_to_host(
                self.context,
                hardware,
                self.netns,
                Some(lease.function),
                device,
                self.daemon.as_deref_mut(),
                lock,
            );
            errors.extend(back.err());
        }
        if let Some(netns) = self.netns.filter(|_| !lease.vfio_bound) {
            errors.extend(self.move_interface_back(hardware, lease, netns).err());
        }
        errors.extend(self.restore_settings(hardware, lease).err());
        if !lease.vfio_bound {
            errors.extend(self.rebind_if_stale(hardware, lease, lock).err());
            errors.extend(self.restore_interface(hardware, lease).err());
        }
        errors
    }

    fn move_interface_back(
        &self,
        hardware: &dyn Hardware,
        lease: &VfLease,
        netns: &Netns,
    ) -> Result<(), Error> {
        match interface::find_interface(hardware, lease.function, Some(netns))? {
            Some(link) => {
                interface::move_to_host(self.context, lease.function, &link, netns, &lease.saved.name)
            }
            None => Ok(()),
        }
    }

    fn restore_settings(&self, hardware: &dyn Hardware, lease: &VfLease) -> Result<(), Error> {
        let SavedVfState { node_guid, port_guid, state, .. } = &lease.saved;
        let function = ObservedVf::get(hardware, lease.function)?;
        if lease.link_state_set {
            let (physical, index) = function.require_pf_index()?;
            hardware.set_vf_link_state(physical, index, state.unwrap_or_default())?;
            (self.context.fail_point)(FailPoint::VfConfigured);
        }
        if lease.guid.is_some() {
            let (physical, index) = function.require_pf_index()?;
            for (kind, guid) in [(GuidKind::Node, node_guid), (GuidKind::Port, port_guid)] {
                // Zero cannot be set as a GUID; all ones means "none", as in upstream.
                let guid = guid.unwrap_or(Guid::new(u64::MAX));
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.context.fail_point)(FailPoint::VfConfigured);
            }
        }
        Ok(())
    }

    /// Rebind the driver if it uses a GUID that is no longer set, or if the driver or the interface is missing
    /// because an operation was interrupted.
    fn rebind_if_stale(
        &mut self,
        hardware: &dyn Hardware,
        lease: &VfLease,
        lock: &Lock,
    ) -> Result<(), Error> {
        let function = ObservedVf::get(hardware, lease.function)?;
        let (node, port) = function.active_guids();
        let stale = lease.guid.is_some_and(|guid| {
            let SavedVfState { node_guid, port_guid, .. } = lease.saved;
            node == Some(guid) && node_guid != node || port == Some(guid) && port_guid != port
        });
        let incomplete = function.driver.is_none()
            || interface::wait_for_interface(self.context, hardware, lease.function, self.netns)?.is_none();
        if stale || incomplete {
            let operation = DeviceOp::Rebind { function: lease.function };
            operation.delegate(self.context, self.daemon.as_deref_mut(), None, lock)?;
        }
        Ok(())
    }

    fn restore_interface(&self, hardware: &dyn Hardware, lease: &VfLease) -> Result<(), Error> {
        let found = interface::wait_for_interface(self.context, hardware, lease.function, None)?;
        let Some(InterfaceLocation::Host(link)) = found else {
            return Err(Error::NoNetdev { function: lease.function });
        };
        let saved = &lease.saved;
        // Without a name, the function had no driver and therefore no interface originally.
        if saved.name.is_empty() {
            return Ok(());
        }
        let mut route = RouteSocket::open()?;
        if link.name != saved.name {
            route.set_down(link.index)?;
            interface::restore_name(
                (self.context, hardware),
                &mut route,
                lease.function,
                &link,
                &saved.name,
            )?;
        }
        for altname in saved.altnames.iter().filter(|altname| !link.altnames.contains(altname)) {
            // Restore the altname only if no other interface has taken it by now.
            if route.link(altname)?.is_none() {
                route.add_altname(link.index, altname)?;
            }
        }
        if let Some(mtu) = saved.mtu.filter(|mtu| *mtu != link.mtu) {
            route.set_mtu(link.index, mtu)?;
        }
        match (saved.up, link.up && link.name == saved.name) {
            (true, false) => Ok(route.set_up(link.index)?),
            (false, true) => Ok(route.set_down(link.index)?),
            _ => Ok(()),
        }
    }
}
