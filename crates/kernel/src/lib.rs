//! Linux as Ferroband uses it: blocking, small, and with every path under a [`Root`].
//!
//! Nothing here knows Kubernetes or an async runtime, because the CNI binary is built from it. What needs
//! InfiniBand in the kernel stands behind [`Host`]; everything else is the same on real and simulated
//! hardware.
//!
//! ```text
//!                             ┌── Linux ──────── Route, Rdma, sysfs
//!  Host ◀── Hardware ◀────────┤
//!  IPoIB    VFs, drivers,     └── ferroband-sim ─ a tree of files, stand-ins
//!  children RDMA namespaces
//!
//!  Route ── a NETLINK_ROUTE socket: links, addresses, routes      Netns ── a network namespace, held open
//!    └─ opened here or inside a Netns; keeps the namespace it was opened in
//!  Rdma ─── a NETLINK_RDMA socket: devices, their namespaces
//!
//!  Root ── where sys/, dev/, proc/, run/ and var/lib/ferroband/ are
//!    └─ sysfs ── what the machine has
//!
//!  probe ── asks the wire: is an address somebody else's, does a gateway answer
//!
//!  Watch ── hears of changes: Uevents and LinkEvents, or a simulation's
//! ```

mod boot;
mod error;
pub mod ethtool;
mod fault;
pub mod firmware;
mod hardware;
mod host;
mod linux;
pub mod netfilter;
mod netlink;
mod netns;
mod netns_sysfs;
pub mod probe;
pub mod rdma;
mod root;
pub mod rtnetlink;
pub mod sysfs;
pub mod tap;
pub mod uevent;
pub mod watch;

pub use boot::boot_id;
pub use error::Error;
pub use hardware::Hardware;
pub use host::{Host, IpoibChild, IpoibMode, IpoibParent};
pub use linux::LinuxHost;
pub use netns::{Netns, NetnsId};
pub use nix::errno::Errno;
pub use rdma::{NetnsMode, RdmaDeviceInfo, RdmaSocket};
pub use root::Root;
pub use rtnetlink::{Link, RouteSocket};
pub use watch::{HardwareEvent, HardwareWatch};
