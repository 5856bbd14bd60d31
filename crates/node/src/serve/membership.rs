//! Partitions, seen from an ADD.
//!
//! ```text
//! plan made ── begin ──▶ whoever manages partitions starts to bring the pod's ports in
//! interfaces exist ── await_member ──▶ answers when the ports' own tables show their keys
//! sandbox gone ── end ──▶ the ports go out again
//! ```

use ferroband_api::annotation::IbKubernetesMark;
use ferroband_attach::{message::PortMember, plan::Plan};
use ferroband_model::Fault;
use futures::future::{BoxFuture, ready};

/// Who brings the ports of pods into their partitions.
pub trait PartitionManager: Send + Sync {
    /// An ADD begins, for this container. Says whether the CNI side has to ask, before anything is sent, whether all
    /// ports are members. A fault refuses the pod before anything is made. Must not block.
    fn begin_add(&self, plan: &Plan, container: &str) -> Result<bool, Fault>;

    /// Completes when the table of every port shows its key. The interfaces exist, without addresses yet. A wait that
    /// takes too long ends with a fault whose code says "try again".
    fn wait_until_member<'a>(
        &'a self,
        plan: &'a Plan,
        members: &'a [PortMember],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// The sandbox, or one interface of it, is gone from the node. May be told twice, or of one never heard of.
    fn remove_sandbox(&self, container: &str, interface: Option<&str>);

    /// What others are to read about a pod's functions, by attachment; nothing where nobody manages partitions.
    fn annotation_marks(&self, plan: &Plan) -> Vec<(usize, IbKubernetesMark)> {
        let _ = plan;
        Vec::new()
    }

    /// The sandboxes that have members, each with its pod's UID, so that one that is lost is found.
    fn list_sandboxes(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Nobody manages partitions: every port is in those that the subnet manager has it in.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmanagedPartitions;

impl PartitionManager for UnmanagedPartitions {
    fn begin_add(&self, _: &Plan, _: &str) -> Result<bool, Fault> {
        Ok(false)
    }

    fn wait_until_member<'a>(&'a self, _: &'a Plan, _: &'a [PortMember]) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(ready(Ok(())))
    }

    fn remove_sandbox(&self, _: &str, _: Option<&str>) {}
}
