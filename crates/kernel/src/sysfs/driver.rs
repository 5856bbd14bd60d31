//! Drivers and functions, brought together and taken apart.
//!
//! A fatal signal inside of a bind leaves the function without a driver, so a process that somebody may kill
//! must not do this itself.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use nix::errno::Errno;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Binds the function to `driver`. Bound to it already is success; to another one, the kernel says EBUSY or
/// ENODEV.
pub fn bind(root: &Root, address: PciAddress, driver: &str) -> Result<(), Error> {
    if attribute::link_target(&directory(root, address).join("driver"))?.as_deref() == Some(driver) {
        return Ok(());
    }
    let file = root.sys("bus/pci/drivers").join(driver).join("bind");
    write(&file, &address.to_string(), address, || format!("bind driver {driver} to"))
}

/// Takes the driver from the function. None is success.
pub fn unbind(root: &Root, address: PciAddress) -> Result<(), Error> {
    let Some(driver) = attribute::link_target(&directory(root, address).join("driver"))? else {
        return Ok(());
    };
    let file = root.sys("bus/pci/drivers").join(&driver).join("unbind");
    match write(&file, &address.to_string(), address, || format!("unbind driver {driver} from")) {
        // Somebody else was faster.
        Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(()),
        result => result,
    }
}

/// Says which driver alone may have the function from now on; nothing lets the drivers choose by its numbers
/// again.
pub fn set_override(root: &Root, address: PciAddress, driver: Option<&str>) -> Result<(), Error> {
    let file = directory(root, address).join("driver_override");
    // An empty line takes it away (driver_set_override of drivers/base/driver.c).
    write(&file, &format!("{}\n", driver.unwrap_or_default()), address, || match driver {
        Some(driver) => format!("reserve for driver {driver} the"),
        None => "give free to all drivers the".to_owned(),
    })
}

/// Lets the driver that suits the function, or the one that it is reserved for, take it.
pub fn probe(root: &Root, address: PciAddress) -> Result<(), Error> {
    let file = root.sys("bus/pci/drivers_probe");
    write(&file, &address.to_string(), address, || "find a driver for".to_owned())
}

/// Has so many virtual functions on the physical one; so many already is success.
///
/// The kernel makes them from none only: from one number to another the answer is EBUSY, for more than there
/// can be ERANGE, without a driver ENOENT (sriov_numvfs_store of drivers/pci/iov.c).
pub fn set_vf_count(root: &Root, address: PciAddress, count: u16) -> Result<(), Error> {
    let file = directory(root, address).join("sriov_numvfs");
    if attribute::read_sized::<u16>(&file)? == Some(count) {
        return Ok(());
    }
    write(&file, &count.to_string(), address, || format!("have {count} virtual functions on"))
}

fn directory(root: &Root, address: PciAddress) -> PathBuf {
    root.sys("bus/pci/devices").join(address.to_string())
}

/// One write to an attribute, which is all it takes or nothing.
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
