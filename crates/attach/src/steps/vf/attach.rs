//! Attaching a virtual function to a sandbox.

use super::interface::{self, InterfaceLocation};
use super::lease::{self, SavedVfState};
use super::preflight::{check_usable, is_isolated};
use super::{ObservedVf, VfLease, VfOwner, VfTeardown};
use crate::ipc::message::DeviceOp;
use crate::ipc::node_client::NodeClient;
use crate::protocol::{CniContext, Error, FailPoint};
use crate::state::Lock;
use crate::steps::ipoib;
use ferroband_config::IbSriovConfig;
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_kernel::{Hardware, Link, Netns, RouteSocket};
use ferroband_model::Guid;

/// Attaches a function to the sandbox `netns`, on behalf of `owner`.
pub(crate) struct VfSetup<'a> {
    pub(crate) context: &'a CniContext<'a>,
    pub(crate) owner: VfOwner,
    pub(crate) netns: &'a Netns,
    pub(crate) pod_netlink: &'a mut RouteSocket,
    pub(crate) daemon: Option<&'a mut NodeClient>,
}

/// Interface and GUID of a function after it was attached.
#[derive(Debug)]
pub(crate) struct AttachedVf {
    /// The function's interface in the sandbox; `None` if the function is bound to vfio-pci.
    pub(crate) link: Option<Link>,
    /// GUID of the port; `None` if unknown.
    pub(crate) guid: Option<Guid>,
}

impl VfSetup<'_> {
    /// Attach the function of `vf`. After a failure, [`VfTeardown`] restores it.
    pub(crate) fn run(mut self, vf: &IbSriovConfig) -> Result<AttachedVf, Error> {
        let hardware = self.context.require_hardware()?;
        let lock = lease::lock_function(self.context.root, vf.device, self.context.timeouts.lock)?;
        self.reclaim(vf, &lock)?;
        let function = ObservedVf::get(hardware, vf.device)?;
        check_usable(hardware, vf, &function)?;
        let mut lease = self.build_lease(hardware, vf, &function)?;
        self.save_lease(&lease)?;
        if function.pf_index.is_none() {
            return Ok(AttachedVf { link: None, guid: None });
        }
        let guid = vf.guid.or(function.active_guids().1);
        self.apply_settings(hardware, vf, &function, &lease)?;
        if lease.vfio_bound {
            return Ok(AttachedVf { link: None, guid });
        }
        let active = function.active_guids();
        let wrong = |guid: Guid| active != (Some(guid), Some(guid));
        if function.driver.is_none() || lease.guid.is_some_and(wrong) {
            let operation = DeviceOp::Rebind { function: vf.device };
            operation.delegate(self.context, self.daemon.as_deref_mut(), None, &lock)?;
            self.wait_for_interface(hardware, vf)?;
        }
        if is_isolated(hardware, vf)? {
            let device = ObservedVf::get(hardware, vf.device)?.rdma_device()?.name.clone();
            lease.rdma = Some(device.clone());
            self.save_lease(&lease)?;
            let operation = DeviceOp::MoveToPod { device };
            operation.delegate(self.context, self.daemon.as_deref_mut(), Some(self.netns), &lock)?;
        }
        let link = self.move_interface(hardware, vf)?;
        Ok(AttachedVf { link: Some(link), guid })
    }

    /// Restore the function if its previous owner disappeared without a DEL. Fails if that owner still
    /// exists.
    fn reclaim(&mut self, vf: &IbSriovConfig, lock: &Lock) -> Result<(), Error> {
        let Some(lease) = VfLease::load(self.context.root, vf.device)? else { return Ok(()) };
        if lease.owner != self.owner && lease.owner.is_alive(self.context.root)? {
            return Err(Error::FunctionInUse { function: vf.device, container: lease.owner.container });
        }
        let daemon = self.daemon.as_deref_mut();
        VfTeardown { context: self.context, netns: None, daemon }.restore(&lease, lock)
    }

    /// Build the lease, which records the original state and what the setup is going to change.
    fn build_lease(
        &self,
        hardware: &dyn Hardware,
        vf: &IbSriovConfig,
        function: &ObservedVf,
    ) -> Result<VfLease, Error> {
        let vfio_bound = function.is_vfio();
        let mut saved = SavedVfState::default();
        let mut lease = VfLease {
            function: vf.device,
            owner: self.owner.clone(),
            saved: SavedVfState::default(),
            guid: None,
            link_state_set: false,
            rdma: None,
            vfio_bound,
        };
        if !vfio_bound && function.driver.is_some() {
            let link = self.wait_for_interface(hardware, vf)?;
            saved = SavedVfState {
                name: link.name,
                altnames: link.altnames,
                mtu: Some(link.mtu),
                up: link.up,
                ..saved
            };
        }
        if function.pf_index.is_some() && (vf.guid.is_some() || vf.link_state.is_some()) {
            let now = function.admin_settings(hardware)?;
            saved = SavedVfState {
                node_guid: now.node_guid,
                port_guid: now.port_guid,
                state: now.link_state,
                ..saved
            };
            let has = |guid: Guid| (now.node_guid, now.port_guid) == (Some(guid), Some(guid));
            let active = |guid: Guid| vfio_bound || function.active_guids() == (Some(guid), Some(guid));
            lease.guid = vf.guid.filter(|guid| !(has(*guid) && active(*guid)));
            lease.link_state_set =
                vf.link_state.is_some_and(|state| state != now.link_state.unwrap_or(VfLinkState::Auto));
        }
        Ok(VfLease { saved, ..lease })
    }

    fn apply_settings(
        &self,
        hardware: &dyn Hardware,
        vf: &IbSriovConfig,
        function: &ObservedVf,
        lease: &VfLease,
    ) -> Result<(), Error> {
        let (physical, index) = function.require_pf_index()?;
        if let Some(state) = vf.link_state.filter(|_| lease.link_state_set) {
            hardware.set_vf_link_state(physical, index, state)?;
            (self.context.fail_point)(FailPoint::VfConfigured);
        }
        if let Some(guid) = lease.guid {
            for kind in [GuidKind::Node, GuidKind::Port] {
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.context.fail_point)(FailPoint::VfConfigured);
            }
        }
        Ok(())
    }

    /// Move the interface into the sandbox under its final name.
    fn move_interface(&mut self, hardware: &dyn Hardware, vf: &IbSriovConfig) -> Result<Link, Error> {
        let target = (&mut *self.pod_netlink, &*self.owner.ifname);
        let link = interface::ensure_in_sandbox((self.context, hardware), vf.device, self.netns, target)?;
        if let Some(mtu) = vf.mtu {
            self.pod_netlink.set_mtu(link.index, mtu)?;
        }
        self.pod_netlink.set_up(link.index)?;
        let link = ipoib::find_link(self.pod_netlink, &self.owner.ifname, "the sandbox")?;
        ipoib::warn_mtu(&link, vf.mtu);
        Ok(link)
    }

    fn wait_for_interface(&self, hardware: &dyn Hardware, vf: &IbSriovConfig) -> Result<Link, Error> {
        match interface::wait_for_interface(self.context, hardware, vf.device, None)? {
            Some(InterfaceLocation::Host(link) | InterfaceLocation::Sandbox(link)) => Ok(link),
            None => Err(Error::NoNetdev { function: vf.device }),
        }
    }

    fn save_lease(&self, lease: &VfLease) -> Result<(), Error> {
        lease.save(self.context.root)?;
        (self.context.fail_point)(FailPoint::Journaled);
        Ok(())
    }
}
