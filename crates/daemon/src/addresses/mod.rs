//! Conversions between API objects and the address engine. Node daemons assign addresses. The cluster daemon
//! releases leaked addresses and publishes the assignments. Both read the same objects.

mod allocation_record;
mod block;
mod managed;
mod owner;
mod pool;

pub use allocation_record::{MANAGED_MARKER, SpiderpoolRecord, UnreadableStatus, allocation_records};
pub use block::{InvalidBlock, block_from_object, block_to_object};
pub use managed::{MANAGED_LABEL, MANAGED_SELECTOR, UNMANAGED_SELECTOR, is_managed};
pub use owner::is_stateful;
pub use pool::{label_matcher, parse_pool, pool_spec, reserved_ranges};
