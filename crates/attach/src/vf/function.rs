//! A function as it is now.

use crate::Error;
use ferroband_kernel::route::Vf;
use ferroband_kernel::sysfs::{infiniband, pci};
use ferroband_kernel::{Hardware, Link};
use ferroband_model::{Guid, LinkLayer, PciAddress};

/// The driver that hands functions to virtual machines.
const VFIO: &str = "vfio-pci";

/// A function of an adapter.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) address: PciAddress,
    /// The adapter's own function and the index of this one on it, if it is a virtual one.
    pub(crate) physical: Option<(PciAddress, u32)>,
    /// The driver that has it.
    pub(crate) driver: Option<String>,
    /// Its RDMA devices in this namespace.
    pub(crate) rdma: Vec<infiniband::Identity>,
}

impl Function {
    /// The function at `address`; nothing when it is not there.
    pub(crate) fn look(hardware: &dyn Hardware, address: PciAddress) -> Result<Option<Self>, Error> {
        hardware.refresh()?;
        let root = hardware.root();
        let Some(driver) = pci::driver(root, address)? else { return Ok(None) };
        let names = infiniband::of_function(root, address)?;
        let rdma = names.iter().map(|name| infiniband::identity(root, name)).collect::<Result<_, _>>()?;
        let physical = pci::physical_function(root, address)?;
        Ok(Some(Self { address, physical, driver, rdma }))
    }

    /// The same, which must be there.
    pub(crate) fn get(hardware: &dyn Hardware, address: PciAddress) -> Result<Self, Error> {
        Self::look(hardware, address)?.ok_or_else(|| Error::NoFunction { function: address.to_string() })
    }

    /// Whether it is handed out as a whole, for a virtual machine.
    pub(crate) fn is_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO)
    }

    /// Its only RDMA device.
    pub(crate) fn rdma(&self) -> Result<&infiniband::Identity, Error> {
        match self.rdma.as_slice() {
            [device] => Ok(device),
            several => Err(Error::RdmaDevices { device: self.address.to_string(), count: several.len() }),
        }
    }

    /// Node and port GUID that it has taken on; nothing when they are not known or not set.
    pub(crate) fn guids(&self) -> (Option<Guid>, Option<Guid>) {
        let device = self.rdma.first();
        let port = device.and_then(|device| device.port_guid);
        let set = |guid: Option<Guid>| guid.filter(|guid| !guid.is_unset());
        (set(device.and_then(|device| device.node_guid)), set(port))
    }

    /// Whether it is known to speak something else than InfiniBand.
    pub(crate) fn is_ethernet(&self) -> bool {
        let layer = self.rdma.first().and_then(|device| device.link_layer);
        layer == Some(LinkLayer::Ethernet)
    }

    /// What its adapter says was set for it.
    pub(crate) fn settings(&self, hardware: &dyn Hardware) -> Result<Vf, Error> {
        let (physical, index) = self.as_virtual()?;
        let vfs = hardware.vfs(physical)?;
        let found = vfs.into_iter().find(|vf| vf.index == index);
        Ok(found.unwrap_or(Vf::new(index)))
    }

    /// Where its adapter is, and its index there.
    pub(crate) fn as_virtual(&self) -> Result<(PciAddress, u32), Error> {
        self.physical.ok_or(Error::NotVirtual { function: self.address })
    }
}

/// The GUID in the hardware address of an IPoIB interface: its last eight bytes.
pub(super) fn guid_of(link: &Link) -> Option<Guid> {
    let bytes: [u8; 20] = link.address.as_slice().try_into().ok()?;
    let tail: [u8; 8] = bytes[12..].try_into().ok()?;
    Some(Guid::new(u64::from_be_bytes(tail))).filter(|guid| !guid.is_unset())
}
