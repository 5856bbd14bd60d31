//! GPUs, for GPUDirect RDMA.

use super::pci;
use super::topology::{self, Distance, PciLocation};
use crate::{Error, Root};
use ferroband_model::PciAddress;

/// PCI vendor ID of NVIDIA.
const NVIDIA: u16 = 0x10de;
/// PCI class and subclass of display controllers: VGA compatible and 3D.
const CLASSES: [u32; 2] = [0x0300, 0x0302];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub address: PciAddress,
    /// PCI device ID, such as 0x2330 (H100).
    pub device: u16,
    /// Name of the bound driver; `None` if no driver is bound.
    pub driver: Option<String>,
    /// Location in the PCIe tree, from which the distance to an adapter is computed.
    pub location: PciLocation,
}

/// All GPUs, ordered by address.
pub fn gpus(root: &Root) -> Result<Vec<Gpu>, Error> {
    let mut gpus = Vec::new();
    for function in pci::functions(root)? {
        if function.vendor != NVIDIA || !CLASSES.contains(&(function.class >> 8)) {
            continue;
        }
        let location = topology::locate(root, function.address)?;
        gpus.extend(location.map(|location| Gpu {
            address: function.address,
            device: function.device,
            driver: function.driver,
            location,
        }));
    }
    Ok(gpus)
}

/// GPUs ordered by distance from `location`, nearest first.
pub fn by_distance<'a>(gpus: &'a [Gpu], location: &PciLocation) -> Vec<(Distance, &'a Gpu)> {
    let mut sorted: Vec<_> = gpus.iter().map(|gpu| (gpu.location.distance(location), gpu)).collect();
    sorted.sort_by_key(|(distance, gpu)| (*distance, gpu.address));
    sorted
}
