//! A pass: from the objects to the programmer, and back into the objects.

use super::choice::Choice;
use super::seen::{NodeFacts, Seen};
use super::wanted::{Given, Wanted, wanted};
use super::{claims, fabric, status};
use crate::{Context, Error, Wake, Work, keep};
use ferroband_api::ferroband::{
    Fabric, FabricStatus, NodePartitions, NodePartitionsStatus, Partition, SubnetManagerHost,
};
use ferroband_daemon::{call::bounded, tasks::Tasks};
use ferroband_partition::{Absent, Health, Running, SubnetManager, run};
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
pub struct Partitions {
    context: Context,
    seen: Seen,
    running: Running,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    health: watch::Receiver<Health>,
    memory: Mutex<Memory>,
}

/// What a pass remembers for the next.
#[derive(Default)]
struct Memory {
    choice: Option<Choice>,
    problem: Option<String>,
    fabric: Option<FabricStatus>,
    warned: BTreeSet<(String, String)>,
}

impl Partitions {
    /// Watch, program, tell.
    pub fn start(context: &Context, tasks: &mut Tasks<Error>) {
        let seen = Seen::start(context, tasks);
        let wake = Wake::default()
            .on(tasks, &seen.nodes)
            .on(tasks, &seen.memberships)
            .on(tasks, &seen.partitions)
            .on(tasks, &seen.secrets)
            .on(tasks, &seen.config_maps);
        let none: Arc<dyn SubnetManager> = Arc::new(Absent);
        let (managers, receiver) = watch::channel(none);
        let (told, health) = watch::channel(Health::default());
        let running = Running::default();
        let (programmer, mut heard, woken) = (running.clone(), health.clone(), wake.clone());
        tasks.start_endless("programming partitions", run(programmer, receiver, told));
        tasks.start_endless("hearing the subnet manager", async move {
            while heard.changed().await.is_ok() {
                woken.now();
            }
            std::future::pending::<()>().await;
        });
        let work =
            Self { context: context.clone(), seen, running, managers, health, memory: Mutex::default() };
        tasks.start_endless("partitions", keep(work, wake));
    }

    fn choose(&self) -> Choice {
        let choice = Choice::read(&self.seen);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.choice.as_ref() != Some(&choice) {
            match choice.manager(&self.context, &self.seen) {
                Ok(manager) => {
                    memory.problem = None;
                    self.running.set_period(choice.period());
                    self.managers.send_replace(manager);
                }
                Err(problem) => memory.problem = Some(problem),
            }
            memory.choice = Some(choice.clone());
        }
        choice
    }

    /// Records ports of adapters before they are put anywhere, so that whoever leads next knows that it was us.
    async fn record_placed(&self, objects: &[Arc<NodePartitions>], wanted: &Wanted) -> Result<(), Error> {
        for object in objects {
            let node = object.name_any();
            let placed = wanted.placed.get(&node).into_iter().flatten();
            let placed: BTreeSet<String> = placed.map(|(key, guid)| format!("{key} {guid}")).collect();
            let known: BTreeSet<String> =
                object.status.iter().flat_map(|status| status.placed.iter().cloned()).collect();
            if !placed.is_subset(&known) {
                let mut status = object.status.clone().unwrap_or_default();
                status.placed = placed.union(&known).cloned().collect();
                self.tell(&node, &status).await?;
            }
        }
        Ok(())
    }

    /// Nodes that are not to run opensm any more: their daemons end it.
    async fn dismiss_hosts(&self, choice: &Choice) -> Result<(), Error> {
        for ((_, node), _) in self.seen.hosts.all() {
            if !choice.runs_on(&node) {
                delete::<SubnetManagerHost>(&self.context, "SubnetManagerHost", &node).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, node: &str, status: &NodePartitionsStatus) -> Result<(), Error> {
        patch_status::<NodePartitions>(&self.context, "NodePartitions", node, status).await
    }

    async fn tell_nodes(
        &self,
        objects: &[Arc<NodePartitions>],
        wanted: &Wanted,
        managed: bool,
    ) -> Result<(), Error> {
        for object in objects {
            let node = object.name_any();
            if wanted.lost.contains(&node) {
                self.forget_lost(object).await?;
                continue;
            }
            let status = status::status(object, wanted, &self.running.lock(), managed);
            if object.status.as_ref() != Some(&status) {
                self.tell(&node, &status).await?;
            }
        }
        Ok(())
    }

    /// A node that is gone: once none of its GUIDs is anywhere, its object may go, too. An out-of-service node keeps it.
    async fn forget_lost(&self, object: &NodePartitions) -> Result<(), Error> {
        let node = object.name_any();
        let gone = self.seen.nodes.get("", &node).is_none();
        let out = {
            let programmer = self.running.lock();
            let guids =
                object.spec.functions.values().filter_map(|text| ferroband_partition::parse_guid(text));
            let placed = object.status.iter().flat_map(|status| &status.placed);
            guids.into_iter().all(|guid| programmer.is_out(guid))
                && placed
                    .filter_map(|text| super::wanted::place(text))
                    .all(|(key, guid)| programmer.is_gone(key, guid))
        };
        if !gone || !out {
            return Ok(());
        }
        // First, because without the object nobody would come back to them.
        claims::free(&self.context, &node).await?;
        delete::<NodePartitions>(&self.context, "NodePartitions", &node).await
    }

    async fn tell_fabric(&self, choice: &Choice, objects: &[Arc<NodePartitions>]) -> Result<(), Error> {
        let functions = objects.iter().any(|object| !object.spec.functions.is_empty());
        let (before, problem) = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            (memory.fabric.clone(), memory.problem.clone())
        };
        let manager = self.managers.borrow().name();
        let health = self.health.borrow().clone();
        let settings = problem.as_deref().map_or(Ok(()), Err);
        let range = choice.range();
        let status = fabric::status(
            before.as_ref(),
            &manager,
            settings,
            &health,
            &mut self.running.lock(),
            range,
            functions,
        );
        if before.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Fabric> = Api::all(self.context.client.clone());
        let object = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "Fabric", "metadata": {"name": "default"}, "spec": {}});
        let params = PatchParams::apply("ferroband-cluster").force();
        bounded(api.patch("default", &params, &Patch::Apply(&object)))
            .await
            .map_err(Error::api("apply", "Fabric default"))?;
        patch_status::<Fabric>(&self.context, "Fabric", "default", &status).await?;
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).fabric = Some(status);
        Ok(())
    }

    /// How many members each of the administrator's partitions has, and who is in that should not be.
    async fn tell_partitions(&self, partitions: &[Arc<Partition>], wanted: &Wanted) -> Result<(), Error> {
        for partition in partitions {
            let Ok(key) = partition.spec.pkey.parse() else { continue };
            let members = i32::try_from(wanted.table.members(key).count()).unwrap_or(i32::MAX);
            if partition.status.as_ref().map_or(-1, |status| status.members) != members {
                let status = json!({"members": members});
                patch_status::<Partition>(&self.context, "Partition", &partition.name_any(), &status).await?;
            }
            let news: Vec<_> = {
                let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
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
                self.context.event(partition.as_ref(), EventType::Warning, "NotAdmitted", text).await;
            }
        }
        Ok(())
    }
}

impl Work for Partitions {
    const NAME: &'static str = "partitions";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        if !self.seen.is_complete() {
            return Ok(Some(Duration::from_millis(500)));
        }
        let choice = self.choose();
        let objects: Vec<Arc<NodePartitions>> =
            self.seen.memberships.all().into_iter().map(|(_, one)| one).collect();
        let partitions: Vec<Arc<Partition>> =
            self.seen.partitions.all().into_iter().map(|(_, one)| one).collect();
        let nodes: BTreeMap<String, NodeFacts> =
            self.seen.nodes.all().into_iter().map(|((_, name), facts)| (name, (*facts).clone())).collect();
        let wanted = wanted(&Given {
            memberships: &objects,
            partitions: &partitions,
            nodes: &nodes,
            keys: choice.keys(),
            seen: self.running.lock().seen(),
        });
        self.record_placed(&objects, &wanted).await?;
        let changed = {
            let mut programmer = self.running.lock();
            let changed = *programmer.wanted() != wanted.table || *programmer.owned() != wanted.owned;
            if changed || !programmer.is_told() {
                programmer.want(wanted.table.clone(), wanted.owned.clone());
            }
            changed
        };
        if changed {
            self.running.wake();
        }
        self.dismiss_hosts(&choice).await?;
        self.tell_nodes(&objects, &wanted, choice.is_managed()).await?;
        self.tell_partitions(&partitions, &wanted).await?;
        self.tell_fabric(&choice, &objects).await?;
        Ok(None)
    }
}

/// Delete an object; one that is gone already is as good.
async fn delete<K>(context: &Context, kind: &'static str, name: &str) -> Result<(), Error>
where
    K: Resource<Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(context.client.clone());
    match bounded(api.delete(name, &DeleteParams::default())).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("delete", format!("{kind} {name}"))(error)),
    }
}

async fn patch_status<K>(
    context: &Context,
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
    let done = bounded(api.patch_status(name, &params, &Patch::Apply(&object))).await;
    match done {
        Ok(_) => Ok(()),
        // Gone meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("patch the status of", format!("{kind} {name}"))(error)),
    }
}
