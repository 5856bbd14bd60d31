//! Stage discover: what this node has.

mod inventory;
#[cfg(test)]
mod tests;
mod watch;

pub use inventory::{DeviceFile, Inventory, Port, RdmaDevice};
pub use watch::{keep_current, look};
