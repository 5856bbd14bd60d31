//! The simulated machine.

use crate::Simulation;
use crate::partition::{self, CHILD, Partition};
use crate::tree::IPOIB_MTU;
use ferroband_kernel::route::{Kind, Link, NewLink};
use ferroband_kernel::{Errno, Error, Host, IpoibChild, IpoibMode, IpoibParent, Root, Route};
use ferroband_model::PKey;

/// InfiniBand as a [`Simulation`] shows it.
#[derive(Clone, Debug)]
pub struct Simulated {
    root: Root,
    simulation: Simulation,
}

impl Simulated {
    /// The machine under `root` with the hardware of `simulation`.
    pub fn new(root: &Root, simulation: Simulation) -> Self {
        Self { root: simulation.hardware(root), simulation }
    }

    /// What is simulated.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    fn is_parent(&self, link: &Link) -> bool {
        self.simulation.profile.netdevs().any(|netdev| netdev.name == link.name)
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
        if !self.is_parent(&link) {
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
        match route.link_by_index(child.parent)? {
            Some(link) if self.is_parent(&link) => {}
            // What the kernel answers to a parent that is not there, and to one that is not IPoIB.
            Some(_) => return Err(refused(name, Errno::EINVAL)),
            None => return Err(refused(name, Errno::ENODEV)),
        }
        let uplink = self.uplink(&mut route)?;
        let (bridge, mtu) = Partition::of(child.pkey).ensure(&mut route, uplink.as_ref())?;
        // The bridge's end is the one that is made, so that it is born on the bridge and up, and the child is its
        // peer: one request, no half-made pair.
        let kind = Kind::Veth { peer: name };
        let pair = NewLink { mtu: Some(mtu), master: Some(bridge), up: true, ..NewLink::new(CHILD, kind) };
        route.create(&pair).map_err(|error| match error {
            Error::Refused { doing, errno, message, .. } => {
                Error::Refused { doing, interface: name.to_owned(), errno, message }
            }
            other => other,
        })
    }
}

fn refused(name: &str, errno: Errno) -> Error {
    Error::Refused { doing: "create".to_owned(), interface: name.to_owned(), errno, message: None }
}
