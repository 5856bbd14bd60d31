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

pub(crate) use check::check;
pub(crate) use config::of_config;
pub(crate) use function::Function;
pub(crate) use give::{Given, Giving};
pub(crate) use held::{Before, Held, Owner, lock};
pub(crate) use interface::{inside as interface_inside, place_again};
pub(crate) use restore::Restoring;
pub(crate) use verify::verify;
