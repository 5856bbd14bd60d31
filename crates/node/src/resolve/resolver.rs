//! Resolves a CNI call to the pod, its networks, devices and address pools.

use super::{
    DefaultNetworkChoice, NetworkAccessPolicy, ResolvedNetwork, find_default_network,
    requested_networks::{find_interface, requested_networks, resolve_uid},
};
use crate::{
    address::OwnBlocks,
    caches::{
        CoordinatorDefaults, NetworkDefinitionCache, NodePodCache, PodFacts, PoolSelectionInput,
        SpiderpoolCache, SpiderpoolInterface, read_flat_file,
    },
    kubelet::{PodDevices, PodResourcesClient},
};
use ferroband_address::spiderpool::SpiderpoolConfig;
use ferroband_attach::message::CniCall;
use ferroband_config::{WrapperConfig, named_devices, runtime_config};
use ferroband_kernel::Root;
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// How long an ADD waits until the caches of a daemon that has just started are synced.
const CACHE_SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// Where pods, networks, devices and pools are looked up.
pub struct PodResolver {
    pub root: Root,
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
    pub blocks: Arc<OwnBlocks>,
    /// Set when the allocations of running pods have been restored to the address blocks.
    pub asserted: watch::Receiver<Option<String>>,
}

/// The pod of a sandbox, and what its addresses depend on.
#[derive(Clone, Debug)]
pub struct ResolvedPod {
    /// The pod. Its UID identifies the owner of the addresses that are assigned to it.
    pub pod: PodRef,
    /// Annotations and other fields of the pod's object in the API server.
    pub facts: Arc<PodFacts>,
    pub container: String,
    /// SpiderIPPools and related objects; `None` if no network uses them.
    pub pools: Option<PoolSelectionInput>,
    /// Whereabouts' flat file, which provides defaults for `ipam`; empty if there is none.
    pub flat_file: Map<String, Value>,
}

/// Everything that the plan of a sandbox is computed from.
#[derive(Clone, Debug)]
pub struct ResolvedAdd {
    pub pod: ResolvedPod,
    /// `CNI_IFNAME`: the interface of the default network.
    pub ifname: String,
    pub default: DefaultNetworkChoice,
    /// `runtimeConfig` of the CNI call. It applies to the default network only.
    pub runtime_config: Map<String, Value>,
    /// The additional networks, in the order of their interfaces.
    pub networks: Vec<ResolvedNetwork>,
    pub devices: PodDevices,
}

/// Everything that the addresses of one interface are computed from, for a plugin that is called outside a plan.
#[derive(Clone, Debug)]
pub struct ResolvedInterface {
    pub pod: ResolvedPod,
    pub interface: SpiderpoolInterface,
    /// The plugin's configuration.
    pub config: Map<String, Value>,
    /// Addresses that `CNI_ARGS` requests.
    pub ips: Vec<String>,
}

impl PodResolver {
    /// Resolves the call of an ADD.
    pub async fn resolve_add(&self, call: &CniCall) -> Result<ResolvedAdd, Fault> {
        let config = WrapperConfig::parse(&call.config).map_err(|e| e.fault())?;
        let policy = self.policy.with_config(&config);
        let (pod, facts) = self.find_pod(call).await?;
        let requested = requested_networks(&facts, &pod.namespace, &policy)?;
        let (default, networks) = self.resolve_networks(requested, &policy, &config).await?;
        let defined = || default.resolved().into_iter().chain(&networks);
        // The kubelet is queried only if a network uses devices.
        let devices = match defined().any(ResolvedNetwork::uses_devices) {
            true => self.pod_resources.pod_devices(&pod).await.map_err(|e| e.fault())?,
            false => PodDevices::default(),
        };
        let plugins = || defined().flat_map(|network| &network.config.plugins);
        let uses_pools = plugins().any(SpiderpoolConfig::applies_to);
        let pod = self.resolve_pod(pod, facts, call, &policy, uses_pools).await?;
        let runtime_config = call.config.as_object().and_then(runtime_config).and_then(Value::as_object);
        Ok(ResolvedAdd {
            pod,
            ifname: call.ifname.clone(),
            runtime_config: runtime_config.cloned().unwrap_or_default(),
            default,
            networks,
            devices,
        })
    }

    /// Resolves the call of a foreign plugin that uses Ferroband as its IPAM plugin.
    pub async fn resolve_interface(&self, call: &CniCall) -> Result<ResolvedInterface, Fault> {
        let wrapper = WrapperConfig::parse(&call.config).map_err(|e| e.fault())?;
        let policy = self.policy.with_config(&wrapper);
        let (pod, facts) = self.find_pod(call).await?;
        let interface = find_interface(&requested_networks(&facts, &pod.namespace, &policy)?, &call.ifname);
        let config = call.config.as_object().cloned().unwrap_or_default();
        let uses_pools = SpiderpoolConfig::applies_to(&config);
        let pod = self.resolve_pod(pod, facts, call, &policy, uses_pools).await?;
        Ok(ResolvedInterface { pod, interface, config, ips: call.ips.clone() })
    }

    /// Returns the devices of the pod for a plugin that is called outside a plan. A plugin that names no device does not
    /// need the kubelet.
    pub async fn interface_devices(&self, interface: &ResolvedInterface) -> Result<PodDevices, Fault> {
        let devices = self.pod_resources.pod_devices(&interface.pod.pod).await;
        match named_devices(&interface.config).next() {
            Some(_) => devices.map_err(|e| e.fault()),
            None => Ok(devices.unwrap_or_default()),
        }
    }

    /// Waits for a change of the pools if `fault` says that there is none, because the cache may lag behind a pool that
    /// was just created. Returns whether the caller should build again.
    pub async fn refresh_pools(&self, pod: &mut ResolvedPod, fault: &Fault) -> bool {
        let Some(pools) = pod.pools.as_mut().filter(|_| fault.code == FaultCode::NoPool) else {
            return false;
        };
        match self.spiderpool.with_changed_pools(pools.clone()).await {
            Some(changed) => {
                *pools = changed;
                true
            }
            None => false,
        }
    }

    /// Returns a fault if an ADD could not be served yet, for example because a cache is not synced.
    pub fn check_ready(&self) -> Result<(), Fault> {
        let waiting = if !self.pods.cache().is_synced() {
            "pods of this node"
        } else if !self.networks.cache().is_synced() {
            "network attachment definitions"
        } else if !self.blocks.is_synced() {
            "address blocks"
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
        // If etcd was restored from a backup, the allocations of running pods must be written again before
        // new addresses are assigned.
        let _ = self.asserted.clone().wait_for(Option::is_some).await;
    }

    /// Finds the pod of a call, with its UID, as soon as the caches are synced.
    async fn find_pod(&self, call: &CniCall) -> Result<(PodRef, Arc<PodFacts>), Fault> {
        let pod = call.pod.as_ref().ok_or_else(|| {
            Fault::new(
                FaultCode::BadCall,
                format!("sandbox {}", call.container),
                "CNI_ARGS does not name a pod (K8S_POD_NAMESPACE, K8S_POD_NAME)",
                "call Ferroband from a Kubernetes runtime",
            )
        })?;
        if timeout(CACHE_SYNC_TIMEOUT, self.wait_for_caches()).await.is_err() {
            return Err(self.check_ready().err().unwrap_or_else(|| caches_not_synced("all objects")));
        }
        let facts = self.pods.find(pod).await.map_err(|e| e.fault())?.ok_or_else(|| {
            Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "pod not found",
                "no action needed if it was just deleted; otherwise check that the daemon uses the same cluster",
            )
        })?;
        Ok((resolve_uid(pod, &facts)?, facts))
    }

    async fn resolve_pod(
        &self,
        pod: PodRef,
        facts: Arc<PodFacts>,
        call: &CniCall,
        policy: &NetworkAccessPolicy,
        uses_pools: bool,
    ) -> Result<ResolvedPod, Fault> {
        // Namespaces to search for a network that a pool names without a namespace.
        let namespaces = [policy.namespace.as_str(), "kube-system", "spiderpool"].map(str::to_owned).into();
        let pools = match uses_pools {
            true => Some(self.spiderpool.selection_input(&pod.namespace, namespaces).await?),
            false => None,
        };
        let flat_file = read_flat_file(&self.root);
        Ok(ResolvedPod { pod, facts, container: call.container.clone(), pools, flat_file })
    }
}

fn caches_not_synced(waiting: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        "node daemon",
        format!("the cache of {waiting} is not synced yet"),
        "the pod is retried automatically; check that the API server is up and that `ferroband crds apply` was run",
    )
}
