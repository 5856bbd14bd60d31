//! Abstraction of the few operations that need InfiniBand support in the kernel.
//!
//! Moving, renaming and addressing interfaces is in [`crate::rtnetlink`], which is the same code on real and
//! simulated hardware. [`crate::LinuxHost`] implements the trait for real hardware, `ferroband-sim` for simulated
//! hardware.

use crate::{Error, Root};
use ferroband_model::PKey;
use serde::{Deserialize, Serialize};

/// A host with InfiniBand hardware, real or simulated.
pub trait Host: Send + Sync {
    /// Location of the host's sysfs and device files.
    fn root(&self) -> &Root;

    /// Whether the hardware is simulated. User interfaces show this.
    fn is_simulated(&self) -> bool;

    /// The IPoIB interface with the name or altname `name` in the network namespace of the calling thread. Returns
    /// [`Error::NoParent`], [`Error::NotIpoib`] or [`Error::NoPKey`] if it cannot be a parent.
    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error>;

    /// Creates an IPoIB child named `name` in the network namespace of the calling thread. The child is down, so
    /// that it can be moved to a pod.
    fn create_ipoib_child(&self, name: &str, child: &IpoibChild) -> Result<(), Error>;
}

/// An IPoIB interface that can be the parent of child interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpoibParent {
    /// Interface index in the host's network namespace.
    pub index: u32,
    /// Current name. The requested name may have been an altname.
    pub name: String,
    /// P_Key, including the membership bit.
    pub pkey: PKey,
    pub mode: IpoibMode,
    pub mtu: u32,
}

/// Parameters of an IPoIB child to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpoibChild {
    /// Interface index of the parent.
    pub parent: u32,
    pub pkey: PKey,
    pub mode: IpoibMode,
}

/// Transport mode of an IPoIB interface: IFLA_IPOIB_MODE of linux/if_link.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpoibMode {
    /// 0: unreliable datagrams. The MTU is limited by the multicast group.
    Datagram,
    /// 1: one reliable connection per peer, MTU up to 65520.
    Connected,
}
