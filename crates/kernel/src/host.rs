//! The seam between Ferroband and the hardware: the few calls that need InfiniBand in the kernel.
//!
//! Everything else (moving, renaming, addressing interfaces) is [`crate::route`], which is the same code on
//! real and on simulated hardware. `Linux` is the real host; `ferroband-sim` has the other one.

use crate::{Error, Root};
use ferroband_model::PKey;
use serde::{Deserialize, Serialize};

/// A machine with InfiniBand, real or simulated.
pub trait Host: Send + Sync {
    /// Where its sysfs and device files are.
    fn root(&self) -> &Root;

    /// Whether what it shows is simulated; said to users wherever it matters.
    fn is_simulated(&self) -> bool;

    /// The IPoIB interface called `name` (a name or an altname) in this thread's network namespace.
    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error>;

    /// Make an IPoIB child called `name` in this thread's network namespace, down, ready to be moved.
    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error>;
}

/// An IPoIB interface that can have children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpoibParent {
    /// Interface index in the host's namespace.
    pub index: u32,
    /// Its present name (the asked-for one may be an altname).
    pub name: String,
    /// Its P_Key, with the membership bit.
    pub pkey: PKey,
    /// Its mode.
    pub mode: IpoibMode,
    /// Its MTU.
    pub mtu: u32,
}

/// A child to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpoibChild {
    /// The parent's interface index.
    pub parent: u32,
    /// The child's P_Key.
    pub pkey: PKey,
    /// The child's mode.
    pub mode: IpoibMode,
}

/// IFLA_IPOIB_MODE (linux/if_link.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpoibMode {
    /// 0: unreliable datagrams, MTU bound by the multicast group.
    Datagram,
    /// 1: one reliable connection per peer, MTU up to 65520.
    Connected,
}
