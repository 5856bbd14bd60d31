//! Linux as Ferroband uses it: blocking, small, and with every path under a [`Root`].
//!
//! Nothing here knows Kubernetes or an async runtime, because the CNI binary is built from it. What needs
//! InfiniBand in the kernel stands behind [`Host`]; everything else is the same on real and simulated hardware.
//!
//! ```text
//!                 ┌── Linux ──────── Route (IPoIB children)
//!  Host ◀─────────┤
//!                 └── ferroband-sim ─ Route (stand-ins)
//!
//!  Route ── a NETLINK_ROUTE socket: links, addresses, routes      Netns ── a network namespace, held open
//!    └─ opened here or inside a Netns; keeps the namespace it was opened in
//!
//!  Root ── where sys/, dev/, proc/, run/ and var/lib/ferroband/ are
//!    └─ sysfs::infiniband, sysfs::pci ── what the machine has
//! ```

mod boot;
mod error;
mod fault;
mod host;
mod linux;
mod netns;
mod root;
pub mod route;
pub mod sysfs;
pub mod tap;

pub use boot::boot_id;
pub use error::Error;
pub use host::{Host, IpoibChild, IpoibMode, IpoibParent};
pub use linux::Linux;
pub use netns::{Netns, NetnsId};
pub use nix::errno::Errno;
pub use root::Root;
pub use route::{Link, Route};
