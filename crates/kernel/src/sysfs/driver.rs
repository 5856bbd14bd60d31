//! Changes of PCI functions through sysfs: driver binding and the number of virtual functions.
//!
//! A fatal signal during a bind leaves the function without a driver, so a process that may be killed must not call
//! these functions.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use nix::errno::Errno;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Binds the PCI function to `driver`. Succeeds if it is already bound to `driver`. The kernel returns EBUSY
/// or ENODEV if it is bound to another driver.
pub fn bind(root: &Root, address: PciAddress, driver: &str) -> Result<(), Error> {
    if attribute::link_target(&directory(root, address).join("driver"))?.as_deref() == Some(driver) {
        return Ok(());
    }
    let file = root.sys("bus/pci/drivers").join(driver).join("bind");
    write(&file, &address.to_string(), address, || format!("bind driver {driver} to"))
}

/// Unbinds the driver of the PCI function. Succeeds if the function has no driver.
pub fn unbind(root: &Root, address: PciAddress) -> Result<(), Error> {
    let Some(driver) = attribute::link_target(&directory(root, address).join("driver"))? else {
        return Ok(());
    };
    let file = root.sys("bus/pci/drivers").join(&driver).join("unbind");
    match write(&file, &address.to_string(), address, || format!("unbind driver {driver} from")) {
        // Another process unbound the driver in the meantime.
        Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(()),
        result => result,
    }
}

/// Sets the only driver that may bind to the PCI function; `None` lets drivers match by device ID again.
pub fn set_override(root: &Root, address: PciAddress, driver: Option<&str>) -> Result<(), Error> {
    let file = directory(root, address).join("driver_override");
    // An empty line clears the override (driver_set_override of drivers/base/driver.c).
    write(&file, &format!("{}\n", driver.unwrap_or_default()), address, || match driver {
        Some(driver) => format!("set driver override {driver} of"),
        None => "clear the driver override of".to_owned(),
    })
}

/// Lets the kernel bind the matching driver, or the one set by `driver_override`, to the PCI function.
pub fn probe(root: &Root, address: PciAddress) -> Result<(), Error> {
    let file = root.sys("bus/pci/drivers_probe");
    write(&file, &address.to_string(), address, || "probe a driver for".to_owned())
}

/// Sets the number of virtual functions of the PCI function. Succeeds if it already has that number.
///
/// The kernel returns EBUSY for a change between two nonzero numbers, ERANGE above the maximum, and ENOENT without
/// a driver (sriov_numvfs_store of drivers/pci/iov.c).
pub fn set_vf_count(root: &Root, address: PciAddress, count: u16) -> Result<(), Error> {
    let file = directory(root, address).join("sriov_numvfs");
    if attribute::read_sized::<u16>(&file)? == Some(count) {
        return Ok(());
    }
    write(&file, &count.to_string(), address, || format!("set the number of virtual functions to {count} on"))
}

fn directory(root: &Root, address: PciAddress) -> PathBuf {
    root.sys("bus/pci/devices").join(address.to_string())
}

/// Writes `text` to a sysfs file in one piece. `doing` describes the failed action in the error.
fn write(path: &Path, text: &str, address: PciAddress, doing: impl Fn() -> String) -> Result<(), Error> {
    let write = || std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    write().map_err(|source: std::io::Error| match source.raw_os_error() {
        Some(code) => Error::DeviceRequest {
            doing: doing(),
            device: address.to_string(),
            errno: Errno::from_raw(code),
            message: None,
        },
        None => Error::File { doing: "write", path: path.to_owned(), source },
    })
}
