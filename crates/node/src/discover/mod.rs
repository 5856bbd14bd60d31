//! Stage discover: the hardware inventory of this node.

mod function;
mod hw_events;
mod inventory;
mod roots;
pub(crate) mod sysfs;
#[cfg(test)]
mod tests;
mod watch;

pub use function::{DeviceClass, FunctionNetdev, InventoryFunction};
pub use inventory::{DeviceFile, DeviceFileRole, Inventory, InventoryPort, InventoryRdmaDevice};
pub use roots::DiscoveryRoots;
pub use watch::{read_inventory, watch_inventory};
