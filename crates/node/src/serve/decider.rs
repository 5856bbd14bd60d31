//! What the answers are made from.

use super::PartitionManager;
use crate::{
    address::{AddressBlockCache, AllocatorHandle, DetectionSettings},
    caches::{
        CoordinatorDefaults, NetworkDefinitionCache, NodePodCache, PodFacts, PoolSelectionInput,
        SpiderpoolCache, WhereaboutsRecords,
    },
    discover::Inventory,
    kubelet::PodResourcesClient,
    observe::{NetworkStatusWriter, PodEventRecorder},
    plan::{
        AttachmentIpRequests, DefaultNetworkChoice, IpamSource, NetworkAccessPolicy, PlanInput, PlanOutput,
        ResolvedNetwork, WhereaboutsLegacy, build_plan, fault_in_network, find_default_network,
        find_interface, requested_networks, resolve_uid,
    },
};
use ferroband_address::AddressRelease;
use ferroband_api::annotation::NETWORKS;
use ferroband_attach::{
    DeviceOp,
    message::{AttachmentOutcome, CniCall, PortMember},
    plan::{AssignedAddresses, Plan, StepKind},
};
use ferroband_kernel::{Hardware, Host, Netns};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::Map;
use std::{future::Future, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tracing::warn;

/// How long an ADD waits for the caches of a daemon that has just started.
const CACHE_SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a DEL waits for its release; after that the addresses are owed and settled later. Less than the two
/// seconds that the CNI side listens, so that it hears of it.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Longer than any call.
const LONGER_THAN_ANY_CALL: Duration = Duration::from_secs(3600);

/// Everything that a CNI call needs of the daemon.
pub struct CniHandler {
    /// The machine.
    pub host: Arc<dyn Host>,
    /// Its adapters, if it has any.
    pub hardware: Option<Arc<dyn Hardware>>,
    /// Who brings the ports of pods into their partitions.
    pub partitions: Arc<dyn PartitionManager>,
    /// The folder of the default network's configuration.
    pub net_d: PathBuf,
    /// The folder of the configurations that definitions leave to the node.
    pub multus_conf_d: PathBuf,
    /// What the administrator decided.
    pub policy: NetworkAccessPolicy,
    /// Who knows the devices of pods.
    pub pod_resources: PodResourcesClient,
    /// The pods of this node.
    pub pods: NodePodCache,
    /// The network attachment definitions.
    pub networks: NetworkDefinitionCache,
    /// Pools of addresses, and who may use them.
    pub spiderpool: SpiderpoolCache,
    /// What pods reach through this node.
    pub coordinator_context: CoordinatorDefaults,
    /// What is known of the granules.
    pub blocks: Arc<AddressBlockCache>,
    /// Where addresses are had.
    pub allocator: AllocatorHandle,
    /// What is asked on the wire.
    pub probing: DetectionSettings,
    /// Records of Whereabouts.
    pub whereabouts_records: WhereaboutsRecords,
    /// Whether what lives here stands in the granules.
    pub allocations_restored: watch::Receiver<bool>,
    /// Where failures are told.
    pub events: PodEventRecorder,
    /// Where successes are recorded.
    pub network_status: NetworkStatusWriter,
}

impl CniHandler {
    /// The plan for an ADD, and the pod as the API server knows it.
    pub fn plan(&self, call: &CniCall, runtime: &Handle) -> Result<(PlanOutput, PodRef), Fault> {
        let asked = pod_of(call)?;
        let policy = self.policy.with_config(&call.config)?;
        let (facts, found) = runtime.block_on(async {
            self.wait_for_caches_or_fault().await?;
            let facts = self.find_pod(asked).await?;
            let found = self.find_definitions(asked, &facts, &policy, call).await?;
            Ok::<_, Fault>((facts, found))
        })?;
        let pod = resolve_uid(asked, &facts)?;
        let (default, networks) = self.resolve_networks(found, call)?;
        let mut devices = self.pod_devices(&pod, &default, &networks, runtime)?;
        let around =
            match uses_pool_objects(&default, &networks) {
                true => Some(runtime.block_on(
                    self.spiderpool.selection_input(&pod.namespace, definition_namespaces(&policy)),
                )?),
                false => None,
            };
        let none = Map::new();
        let legacy = WhereaboutsLegacy::read(self.host.root(), self.whereabouts_records.recorded_addresses());
        let mut given = PlanInput {
            pod: &pod,
            facts: &facts,
            container: &call.container,
            ifname: &call.ifname,
            default: &default,
            runtime_config: call.config.get("runtimeConfig").and_then(|c| c.as_object()).unwrap_or(&none),
            networks: &networks,
            spiderpool_context: around.as_ref(),
            legacy: &legacy,
        };
        let reread;
        let mut planned = match build_plan(&given, &mut devices.clone()) {
            Err(fault) if fault.code == FaultCode::NoPool && around.is_some() => {
                reread = runtime
                    .block_on(self.spiderpool.with_fresh_pools(around.clone().unwrap_or_default()))
                    .map_err(|_| fault)?;
                given.spiderpool_context = Some(&reread);
                build_plan(&given, &mut devices)?
            }
            made => made?,
        };
        for warning in planned.ip_requests.iter().flat_map(|wanted| wanted.ipam.warnings()) {
            warn!(%warning, "in an ipam object");
        }
        self.check_parents(&planned.plan)?;
        planned.plan.membership = self.partitions.begin_add(&planned.plan, &call.container)?;
        Ok((planned, PodRef { uid: facts.uid.clone(), ..pod }))
    }

    /// A parent that is missing is told before anything is made.
    fn check_parents(&self, plan: &Plan) -> Result<(), Fault> {
        for attachment in &plan.attachments {
            for step in &attachment.steps {
                if let StepKind::Ipoib { child, .. } = &step.kind {
                    let parent = self.host.ipoib_parent(&child.parent);
                    parent.map_err(|e| {
                        fault_in_network(&attachment.network, self.with_interface_names(e.fault()))
                    })?;
                }
            }
        }
        Ok(())
    }

    /// A name that is wrong is best mended by seeing the right ones.
    fn with_interface_names(&self, fault: Fault) -> Fault {
        if fault.code != FaultCode::NoParent {
            return fault;
        }
        let inventory = Inventory::read(self.host.root(), self.host.is_simulated()).unwrap_or_default();
        let names: Vec<String> = inventory.devices.into_iter().flat_map(|device| device.netdevs).collect();
        if names.is_empty() {
            return fault;
        }
        let remedy = format!("set `master` to an interface that this node has: {}", names.join(", "));
        Fault { remedy, ..fault }
    }

    /// Assign the addresses of a plan. All networks at once: they are one sandbox's, all or none.
    pub fn assign_addresses(
        &self,
        wanted: Vec<AttachmentIpRequests>,
    ) -> impl Future<Output = Result<Vec<AssignedAddresses>, Fault>> + use<> {
        let desk = self.allocator.clone();
        async move {
            let names: Vec<_> = wanted.iter().map(|wanted| wanted.network.as_str()).collect();
            let what = match names.as_slice() {
                [name] => format!("network {name}"),
                names => format!("networks {}", names.join(", ")),
            };
            let requests = wanted.iter().flat_map(|wanted| wanted.requests.clone()).collect();
            let mut places = desk.assign(what, requests).await?.into_iter();
            let share = |wanted: &AttachmentIpRequests| {
                let places = places.by_ref().take(wanted.requests.len()).collect();
                wanted.build_assigned(places)
            };
            Ok(wanted.iter().map(share).collect())
        }
    }

    /// Assign the addresses of one interface, for a plugin that delegates to us.
    pub async fn assign_interface(&self, call: &CniCall) -> Result<AssignedAddresses, Fault> {
        let asked = pod_of(call)?;
        self.wait_for_caches_or_fault().await?;
        let facts = self.find_pod(asked).await?;
        let pod = resolve_uid(asked, &facts)?;
        let policy = self.policy.with_config(&call.config)?;
        let interface = find_interface(&requested_networks(&facts, &pod.namespace, &policy)?, &call.ifname);
        let none = Map::new();
        let around = match IpamSource::uses_pool_objects(call.config.as_object().unwrap_or(&none)) {
            true => {
                Some(self.spiderpool.selection_input(&pod.namespace, definition_namespaces(&policy)).await?)
            }
            false => None,
        };
        let legacy = WhereaboutsLegacy::read(self.host.root(), self.whereabouts_records.recorded_addresses());
        let wanted = |around: Option<&PoolSelectionInput>| {
            AttachmentIpRequests::for_call(call, &pod, &facts, &interface, around, &legacy)
        };
        let wanted = match (wanted(around.as_ref()), around) {
            (Err(fault), Some(around)) if fault.code == FaultCode::NoPool => {
                let around = self.spiderpool.with_fresh_pools(around).await.map_err(|_| fault)?;
                wanted(Some(&around))?
            }
            (wanted, _) => wanted?,
        };
        let places =
            self.allocator.assign(format!("network {}", wanted.network), wanted.requests.clone()).await?;
        Ok(wanted.build_assigned(places))
    }

    /// Wait until the ports of a pod are in their partitions. One that is deleted meanwhile waits no more: the kubelet does not
    /// take its sandbox down before this call has ended.
    pub async fn wait_for_partitions(&self, plan: &Plan, members: &[PortMember]) -> Result<(), Fault> {
        let pod = &plan.pod;
        let leaves = |facts: &PodFacts| facts.uid == pod.uid && facts.terminating;
        let leaving = self.pods.cache().wait_for(&pod.namespace, &pod.name, LONGER_THAN_ANY_CALL, leaves);
        tokio::select! {
            joined = self.partitions.wait_until_member(plan, members) => joined,
            _ = leaving => Err(Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "it is deleted while it waits for its partitions",
                "nothing",
            )),
        }
    }

    /// Do what the CNI side must not do itself. "Here" is the host's network namespace.
    pub fn run_device_op(&self, work: &DeviceOp, sandbox: Option<OwnedFd>) -> Result<(), Fault> {
        let hardware = self.hardware.as_deref().ok_or_else(|| ferroband_kernel::Error::NoRdma.fault())?;
        let sandbox = sandbox.map(Netns::from_fd).transpose().map_err(|e| e.fault())?;
        work.perform(hardware.root(), hardware, sandbox.as_ref()).map_err(|e| e.fault())
    }

    /// Free what a sandbox, or one interface of it, held. A fault means that it is owed.
    pub async fn release(&self, container: String, interface: Option<String>) -> Result<(), Fault> {
        let what = format!("addresses of sandbox {container}");
        self.partitions.remove_sandbox(&container, interface.as_deref());
        if self.allocator.release(AddressRelease { container, interface }, RELEASE_TIMEOUT).await {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::ApiUnavailable,
            what,
            "the API server did not take the release in time",
            "nothing: it is done when the API server is back",
        ))
    }

    /// Record on the pod what it got.
    pub async fn record_network_status(
        &self,
        plan: &Plan,
        known: &PodRef,
        outcomes: &[AttachmentOutcome],
    ) -> Result<(), Fault> {
        let facts =
            self.pods.cache().get(&known.namespace, &known.name).filter(|facts| facts.uid == known.uid);
        let asked = facts.as_ref().and_then(|facts| facts.annotations.get(NETWORKS)).map(String::as_str);
        let marks = self.partitions.annotation_marks(plan);
        self.network_status.record(plan, known, outcomes, asked.map(|asked| (asked, marks.as_slice()))).await
    }

    /// Tell the pod's readers what went wrong. Not waited for: the CNI side has the fault already.
    pub fn report_failure(&self, pod: Option<&PodRef>, fault: &Fault, runtime: &Handle) {
        let Some(pod) = pod.cloned() else { return };
        let known = self.pods.cache().get(&pod.namespace, &pod.name);
        let pod = match known {
            Some(facts) if !facts.uid.is_empty() => PodRef { uid: facts.uid.clone(), ..pod },
            _ => pod,
        };
        runtime.spawn(self.events.clone().warn(pod, fault.clone()));
    }

    /// Whether an ADD could be served.
    pub fn check_ready(&self) -> Result<(), Fault> {
        let waiting = if !self.pods.cache().is_synced() {
            "the pods of this node"
        } else if !self.networks.cache().is_synced() {
            "the network attachment definitions"
        } else if !self.blocks.is_synced() {
            "the address granules"
        } else if !self.whereabouts_records.cache().is_synced() {
            "the records of Whereabouts"
        } else {
            return find_default_network(&self.net_d).map(|_| ());
        };
        Err(caches_not_synced(waiting))
    }

    /// Returns once every cache has been filled; also waited for before the runtime is sent to us.
    pub async fn wait_for_caches(&self) {
        self.pods.cache().wait_synced().await;
        self.networks.cache().wait_synced().await;
        self.blocks.wait_synced().await;
        self.whereabouts_records.cache().wait_synced().await;
        // After a restore of etcd, what lives here is written down again before anything new is given out.
        let _ = self.allocations_restored.clone().wait_for(|asserted| *asserted).await;
    }

    async fn wait_for_caches_or_fault(&self) -> Result<(), Fault> {
        match timeout(CACHE_SYNC_TIMEOUT, self.wait_for_caches()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.check_ready().err().unwrap_or_else(|| caches_not_synced("its objects"))),
        }
    }

    async fn find_pod(&self, pod: &PodRef) -> Result<Arc<PodFacts>, Fault> {
        let found = self.pods.find(pod).await.map_err(|e| e.fault())?;
        found.ok_or_else(|| {
            Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "the API server does not know it",
                "nothing if it was just deleted; else check that runtime and daemon use the same cluster",
            )
        })
    }
}

/// Whether a network leaves its addresses to pools that are objects.
fn uses_pool_objects(default: &DefaultNetworkChoice, networks: &[ResolvedNetwork]) -> bool {
    let default = match default {
        DefaultNetworkChoice::Resolved(chosen) => Some(chosen.as_ref()),
        DefaultNetworkChoice::Wrapped(_) => None,
    };
    let mut all = default.into_iter().chain(networks);
    all.any(|chosen| chosen.config.plugins.iter().any(IpamSource::uses_pool_objects))
}

/// Where a network is looked for that a pool names without a namespace.
fn definition_namespaces(policy: &NetworkAccessPolicy) -> Vec<String> {
    vec![policy.namespace.clone(), "kube-system".to_owned(), "spiderpool".to_owned()]
}

fn pod_of(call: &CniCall) -> Result<&PodRef, Fault> {
    call.pod.as_ref().ok_or_else(|| {
        Fault::new(
            FaultCode::BadCall,
            format!("sandbox {}", call.container),
            "CNI_ARGS names no pod (K8S_POD_NAMESPACE, K8S_POD_NAME)",
            "call Ferroband from a Kubernetes runtime",
        )
    })
}

fn caches_not_synced(waiting: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        "node daemon",
        format!("the API server has not yet sent {waiting}"),
        "the pod is tried again by itself; check that the API server is up and `ferroband crds apply` was run",
    )
}
