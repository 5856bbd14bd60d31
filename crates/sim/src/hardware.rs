//! [`Hardware`] of a simulated host.

use crate::events::SimEventSource;
use crate::machine::SimMachine;
use crate::state::{FunctionId, TrafficCounters};
use crate::{Error, SimulatedHost, netdev};
use ferroband_kernel::rtnetlink::{GuidKind, LinkEventSocket, VfInfo, VfLinkState};
use ferroband_kernel::{
    Error as KernelError, Hardware, HardwareWatch, Link, Netns, NetnsId, NetnsMode, RdmaDeviceInfo, Root,
    RouteSocket,
};
use ferroband_model::{Guid, LinkLayer, PciAddress};

impl SimulatedHost {
    fn machine(&self) -> Result<SimMachine, Error> {
        SimMachine::open(self.base_root(), self.simulation())
    }

    /// Runs `work` while holding the lock of the simulation, and commits the changes.
    fn with_machine<T>(
        &self,
        work: impl FnOnce(&mut SimMachine) -> Result<T, Error>,
    ) -> Result<T, KernelError> {
        let mut machine = self.machine()?;
        let result = work(&mut machine)?;
        machine.commit()?;
        Ok(result)
    }

    /// Like `with_machine`, for work on a PCI function.
    fn with_function<T>(
        &self,
        function: PciAddress,
        work: impl FnOnce(&mut SimMachine, FunctionId) -> Result<T, Error>,
    ) -> Result<T, KernelError> {
        self.with_machine(|machine| {
            let id = machine.find_function(function)?;
            work(machine, id)
        })
    }
}

/// Returns the ID of `netns`, or `None` if it is the host's network namespace. The calling thread must be in
/// the host's namespace.
fn foreign_netns(netns: Option<&Netns>) -> Result<Option<NetnsId>, KernelError> {
    let current = Netns::current()?.id();
    Ok(netns.map(Netns::id).filter(|id| *id != current))
}

impl Hardware for SimulatedHost {
    fn rdma_devices(&self, netns: Option<&Netns>) -> Result<Vec<RdmaDeviceInfo>, KernelError> {
        self.with_machine(|machine| {
            machine.reclaim_devices()?;
            Ok(machine.rdma_devices(foreign_netns(netns)?))
        })
    }

    fn move_rdma_device(&self, name: &str, from: Option<&Netns>, to: &Netns) -> Result<(), KernelError> {
        self.with_machine(|machine| {
            machine.reclaim_devices()?;
            let to = Some(to).filter(|_| foreign_netns(Some(to)).is_ok_and(|id| id.is_some()));
            machine.move_device(name, foreign_netns(from)?, to)
        })
    }

    fn rdma_netns_mode(&self) -> Result<NetnsMode, KernelError> {
        Ok(self.machine()?.state().netns_mode)
    }

    fn set_rdma_netns_mode(&self, mode: NetnsMode) -> Result<(), KernelError> {
        self.with_machine(|machine| machine.set_netns_mode(mode))
    }

    fn vfs(&self, pf: PciAddress) -> Result<Vec<VfInfo>, KernelError> {
        self.with_function(pf, |machine, id| {
            let vfs = machine.state().adapters.get(id.adapter).map(|adapter| adapter.vfs.as_slice());
            let infiniband = machine.link_layer(id) == LinkLayer::InfiniBand;
            let nonzero = |guid: Guid| Some(guid).filter(|guid| infiniband && !guid.is_unset());
            let vf = |(index, vf): (u32, &crate::state::SimVf)| {
                let mut info = VfInfo::new(index);
                info.link_state = Some(vf.state);
                info.node_guid = nonzero(vf.node_guid);
                info.port_guid = nonzero(vf.port_guid);
                info
            };
            Ok((0..).zip(vfs.unwrap_or_default()).map(vf).collect())
        })
    }

    fn set_vf_guid(&self, pf: PciAddress, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), KernelError> {
        self.with_function(pf, |machine, id| machine.set_vf_guid(id, vf, kind, guid))
    }

    fn set_vf_link_state(&self, pf: PciAddress, vf: u32, state: VfLinkState) -> Result<(), KernelError> {
        self.with_function(pf, |machine, id| machine.set_vf_link_state(id, vf, state))
    }

    fn set_vf_count(&self, pf: PciAddress, count: u16) -> Result<(), KernelError> {
        self.with_function(pf, |machine, id| machine.set_vf_count(id, count))
    }

    fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), KernelError> {
        self.with_function(function, |machine, id| machine.bind(id, driver))
    }

    fn unbind_driver(&self, function: PciAddress) -> Result<(), KernelError> {
        match self.with_function(function, SimMachine::unbind) {
            // Like the kernel, succeed if the function does not exist.
            Err(error) if error.errno() == Some(ferroband_kernel::Errno::ENODEV) => Ok(()),
            result => result,
        }
    }

    fn set_driver_override(&self, function: PciAddress, driver: Option<&str>) -> Result<(), KernelError> {
        self.with_function(function, |machine, id| machine.set_driver_override(id, driver))
    }

    fn probe_driver(&self, function: PciAddress) -> Result<(), KernelError> {
        self.with_function(function, SimMachine::probe)
    }

    fn interfaces(&self, function: PciAddress, netns: Option<&Netns>) -> Result<Vec<Link>, KernelError> {
        // Recreate an interface that was deleted with its namespace.
        self.refresh()?;
        let alias = netdev::alias_for(function);
        let mut links = netns.map_or_else(RouteSocket::open, RouteSocket::open_in)?.links()?;
        // Exclude the host end of an IPoIB child's veth pair, which has the same alias.
        links.retain(|link| link.alias.as_ref() == Some(&alias) && !link.name.starts_with("fbv"));
        Ok(links)
    }

    fn ethtool_statistics(
        &self,
        interface: &str,
        netns: Option<&Netns>,
    ) -> Result<Vec<(String, u64)>, KernelError> {
        let link = netns.map_or_else(RouteSocket::open, RouteSocket::open_in)?.link(interface)?;
        let address = link.as_ref().and_then(|link| netdev::function_from_alias(link.alias.as_deref()?));
        let Some(address) = address else { return ferroband_kernel::ethtool::statistics(interface, netns) };
        self.refresh()?;
        self.with_function(address, |machine, id| {
            let ethernet = machine.link_layer(id) == LinkLayer::Ethernet;
            let traffic = machine.state().device(id).and_then(|device| device.traffic.first().copied());
            Ok(traffic.filter(|_| ethernet).map(TrafficCounters::statistics).unwrap_or_default())
        })
    }

    fn with_netns_sysfs(
        &self,
        netns: &Netns,
        read: &mut (dyn FnMut(&Root) + Send),
    ) -> Result<(), KernelError> {
        let machine = self.machine()?;
        let root = match foreign_netns(Some(netns))? {
            None => ferroband_kernel::Host::root(self).clone(),
            // In shared mode, every namespace sees all RDMA devices.
            Some(_) if machine.state().netns_mode == NetnsMode::Shared => {
                ferroband_kernel::Host::root(self).clone()
            }
            Some(id) => ferroband_kernel::Host::root(self).clone().with_hardware(machine.netns_dir(id)),
        };
        drop(machine);
        std::thread::scope(|scope| match scope.spawn(|| read(&root)).join() {
            Ok(()) => Ok(()),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    fn refresh(&self) -> Result<(), KernelError> {
        self.with_machine(SimMachine::refresh)
    }

    fn watch(&self) -> Result<HardwareWatch, KernelError> {
        HardwareWatch::from_sources(vec![
            Box::new(SimEventSource::open(self.base_root())?),
            Box::new(LinkEventSocket::open()?),
        ])
    }
}
