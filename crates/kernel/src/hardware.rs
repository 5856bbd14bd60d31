//! The whole of the seam to the hardware: what a node does to its adapters, beside making IPoIB children.
//!
//! [`Host`] is what attaching an IPoIB child takes. This is the rest: what configures, shares and watches
//! adapters, and hands virtual functions to pods. Nothing here has a default: a machine that cannot do one of
//! these says so itself.
//!
//! "Here" is the network namespace of the calling thread, which is to be the host's.

use crate::rdma::{NetnsMode, RdmaDeviceInfo};
use crate::rtnetlink::{GuidKind, VfInfo, VfLinkState};
use crate::watch::HardwareWatch;
use crate::{Error, Host, Link, Netns, Root};
use ferroband_model::{Guid, PciAddress};

/// A machine whose RDMA adapters can be configured, real or simulated. Every call blocks.
pub trait Hardware: Host {
    /// The RDMA devices of a namespace (here when none is given): all of the machine's where namespaces are
    /// shared. No RDMA in the kernel at all is [`Error::NoRdma`].
    fn rdma_devices(&self, netns: Option<&Netns>) -> Result<Vec<RdmaDeviceInfo>, Error>;

    /// Moves an RDMA device between namespaces (`from` is here when none is given).
    ///
    /// Its IPoIB interface is destroyed and made again: look for it in both namespaces with
    /// [`Hardware::interfaces`]. With shared namespaces the answer is EOPNOTSUPP; a device that is not in
    /// `from` is [`Error::NoRdmaDevice`]. Not to be done by a process that somebody may kill.
    fn move_rdma_device(&self, name: &str, from: Option<&Netns>, to: &Netns) -> Result<(), Error>;

    /// Whether RDMA devices belong to one namespace each.
    fn rdma_netns_mode(&self) -> Result<NetnsMode, Error>;

    /// Makes namespaces shared or exclusive, until the next boot. EBUSY while there are others than the
    /// initial one.
    fn set_rdma_netns_mode(&self, mode: NetnsMode) -> Result<(), Error>;

    /// The virtual functions of `pf` with what was set for them, in the order of their index.
    ///
    /// This and the next two go through the interface of `pf`, which must be here; without one the answer is
    /// ENODEV.
    fn vfs(&self, pf: PciAddress) -> Result<Vec<VfInfo>, Error>;

    /// Gives virtual function `vf` of `pf` a GUID, which it takes on when its driver is bound the next time.
    fn set_vf_guid(&self, pf: PciAddress, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), Error>;

    /// Sets the link state of virtual function `vf` of `pf`, at once.
    fn set_vf_link_state(&self, pf: PciAddress, vf: u32, state: VfLinkState) -> Result<(), Error>;

    /// Has so many virtual functions on `pf`. From one number to another, neither of them 0, the answer is
    /// EBUSY; more than there can be is ERANGE.
    fn set_vf_count(&self, pf: PciAddress, count: u16) -> Result<(), Error>;

    /// Binds the function to `driver`. Not to be done by a process that somebody may kill.
    fn bind_driver(&self, function: PciAddress, driver: &str) -> Result<(), Error>;

    /// Takes the driver from the function, and with it its RDMA device and its interface.
    fn unbind_driver(&self, function: PciAddress) -> Result<(), Error>;

    /// Reserves the function for one driver, or gives it free.
    fn set_driver_override(&self, function: PciAddress, driver: Option<&str>) -> Result<(), Error>;

    /// Lets the driver that suits the function take it.
    fn probe_driver(&self, function: PciAddress) -> Result<(), Error>;

    /// The interfaces of the function in a namespace (here when none is given), whatever they are called now.
    fn interfaces(&self, function: PciAddress, netns: Option<&Netns>) -> Result<Vec<Link>, Error>;

    /// What the driver of an interface counts, by its own names (`ethtool -S`), in a namespace (here when none is
    /// given).
    fn ethtool_statistics(&self, interface: &str, netns: Option<&Netns>)
    -> Result<Vec<(String, u64)>, Error>;

    /// Lets `look` read sysfs as it is in another namespace: what an RDMA device that was moved there counts,
    /// its P_Key table, its state. Called once, on a thread of its own.
    fn with_netns_sysfs(&self, netns: &Netns, look: &mut (dyn FnMut(&Root) + Send)) -> Result<(), Error>;

    /// Brings the trees under [`Host::root`] up to date; to be called before they are read. The kernel's are
    /// always, but simulated ones do not hear of interfaces that were moved, namespaces that ended and
    /// traffic.
    fn refresh(&self) -> Result<(), Error>;

    /// Hears of changes from now on.
    fn watch(&self) -> Result<HardwareWatch, Error>;
}
