//! InfiniBand simulated with standard links: a bridge is the parent, one end of a veth pair is a child.

use ferroband_kernel::rtnetlink::{LinkKind, NewLink};
use ferroband_kernel::{Error, Host, IpoibChild, IpoibMode, IpoibParent, Root, RouteSocket};
use ferroband_model::PKey;
use std::sync::Mutex;

/// A [`Host`] with simulated IPoIB interfaces.
#[derive(Default)]
pub struct VethFabric {
    root: Root,
    /// Whether children are bridges, which the kernel cannot move to another namespace.
    pub immovable: bool,
    /// Called with the name of each new child.
    pub on_child_created: Mutex<Option<ChildCreatedHook>>,
}

type ChildCreatedHook = Box<dyn FnMut(&str) + Send>;

impl Host for VethFabric {
    fn root(&self) -> &Root {
        &self.root
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let link = RouteSocket::open()?.link(name)?;
        let link = link.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        if link.kind.as_deref() != Some("bridge") {
            return Err(Error::NotIpoib { interface: name.to_owned(), kind: link.kind_or_type() });
        }
        let (pkey, mode) = (PKey::DEFAULT, IpoibMode::Datagram);
        Ok(IpoibParent { index: link.index, name: link.name, pkey, mode, mtu: link.mtu })
    }

    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error> {
        let mut route = RouteSocket::open()?;
        if self.immovable {
            route.create_link(&NewLink::new(name, LinkKind::Bridge))?;
        } else {
            // The peer is up, so that the child has a carrier.
            let kind = LinkKind::Veth { peer: name };
            let parent = Some(child.parent);
            route.create_link(&NewLink { up: true, master: parent, ..NewLink::new("peer%d", kind) })?;
        }
        if let Some(made) = &mut *self.on_child_created.lock().unwrap() {
            made(name);
        }
        Ok(())
    }
}
