//! `ferroband.io`: the kinds that are ours.

mod address_granule;
mod fabric;
mod guid_granule;
mod node_partitions;
mod partition;
mod subnet_manager_host;

pub use address_granule::{AddressGranule, AddressGranuleSpec, GranuleEntry};
pub use fabric::{Fabric, FabricSpec, FabricStatus};
pub use guid_granule::{GuidClaim, GuidGranule, GuidGranuleSpec};
pub use node_partitions::{
    NodeMember, NodePartitions, NodePartitionsSpec, NodePartitionsStatus, WaitingMember,
};
pub use partition::{Partition, PartitionMode, PartitionSpec, PartitionStatus};
pub use subnet_manager_host::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
