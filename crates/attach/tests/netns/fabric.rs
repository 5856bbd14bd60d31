//! InfiniBand made of what every kernel has: a bridge is a parent, one end of a veth pair is a child.

use ferroband_kernel::route::{Kind, NewLink};
use ferroband_kernel::{Error, Host, IpoibChild, IpoibMode, IpoibParent, Root, Route};
use ferroband_model::PKey;
use std::sync::Mutex;

/// The InfiniBand of a test.
#[derive(Default)]
pub struct Fabric {
    root: Root,
    /// Children cannot be moved: they are bridges, which belong to their namespace.
    pub immovable: bool,
    /// Called when a child has been made, with its name.
    pub made: Mutex<Option<Hook>>,
}

type Hook = Box<dyn FnMut(&str) + Send>;

impl Host for Fabric {
    fn root(&self) -> &Root {
        &self.root
    }

    fn simulated(&self) -> bool {
        true
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let link = Route::here()?.link(name)?;
        let link = link.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        if link.kind.as_deref() != Some("bridge") {
            return Err(Error::NotIpoib { interface: name.to_owned(), kind: link.kind_or_type() });
        }
        let (pkey, mode) = (PKey::DEFAULT, IpoibMode::Datagram);
        Ok(IpoibParent { index: link.index, name: link.name, pkey, mode, mtu: link.mtu })
    }

    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error> {
        let mut route = Route::here()?;
        if self.immovable {
            route.create(&NewLink::new(name, Kind::Bridge))?;
        } else {
            // The other end is made first and up, so that the child has a carrier.
            let kind = Kind::Veth { peer: name };
            let parent = Some(child.parent);
            route.create(&NewLink { up: true, master: parent, ..NewLink::new("peer%d", kind) })?;
        }
        if let Some(made) = &mut *self.made.lock().unwrap() {
            made(name);
        }
        Ok(())
    }
}
