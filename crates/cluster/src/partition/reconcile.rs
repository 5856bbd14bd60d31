//! A pass: from the objects to the programmer, and back into the objects.

use super::backend::BackendSelection;
use super::caches::{PartitionCaches, PartitionNodeFacts};
use super::desired::{DesiredMemberships, PartitionInputs, desired_memberships};
use super::{fabric_status, guid_claims, node_status};
use crate::{Controller, ControllerContext, Error, Trigger, run_controller};
use ferroband_api::ferroband::{
    Fabric, FabricStatus, NodePartitions, NodePartitionsStatus, Partition, SubnetManagerHost,
};
use ferroband_daemon::{api_call::with_timeout, tasks::TaskSet};
use ferroband_partition::{
    NoopSubnetManager, ReconcilerHandle, SubnetManager, SubnetManagerHealth, run_reconciler,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::events::EventType,
};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The work of partitions.
pub struct PartitionController {
    context: ControllerContext,
    caches: PartitionCaches,
    reconciler: ReconcilerHandle,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    health: watch::Receiver<SubnetManagerHealth>,
    last_pass: Mutex<LastPass>,
}

/// What a pass remembers for the next.
#[derive(Default)]
struct LastPass {
    backend: Option<BackendSelection>,
    problem: Option<String>,
    fabric: Option<FabricStatus>,
    warned: BTreeSet<(String, String)>,
}

impl PartitionController {
    /// Watch, program, tell.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) {
        let seen = PartitionCaches::start(context, tasks);
        let wake = Trigger::default()
            .on_change(tasks, &seen.nodes)
            .on_change(tasks, &seen.node_partitions)
            .on_change(tasks, &seen.partitions)
            .on_change(tasks, &seen.secrets)
            .on_change(tasks, &seen.config_maps);
        let none: Arc<dyn SubnetManager> = Arc::new(NoopSubnetManager);
        let (managers, receiver) = watch::channel(none);
        let (told, health) = watch::channel(SubnetManagerHealth::default());
        let running = ReconcilerHandle::default();
        let (programmer, mut heard, woken) = (running.clone(), health.clone(), wake.clone());
        tasks.start_endless("programming partitions", run_reconciler(programmer, receiver, told));
        tasks.start_endless("hearing the subnet manager", async move {
            while heard.changed().await.is_ok() {
                woken.fire();
            }
            std::future::pending::<()>().await;
        });
        let work = Self {
            context: context.clone(),
            caches: seen,
            reconciler: running,
            managers,
            health,
            last_pass: Mutex::default(),
        };
        tasks.start_endless("partitions", run_controller(work, wake));
    }

    fn select_backend(&self) -> BackendSelection {
        let choice = BackendSelection::read(&self.caches);
        let mut memory = self.last_pass.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.backend.as_ref() != Some(&choice) {
            match choice.create_manager(&self.context, &self.caches) {
                Ok(manager) => {
                    memory.problem = None;
                    self.reconciler.set_list_period(choice.poll_period());
                    self.managers.send_replace(manager);
                }
                Err(problem) => memory.problem = Some(problem),
            }
            memory.backend = Some(choice.clone());
        }
        choice
    }

    /// Records ports of adapters before they are put anywhere, so that whoever leads next knows that it was us.
    async fn record_placed(
        &self,
        objects: &[Arc<NodePartitions>],
        wanted: &DesiredMemberships,
    ) -> Result<(), Error> {
        for object in objects {
            let node = object.name_any();
            let placed = wanted.placed.get(&node).into_iter().flatten();
            let placed: BTreeSet<String> = placed.map(|(key, guid)| format!("{key} {guid}")).collect();
            let known: BTreeSet<String> =
                object.status.iter().flat_map(|status| status.placed.iter().cloned()).collect();
            if !placed.is_subset(&known) {
                let mut status = object.status.clone().unwrap_or_default();
                status.placed = placed.union(&known).cloned().collect();
                self.patch_node_status(&node, &status).await?;
            }
        }
        Ok(())
    }

    /// Nodes that are not to run opensm any more: their daemons end it.
    async fn delete_unused_hosts(&self, choice: &BackendSelection) -> Result<(), Error> {
        for ((_, node), _) in self.caches.hosts.list() {
            if !choice.runs_opensm_on(&node) {
                delete::<SubnetManagerHost>(&self.context, "SubnetManagerHost", &node).await?;
            }
        }
        Ok(())
    }

    async fn patch_node_status(&self, node: &str, status: &NodePartitionsStatus) -> Result<(), Error> {
        patch_status::<NodePartitions>(&self.context, "NodePartitions", node, status).await
    }

    async fn update_node_statuses(
        &self,
        objects: &[Arc<NodePartitions>],
        wanted: &DesiredMemberships,
        managed: bool,
    ) -> Result<(), Error> {
        for object in objects {
            let node = object.name_any();
            if wanted.lost_nodes.contains(&node) {
                self.delete_lost_node(object).await?;
                continue;
            }
            let status = node_status::compute(object, wanted, &self.reconciler.lock(), managed);
            if object.status.as_ref() != Some(&status) {
                self.patch_node_status(&node, &status).await?;
            }
        }
        Ok(())
    }

    /// A node that is gone: once none of its GUIDs is anywhere, its object may go, too. An out-of-service node keeps it.
    async fn delete_lost_node(&self, object: &NodePartitions) -> Result<(), Error> {
        let node = object.name_any();
        let gone = self.caches.nodes.get("", &node).is_none();
        let out = {
            let programmer = self.reconciler.lock();
            let guids =
                object.spec.functions.values().filter_map(|text| ferroband_partition::parse_guid(text));
            let placed = object.status.iter().flat_map(|status| &status.placed);
            guids.into_iter().all(|guid| programmer.is_in_no_partition(guid))
                && placed
                    .filter_map(|text| super::desired::parse_placement(text))
                    .all(|(key, guid)| programmer.is_removed(key, guid))
        };
        if !gone || !out {
            return Ok(());
        }
        // First, because without the object nobody would come back to them.
        guid_claims::release(&self.context, &node).await?;
        delete::<NodePartitions>(&self.context, "NodePartitions", &node).await
    }

    async fn update_fabric_status(
        &self,
        choice: &BackendSelection,
        objects: &[Arc<NodePartitions>],
    ) -> Result<(), Error> {
        let functions = objects.iter().any(|object| !object.spec.functions.is_empty());
        let (before, problem) = {
            let memory = self.last_pass.lock().unwrap_or_else(PoisonError::into_inner);
            (memory.fabric.clone(), memory.problem.clone())
        };
        let manager = self.managers.borrow().name();
        let health = self.health.borrow().clone();
        let settings = problem.as_deref().map_or(Ok(()), Err);
        let range = choice.guid_range();
        let status = fabric_status::compute(
            before.as_ref(),
            &manager,
            settings,
            &health,
            &mut self.reconciler.lock(),
            range,
            functions,
        );
        if before.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Fabric> = Api::all(self.context.client.clone());
        let object = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "Fabric", "metadata": {"name": "default"}, "spec": {}});
        let params = PatchParams::apply("ferroband-cluster").force();
        with_timeout(api.patch("default", &params, &Patch::Apply(&object)))
            .await
            .map_err(Error::api("apply", "Fabric default"))?;
        patch_status::<Fabric>(&self.context, "Fabric", "default", &status).await?;
        self.last_pass.lock().unwrap_or_else(PoisonError::into_inner).fabric = Some(status);
        Ok(())
    }

    /// How many members each of the administrator's partitions has, and who is in that should not be.
    async fn update_partition_statuses(
        &self,
        partitions: &[Arc<Partition>],
        wanted: &DesiredMemberships,
    ) -> Result<(), Error> {
        for partition in partitions {
            let Ok(key) = partition.spec.pkey.parse() else { continue };
            let members = i32::try_from(wanted.table.members(key).count()).unwrap_or(i32::MAX);
            if partition.status.as_ref().map_or(-1, |status| status.members) != members {
                let status = json!({"members": members});
                patch_status::<Partition>(&self.context, "Partition", &partition.name_any(), &status).await?;
            }
            let news: Vec<_> = {
                let mut memory = self.last_pass.lock().unwrap_or_else(PoisonError::into_inner);
                let of_key =
                    |at: &(String, String)| wanted.accepted.get(at).is_some_and(|(found, _)| *found == key);
                let news =
                    wanted.warnings.iter().filter(|(at, _)| of_key(at) && !memory.warned.contains(*at));
                let news: Vec<_> = news.map(|(at, text)| (at.clone(), text.clone())).collect();
                memory.warned.retain(|at| wanted.warnings.contains_key(at));
                memory.warned.extend(news.iter().map(|(at, _)| at.clone()));
                news
            };
            for (_, text) in news {
                self.context.publish_event(partition.as_ref(), EventType::Warning, "NotAdmitted", text).await;
            }
        }
        Ok(())
    }
}

impl Controller for PartitionController {
    const NAME: &'static str = "partitions";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !self.caches.is_synced() {
            return Ok(Some(Duration::from_millis(500)));
        }
        let choice = self.select_backend();
        let objects: Vec<Arc<NodePartitions>> =
            self.caches.node_partitions.list().into_iter().map(|(_, one)| one).collect();
        let partitions: Vec<Arc<Partition>> =
            self.caches.partitions.list().into_iter().map(|(_, one)| one).collect();
        let nodes: BTreeMap<String, PartitionNodeFacts> =
            self.caches.nodes.list().into_iter().map(|((_, name), facts)| (name, (*facts).clone())).collect();
        let wanted = desired_memberships(&PartitionInputs {
            node_partitions: &objects,
            partitions: &partitions,
            nodes: &nodes,
            managed_keys: choice.managed_keys(),
            observed: self.reconciler.lock().observed(),
        });
        self.record_placed(&objects, &wanted).await?;
        let changed = {
            let mut programmer = self.reconciler.lock();
            let changed =
                *programmer.desired() != wanted.table || *programmer.ownership() != wanted.ownership;
            if changed || !programmer.has_desired() {
                programmer.set_desired(wanted.table.clone(), wanted.ownership.clone());
            }
            changed
        };
        if changed {
            self.reconciler.wake();
        }
        self.delete_unused_hosts(&choice).await?;
        self.update_node_statuses(&objects, &wanted, choice.is_managed()).await?;
        self.update_partition_statuses(&partitions, &wanted).await?;
        self.update_fabric_status(&choice, &objects).await?;
        Ok(None)
    }
}

/// Delete an object; one that is gone already is as good.
async fn delete<K>(context: &ControllerContext, kind: &'static str, name: &str) -> Result<(), Error>
where
    K: Resource<Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(context.client.clone());
    match with_timeout(api.delete(name, &DeleteParams::default())).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("delete", format!("{kind} {name}"))(error)),
    }
}

async fn patch_status<K>(
    context: &ControllerContext,
    kind: &'static str,
    name: &str,
    status: &(impl Serialize + Sync),
) -> Result<(), Error>
where
    K: Resource<Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(context.client.clone());
    // Server-side apply: what we said before and do not say any more goes away.
    let object = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply("ferroband-cluster").force();
    let done = with_timeout(api.patch_status(name, &params, &Patch::Apply(&object))).await;
    match done {
        Ok(_) => Ok(()),
        // Gone meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("patch the status of", format!("{kind} {name}"))(error)),
    }
}
