//! Functions on the PCI bus.

use super::{FunctionView, SysfsTree, pci_sysfs_path};
use crate::{Error, GpuProfile};
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

/// The driver that hands functions to user space.
pub(crate) const VFIO_DRIVER: &str = "vfio-pci";

impl SysfsTree {
    /// A function without what its driver makes.
    pub(crate) fn write_function(&self, unit: &FunctionView<'_>) -> Result<(), Error> {
        let place = unit.sysfs_path();
        let hca = unit.hca;
        let device = match unit.vf {
            None => hca.device.0,
            Some(_) => hca.vf_device.map_or(hca.device.0.wrapping_add(1), |id| id.0),
        };
        // Network controller: Ethernet, InfiniBand.
        let class = match hca.link_layer() {
            LinkLayer::Ethernet => "0x020000",
            LinkLayer::InfiniBand => "0x020700",
        };
        self.write_file(place.join("vendor"), format!("0x{}", hca.vendor))?;
        self.write_file(place.join("device"), format!("{device:#06x}"))?;
        self.write_file(place.join("subsystem_vendor"), format!("0x{}", hca.vendor))?;
        self.write_file(place.join("class"), class)?;
        self.write_file(place.join("numa_node"), hca.numa.map_or(-1, i64::from))?;
        self.symlink(place.join("subsystem"), Path::new("bus/pci"))?;
        match unit.vf {
            None => {
                self.write_file(place.join("sriov_totalvfs"), hca.total_vfs)?;
                self.write_file(place.join("sriov_drivers_autoprobe"), 1)?;
                self.write_file(place.join("sriov_offset"), hca.vf_offset)?;
                self.write_file(place.join("sriov_stride"), 1)?;
                self.write_file(
                    place.join("sriov_vf_device"),
                    format!("{:x}", hca.vf_device.map_or(device.wrapping_add(1), |id| id.0)),
                )?;
                self.write_vf_count(unit)?;
            }
            Some(_) => self.symlink(place.join("physfn"), &super::pci_sysfs_path(&hca.behind, hca.pci))?,
        }
        self.write_driver(unit)?;
        self.symlink(Path::new("bus/pci/devices").join(unit.address.to_string()), &place)
    }

    /// How many virtual functions a physical one has, and which.
    pub(crate) fn write_vf_count(&self, unit: &FunctionView<'_>) -> Result<(), Error> {
        let place = unit.sysfs_path();
        let count = unit.adapter.vfs.len();
        self.write_file(place.join("sriov_numvfs"), count)?;
        for index in 0..unit.hca.total_vfs {
            let link = place.join(format!("virtfn{index}"));
            match unit.hca.vf_address(index) {
                Some(vf) if usize::from(index) < count => {
                    self.symlink(link, &place.with_file_name(vf.to_string()))?;
                }
                _ => self.unlink(link)?,
            }
        }
        Ok(())
    }

    /// The driver that a function is bound to, and the one that it is reserved for.
    pub(crate) fn write_driver(&self, unit: &FunctionView<'_>) -> Result<(), Error> {
        let place = unit.sysfs_path();
        let bound = unit.function.driver.as_deref();
        for name in [unit.hca.driver.as_str(), VFIO_DRIVER] {
            let driver = Path::new("bus/pci/drivers").join(name);
            for file in ["bind", "unbind"] {
                self.write_file(driver.join(file), "")?;
            }
            match bound == Some(name) {
                true => self.symlink(driver.join(unit.address.to_string()), &place)?,
                false => self.unlink(driver.join(unit.address.to_string()))?,
            }
        }
        match bound {
            Some(name) => self.symlink(place.join("driver"), &Path::new("bus/pci/drivers").join(name))?,
            None => self.unlink(place.join("driver"))?,
        }
        let reserved = unit.function.driver_override.as_deref().unwrap_or("(null)");
        self.write_file(place.join("driver_override"), reserved)?;
        let class = match unit.hca.link_layer() {
            LinkLayer::Ethernet => "20000",
            LinkLayer::InfiniBand => "20700",
        };
        let driver = bound.map(|name| format!("DRIVER={name}\n")).unwrap_or_default();
        let uevent = format!("{driver}PCI_CLASS={class}\nPCI_SLOT_NAME={}", unit.address);
        self.write_file(place.join("uevent"), uevent)
    }

    /// Takes a function away, with everything in it.
    pub(crate) fn remove_function(&self, unit: &FunctionView<'_>) -> Result<(), Error> {
        let address = unit.address.to_string();
        self.unlink(Path::new("bus/pci/devices").join(&address))?;
        for driver in [unit.hca.driver.as_str(), VFIO_DRIVER] {
            self.unlink(Path::new("bus/pci/drivers").join(driver).join(&address))?;
        }
        self.remove_directory(unit.sysfs_path())
    }

    /// A graphics processor.
    pub(crate) fn write_gpu(&self, gpu: &GpuProfile) -> Result<(), Error> {
        let place = pci_sysfs_path(&gpu.behind, gpu.pci);
        let driver: PathBuf = ["bus/pci/drivers", "nvidia"].iter().collect();
        self.write_file(place.join("vendor"), "0x10de")?;
        self.write_file(place.join("device"), format!("0x{}", gpu.device))?;
        // Display controller, 3D.
        self.write_file(place.join("class"), "0x030200")?;
        self.write_file(place.join("numa_node"), gpu.numa.map_or(-1, i64::from))?;
        self.symlink(place.join("subsystem"), Path::new("bus/pci"))?;
        self.symlink(place.join("driver"), &driver)?;
        self.symlink(driver.join(gpu.pci.to_string()), &place)?;
        self.symlink(Path::new("bus/pci/devices").join(gpu.pci.to_string()), &place)
    }
}
