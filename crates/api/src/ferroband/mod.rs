//! `ferroband.io`: Ferroband's own kinds.

mod address_block;
mod address_index;
mod address_state;
mod fabric;
mod guid_block;
mod node_partitions;
mod partition;
mod spider_pool_copy;
mod sticky_addresses;
mod subnet_manager_host;

pub use address_block::{AddressBlock, AddressBlockEntry, AddressBlockSpec};
pub use address_index::{AddressIndex, AddressIndexSpec};
pub use address_state::{
    ADDRESS_STATE_NAME, AddressImports, AddressState, AddressStateSpec, AddressStateStatus,
    BlockedAddressRange, EtcdRestore, ImportPhase, RestorePhase,
};
pub use fabric::{Fabric, FabricName, FabricSpec, FabricStatus};
pub use guid_block::{GuidBlock, GuidBlockSpec, GuidClaim};
pub use node_partitions::{
    NodeAddressReport, NodeMember, NodePartitions, NodePartitionsSpec, NodePartitionsStatus, NoticedRestore,
    WaitingMember,
};
pub use partition::{Partition, PartitionMode, PartitionSpec, PartitionStatus};
pub use spider_pool_copy::{SpiderPoolCopy, SpiderPoolCopySpec};
pub use sticky_addresses::{StickyAddressEntry, StickyAddresses, StickyAddressesSpec};
pub use subnet_manager_host::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
