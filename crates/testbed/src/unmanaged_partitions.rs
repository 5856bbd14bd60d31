//! Partition membership of a node whose partitions nobody manages.

use ferroband_model::{Fault, Guid};
use ferroband_partition::{PartitionMembership, SandboxPartitions};
use std::future::ready;
use std::pin::Pin;

/// Every pod is a member at once, and the subnet manager's configuration stays unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmanagedPartitions;

impl PartitionMembership for UnmanagedPartitions {
    fn begin_add(&self, _: SandboxPartitions<'_>) -> Result<bool, Fault> {
        Ok(false)
    }

    fn wait_until_member<'a>(
        &'a self,
        _: SandboxPartitions<'a>,
        _: &'a [(usize, Guid)],
    ) -> Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + 'a>> {
        Box::pin(ready(Ok(())))
    }

    fn remove_sandbox(&self, _: &str, _: Option<&str>) {}
}
