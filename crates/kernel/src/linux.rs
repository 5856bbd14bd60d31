//! Implementation of [`Host`] and [`Hardware`] for the running kernel.

use crate::rdma::{NetnsMode, RdmaDeviceInfo, RdmaSocket};
use crate::rtnetlink::{GuidKind, LinkKind, NewLink, VfInfo, VfLinkState};
use crate::sysfs::{driver, pci};
use crate::watch::HardwareWatch;
use crate::{Error, Hardware, Host, IpoibChild, IpoibParent, Link, Netns, Root, RouteSocket, ethtool, netns};
use ferroband_model::{Guid, PciAddress};
use nix::errno::Errno;

/// The host on which this process runs.
#[derive(Clone, Debug, Default)]
pub struct LinuxHost {
    root: Root,
}

impl LinuxHost {
    /// Creates a host whose sysfs and device files are below `root`.
    pub fn new(root: Root) -> Self {
        Self { root }
    }

    fn open_rdma(netns: Option<&Netns>) -> Result<RdmaSocket, Error> {
        netns.map_or_else(RdmaSocket::open, RdmaSocket::open_in)
    }

    /// Finds the network interface of a physical function, through which its virtual functions are configured.
    /// Returns its index and an open socket.
    fn pf_interface(&self, pf: PciAddress) -> Result<(RouteSocket, u32), Error> {
        let mut route = RouteSocket::open()?;
        for name in pci::netdevs(&self.root, pf)? {
            if let Some(link) = route.link(&name)?.filter(|link| link.name == name) {
                return Ok((route, link.index));
            }
        }
        Err(Error::DeviceRequest {
            doing: "find an interface of".to_owned(),
            device: pf.to_string(),
            errno: Errno::ENODEV,
            message: Some("load ib_ipoib, and check that the interface was not moved to a pod".to_owned()),
        })
    }
}

impl Host for LinuxHost {
    fn root(&self) -> &Root {
        &self.root
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        let link =
            RouteSocket::open()?.link(name)?.ok_or_else(|| Error::NoParent { interface: name.to_owned() })?;
        // The kernel reports the kind of a parent interface, its P_Key and its mode since 5.10 (ipoib_fill_info).
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
        let kind = LinkKind::Ipoib { parent: child.parent, pkey: child.pkey, mode: child.mode };
        RouteSocket::open()?.create_link(&NewLink::new(name, kind))
    }
}

impl Hardware for LinuxHost {
    fn rdma_devices(&self, netns: Option<&Netns>) -> Result<Vec<RdmaDeviceInfo>, Error> {
        Self::open_rdma(netns)?.devices()
    }

    fn move_rdma_device(&self, name: &str, from: Option<&Netns>, to: &Netns) -> Result<(), Error> {
        Self::open_rdma(from)?.move_device(name, to)
    }

    fn rdma_netns_mode(&self) -> Result<NetnsMode, Error> {
        RdmaSocket::open()?.netns_mode()
    }

    fn set_rdma_netns_mode(&self, mode: NetnsMode) -> Result<(), Error> {
        RdmaSocket::open()?.set_netns_mode(mode)
    }

    fn vfs(&self, pf: PciAddress) -> Result<Vec<VfInfo>, Error> {
        let (mut route, index) = self.pf_interface(pf)?;
        route.vfs(index)
    }

    fn set_vf_guid(&self, pf: PciAddress, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), Error> {
        let (mut route, index) = self.pf_interface(pf)?;
        route.set_vf_guid(index, vf, kind, guid)
    }

    fn set_vf_link_state(&self, pf: PciAddress, vf: u32, state: VfLinkState) -> Result<(), Error> {
        let (mut route, index) = self.pf_interface(pf)?;
        route.set_vf_link_state(index, vf, state)
    }

    fn set_vf_count(&self, pf: PciAddress, count: u16) -> Result<(), Error> {
        driver::set_vf_count(&self.root, pf, count)
    }

    fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), Error> {
        driver::bind(&self.root, function, driver)
    }

    fn unbind_driver(&self, function: PciAddress) -> Result<(), Error> {
        driver::unbind(&self.root, function)
    }

    fn set_driver_override(&self, function: PciAddress, driver: Option<&str>) -> Result<(), Error> {
        driver::set_override(&self.root, function, driver)
    }

    fn probe_driver(&self, function: PciAddress) -> Result<(), Error> {
        driver::probe(&self.root, function)
    }

    fn interfaces(&self, function: PciAddress, netns: Option<&Netns>) -> Result<Vec<Link>, Error> {
        let address = function.to_string();
        let Some(netns) = netns else {
            // Read the names from sysfs instead of listing all interfaces, because a node can have hundreds.
            let names = pci::netdevs(&self.root, function)?;
            let mut route = RouteSocket::open()?;
            let links = names.iter().map(|name| route.link(name)).collect::<Result<Vec<_>, _>>()?;
            return Ok(links.into_iter().flatten().collect());
        };
        let mut links = RouteSocket::open_in(netns)?.links()?;
        links.retain(|link| link.device.as_ref() == Some(&address));
        Ok(links)
    }

    fn ethtool_statistics(
        &self,
        interface: &str,
        netns: Option<&Netns>,
    ) -> Result<Vec<(String, u64)>, Error> {
        ethtool::statistics(interface, netns)
    }

    fn with_netns_sysfs(&self, netns: &Netns, read: &mut (dyn FnMut(&Root) + Send)) -> Result<(), Error> {
        netns::with_netns_sysfs(&self.root, netns, read)
    }

    fn refresh(&self) -> Result<(), Error> {
        Ok(())
    }

    fn watch(&self) -> Result<HardwareWatch, Error> {
        HardwareWatch::from_kernel()
    }
}
