//! Stage discover: what this node has.

mod function;
mod inventory;
mod sight;
mod signs;
pub(crate) mod sysfs;
#[cfg(test)]
mod tests;
mod watch;

pub use function::{Class, Function, Netdev};
pub use inventory::{DeviceFile, FileRole, Inventory, Port, RdmaDevice};
pub use sight::Sight;
pub use watch::{keep_current, look};
