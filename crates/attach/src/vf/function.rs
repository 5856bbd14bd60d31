//! A function as it is now.

use crate::Error;
use ferroband_kernel::rtnetlink::VfInfo;
use ferroband_kernel::sysfs::{infiniband, pci};
use ferroband_kernel::{Hardware, Link};
use ferroband_model::{Guid, LinkLayer, PciAddress};

/// The driver that hands functions to virtual machines.
const VFIO: &str = "vfio-pci";

/// A function of an adapter.
#[derive(Clone, Debug)]
pub(crate) struct ObservedVf {
    pub(crate) address: PciAddress,
    /// The adapter's own function and the index of this one on it, if it is a virtual one.
    pub(crate) pf_index: Option<(PciAddress, u32)>,
    /// The driver that has it.
    pub(crate) driver: Option<String>,
    /// Its RDMA devices in this namespace.
    pub(crate) rdma_devices: Vec<infiniband::RdmaIdentity>,
}

impl ObservedVf {
    /// The function at `address`; nothing when it is not there.
    pub(crate) fn find(hardware: &dyn Hardware, address: PciAddress) -> Result<Option<Self>, Error> {
        hardware.refresh()?;
        let root = hardware.root();
        let Some(driver) = pci::driver(root, address)? else { return Ok(None) };
        let names = infiniband::device_names_of_function(root, address)?;
        let rdma = names.iter().map(|name| infiniband::identity(root, name)).collect::<Result<_, _>>()?;
        let physical = pci::physical_function(root, address)?;
        Ok(Some(Self { address, pf_index: physical, driver, rdma_devices: rdma }))
    }

    /// The same, which must be there.
    pub(crate) fn get(hardware: &dyn Hardware, address: PciAddress) -> Result<Self, Error> {
        Self::find(hardware, address)?.ok_or_else(|| Error::NoFunction { function: address.to_string() })
    }

    /// Whether it is handed out as a whole, for a virtual machine.
    pub(crate) fn is_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO)
    }

    /// Its only RDMA device.
    pub(crate) fn rdma_device(&self) -> Result<&infiniband::RdmaIdentity, Error> {
        match self.rdma_devices.as_slice() {
            [device] => Ok(device),
            several => Err(Error::RdmaDevices { device: self.address.to_string(), count: several.len() }),
        }
    }

    /// Node and port GUID that it has taken on; nothing when they are not known or not set.
    pub(crate) fn active_guids(&self) -> (Option<Guid>, Option<Guid>) {
        let device = self.rdma_devices.first();
        let port = device.and_then(|device| device.port_guid);
        let set = |guid: Option<Guid>| guid.filter(|guid| !guid.is_unset());
        (set(device.and_then(|device| device.node_guid)), set(port))
    }

    /// Whether it is known to speak something else than InfiniBand.
    pub(crate) fn is_ethernet(&self) -> bool {
        let layer = self.rdma_devices.first().and_then(|device| device.link_layer);
        layer == Some(LinkLayer::Ethernet)
    }

    /// What its adapter says was set for it.
    pub(crate) fn admin_settings(&self, hardware: &dyn Hardware) -> Result<VfInfo, Error> {
        let (physical, index) = self.require_pf_index()?;
        let vfs = hardware.vfs(physical)?;
        let found = vfs.into_iter().find(|vf| vf.index == index);
        Ok(found.unwrap_or(VfInfo::new(index)))
    }

    /// Where its adapter is, and its index there.
    pub(crate) fn require_pf_index(&self) -> Result<(PciAddress, u32), Error> {
        self.pf_index.ok_or(Error::NotVirtual { function: self.address })
    }
}

/// The GUID in the hardware address of an IPoIB interface: its last eight bytes.
pub(super) fn guid_from_address(link: &Link) -> Option<Guid> {
    let bytes: [u8; 20] = link.address.as_slice().try_into().ok()?;
    let tail: [u8; 8] = bytes[12..].try_into().ok()?;
    Some(Guid::new(u64::from_be_bytes(tail))).filter(|guid| !guid.is_unset())
}
