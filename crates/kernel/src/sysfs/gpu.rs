//! Graphics processors that RDMA adapters send from and receive into directly.

use super::pci;
use super::topology::{self, Distance, PciLocation};
use crate::{Error, Root};
use ferroband_model::PciAddress;

/// PCI vendor NVIDIA.
const NVIDIA: u16 = 0x10de;
/// Display controllers: VGA compatible, and those without a display (class and subclass of the PCI codes).
const CLASSES: [u32; 2] = [0x0300, 0x0302];

/// A graphics processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Where it is.
    pub address: PciAddress,
    /// Device: 0x2330.
    pub device: u16,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// Its place on the PCIe tree.
    pub location: PciLocation,
}

/// All graphics processors, by address.
pub fn gpus(root: &Root) -> Result<Vec<Gpu>, Error> {
    let mut gpus = Vec::new();
    for function in pci::functions(root)? {
        if function.vendor != NVIDIA || !CLASSES.contains(&(function.class >> 8)) {
            continue;
        }
        let place = topology::locate(root, function.address)?;
        gpus.extend(place.map(|place| Gpu {
            address: function.address,
            device: function.device,
            driver: function.driver,
            location: place,
        }));
    }
    Ok(gpus)
}

/// The processors by their distance from `place`, nearest first.
pub fn by_distance<'a>(gpus: &'a [Gpu], place: &PciLocation) -> Vec<(Distance, &'a Gpu)> {
    let mut sorted: Vec<_> = gpus.iter().map(|gpu| (gpu.location.distance(place), gpu)).collect();
    sorted.sort_by_key(|(distance, gpu)| (*distance, gpu.address));
    sorted
}
