//! SpiderEndpoints: one object per pod, which lists the pod's addresses.

use super::{foreign_records::is_placeholder, pool_status::PoolAllocations, statefulset::split_pod_name};
use crate::{
    Error,
    object_writes::{collect_errors, unless_outdated},
};
use ferroband_address::{AddressAllocation, IpFamily};
use ferroband_api::spiderpool::{
    EndpointDetail, EndpointIp, SpiderEndpoint, SpiderEndpointFields, SpiderEndpointStatus, SpiderIPPool,
};
use ferroband_daemon::{
    addresses::{MANAGED_LABEL, is_managed},
    api_call::with_timeout,
    merge_patch,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
    core::{ObjectMeta, PartialObjectMeta},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

const MAX_CONCURRENT_WRITES: usize = 8;

/// Creates, updates and deletes SpiderEndpoints to match the allocations from SpiderIPPools. Returns the failures; one
/// failure does not keep the other objects from being written.
///
/// `present` are the existing objects by pod.
pub async fn sync(
    client: &Client,
    present: &BTreeMap<String, Arc<SpiderEndpoint>>,
    allocations: &HashMap<&str, PoolAllocations<'_>>,
    pools: &BTreeMap<String, Arc<SpiderIPPool>>,
) -> Vec<Error> {
    let mut desired: BTreeMap<&str, Vec<(IpAddr, &AddressAllocation)>> = BTreeMap::new();
    // Skip Whereabouts ranges, whose names contain a slash: they have no SpiderEndpoints.
    for (_, entries) in allocations.iter().filter(|(pool, _)| !pool.is_empty() && !pool.contains('/')) {
        for (address, entry) in entries.iter().filter(|(_, entry)| !is_placeholder(entry)) {
            desired.entry(&entry.pod).or_default().push((*address, entry));
        }
    }
    let mut changes = Vec::new();
    for (pod, entries) in &desired {
        let detail = endpoint_detail(entries, pools);
        let published = present.get(*pod).and_then(|object| object.status.as_ref());
        let foreign = present.get(*pod).is_some_and(|object| !is_managed(object.as_ref()));
        if foreign || published.is_none_or(|status| status.current != detail) {
            changes.push(EndpointChange::Apply {
                pod,
                entry: entries[0].1,
                detail,
                exists: present.contains_key(*pod),
            });
        }
    }
    for (pod, object) in present.iter().filter(|(pod, _)| !desired.contains_key(pod.as_str())) {
        let terminating = object.metadata.deletion_timestamp.is_some();
        match is_managed(object.as_ref()) {
            true => changes.push(EndpointChange::Delete { pod }),
            // Spiderpool created this SpiderEndpoint, and its pod is gone. Spiderpool's controller no longer
            // runs, so nothing else removes the finalizer.
            false if terminating && !object.finalizers().is_empty() => {
                changes.push(EndpointChange::RemoveFinalizers { pod });
            }
            false => {}
        }
    }
    let writes: Vec<_> = changes.into_iter().map(|change| change.execute(client)).collect();
    collect_errors(MAX_CONCURRENT_WRITES, writes).await
}

enum EndpointChange<'a> {
    Apply { pod: &'a str, entry: &'a AddressAllocation, detail: EndpointDetail, exists: bool },
    Delete { pod: &'a str },
    RemoveFinalizers { pod: &'a str },
}

impl EndpointChange<'_> {
    async fn execute(self, client: &Client) -> Result<(), Error> {
        let pod = match &self {
            Self::Apply { pod, .. } | Self::Delete { pod } | Self::RemoveFinalizers { pod } => *pod,
        };
        let Some((namespace, name)) = pod.split_once('/') else { return Ok(()) };
        let api: Api<SpiderEndpoint> = Api::namespaced(client.clone(), namespace);
        let result = match self {
            Self::Delete { .. } => with_timeout(api.delete(name, &DeleteParams::default())).await.map(drop),
            Self::RemoveFinalizers { .. } => {
                let patch = json!({"metadata": {"finalizers": null}});
                merge_patch(&api, name, &patch).await
            }
            Self::Apply { detail, exists: true, .. } => {
                // Setting the label takes over a SpiderEndpoint that Spiderpool created. Its finalizer is
                // removed, because Spiderpool's controller, which would do that, no longer runs.
                let patch = json!({
                    "metadata": {"labels": {MANAGED_LABEL.0: MANAGED_LABEL.1}, "finalizers": null}, "status": {"current": detail},
                });
                merge_patch(&api, name, &patch).await
            }
            Self::Apply { entry, detail, .. } => {
                let Some(object) = new_endpoint(client, namespace, name, entry, detail).await? else {
                    return Ok(());
                };
                with_timeout(api.create(&PostParams::default(), &object)).await.map(drop)
            }
        };
        unless_outdated(result, "write", format!("SpiderEndpoint {pod}")).map(drop)
    }
}

/// Builds a new SpiderEndpoint for a pod. Returns `None` if the pod is gone, unless it belongs to a
/// StatefulSet.
async fn new_endpoint(
    client: &Client,
    namespace: &str,
    name: &str,
    entry: &AddressAllocation,
    current: EndpointDetail,
) -> Result<Option<SpiderEndpoint>, Error> {
    let (kind, controller, owners) = if entry.sticky {
        // The addresses of a StatefulSet's pod outlive the pod, so its SpiderEndpoint must as well. It
        // therefore has no owner reference.
        ("StatefulSet".to_owned(), split_pod_name(name).map_or(name, |(set, _)| set).to_owned(), None)
    } else {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
        let what = format!("pod {namespace}/{name}");
        let found = with_timeout(api.get_opt(name)).await.map_err(Error::api("get", what))?;
        let Some(pod) = found.filter(|pod| pod.uid().as_deref() == Some(&entry.uid)) else { return Ok(None) };
        let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: name.to_owned(),
            uid: entry.uid.clone(),
            ..OwnerReference::default()
        };
        let (kind, controller) = controller
            .map_or(("Pod".to_owned(), name.to_owned()), |owner| (owner.kind.clone(), owner.name.clone()));
        (kind, controller, Some(vec![owner]))
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some([(MANAGED_LABEL.0.to_owned(), MANAGED_LABEL.1.to_owned())].into()),
        owner_references: owners,
        ..ObjectMeta::default()
    };
    let status =
        SpiderEndpointStatus { current, owner_controller_type: kind, owner_controller_name: controller };
    Ok(Some(SpiderEndpoint {
        metadata,
        status: Some(status),
        ..SpiderEndpoint::new(name, SpiderEndpointFields {})
    }))
}

fn endpoint_detail(
    entries: &[(IpAddr, &AddressAllocation)],
    pools: &BTreeMap<String, Arc<SpiderIPPool>>,
) -> EndpointDetail {
    let mut interfaces: BTreeMap<&str, EndpointIp> = BTreeMap::new();
    for (address, entry) in entries {
        let ip = interfaces
            .entry(&entry.interface)
            .or_insert_with(|| EndpointIp { interface: entry.interface.clone(), ..EndpointIp::default() });
        let pool = pools.get(&entry.pool);
        let subnet = pool.map(|pool| pool.spec.subnet.as_str()).unwrap_or_default();
        let prefix = subnet.split_once('/').map_or("", |(_, prefix)| prefix);
        let written = if prefix.is_empty() { address.to_string() } else { format!("{address}/{prefix}") };
        let gateway = pool.and_then(|pool| pool.spec.gateway.clone());
        let routes = pool.map(|pool| pool.spec.routes.clone()).unwrap_or_default();
        ip.routes.extend(routes);
        match IpFamily::of(*address) {
            IpFamily::V4 => {
                (ip.ipv4, ip.ipv4_pool, ip.ipv4_gateway) = (Some(written), Some(entry.pool.clone()), gateway);
            }
            IpFamily::V6 => {
                (ip.ipv6, ip.ipv6_pool, ip.ipv6_gateway) = (Some(written), Some(entry.pool.clone()), gateway);
            }
        }
    }
    let (uid, node) =
        entries.first().map(|(_, entry)| (entry.uid.clone(), entry.node.clone())).unwrap_or_default();
    EndpointDetail { uid, node, ips: interfaces.into_values().collect() }
}
