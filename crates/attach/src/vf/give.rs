//! Giving a function to a sandbox.

use super::check::{check_usable, is_isolated};
use super::held::{self, SavedVfState};
use super::interface::{self, InterfaceLocation};
use super::{ObservedVf, VfLease, VfOwner, VfTeardown};
use crate::daemon::NodeClient;
use crate::plan::VfStep;
use crate::{CniContext, DeviceOp, Error, FailPoint, Lock, ipoib};
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_kernel::{Hardware, Link, Netns, RouteSocket};
use ferroband_model::Guid;

/// All that giving takes.
pub(crate) struct VfSetup<'a> {
    pub(crate) machine: &'a CniContext<'a>,
    pub(crate) owner: VfOwner,
    pub(crate) netns: &'a Netns,
    pub(crate) inside: &'a mut RouteSocket,
    pub(crate) daemon: Option<&'a mut NodeClient>,
}

/// What the sandbox has got.
#[derive(Debug)]
pub(crate) struct AttachedVf {
    /// Its interface; a function of vfio-pci has none.
    pub(crate) link: Option<Link>,
    /// The GUID of its port.
    pub(crate) guid: Option<Guid>,
}

impl VfSetup<'_> {
    /// Give the function of `vf`. Whatever fails, [`Restoring`] takes it back.
    pub(crate) fn run(mut self, vf: &VfStep) -> Result<AttachedVf, Error> {
        let hardware = self.machine.require_hardware()?;
        let lock = held::lock_function(self.machine.root, vf.device, self.machine.timeouts.lock)?;
        self.reclaim(vf, &lock)?;
        let function = ObservedVf::get(hardware, vf.device)?;
        check_usable(hardware, vf, &function)?;
        let mut held = self.build_lease(hardware, vf, &function)?;
        self.save_lease(&held)?;
        if function.pf_index.is_none() {
            return Ok(AttachedVf { link: None, guid: None });
        }
        let guid = vf.guid.or(function.active_guids().1);
        self.apply_settings(hardware, vf, &function, &held)?;
        if held.vfio_bound {
            return Ok(AttachedVf { link: None, guid });
        }
        let took_on = function.active_guids();
        let wrong = |guid: Guid| took_on != (Some(guid), Some(guid));
        if function.driver.is_none() || held.guid.is_some_and(wrong) {
            let work = DeviceOp::Rebind { function: vf.device };
            work.delegate(self.machine, self.daemon.as_deref_mut(), None, &lock)?;
            self.wait_for_interface(hardware, vf, None)?;
        }
        if is_isolated(hardware, vf)? {
            let device = ObservedVf::get(hardware, vf.device)?.rdma_device()?.name.clone();
            held.rdma = Some(device.clone());
            self.save_lease(&held)?;
            let work = DeviceOp::MoveToPod { device };
            work.delegate(self.machine, self.daemon.as_deref_mut(), Some(self.netns), &lock)?;
        }
        let link = self.move_interface(hardware, vf)?;
        Ok(AttachedVf { link: Some(link), guid })
    }

    /// Take the function from an owner whose end has not been told yet.
    fn reclaim(&mut self, vf: &VfStep, lock: &Lock) -> Result<(), Error> {
        let Some(held) = VfLease::load(self.machine.root, vf.device)? else { return Ok(()) };
        if held.owner != self.owner && held.owner.is_alive(self.machine.root)? {
            return Err(Error::FunctionInUse { function: vf.device, container: held.owner.container });
        }
        let daemon = self.daemon.as_deref_mut();
        VfTeardown { machine: self.machine, netns: None, daemon }.restore(&held, lock)
    }

    /// What is going to be changed, and what it is like before.
    fn build_lease(
        &self,
        hardware: &dyn Hardware,
        vf: &VfStep,
        function: &ObservedVf,
    ) -> Result<VfLease, Error> {
        let vfio = function.is_vfio();
        let mut before = SavedVfState::default();
        let mut held = VfLease {
            function: vf.device,
            owner: self.owner.clone(),
            saved: SavedVfState::default(),
            guid: None,
            link_state_set: false,
            rdma: None,
            vfio_bound: vfio,
        };
        if !vfio && function.driver.is_some() {
            let link = self.wait_for_interface(hardware, vf, None)?;
            before = SavedVfState {
                name: link.name,
                altnames: link.altnames,
                mtu: Some(link.mtu),
                up: link.up,
                ..before
            };
        }
        if function.pf_index.is_some() && (vf.guid.is_some() || vf.link_state.is_some()) {
            let now = function.admin_settings(hardware)?;
            before = SavedVfState {
                node_guid: now.node_guid,
                port_guid: now.port_guid,
                state: now.link_state,
                ..before
            };
            let has = |guid: Guid| (now.node_guid, now.port_guid) == (Some(guid), Some(guid));
            let took_on = |guid: Guid| vfio || function.active_guids() == (Some(guid), Some(guid));
            held.guid = vf.guid.filter(|guid| !(has(*guid) && took_on(*guid)));
            held.link_state_set =
                vf.link_state.is_some_and(|state| state != now.link_state.unwrap_or(VfLinkState::Auto));
        }
        Ok(VfLease { saved: before, ..held })
    }

    fn apply_settings(
        &self,
        hardware: &dyn Hardware,
        vf: &VfStep,
        function: &ObservedVf,
        held: &VfLease,
    ) -> Result<(), Error> {
        let (physical, index) = function.require_pf_index()?;
        if let Some(state) = vf.link_state.filter(|_| held.link_state_set) {
            hardware.set_vf_link_state(physical, index, state)?;
            (self.machine.fail_point)(FailPoint::VfConfigured);
        }
        if let Some(guid) = held.guid {
            for kind in [GuidKind::Node, GuidKind::Port] {
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.machine.fail_point)(FailPoint::VfConfigured);
            }
        }
        Ok(())
    }

    /// Have the interface in the sandbox under its name.
    fn move_interface(&mut self, hardware: &dyn Hardware, vf: &VfStep) -> Result<Link, Error> {
        let inside = (&mut *self.inside, &*self.owner.ifname);
        let link = interface::ensure_in_sandbox((self.machine, hardware), vf.device, self.netns, inside)?;
        if let Some(mtu) = vf.mtu {
            self.inside.set_mtu(link.index, mtu)?;
        }
        self.inside.set_up(link.index)?;
        let link = ipoib::find_link(self.inside, &self.owner.ifname, "the sandbox")?;
        ipoib::warn_mtu(&link, vf.mtu);
        Ok(link)
    }

    fn wait_for_interface(
        &self,
        hardware: &dyn Hardware,
        vf: &VfStep,
        netns: Option<&Netns>,
    ) -> Result<Link, Error> {
        match interface::wait_for_interface(self.machine, hardware, vf.device, netns)? {
            Some(InterfaceLocation::Host(link) | InterfaceLocation::Sandbox(link)) => Ok(link),
            None => Err(Error::NoNetdev { function: vf.device }),
        }
    }

    fn save_lease(&self, held: &VfLease) -> Result<(), Error> {
        held.save(self.machine.root)?;
        (self.machine.fail_point)(FailPoint::Journaled);
        Ok(())
    }
}
