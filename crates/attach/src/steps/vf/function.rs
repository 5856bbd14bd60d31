//! Current state of the PCI function of an attachment.

use crate::protocol::Error;
use ferroband_kernel::rtnetlink::VfInfo;
use ferroband_kernel::sysfs::{infiniband, pci};
use ferroband_kernel::{Hardware, Link};
use ferroband_model::{Guid, LinkLayer, PciAddress};

const VFIO: &str = "vfio-pci";

/// A PCI function as currently observed.
#[derive(Clone, Debug)]
pub(crate) struct ObservedVf {
    pub(crate) address: PciAddress,
    /// Address of the physical function and index of this VF on it, if it is a VF.
    pub(crate) pf_index: Option<(PciAddress, u32)>,
    /// The bound driver; `None` if the function is unbound.
    pub(crate) driver: Option<String>,
    /// RDMA devices of the function that are visible in this namespace.
    pub(crate) rdma_devices: Vec<infiniband::RdmaIdentity>,
}

impl ObservedVf {
    /// Read the function at `address`; `None` if it does not exist.
    pub(crate) fn find(hardware: &dyn Hardware, address: PciAddress) -> Result<Option<Self>, Error> {
        hardware.refresh()?;
        let root = hardware.root();
        let Some(driver) = pci::driver(root, address)? else { return Ok(None) };
        let names = infiniband::device_names_of_function(root, address)?;
        let rdma_devices =
            names.iter().map(|name| infiniband::identity(root, name)).collect::<Result<_, _>>()?;
        let pf_index = pci::physical_function(root, address)?;
        Ok(Some(Self { address, pf_index, driver, rdma_devices }))
    }

    /// Like [`Self::find`], but fails if the function does not exist.
    pub(crate) fn get(hardware: &dyn Hardware, address: PciAddress) -> Result<Self, Error> {
        Self::find(hardware, address)?.ok_or_else(|| Error::NoFunction { function: address.to_string() })
    }

    /// Whether the function is bound to vfio-pci, for use by a virtual machine.
    pub(crate) fn is_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO)
    }

    /// The only RDMA device of the function. Fails if there are none or several.
    pub(crate) fn rdma_device(&self) -> Result<&infiniband::RdmaIdentity, Error> {
        match self.rdma_devices.as_slice() {
            [device] => Ok(device),
            several => Err(Error::RdmaDevices { device: self.address.to_string(), count: several.len() }),
        }
    }

    /// Node and port GUID that the driver uses; `None` if unknown or unset.
    pub(crate) fn active_guids(&self) -> (Option<Guid>, Option<Guid>) {
        let device = self.rdma_devices.first();
        let port = device.and_then(|device| device.port_guid);
        let set = |guid: Option<Guid>| guid.filter(|guid| !guid.is_unset());
        (set(device.and_then(|device| device.node_guid)), set(port))
    }

    /// Whether the function's link layer is known to be Ethernet.
    pub(crate) fn is_ethernet(&self) -> bool {
        let layer = self.rdma_devices.first().and_then(|device| device.link_layer);
        layer == Some(LinkLayer::Ethernet)
    }

    /// GUIDs and link state that are set for this VF on the physical function.
    pub(crate) fn admin_settings(&self, hardware: &dyn Hardware) -> Result<VfInfo, Error> {
        let (physical, index) = self.require_pf_index()?;
        let vfs = hardware.vfs(physical)?;
        let found = vfs.into_iter().find(|vf| vf.index == index);
        Ok(found.unwrap_or(VfInfo::new(index)))
    }

    /// The address of the physical function and the VF index. Fails if the function is not a VF.
    pub(crate) fn require_pf_index(&self) -> Result<(PciAddress, u32), Error> {
        self.pf_index.ok_or(Error::NotVirtual { function: self.address })
    }
}

/// The GUID in the hardware address of an IPoIB interface: the last eight bytes.
pub(super) fn guid_from_address(link: &Link) -> Option<Guid> {
    let bytes: [u8; 20] = link.address.as_slice().try_into().ok()?;
    let tail: [u8; 8] = bytes[12..].try_into().ok()?;
    Some(Guid::new(u64::from_be_bytes(tail))).filter(|guid| !guid.is_unset())
}
