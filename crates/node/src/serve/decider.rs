//! Handles the requests of the CNI plugin during a call.

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
use ferroband_api::annotation::{IbKubernetesMark, NETWORKS};
use ferroband_attach::{
    DeviceOp,
    message::{AttachmentOutcome, CniCall, PortMember},
    plan::{AssignedAddresses, Plan, StepKind},
};
use ferroband_kernel::{Hardware, Host, Netns};
use ferroband_model::{Fault, FaultCode, PodRef};
use ferroband_partition::{PartitionMembership, SandboxPartitions};
use serde_json::Map;
use std::{future::Future, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tracing::warn;

/// How long an ADD waits until the caches of a daemon that has just started are synced.
const CACHE_SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a DEL waits for its addresses to be released before the CNI plugin stores a pending release. This
/// is less than the two seconds that the plugin waits for an answer.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1500);

const LONGER_THAN_ANY_CALL: Duration = Duration::from_secs(3600);

/// Everything that CNI calls need from the daemon.
pub struct CniHandler {
    pub host: Arc<dyn Host>,
    pub hardware: Option<Arc<dyn Hardware>>,
    pub partitions: Arc<dyn PartitionMembership>,
    /// The runtime's CNI configuration directory, which contains the default network's configuration.
    pub net_d: PathBuf,
    /// Directory of CNI configuration files that network attachment definitions refer to by name.
    pub multus_conf_d: PathBuf,
    pub policy: NetworkAccessPolicy,
    pub pod_resources: PodResourcesClient,
    pub pods: NodePodCache,
    pub networks: NetworkDefinitionCache,
    /// Cache of SpiderIPPools and related objects.
    pub spiderpool: SpiderpoolCache,
    /// Cluster-wide defaults for the configuration of coordinator plugins.
    pub coordinator_context: CoordinatorDefaults,
    pub blocks: Arc<AddressBlockCache>,
    pub allocator: AllocatorHandle,
    /// Settings of duplicate address and gateway detection.
    pub probing: DetectionSettings,
    /// Addresses that Whereabouts itself has assigned.
    pub whereabouts_records: WhereaboutsRecords,
    /// Whether the allocations of running pods have been restored to the address blocks.
    pub allocations_restored: watch::Receiver<bool>,
    pub events: PodEventRecorder,
    pub network_status: NetworkStatusWriter,
}

impl CniHandler {
    /// Builds the plan for an ADD. Also returns the pod with its UID from the API server.
    pub fn plan(&self, call: &CniCall, runtime: &Handle) -> Result<(PlanOutput, PodRef), Fault> {
        let call_pod = pod_of(call)?;
        let policy = self.policy.with_config(&call.config)?;
        let (facts, definitions) = runtime.block_on(async {
            self.wait_for_caches_or_fault().await?;
            let facts = self.find_pod(call_pod).await?;
            let definitions = self.find_definitions(call_pod, &facts, &policy, call).await?;
            Ok::<_, Fault>((facts, definitions))
        })?;
        let pod = resolve_uid(call_pod, &facts)?;
        let (default, networks) = self.resolve_networks(definitions, call)?;
        let mut devices = self.pod_devices(&pod, &default, &networks, runtime)?;
        let spiderpool_context =
            match uses_pool_objects(&default, &networks) {
                true => Some(runtime.block_on(
                    self.spiderpool.selection_input(&pod.namespace, definition_namespaces(&policy)),
                )?),
                false => None,
            };
        let none = Map::new();
        let legacy = WhereaboutsLegacy::read(self.host.root(), self.whereabouts_records.recorded());
        let mut input = PlanInput {
            pod: &pod,
            facts: &facts,
            container: &call.container,
            ifname: &call.ifname,
            default: &default,
            runtime_config: call.setting("runtimeConfig").and_then(|c| c.as_object()).unwrap_or(&none),
            networks: &networks,
            spiderpool_context: spiderpool_context.as_ref(),
            legacy: &legacy,
        };
        let reread;
        let mut planned = match build_plan(&input, &mut devices.clone()) {
            Err(fault) if fault.code == FaultCode::NoPool && spiderpool_context.is_some() => {
                reread = runtime
                    .block_on(
                        self.spiderpool.with_fresh_pools(spiderpool_context.clone().unwrap_or_default()),
                    )
                    .map_err(|_| fault)?;
                input.spiderpool_context = Some(&reread);
                build_plan(&input, &mut devices)?
            }
            built => built?,
        };
        for warning in planned.ip_requests.iter().flat_map(|request| request.ipam.warnings()) {
            warn!(%warning, "a setting of the ipam configuration has no effect");
        }
        self.check_parents(&planned.plan)?;
        planned.plan.membership = self.partitions.begin_add(partitions_of(&planned.plan))?;
        Ok((planned, PodRef { uid: facts.uid.clone(), ..pod }))
    }

    /// Checks that all IPoIB parents of the plan exist, so that the ADD fails before anything is set up.
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

    /// If the fault is a missing IPoIB parent, adds the node's interfaces to its remedy.
    fn with_interface_names(&self, fault: Fault) -> Fault {
        if fault.code != FaultCode::NoParent {
            return fault;
        }
        let inventory = Inventory::read(self.host.root(), self.host.is_simulated()).unwrap_or_default();
        let names: Vec<&str> = inventory.ipoib_parents().collect();
        if names.is_empty() {
            return fault;
        }
        let remedy = format!("set `master` to one of the node's InfiniBand interfaces: {}", names.join(", "));
        Fault { remedy, ..fault }
    }

    /// Assigns the addresses of a plan. Either all networks of the sandbox get their addresses or none does.
    pub fn assign_addresses(
        &self,
        ip_requests: Vec<AttachmentIpRequests>,
    ) -> impl Future<Output = Result<Vec<AssignedAddresses>, Fault>> + use<> {
        let allocator = self.allocator.clone();
        async move {
            let names: Vec<_> = ip_requests.iter().map(|attachment| attachment.network.as_str()).collect();
            let what = match names.as_slice() {
                [name] => format!("network {name}"),
                names => format!("networks {}", names.join(", ")),
            };
            let requests = ip_requests.iter().flat_map(|attachment| attachment.requests.clone()).collect();
            let mut addresses = allocator.assign(what, requests).await?.into_iter();
            let build = |attachment: &AttachmentIpRequests| {
                let addresses = addresses.by_ref().take(attachment.requests.len()).collect();
                attachment.build_assigned(addresses)
            };
            Ok(ip_requests.iter().map(build).collect())
        }
    }

    /// Assigns the addresses of one interface, for a foreign plugin that uses Ferroband as its IPAM plugin.
    pub async fn assign_interface(&self, call: &CniCall) -> Result<AssignedAddresses, Fault> {
        let call_pod = pod_of(call)?;
        self.wait_for_caches_or_fault().await?;
        let facts = self.find_pod(call_pod).await?;
        let pod = resolve_uid(call_pod, &facts)?;
        let policy = self.policy.with_config(&call.config)?;
        let interface = find_interface(&requested_networks(&facts, &pod.namespace, &policy)?, &call.ifname);
        let none = Map::new();
        let spiderpool_context = match IpamSource::uses_pool_objects(call.config.as_object().unwrap_or(&none))
        {
            true => {
                Some(self.spiderpool.selection_input(&pod.namespace, definition_namespaces(&policy)).await?)
            }
            false => None,
        };
        let legacy = WhereaboutsLegacy::read(self.host.root(), self.whereabouts_records.recorded());
        let build = |spiderpool_context: Option<&PoolSelectionInput>| {
            AttachmentIpRequests::for_call(call, &pod, &facts, &interface, spiderpool_context, &legacy)
        };
        let ip_requests = match (build(spiderpool_context.as_ref()), spiderpool_context) {
            (Err(fault), Some(spiderpool_context)) if fault.code == FaultCode::NoPool => {
                let spiderpool_context =
                    self.spiderpool.with_fresh_pools(spiderpool_context).await.map_err(|_| fault)?;
                build(Some(&spiderpool_context))?
            }
            (ip_requests, _) => ip_requests?,
        };
        let addresses = self
            .allocator
            .assign(format!("network {}", ip_requests.network), ip_requests.requests.clone())
            .await?;
        Ok(ip_requests.build_assigned(addresses))
    }

    /// Waits until the pod's ports are members of their partitions. Stops waiting if the pod is deleted,
    /// because the kubelet does not tear down the sandbox before the ADD has ended.
    pub async fn wait_for_partitions(&self, plan: &Plan, members: &[PortMember]) -> Result<(), Fault> {
        let pod = &plan.pod;
        let guids: Vec<_> =
            members.iter().filter_map(|member| Some((member.attachment, member.guid?))).collect();
        let is_deleted = |facts: &PodFacts| facts.uid == pod.uid && facts.terminating;
        let deleted = self.pods.cache().wait_for(&pod.namespace, &pod.name, LONGER_THAN_ANY_CALL, is_deleted);
        tokio::select! {
            result = self.partitions.wait_until_member(partitions_of(plan), &guids) => result,
            _ = deleted => Err(Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "the pod was deleted while waiting for its partitions",
                "no action needed",
            )),
        }
    }

    /// Performs a device operation for the CNI plugin. The daemon runs in the host's network namespace, as
    /// the operation requires.
    pub fn run_device_op(&self, operation: &DeviceOp, sandbox: Option<OwnedFd>) -> Result<(), Fault> {
        let hardware = self.hardware.as_deref().ok_or_else(|| ferroband_kernel::Error::NoRdma.fault())?;
        let sandbox = sandbox.map(Netns::from_fd).transpose().map_err(|e| e.fault())?;
        operation.perform(hardware.root(), hardware, sandbox.as_ref()).map_err(|e| e.fault())
    }

    /// Releases the addresses and partition memberships of a sandbox, or of one of its interfaces. On a
    /// fault, the CNI plugin stores a pending release.
    pub async fn release(&self, container: String, interface: Option<String>) -> Result<(), Fault> {
        let what = format!("addresses of sandbox {container}");
        self.partitions.remove_sandbox(&container, interface.as_deref());
        if self.allocator.release(AddressRelease { container, interface }, RELEASE_TIMEOUT).await {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::ApiUnavailable,
            what,
            "the API server did not confirm the release in time",
            "no action needed; retried automatically when the API server is available",
        ))
    }

    /// Writes the results of an ADD to the pod's network-status annotation.
    pub async fn record_network_status(
        &self,
        plan: &Plan,
        marks: Vec<(usize, IbKubernetesMark)>,
        pod: &PodRef,
        outcomes: &[AttachmentOutcome],
    ) -> Result<(), Fault> {
        let facts = self.pods.cache().get(&pod.namespace, &pod.name).filter(|facts| facts.uid == pod.uid);
        let annotation = facts.as_ref().and_then(|facts| facts.annotations.get(NETWORKS)).map(String::as_str);
        let guids = self.partitions.function_guids(partitions_of(plan));
        let with_guid = |(attachment, mark): (usize, IbKubernetesMark)| {
            let (_, guid) = guids.iter().find(|(position, _)| *position == attachment)?;
            Some((attachment, IbKubernetesMark { guid: guid.to_string(), ..mark }))
        };
        let marks: Vec<_> = marks.into_iter().filter_map(with_guid).collect();
        self.network_status
            .record(plan, pod, outcomes, annotation.map(|annotation| (annotation, marks.as_slice())))
            .await
    }

    /// Records an event on the pod in the background. Nothing waits for it, because the CNI plugin also
    /// returns the fault.
    pub fn report_failure(&self, pod: Option<&PodRef>, fault: &Fault, runtime: &Handle) {
        let Some(pod) = pod.cloned() else { return };
        let cached = self.pods.cache().get(&pod.namespace, &pod.name);
        let pod = match cached {
            Some(facts) if !facts.uid.is_empty() => PodRef { uid: facts.uid.clone(), ..pod },
            _ => pod,
        };
        runtime.spawn(self.events.clone().warn(pod, fault.clone()));
    }

    /// Returns a fault if an ADD could not be served yet, for example because a cache is not synced.
    pub fn check_ready(&self) -> Result<(), Fault> {
        let waiting = if !self.pods.cache().is_synced() {
            "pods of this node"
        } else if !self.networks.cache().is_synced() {
            "network attachment definitions"
        } else if !self.blocks.is_synced() {
            "address blocks"
        } else if !self.whereabouts_records.cache().is_synced() {
            "allocations of Whereabouts"
        } else {
            return find_default_network(&self.net_d).map(|_| ());
        };
        Err(caches_not_synced(waiting))
    }

    /// Waits until all caches are synced. The CNI configuration is installed only after that.
    pub async fn wait_for_caches(&self) {
        self.pods.cache().wait_synced().await;
        self.networks.cache().wait_synced().await;
        self.blocks.wait_synced().await;
        self.whereabouts_records.cache().wait_synced().await;
        // If etcd was restored from a backup, the allocations of running pods must be written again before
        // new addresses are assigned.
        let _ = self.allocations_restored.clone().wait_for(|restored| *restored).await;
    }

    async fn wait_for_caches_or_fault(&self) -> Result<(), Fault> {
        match timeout(CACHE_SYNC_TIMEOUT, self.wait_for_caches()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.check_ready().err().unwrap_or_else(|| caches_not_synced("all objects"))),
        }
    }

    async fn find_pod(&self, pod: &PodRef) -> Result<Arc<PodFacts>, Fault> {
        let found = self.pods.find(pod).await.map_err(|e| e.fault())?;
        found.ok_or_else(|| {
            Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "pod not found",
                "no action needed if it was just deleted; otherwise check that the daemon uses the same cluster",
            )
        })
    }
}

/// Whether at least one network gets its addresses from SpiderIPPool objects.
fn uses_pool_objects(default: &DefaultNetworkChoice, networks: &[ResolvedNetwork]) -> bool {
    let default = match default {
        DefaultNetworkChoice::Resolved(network) => Some(network.as_ref()),
        DefaultNetworkChoice::Wrapped(_) => None,
    };
    let mut networks_with_default = default.into_iter().chain(networks);
    networks_with_default.any(|network| network.config.plugins.iter().any(IpamSource::uses_pool_objects))
}

/// Namespaces to search for a network that a pool names without a namespace.
fn definition_namespaces(policy: &NetworkAccessPolicy) -> Vec<String> {
    vec![policy.namespace.clone(), "kube-system".to_owned(), "spiderpool".to_owned()]
}

fn partitions_of(plan: &Plan) -> SandboxPartitions<'_> {
    SandboxPartitions { container: &plan.container, pod: &plan.pod, requests: &plan.partitions }
}

fn pod_of(call: &CniCall) -> Result<&PodRef, Fault> {
    call.pod.as_ref().ok_or_else(|| {
        Fault::new(
            FaultCode::BadCall,
            format!("sandbox {}", call.container),
            "CNI_ARGS does not name a pod (K8S_POD_NAMESPACE, K8S_POD_NAME)",
            "call Ferroband from a Kubernetes runtime",
        )
    })
}

fn caches_not_synced(waiting: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        "node daemon",
        format!("the cache of {waiting} is not synced yet"),
        "the pod is retried automatically; check that the API server is up and that `ferroband crds apply` was run",
    )
}
