//! Functions on the PCI bus.

use super::{Tree, Unit, place};
use crate::{Error, Gpu};
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

/// The driver that hands functions to user space.
pub(crate) const VFIO: &str = "vfio-pci";

impl Tree {
    /// A function without what its driver makes.
    pub(crate) fn function(&self, unit: &Unit<'_>) -> Result<(), Error> {
        let place = unit.place();
        let hca = unit.hca;
        let device = match unit.virtual_ {
            None => hca.device.0,
            Some(_) => hca.vf_device.map_or(hca.device.0.wrapping_add(1), |id| id.0),
        };
        // Network controller: Ethernet, InfiniBand.
        let class = match hca.link_layer() {
            LinkLayer::Ethernet => "0x020000",
            LinkLayer::InfiniBand => "0x020700",
        };
        self.file(place.join("vendor"), format!("0x{}", hca.vendor))?;
        self.file(place.join("device"), format!("{device:#06x}"))?;
        self.file(place.join("subsystem_vendor"), format!("0x{}", hca.vendor))?;
        self.file(place.join("class"), class)?;
        self.file(place.join("numa_node"), hca.numa.map_or(-1, i64::from))?;
        self.link(place.join("subsystem"), Path::new("bus/pci"))?;
        match unit.virtual_ {
            None => {
                self.file(place.join("sriov_totalvfs"), hca.total_vfs)?;
                self.file(place.join("sriov_drivers_autoprobe"), 1)?;
                self.file(place.join("sriov_offset"), hca.vf_offset)?;
                self.file(place.join("sriov_stride"), 1)?;
                self.file(
                    place.join("sriov_vf_device"),
                    format!("{:x}", hca.vf_device.map_or(device.wrapping_add(1), |id| id.0)),
                )?;
                self.vf_count(unit)?;
            }
            Some(_) => self.link(place.join("physfn"), &super::place(&hca.behind, hca.pci))?,
        }
        self.driver(unit)?;
        self.link(Path::new("bus/pci/devices").join(unit.address.to_string()), &place)
    }

    /// How many virtual functions a physical one has, and which.
    pub(crate) fn vf_count(&self, unit: &Unit<'_>) -> Result<(), Error> {
        let place = unit.place();
        let count = unit.adapter.vfs.len();
        self.file(place.join("sriov_numvfs"), count)?;
        for index in 0..unit.hca.total_vfs {
            let link = place.join(format!("virtfn{index}"));
            match unit.hca.vf(index) {
                Some(vf) if usize::from(index) < count => {
                    self.link(link, &place.with_file_name(vf.to_string()))?;
                }
                _ => self.unlink(link)?,
            }
        }
        Ok(())
    }

    /// The driver that a function is bound to, and the one that it is reserved for.
    pub(crate) fn driver(&self, unit: &Unit<'_>) -> Result<(), Error> {
        let place = unit.place();
        let bound = unit.function.driver.as_deref();
        for name in [unit.hca.driver.as_str(), VFIO] {
            let driver = Path::new("bus/pci/drivers").join(name);
            for file in ["bind", "unbind"] {
                self.file(driver.join(file), "")?;
            }
            match bound == Some(name) {
                true => self.link(driver.join(unit.address.to_string()), &place)?,
                false => self.unlink(driver.join(unit.address.to_string()))?,
            }
        }
        match bound {
            Some(name) => self.link(place.join("driver"), &Path::new("bus/pci/drivers").join(name))?,
            None => self.unlink(place.join("driver"))?,
        }
        let reserved = unit.function.reserved.as_deref().unwrap_or("(null)");
        self.file(place.join("driver_override"), reserved)?;
        let class = match unit.hca.link_layer() {
            LinkLayer::Ethernet => "20000",
            LinkLayer::InfiniBand => "20700",
        };
        let driver = bound.map(|name| format!("DRIVER={name}\n")).unwrap_or_default();
        let uevent = format!("{driver}PCI_CLASS={class}\nPCI_SLOT_NAME={}", unit.address);
        self.file(place.join("uevent"), uevent)
    }

    /// Takes a function away, with everything in it.
    pub(crate) fn remove_function(&self, unit: &Unit<'_>) -> Result<(), Error> {
        let address = unit.address.to_string();
        self.unlink(Path::new("bus/pci/devices").join(&address))?;
        for driver in [unit.hca.driver.as_str(), VFIO] {
            self.unlink(Path::new("bus/pci/drivers").join(driver).join(&address))?;
        }
        self.remove(unit.place())
    }

    /// A graphics processor.
    pub(crate) fn gpu(&self, gpu: &Gpu) -> Result<(), Error> {
        let place = place(&gpu.behind, gpu.pci);
        let driver: PathBuf = ["bus/pci/drivers", "nvidia"].iter().collect();
        self.file(place.join("vendor"), "0x10de")?;
        self.file(place.join("device"), format!("0x{}", gpu.device))?;
        // Display controller, 3D.
        self.file(place.join("class"), "0x030200")?;
        self.file(place.join("numa_node"), gpu.numa.map_or(-1, i64::from))?;
        self.link(place.join("subsystem"), Path::new("bus/pci"))?;
        self.link(place.join("driver"), &driver)?;
        self.link(driver.join(gpu.pci.to_string()), &place)?;
        self.link(Path::new("bus/pci/devices").join(gpu.pci.to_string()), &place)
    }
}
