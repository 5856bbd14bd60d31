//! Linux kernel interfaces used by Ferroband: netlink, sysfs, network namespaces. Every call blocks, and every path
//! is below a [`Root`].
//!
//! This crate depends on neither Kubernetes nor an async runtime, because the CNI binary links it. Only the
//! operations that need InfiniBand support in the kernel are behind [`Host`] and [`Hardware`]; all other code is
//! the same on real and simulated hardware.
//!
//! ```text
//!                             ┌── LinuxHost ─────── RouteSocket, RdmaSocket, sysfs
//!  Host ◀── Hardware ◀────────┤
//!  IPoIB    VFs, drivers,     └── ferroband-sim ─── a directory tree and stand-in interfaces
//!  children RDMA namespaces
//!
//!  RouteSocket ── a NETLINK_ROUTE socket: links, addresses, routes, rules      Netns ── an open network namespace
//!    └─ belongs to the namespace in which it was opened
//!  RdmaSocket ─── a NETLINK_RDMA socket: RDMA devices and their namespaces
//!
//!  Root ── location of sys/, dev/, proc/, run/ and var/lib/ferroband/
//!    └─ sysfs ── hardware inventory
//!
//!  probe ── ARP and NDP: duplicate address detection, gateway reachability
//!
//!  HardwareWatch ── events: uevents and link events, or those of a simulation
//! ```

mod error;
pub mod ethtool;
mod fault;
pub mod files;
pub mod firmware;
mod hardware;
mod host;
mod linux;
pub mod netfilter;
mod netlink;
mod netns;
pub mod probe;
pub mod rdma;
pub mod rtnetlink;
pub mod sysfs;
pub mod tap;
pub mod uevent;
pub mod watch;

pub use error::Error;
pub use files::{Root, boot_id};
pub use hardware::Hardware;
pub use host::{Host, IpoibChild, IpoibMode, IpoibParent};
pub use linux::LinuxHost;
pub use netns::{Netns, NetnsId};
pub use nix::errno::Errno;
pub use rdma::{NetnsMode, RdmaDeviceInfo, RdmaSocket};
pub use rtnetlink::{Link, RouteSocket};
pub use watch::{HardwareEvent, HardwareWatch};
