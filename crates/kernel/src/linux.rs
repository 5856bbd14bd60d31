//! The real machine.

use crate::route::{Kind, NewLink};
use crate::{Error, Host, IpoibChild, IpoibParent, Root, Route};

/// InfiniBand as the running kernel has it.
#[derive(Clone, Debug, Default)]
pub struct Linux {
    root: Root,
}

impl Linux {
    /// The machine whose file trees are under `root`.
    pub fn new(root: Root) -> Self {
        Self { root }
    }
}

impl Host for Linux {
    fn root(&self) -> &Root {
        &self.root
    }

    fn simulated(&self) -> bool {
        false
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let link =
            Route::here()?.link(name)?.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        // The kernel reports the kind of a parent since 5.10 and its P_Key and mode with it (ipoib_fill_info).
        match link.ipoib {
            Some(ipoib) => Ok(IpoibParent {
                index: link.index,
                name: link.name,
                pkey: ipoib.pkey,
                mode: ipoib.mode,
                mtu: link.mtu,
            }),
            None if link.kind.as_deref() == Some("ipoib") => {
                Err(Error::NoPKey { interface: name.to_owned() })
            }
            None => Err(Error::NotIpoib { interface: name.to_owned(), kind: link.kind_or_type() }),
        }
    }

    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error> {
        let kind = Kind::Ipoib { parent: child.parent, pkey: child.pkey, mode: child.mode };
        Route::here()?.create(&NewLink::new(name, kind))
    }
}
