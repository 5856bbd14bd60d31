//! Objects of the API server as the address engine understands them. Nodes assign addresses, the cluster daemon takes
//! lost ones back and shows what is assigned; both read the same objects.

mod granule;
mod managed;
mod owner;
mod pool;
mod record;

pub use granule::{NotGranule, granule_of, object_of};
pub use managed::{FOREIGN, MANAGED, OWN, is_ours};
pub use owner::is_stateful;
pub use pool::{describe, read_pool, reserved_of, selector_of};
pub use record::{OURS, Record, records_of};
