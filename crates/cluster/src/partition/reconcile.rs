//! The controller of partition memberships. A pass computes the desired members from the API objects, hands them to
//! the reconciler of the subnet manager, and writes the result into the status of the objects.

use super::backend::BackendSelection;
use super::caches::PartitionCaches;
use super::desired::{
    DesiredMemberships, MemberId, NotAdmittedTreatment, PartitionInputs, desired_memberships,
};
use super::records::{PartitionRecords, format_member};
use super::written_statuses::WrittenStatuses;
use super::{fabric_status, guid_claims, node_status, partition_status};
use crate::{
    ControllerContext, Error,
    node_liveness::{NodeLiveness, NodeLoss},
    object_writes::{MAX_PARALLEL_WRITES, apply_object, apply_object_status, delete_object, write_all},
};
use ferroband_api::ferroband::{
    Fabric, FabricStatus, NodePartitions, NodePartitionsStatus, Partition, SubnetManagerHost,
};
use ferroband_daemon::{Controller, SharedCache, Trigger, start_controller, tasks::TaskSet};
use ferroband_partition::{
    NoopSubnetManager, ReconcilerHandle, SubnetManager, SubnetManagerHealth, run_reconciler,
};
use futures::stream::{self, StreamExt};
use kube::{Api, Resource, ResourceExt, core::ClusterResourceScope, runtime::events::EventType};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of members about which one pass publishes events.
const MAX_EVENTS_PER_PASS: usize = 50;

pub struct PartitionController {
    context: ControllerContext,
    caches: PartitionCaches,
    reconciler: ReconcilerHandle,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    health: watch::Receiver<SubnetManagerHealth>,
    confirms_starts: watch::Receiver<bool>,
    last_pass: Mutex<LastPass>,
}

/// State of the controller's last pass, used to detect changes and to publish warnings only once. It is not
/// persisted.
#[derive(Default)]
struct LastPass {
    backend: Option<BackendSelection>,
    problem: Option<String>,
    fabric: Option<FabricStatus>,
    /// Members about which an event was published.
    published: BTreeSet<(MemberId, NotAdmittedTreatment)>,
    records: PartitionRecords,
    written: WrittenStatuses,
}

impl PartitionController {
    /// Starts the watches, the reconciler of the subnet manager, and the controller itself, all in `tasks`.
    ///
    /// `confirms_starts` says whether the leader knows that no restore of etcd is under way.
    pub fn start(
        context: &ControllerContext,
        liveness: &NodeLiveness,
        confirms_starts: watch::Receiver<bool>,
        tasks: &mut TaskSet<Error>,
    ) -> SharedCache<NodePartitions> {
        let caches = PartitionCaches::start(context, liveness, tasks);
        let node_partitions = caches.node_partitions.clone();
        let trigger = Trigger::default()
            .on_change(&caches.nodes)
            .on_change(&caches.node_partitions)
            .on_change(&caches.partitions)
            .on_change(&caches.secrets)
            .on_change(&caches.config_maps)
            .after_sync(&caches.guid_blocks)
            .after_sync(&caches.hosts);
        let none: Arc<dyn SubnetManager> = Arc::new(NoopSubnetManager);
        let (managers, receiver) = watch::channel(none);
        let (health_sender, health) = watch::channel(SubnetManagerHealth::default());
        let reconciler = ReconcilerHandle::default();
        let (handle, mut health_changes, health_trigger) =
            (reconciler.clone(), health.clone(), trigger.clone());
        tasks.start_endless("partition reconciler", run_reconciler(handle, receiver, health_sender));
        tasks.start_endless("subnet manager health", async move {
            while health_changes.changed().await.is_ok() {
                health_trigger.fire();
            }
            std::future::pending::<()>().await;
        });
        let (mut confirmations, confirmation_trigger) = (confirms_starts.clone(), trigger.clone());
        tasks.start_endless("confirmation of starts", async move {
            while confirmations.changed().await.is_ok() {
                confirmation_trigger.fire();
            }
            std::future::pending::<()>().await;
        });
        let controller = Self {
            context: context.clone(),
            caches,
            reconciler,
            managers,
            health,
            confirms_starts,
            last_pass: Mutex::default(),
        };
        start_controller(tasks, controller, trigger);
        node_partitions
    }

    fn select_backend(&self) -> BackendSelection {
        let backend = BackendSelection::read(&self.caches);
        let mut last_pass = self.last_pass.lock();
        if last_pass.backend.as_ref() != Some(&backend) {
            match backend.create_manager(&self.context, &self.caches) {
                Ok(manager) => {
                    last_pass.problem = None;
                    self.reconciler.set_list_period(backend.poll_period());
                    self.managers.send_replace(manager);
                }
                Err(problem) => last_pass.problem = Some(problem),
            }
            last_pass.backend = Some(backend.clone());
        }
        backend
    }

    /// Records new memberships in `status.placed` before they are added to the subnet manager, so that the next leader
    /// knows that Ferroband added them. A node whose record cannot be written does not stop the others: its new
    /// memberships are removed from `desired`. Returns the errors.
    async fn record_placed(
        &self,
        objects: &[Arc<NodePartitions>],
        desired: &mut DesiredMemberships,
        records: &PartitionRecords,
        managed: bool,
    ) -> Vec<Error> {
        let mut due: Vec<(Arc<NodePartitions>, NodePartitionsStatus)> = Vec::new();
        for object in objects {
            let node = object.name_any();
            let recorded = records.placed.get(&node);
            let is_recorded = |member| recorded.is_some_and(|recorded| recorded.contains(member));
            if desired.placed.get(&node).into_iter().flatten().all(is_recorded) {
                continue;
            }
            let (_, mut status) = self.compute_status(object, desired, managed);
            // The reconciler does not have the new desired memberships yet, so nothing is dropped from the record.
            status.placed = desired.placed.get(&node).into_iter().flatten().map(format_member).collect();
            due.push((object.clone(), status));
        }
        let writes = due.into_iter().map(|(object, status)| async move {
            let result = self.write_node_status(&object, status).await;
            (object.name_any(), result)
        });
        let results: Vec<_> = stream::iter(writes).buffer_unordered(MAX_PARALLEL_WRITES).collect().await;
        let mut errors = Vec::new();
        for (node, result) in results {
            if let Err(error) = result {
                desired.withhold_unrecorded(&node, records.placed.get(&node));
                errors.push(error);
            }
        }
        errors
    }

    /// Returns the status that a node has, and the one that it should have.
    fn compute_status(
        &self,
        object: &NodePartitions,
        desired: &DesiredMemberships,
        managed: bool,
    ) -> (Option<NodePartitionsStatus>, NodePartitionsStatus) {
        let current = self.last_pass.lock().written.current(object);
        let flags = (managed, *self.confirms_starts.borrow());
        let status = node_status::compute(object, current.as_ref(), desired, &self.reconciler.lock(), flags);
        (current, status)
    }

    /// Deletes the SubnetManagerHosts of nodes that should no longer run opensm. The node daemons then stop opensm.
    async fn delete_unused_hosts(&self, backend: &BackendSelection) -> Result<(), Error> {
        let unused = self.caches.hosts.list().into_iter().map(|((_, node), _)| node);
        let unused = unused.filter(|node| !backend.runs_opensm_on(node));
        write_all(
            unused.map(|node| async move { delete_object(&self.api::<SubnetManagerHost>(), &node).await }),
        )
        .await
    }

    async fn write_node_status(
        &self,
        object: &NodePartitions,
        status: NodePartitionsStatus,
    ) -> Result<(), Error> {
        let node = object.name_any();
        apply_object_status(&self.api::<NodePartitions>(), &node, &status).await?;
        let mut last_pass = self.last_pass.lock();
        last_pass.records.set_status(&node, &status);
        last_pass.written.insert(object, status);
        Ok(())
    }

    fn api<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.context.client.clone())
    }

    async fn update_node_statuses(
        &self,
        objects: &[Arc<NodePartitions>],
        desired: &DesiredMemberships,
        managed: bool,
    ) -> Result<(), Error> {
        // Each status is computed when its turn comes, so that it shows the newest state of the subnet manager.
        let writes = objects.iter().cloned().map(|object| async move {
            let node = object.name_any();
            if let Some(loss) = desired.lost_nodes.get(&node) {
                return self.delete_lost_node(&object, *loss).await;
            }
            let (before, status) = self.compute_status(&object, desired, managed);
            let is_told = before
                .is_some_and(|before| before == status || node_status::is_intermediate(&before, &status));
            if is_told { Ok(()) } else { self.write_node_status(&object, status).await }
        });
        write_all(writes).await
    }

    /// Deletes the NodePartitions object of a deleted node once none of its GUIDs is in a partition. The object of an
    /// out-of-service node is kept.
    async fn delete_lost_node(&self, object: &NodePartitions, loss: NodeLoss) -> Result<(), Error> {
        if loss != NodeLoss::Deleted {
            return Ok(());
        }
        let node = object.name_any();
        let all_removed = {
            let reconciler = self.reconciler.lock();
            let guids =
                object.spec.functions.values().filter_map(|text| ferroband_partition::parse_guid(text));
            let placed = object.status.iter().flat_map(|status| &status.placed);
            guids.into_iter().all(|guid| reconciler.is_in_no_partition(guid))
                && placed
                    .filter_map(|text| super::records::parse_member(text))
                    .all(|(key, guid)| reconciler.is_removed(key, guid))
        };
        if !all_removed {
            return Ok(());
        }
        // Release the node's GUIDs before its NodePartitions object is deleted: if the release fails, the
        // next pass retries it only while the object exists.
        guid_claims::release(&self.context, &self.caches.guid_blocks, &node).await?;
        delete_object(&self.api::<NodePartitions>(), &node).await
    }

    async fn update_fabric_status(
        &self,
        backend: &BackendSelection,
        objects: &[Arc<NodePartitions>],
    ) -> Result<(), Error> {
        let vfs_in_use = objects.iter().any(|object| !object.spec.functions.is_empty());
        let (before, problem) = {
            let last_pass = self.last_pass.lock();
            (last_pass.fabric.clone(), last_pass.problem.clone())
        };
        let manager = self.managers.borrow().name();
        let health = self.health.borrow().clone();
        let settings = problem.as_deref().map_or(Ok(()), Err);
        let range = backend.guid_range();
        let status = fabric_status::compute(
            before.as_ref(),
            &manager,
            settings,
            &health,
            &mut self.reconciler.lock(),
            range,
            vfs_in_use,
        );
        if before.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Fabric> = self.api();
        apply_object(&api, "default", json!({"spec": {}})).await?;
        apply_object_status(&api, "default", &status).await?;
        self.last_pass.lock().fabric = Some(status);
        Ok(())
    }

    async fn update_partition_statuses(
        &self,
        partitions: &[Arc<Partition>],
        desired: &DesiredMemberships,
    ) -> Result<(), Error> {
        for partition in partitions {
            let Some(status) = partition_status::compute(partition, desired) else { continue };
            if partition.status.as_ref() != Some(&status) {
                apply_object_status(&self.api::<Partition>(), &partition.name_any(), &status).await?;
            }
        }
        Ok(())
    }

    /// Publishes events about members that are not admitted, on the Partition and on the pod. Returns whether there may
    /// be more: events of many pods are spread over several passes, so that they do not delay memberships.
    async fn publish_events(&self, partitions: &[Arc<Partition>], desired: &DesiredMemberships) -> bool {
        let news =
            partition_status::take_news(desired, &mut self.last_pass.lock().published, MAX_EVENTS_PER_PASS);
        for entry in &news {
            let text = partition_status::event_text(entry);
            let of_key = |partition: &&Arc<Partition>| partition.spec.pkey.parse() == Ok(entry.key);
            if let Some(partition) = partitions.iter().find(of_key) {
                let note = text.clone();
                self.context
                    .events
                    .publish(partition.as_ref(), EventType::Warning, "NotAdmitted", note)
                    .await;
            }
            let pod = partition_status::event_pod(entry);
            self.context.events.publish(&pod, EventType::Warning, "NotAdmitted", text).await;
        }
        news.len() == MAX_EVENTS_PER_PASS
    }
}

impl Controller for PartitionController {
    const NAME: &'static str = "partitions";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let backend = self.select_backend();
        let (objects, partitions) = (self.caches.node_partitions.values(), self.caches.partitions.values());
        let names = objects.iter().map(|object| object.name_any()).collect();
        let lost = self.caches.liveness.find_lost(names).await;
        let records = {
            let mut last_pass = self.last_pass.lock();
            last_pass.records.retain_nodes(&objects);
            last_pass.written.forget_cached(&objects);
            PartitionRecords::read(&objects, &last_pass.records)
        };
        let mut desired = {
            let reconciler = self.reconciler.lock();
            desired_memberships(&PartitionInputs {
                node_partitions: &objects,
                partitions: &partitions,
                lost_nodes: &lost.nodes,
                managed_keys: backend.managed_keys(),
                observed: reconciler.observed(),
                unread: reconciler.unread(),
                records: &records,
                managed: backend.is_managed(),
                settings: &self.context.settings,
            })
        };
        desired.table.set_default_membership(backend.default_membership());
        let mut errors = self.record_placed(&objects, &mut desired, &records, backend.is_managed()).await;
        let changed = {
            let mut reconciler = self.reconciler.lock();
            let changed =
                *reconciler.desired() != desired.table || *reconciler.ownership() != desired.ownership;
            if changed || !reconciler.has_desired() {
                reconciler.set_desired(desired.table.clone(), desired.ownership.clone());
            }
            changed
        };
        if changed {
            self.reconciler.wake();
        }
        // None of these depends on another one.
        errors.extend(self.delete_unused_hosts(&backend).await.err());
        errors.extend(self.update_node_statuses(&objects, &desired, backend.is_managed()).await.err());
        errors.extend(self.update_partition_statuses(&partitions, &desired).await.err());
        errors.extend(self.update_fabric_status(&backend, &objects).await.err());
        let more_events = self.publish_events(&partitions, &desired).await.then_some(Duration::from_secs(1));
        Error::from_all(errors)?;
        Ok(more_events.into_iter().chain(lost.recheck).min())
    }
}

#[cfg(test)]
mod tests;
