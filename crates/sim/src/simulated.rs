//! The simulated machine.

use crate::partition::{self, CHILD, Partition};
use crate::tree::IPOIB_MTU;
use crate::{Hca, Simulation, netdev};
use ferroband_kernel::route::{Kind, Link, NewLink};
use ferroband_kernel::{Errno, Error, Host, IpoibChild, IpoibMode, IpoibParent, Root, Route};
use ferroband_model::{LinkLayer, PKey, PciAddress};

/// InfiniBand as a [`Simulation`] shows it.
#[derive(Clone, Debug)]
pub struct Simulated {
    base: Root,
    root: Root,
    simulation: Simulation,
}

impl Simulated {
    /// The machine under `root` with the hardware of `simulation`.
    pub fn new(root: &Root, simulation: Simulation) -> Self {
        Self { base: root.clone(), root: simulation.hardware(root), simulation }
    }

    /// The machine's own root, which the marker is under.
    pub(crate) fn base(&self) -> &Root {
        &self.base
    }

    /// What is simulated.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// The adapter whose IPoIB interface, or whose virtual function's, this is.
    fn parent(&self, link: &Link) -> Option<PciAddress> {
        let function = netdev::function(link.alias.as_deref()?)?;
        let hcas = self.simulation.profile.hcas.iter();
        let mut infiniband = hcas.filter(|hca| hca.link_layer() == LinkLayer::InfiniBand);
        let own =
            |hca: &Hca| hca.pci == function || (0..hca.total_vfs).any(|vf| hca.vf(vf) == Some(function));
        infiniband.find(|hca| own(hca)).map(|hca| hca.pci)
    }

    fn uplink(&self, route: &mut Route) -> Result<Option<Link>, Error> {
        let Some(name) = &self.simulation.uplink else { return Ok(None) };
        match route.link(name)? {
            Some(link) => Ok(Some(link)),
            None => Err(Error::Refused {
                doing: "carry the simulated fabric over".to_owned(),
                interface: name.clone(),
                errno: Errno::ENODEV,
                message: None,
            }),
        }
    }
}

impl Host for Simulated {
    fn root(&self) -> &Root {
        &self.root
    }

    fn simulated(&self) -> bool {
        true
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let mut route = Route::here()?;
        let link = route.link(name)?.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        if self.parent(&link).is_none() {
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
        let mut route = Route::here()?;
        let adapter = match route.link_by_index(child.parent)? {
            // What the kernel answers to a parent that is not IPoIB, and to one that is not there.
            Some(link) => self.parent(&link).ok_or_else(|| refused(name, Errno::EINVAL))?,
            None => return Err(refused(name, Errno::ENODEV)),
        };
        let uplink = self.uplink(&mut route)?;
        let (bridge, mtu) = Partition::of(child.pkey).ensure(&mut route, uplink.as_ref())?;
        // The bridge's end is the one that is made, so that it is born on the bridge and up, and the child is
        // its peer: one request, no half-made pair.
        let kind = Kind::Veth { peer: name };
        let pair = NewLink { mtu: Some(mtu), master: Some(bridge), up: true, ..NewLink::new(CHILD, kind) };
        route.create(&pair).map_err(|error| match error {
            Error::Refused { doing, errno, message, .. } => {
                Error::Refused { doing, interface: name.to_owned(), errno, message }
            }
            other => other,
        })?;
        // Whose port the child's traffic is counted on; that it is not known for a moment does not matter.
        if let Some(end) = route.link(name)?.and_then(|child| child.parent) {
            let _ = route.set_alias(end, &netdev::alias(adapter));
        }
        Ok(())
    }
}

fn refused(name: &str, errno: Errno) -> Error {
    Error::Refused { doing: "create".to_owned(), interface: name.to_owned(), errno, message: None }
}
