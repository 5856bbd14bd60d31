//! [`Host`] with simulated hardware.

use crate::partition::{self, CHILD_NAME_PATTERN, SimPartition};
use crate::sysfs_tree::IPOIB_MTU;
use crate::{HcaProfile, Simulation, netdev};
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink};
use ferroband_kernel::{Errno, Error, Host, IpoibChild, IpoibMode, IpoibParent, Root, RouteSocket};
use ferroband_model::{LinkLayer, PKey, PciAddress};

/// A host with the InfiniBand hardware of a [`Simulation`].
#[derive(Clone, Debug)]
pub struct SimulatedHost {
    base: Root,
    root: Root,
    simulation: Simulation,
}

impl SimulatedHost {
    /// Returns the host whose root directory is `root`, with the hardware of `simulation`.
    pub fn new(root: &Root, simulation: Simulation) -> Self {
        Self { base: root.clone(), root: simulation.hardware_root(root), simulation }
    }

    /// Root directory of the host itself. It contains the marker file of the simulation, but not the
    /// simulated hardware.
    pub(crate) fn base_root(&self) -> &Root {
        &self.base
    }

    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Returns the adapter to which an IPoIB interface belongs, directly or through a virtual function.
    /// `None` if it is not an IPoIB interface of the simulation.
    fn adapter_of(&self, link: &Link) -> Option<PciAddress> {
        let function = netdev::function_from_alias(link.alias.as_deref()?)?;
        let hcas = self.simulation.profile.hcas.iter();
        let mut infiniband = hcas.filter(|hca| hca.link_layer() == LinkLayer::InfiniBand);
        let contains = |hca: &HcaProfile| {
            hca.pci == function || (0..hca.total_vfs).any(|vf| hca.vf_address(vf) == Some(function))
        };
        infiniband.find(|hca| contains(hca)).map(|hca| hca.pci)
    }

    fn uplink(&self, route: &mut RouteSocket) -> Result<Option<Link>, Error> {
        let Some(name) = &self.simulation.uplink else { return Ok(None) };
        match route.link(name)? {
            Some(link) => Ok(Some(link)),
            None => Err(Error::InterfaceRequest {
                doing: "find the uplink".to_owned(),
                interface: name.clone(),
                errno: Errno::ENODEV,
                message: None,
            }),
        }
    }
}

impl Host for SimulatedHost {
    fn root(&self) -> &Root {
        &self.root
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let mut route = RouteSocket::open()?;
        let link = route.link(name)?.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        if self.adapter_of(&link).is_none() {
            return Err(Error::NotIpoib { interface: name.to_owned(), kind: link.kind_or_type() });
        }
        let mtu = self.uplink(&mut route)?.as_ref().map_or(IPOIB_MTU, partition::mtu);
        Ok(IpoibParent {
            index: link.index,
            name: link.name,
            pkey: PKey::DEFAULT,
            mode: IpoibMode::Datagram,
            mtu,
        })
    }

    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error> {
        let mut route = RouteSocket::open()?;
        let adapter = match route.link_by_index(child.parent)? {
            // The kernel returns EINVAL for a parent that is not IPoIB, and ENODEV for a missing parent.
            Some(link) => self.adapter_of(&link).ok_or_else(|| create_error(name, Errno::EINVAL))?,
            None => return Err(create_error(name, Errno::ENODEV)),
        };
        let uplink = self.uplink(&mut route)?;
        let (bridge, mtu) = SimPartition::from_pkey(child.pkey).ensure(&mut route, uplink.as_ref())?;
        // One request creates the host end, up and as a port of the bridge, with the child as its peer. The
        // pair is therefore never incomplete.
        let kind = LinkKind::Veth { peer: name };
        let pair = NewLink {
            mtu: Some(mtu),
            master: Some(bridge),
            up: true,
            ..NewLink::new(CHILD_NAME_PATTERN, kind)
        };
        route.create_link(&pair).map_err(|error| match error {
            Error::InterfaceRequest { doing, errno, message, .. } => {
                Error::InterfaceRequest { doing, interface: name.to_owned(), errno, message }
            }
            other => other,
        })?;
        // The alias of the host end determines on which port the child's traffic is counted. The host end has
        // no alias for a moment after its creation.
        if let Some(end) = route.link(name)?.and_then(|child| child.parent) {
            let _ = route.set_alias(end, &netdev::alias_for(adapter));
        }
        Ok(())
    }
}

fn create_error(name: &str, errno: Errno) -> Error {
    Error::InterfaceRequest { doing: "create".to_owned(), interface: name.to_owned(), errno, message: None }
}
