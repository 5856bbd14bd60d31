//! What a node does to simulated adapters.

use crate::events::Events;
use crate::machine::Machine;
use crate::state::{Counted, Which};
use crate::{Error, Simulated, netdev};
use ferroband_kernel::route::{GuidKind, LinkEvents, Vf, VfState};
use ferroband_kernel::{
    Error as KernelError, Hardware, Link, Netns, NetnsId, NetnsMode, RdmaLink, Root, Route, Watch,
};
use ferroband_model::{Guid, LinkLayer, PciAddress};

impl Simulated {
    fn machine(&self) -> Result<Machine, Error> {
        Machine::open(self.base(), self.simulation())
    }

    /// Does something to a function, wholly or not at all.
    fn with<T>(
        &self,
        function: PciAddress,
        work: impl FnOnce(&mut Machine, Which) -> Result<T, Error>,
    ) -> Result<T, KernelError> {
        let mut machine = self.machine()?;
        let which = machine.find(function)?;
        let done = work(&mut machine, which)?;
        machine.commit()?;
        Ok(done)
    }
}

/// The namespace as the simulation keeps it: the one of the calling thread is the host's.
fn space(netns: Option<&Netns>) -> Result<Option<NetnsId>, KernelError> {
    let here = Netns::current()?.id();
    Ok(netns.map(Netns::id).filter(|id| *id != here))
}

impl Hardware for Simulated {
    fn rdma_devices(&self, netns: Option<&Netns>) -> Result<Vec<RdmaLink>, KernelError> {
        let mut machine = self.machine()?;
        machine.take_back()?;
        let devices = machine.devices(space(netns)?);
        machine.commit()?;
        Ok(devices)
    }

    fn move_rdma_device(&self, name: &str, from: Option<&Netns>, to: &Netns) -> Result<(), KernelError> {
        let mut machine = self.machine()?;
        machine.take_back()?;
        let to = Some(to).filter(|_| space(Some(to)).is_ok_and(|space| space.is_some()));
        machine.move_device(name, space(from)?, to)?;
        machine.commit()?;
        Ok(())
    }

    fn rdma_netns_mode(&self) -> Result<NetnsMode, KernelError> {
        Ok(self.machine()?.state().netns_mode)
    }

    fn set_rdma_netns_mode(&self, mode: NetnsMode) -> Result<(), KernelError> {
        let mut machine = self.machine()?;
        machine.set_mode(mode)?;
        machine.commit()?;
        Ok(())
    }

    fn vfs(&self, pf: PciAddress) -> Result<Vec<Vf>, KernelError> {
        self.with(pf, |machine, which| {
            let vfs = machine.state().adapters.get(which.adapter).map(|adapter| adapter.vfs.as_slice());
            let infiniband = machine.link_layer(which) == LinkLayer::InfiniBand;
            let given = |guid: Guid| Some(guid).filter(|guid| infiniband && !guid.is_unset());
            let vf = |(index, vf): (u32, &crate::state::Virtual)| {
                let mut shown = Vf::new(index);
                shown.state = Some(vf.state);
                shown.node_guid = given(vf.node_guid);
                shown.port_guid = given(vf.port_guid);
                shown
            };
            Ok((0..).zip(vfs.unwrap_or_default()).map(vf).collect())
        })
    }

    fn set_vf_guid(&self, pf: PciAddress, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), KernelError> {
        self.with(pf, |machine, which| machine.set_guid(which, vf, kind, guid))
    }

    fn set_vf_state(&self, pf: PciAddress, vf: u32, state: VfState) -> Result<(), KernelError> {
        self.with(pf, |machine, which| machine.set_vf_state(which, vf, state))
    }

    fn set_vf_count(&self, pf: PciAddress, count: u16) -> Result<(), KernelError> {
        self.with(pf, |machine, which| machine.set_vf_count(which, count))
    }

    fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), KernelError> {
        self.with(function, |machine, which| machine.bind(which, driver))
    }

    fn unbind_driver(&self, function: PciAddress) -> Result<(), KernelError> {
        match self.with(function, Machine::unbind) {
            // Without the function there is no driver either, as for the kernel's.
            Err(error) if error.errno() == Some(ferroband_kernel::Errno::ENODEV) => Ok(()),
            result => result,
        }
    }

    fn override_driver(&self, function: PciAddress, driver: Option<&str>) -> Result<(), KernelError> {
        self.with(function, |machine, which| machine.reserve(which, driver))
    }

    fn probe_driver(&self, function: PciAddress) -> Result<(), KernelError> {
        self.with(function, Machine::probe)
    }

    fn interfaces(&self, function: PciAddress, netns: Option<&Netns>) -> Result<Vec<Link>, KernelError> {
        // An interface that went with its namespace is back here.
        self.refresh()?;
        let alias = netdev::alias(function);
        let mut links = netns.map_or_else(Route::here, Route::inside)?.links()?;
        // The end of a child's wire that stays has it too.
        links.retain(|link| link.alias.as_ref() == Some(&alias) && !link.name.starts_with("fbv"));
        Ok(links)
    }

    fn statistics(&self, interface: &str, netns: Option<&Netns>) -> Result<Vec<(String, u64)>, KernelError> {
        let link = netns.map_or_else(Route::here, Route::inside)?.link(interface)?;
        let address = link.as_ref().and_then(|link| netdev::function(link.alias.as_deref()?));
        let Some(address) = address else { return ferroband_kernel::ethtool::statistics(interface, netns) };
        self.refresh()?;
        self.with(address, |machine, which| {
            let ethernet = machine.link_layer(which) == LinkLayer::Ethernet;
            let counted = machine.state().device(which).and_then(|device| device.traffic.first().copied());
            Ok(counted.filter(|_| ethernet).map(Counted::statistics).unwrap_or_default())
        })
    }

    fn look_inside(&self, netns: &Netns, look: &mut (dyn FnMut(&Root) + Send)) -> Result<(), KernelError> {
        let machine = self.machine()?;
        let root = match space(Some(netns))? {
            None => ferroband_kernel::Host::root(self).clone(),
            // Shared, every namespace sees everything.
            Some(_) if machine.state().netns_mode == NetnsMode::Shared => {
                ferroband_kernel::Host::root(self).clone()
            }
            Some(id) => ferroband_kernel::Host::root(self).clone().with_hardware(machine.space(id)),
        };
        drop(machine);
        std::thread::scope(|scope| match scope.spawn(|| look(&root)).join() {
            Ok(()) => Ok(()),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    fn refresh(&self) -> Result<(), KernelError> {
        let mut machine = self.machine()?;
        machine.refresh()?;
        machine.commit()?;
        Ok(())
    }

    fn watch(&self) -> Result<Watch, KernelError> {
        Watch::of(vec![Box::new(Events::of(self.base())?), Box::new(LinkEvents::here()?)])
    }
}
