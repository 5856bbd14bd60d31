//! Lists the actions that the node daemon would run, without running them.

use super::{
    Configurator, DerivedGuids, DesiredNodeConfig, GuidSource, OriginalStateStore, observe::read_holder_uids,
};
use crate::{
    Error, NodeSettings,
    api_call::with_timeout,
    caches::PodOwner,
    error::blocking,
    partition::{GuidClaimClient, GuidLease, GuidRequests},
};
use ferroband_api::sriov::{PendingAction, SriovNetworkNodeState};
use ferroband_daemon::{api_client, watch_cache::WatchCache};
use ferroband_kernel::Hardware;
use ferroband_partition::GuidRange;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta, runtime::watcher::Event};
use serde::Serialize;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::watch;

/// What the node daemon would do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    pub node: String,
    /// In the order in which they run. Functions that an action creates are configured afterwards, by actions that
    /// are not listed.
    pub actions: Vec<PendingAction>,
    /// What cannot be configured, and why.
    pub problems: Vec<String>,
}

/// What else the comparison needs to know about the cluster.
struct ClusterFacts {
    state: SriovNetworkNodeState,
    guids: Option<Arc<dyn GuidSource>>,
    requested_guids: BTreeSet<GuidLease>,
    pods: WatchCache<PodOwner>,
}

impl GuidRequests for BTreeSet<GuidLease> {
    fn is_requested(&self, lease: GuidLease) -> bool {
        self.contains(&lease)
    }
}

/// Compares this node with `state`, or else with its SriovNetworkNodeState in the API server. Changes nothing, neither
/// on the node nor in the API server.
///
/// With `state`, the API server is not used. Functions then keep their GUIDs, and every pod in the kubelet's checkpoint
/// counts as running.
pub async fn dry_run(settings: NodeSettings, state: Option<SriovNetworkNodeState>) -> Result<DryRun, Error> {
    let facts = match state {
        Some(state) => offline_facts(&settings, state),
        None => read_facts(&settings).await?,
    };
    let desired = DesiredNodeConfig::from_spec(&facts.state.spec);
    let compared = blocking("dry run", move || {
        let hardware: Arc<dyn Hardware> = ferroband_sim::hardware(&settings.root)?.into();
        let configurator = Configurator {
            original_states: OriginalStateStore::new(hardware.root()),
            hardware,
            firmware: ferroband_sim::firmware(&settings.root)?.into(),
            guids: facts.guids,
            requested_guids: Arc::new(facts.requested_guids),
            device_plugins_dir: settings.kubelet().device_plugins_dir(),
            pods: Arc::new(facts.pods),
            pools: watch::Sender::default(),
            prefix: String::new(),
        };
        configurator.compare(&desired, Vec::new())
    });
    let diff = compared.await??.diff;
    let problems = diff.faults.iter().map(ToString::to_string).collect();
    Ok(DryRun { node: facts.state.name_any(), actions: diff.pending(), problems })
}

fn offline_facts(settings: &NodeSettings, state: SriovNetworkNodeState) -> ClusterFacts {
    let pods = WatchCache::default();
    let uids = read_holder_uids(&settings.kubelet().device_plugins_dir()).unwrap_or_default();
    for uid in uids.into_values().flatten() {
        let owner = PodOwner { uid: uid.clone(), ..PodOwner::default() };
        pods.apply(Event::Apply((("pod".to_owned(), uid), Some(owner))));
    }
    ClusterFacts { state, guids: None, requested_guids: BTreeSet::new(), pods }
}

async fn read_facts(settings: &NodeSettings) -> Result<ClusterFacts, Error> {
    let client = api_client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let states: Api<SriovNetworkNodeState> = Api::namespaced(client.clone(), &settings.namespace);
    let object = format!("SriovNetworkNodeState {}/{}", settings.namespace, settings.node);
    let state = with_timeout(states.get(&settings.node)).await.map_err(Error::api("get", object))?;
    let claims = GuidClaimClient::new(client.clone(), settings.node.clone());
    let (cluster, range) = tokio::try_join!(claims.cluster_uid(), claims.guid_range())?;
    // A GUID of a configured range is known only after it is claimed.
    let guids = (range == GuidRange::DEFAULT)
        .then(|| -> Arc<dyn GuidSource> { Arc::new(DerivedGuids { cluster, node: settings.node.clone() }) });
    let leases = claims.list_node_leases().await.map_err(Error::api("list", "GuidBlocks"))?;
    let pods = list_pods(client, &settings.node).await.map_err(Error::api("list", "pods"))?;
    Ok(ClusterFacts { state, guids, requested_guids: leases.into_iter().collect(), pods })
}

async fn list_pods(client: Client, node: &str) -> kube::Result<WatchCache<PodOwner>> {
    let pods = WatchCache::default();
    let api: Api<PartialObjectMeta<Pod>> = Api::all(client);
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    for pod in with_timeout(api.list(&params)).await? {
        let name = (pod.namespace().unwrap_or_default(), pod.name_any());
        pods.apply(Event::Apply((name, Some(PodOwner::from_metadata(pod.metadata)))));
    }
    Ok(pods)
}
