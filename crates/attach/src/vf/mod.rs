//! Virtual functions of InfiniBand adapters for pods: what the plugin `ib-sriov` does.
//!
//! ```text
//!            check            give                                                      restore
//!  config ──────────▶ refused │ link state, GUIDs ─ rebind ─ RDMA device ─ interface │ the same, in reverse
//!                             │      only what differs        if isolated   moved     │
//!                     var/lib/ferroband/device/0000:86:00.2.json: whose it is, and what it was like before
//! ```
//!
//! A function outlives the pods that have it. So what it was like before stands in a file of its own rather than in a
//! pod's journal: a pod that is given the function while the last one's DEL is still to come restores it first, and
//! that DEL, when it comes, sees that the function is no longer its own.
//!
//! A function is its PCI address. Its interface is looked for by that in both namespaces, whatever it is called: a
//! rebind, udev, the move of the RDMA device and the end of a namespace all change names and indexes, and where the
//! interface comes to be depends on the kernel.

mod check;
mod config;
mod function;
mod give;
mod held;
mod interface;
mod restore;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use check::preflight;
pub(crate) use config::parse_config;
pub(crate) use function::ObservedVf;
pub(crate) use give::{AttachedVf, VfSetup};
pub(crate) use held::{SavedVfState, VfLease, VfOwner, lock_function};
pub(crate) use interface::{find_in_sandbox as interface_inside, reinstall_interface};
pub(crate) use restore::VfTeardown;
pub(crate) use verify::check_attached;
