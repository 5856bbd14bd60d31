//! PCI functions in the sysfs tree.

use super::{FunctionView, SysfsTree, pci_sysfs_path};
use crate::{Error, GpuProfile};
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

/// The driver that gives user space direct access to PCI functions.
pub(crate) const VFIO_DRIVER: &str = "vfio-pci";

impl SysfsTree {
    /// Writes a PCI function without the objects that its driver creates.
    pub(crate) fn write_function(&self, view: &FunctionView<'_>) -> Result<(), Error> {
        let path = view.sysfs_path();
        let hca = view.hca;
        let device = match view.vf {
            None => hca.device.0,
            Some(_) => hca.vf_device.map_or(hca.device.0.wrapping_add(1), |id| id.0),
        };
        // PCI class: a network controller for Ethernet or for InfiniBand.
        let class = match hca.link_layer() {
            LinkLayer::Ethernet => "0x020000",
            LinkLayer::InfiniBand => "0x020700",
        };
        self.write_file(path.join("vendor"), format!("0x{}", hca.vendor))?;
        self.write_file(path.join("device"), format!("{device:#06x}"))?;
        self.write_file(path.join("subsystem_vendor"), format!("0x{}", hca.vendor))?;
        self.write_file(path.join("class"), class)?;
        self.write_file(path.join("numa_node"), hca.numa.map_or(-1, i64::from))?;
        self.symlink(path.join("subsystem"), Path::new("bus/pci"))?;
        match view.vf {
            None => {
                self.write_file(path.join("sriov_totalvfs"), hca.total_vfs)?;
                self.write_file(path.join("sriov_drivers_autoprobe"), 1)?;
                self.write_file(path.join("sriov_offset"), hca.vf_offset)?;
                self.write_file(path.join("sriov_stride"), 1)?;
                self.write_file(
                    path.join("sriov_vf_device"),
                    format!("{:x}", hca.vf_device.map_or(device.wrapping_add(1), |id| id.0)),
                )?;
                self.write_vf_count(view)?;
            }
            Some(_) => self.symlink(path.join("physfn"), &super::pci_sysfs_path(&hca.behind, hca.pci))?,
        }
        self.write_driver(view)?;
        self.symlink(Path::new("bus/pci/devices").join(view.address.to_string()), &path)
    }

    /// Writes `sriov_numvfs` and the `virtfn` links to the virtual functions.
    pub(crate) fn write_vf_count(&self, view: &FunctionView<'_>) -> Result<(), Error> {
        let path = view.sysfs_path();
        let count = view.adapter.vfs.len();
        self.write_file(path.join("sriov_numvfs"), count)?;
        for index in 0..view.hca.total_vfs {
            let link = path.join(format!("virtfn{index}"));
            match view.hca.vf_address(index) {
                Some(vf) if usize::from(index) < count => {
                    self.symlink(link, &path.with_file_name(vf.to_string()))?;
                }
                _ => self.unlink(link)?,
            }
        }
        Ok(())
    }

    /// Writes the symlinks between the function and its bound driver, and the attributes `driver_override`
    /// and `uevent`.
    pub(crate) fn write_driver(&self, view: &FunctionView<'_>) -> Result<(), Error> {
        let path = view.sysfs_path();
        let bound = view.function.driver.as_deref();
        for name in [view.hca.driver.as_str(), VFIO_DRIVER] {
            let driver = Path::new("bus/pci/drivers").join(name);
            for file in ["bind", "unbind"] {
                self.write_file(driver.join(file), "")?;
            }
            match bound == Some(name) {
                true => self.symlink(driver.join(view.address.to_string()), &path)?,
                false => self.unlink(driver.join(view.address.to_string()))?,
            }
        }
        match bound {
            Some(name) => self.symlink(path.join("driver"), &Path::new("bus/pci/drivers").join(name))?,
            None => self.unlink(path.join("driver"))?,
        }
        let reserved = view.function.driver_override.as_deref().unwrap_or("(null)");
        self.write_file(path.join("driver_override"), reserved)?;
        let class = match view.hca.link_layer() {
            LinkLayer::Ethernet => "20000",
            LinkLayer::InfiniBand => "20700",
        };
        let driver = bound.map(|name| format!("DRIVER={name}\n")).unwrap_or_default();
        let uevent = format!("{driver}PCI_CLASS={class}\nPCI_SLOT_NAME={}", view.address);
        self.write_file(path.join("uevent"), uevent)
    }

    /// Removes the directory of a PCI function with all its content, and the symlinks to it.
    pub(crate) fn remove_function(&self, view: &FunctionView<'_>) -> Result<(), Error> {
        let address = view.address.to_string();
        self.unlink(Path::new("bus/pci/devices").join(&address))?;
        for driver in [view.hca.driver.as_str(), VFIO_DRIVER] {
            self.unlink(Path::new("bus/pci/drivers").join(driver).join(&address))?;
        }
        self.remove_directory(view.sysfs_path())
    }

    pub(crate) fn write_gpu(&self, gpu: &GpuProfile) -> Result<(), Error> {
        let path = pci_sysfs_path(&gpu.behind, gpu.pci);
        let driver: PathBuf = ["bus/pci/drivers", "nvidia"].iter().collect();
        self.write_file(path.join("vendor"), "0x10de")?;
        self.write_file(path.join("device"), format!("0x{}", gpu.device))?;
        // PCI class: a 3D display controller.
        self.write_file(path.join("class"), "0x030200")?;
        self.write_file(path.join("numa_node"), gpu.numa.map_or(-1, i64::from))?;
        self.symlink(path.join("subsystem"), Path::new("bus/pci"))?;
        self.symlink(path.join("driver"), &driver)?;
        self.symlink(driver.join(gpu.pci.to_string()), &path)?;
        self.symlink(Path::new("bus/pci/devices").join(gpu.pci.to_string()), &path)
    }
}
