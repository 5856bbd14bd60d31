//! `ferroband.io`: Ferroband's own kinds.

mod address_block;
mod fabric;
mod guid_block;
mod node_partitions;
mod partition;
mod subnet_manager_host;

pub use address_block::{AddressBlock, AddressBlockEntry, AddressBlockSpec};
pub use fabric::{Fabric, FabricName, FabricSpec, FabricStatus};
pub use guid_block::{GuidBlock, GuidBlockSpec, GuidClaim};
pub use node_partitions::{
    NodeMember, NodePartitions, NodePartitionsSpec, NodePartitionsStatus, WaitingMember,
};
pub use partition::{Partition, PartitionMode, PartitionSpec, PartitionStatus};
pub use subnet_manager_host::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
