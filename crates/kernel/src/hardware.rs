//! Operations on RDMA adapters, in addition to those of [`Host`].
//!
//! [`Host`] is sufficient to attach an IPoIB child. This trait adds what is needed to configure, share and watch
//! adapters and to move virtual functions to pods. No method has a default implementation: a host that does not
//! support an operation returns an error.
//!
//! Where a namespace is optional, `None` means the network namespace of the calling thread, which must be the
//! host's.

use crate::rdma::{NetnsMode, RdmaDeviceInfo};
use crate::rtnetlink::{GuidKind, VfInfo, VfLinkState};
use crate::watch::HardwareWatch;
use crate::{Error, Host, Link, Netns, Root};
use ferroband_model::{Guid, PciAddress};

/// A host whose RDMA adapters can be configured, real or simulated. Every call blocks.
pub trait Hardware: Host {
    /// RDMA devices of a namespace. In shared mode these are all devices of the host. Returns [`Error::NoRdma`] if
    /// the kernel has no RDMA support.
    fn rdma_devices(&self, netns: Option<&Netns>) -> Result<Vec<RdmaDeviceInfo>, Error>;

    /// Moves an RDMA device between namespaces.
    ///
    /// The kernel destroys and recreates the IPoIB interface of the device; use [`Hardware::interfaces`] on both
    /// namespaces to find the new interface. Returns EOPNOTSUPP in shared mode and [`Error::NoRdmaDevice`] if the
    /// device is not in `from`. A process that may be killed must not call this, because a fatal signal
    /// during the move leaves the device without its MAD layer.
    fn move_rdma_device(&self, name: &str, from: Option<&Netns>, to: &Netns) -> Result<(), Error>;

    /// Returns whether network namespaces share all RDMA devices, or each device belongs to one namespace.
    fn rdma_netns_mode(&self) -> Result<NetnsMode, Error>;

    /// Sets shared or exclusive mode until the next boot. Returns EBUSY while any namespace other than the initial
    /// one exists.
    fn set_rdma_netns_mode(&self, mode: NetnsMode) -> Result<(), Error>;

    /// Virtual functions of `pf` with their administrative settings, ordered by index.
    ///
    /// [`Hardware::vfs`], [`Hardware::set_vf_guid`] and [`Hardware::set_vf_link_state`] use the network interface
    /// of `pf`, which must be in the namespace of the calling thread; otherwise they return ENODEV.
    fn vfs(&self, pf: PciAddress) -> Result<Vec<VfInfo>, Error>;

    /// Sets a GUID of virtual function `vf` of `pf`. The GUID takes effect when the driver of the virtual function
    /// is bound the next time.
    fn set_vf_guid(&self, pf: PciAddress, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), Error>;

    /// Sets the link state of virtual function `vf` of `pf`. The new state takes effect immediately.
    fn set_vf_link_state(&self, pf: PciAddress, vf: u32, state: VfLinkState) -> Result<(), Error>;

    /// Sets the number of virtual functions of `pf`. Returns EBUSY for a change between two nonzero numbers and
    /// ERANGE if the number exceeds the maximum.
    fn set_vf_count(&self, pf: PciAddress, count: u16) -> Result<(), Error>;

    /// Binds the PCI function to `driver`. A process that may be killed must not call this, because a fatal
    /// signal during the bind leaves the function without a driver.
    fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), Error>;

    /// Unbinds the driver of the PCI function, which removes the RDMA device and the interface of the
    /// function.
    fn unbind_driver(&self, function: PciAddress) -> Result<(), Error>;

    /// Sets `driver_override` of the PCI function, the only driver that may bind to it; `None` clears the
    /// override.
    fn set_driver_override(&self, function: PciAddress, driver: Option<&str>) -> Result<(), Error>;

    /// Lets the kernel find a matching driver and bind it to the PCI function.
    fn probe_driver(&self, function: PciAddress) -> Result<(), Error>;

    /// Network interfaces of the PCI function in a namespace, found independently of their names.
    fn interfaces(&self, function: PciAddress, netns: Option<&Netns>) -> Result<Vec<Link>, Error>;

    /// Driver statistics of an interface, with the driver's names (`ethtool -S`).
    fn ethtool_statistics(&self, interface: &str, netns: Option<&Netns>)
    -> Result<Vec<(String, u64)>, Error>;

    /// Calls `read` once with the sysfs of another namespace, on a separate thread. This gives access to the
    /// counters, the P_Key table and the state of an RDMA device that was moved there.
    fn with_netns_sysfs(&self, netns: &Netns, read: &mut (dyn FnMut(&Root) + Send)) -> Result<(), Error>;

    /// Updates the sysfs and device trees below [`Host::root`]. Call this before reading them. It does
    /// nothing on a real kernel. Simulated trees do not reflect moved interfaces, deleted namespaces and
    /// traffic until they are updated.
    fn refresh(&self) -> Result<(), Error>;

    /// Returns a watch that receives the hardware events from now on.
    fn watch(&self) -> Result<HardwareWatch, Error>;
}
