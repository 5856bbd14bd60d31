//! The `ib-sriov` plugin: virtual functions of InfiniBand adapters for pods.
//!
//! ```text
//!          preflight          setup                                                     teardown
//!  config ──────────▶ error   │ link state, GUIDs ─ rebind ─ RDMA device ─ interface │ the same, in reverse
//!                             │      only what differs        if isolated   moved     │
//!                     var/lib/ferroband/device/0000:86:00.2.json: lease with owner and original state
//! ```
//!
//! A function outlives the pods that use it. Its original state is therefore saved in a separate lease file rather than
//! in a pod's journal: an ADD that gets the function before the previous pod's DEL restores it first, and the late DEL
//! sees that the function has another owner.
//!
//! A function is identified by its PCI address. Its interface is found by that address in both namespaces, whatever its
//! name: a rebind, udev, the move of the RDMA device and the end of a namespace all change names and indexes, and the
//! kernel version decides in which namespace the interface appears.

mod attach;
mod check;
mod function;
mod interface;
mod lease;
mod preflight;
mod restore;

pub(crate) use attach::{AttachedVf, VfSetup};
pub(crate) use check::check_attached;
pub(crate) use function::ObservedVf;
pub(crate) use interface::{find_interface, reinstall_interface};
pub(crate) use lease::{SavedVfState, VfLease, VfOwner, lock_function};
pub(crate) use preflight::preflight;
pub(crate) use restore::VfTeardown;
