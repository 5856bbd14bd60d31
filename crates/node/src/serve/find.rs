//! From what a pod asks for to what there is: definitions, their configurations, devices.

use super::Decider;
use crate::{
    Error,
    caches::PodFacts,
    kubelet::Devices,
    plan::{Asked, Chosen, DefaultChoice, DefaultNetwork, Policy, at, first, named, selections},
};
use ferroband_api::{
    annotation::Selection,
    cncf::{NetworkAttachmentDefinition, NetworkConfig},
};
use ferroband_attach::message::Call;
use ferroband_model::{Fault, FaultCode, PodRef};
use futures::future::try_join_all;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::runtime::Handle;

impl Decider {
    /// The networks that the pod is to get, with their definitions.
    pub(super) async fn definitions(
        &self,
        pod: &PodRef,
        facts: &PodFacts,
        policy: &Policy,
        call: &Call,
    ) -> Result<Found, Fault> {
        let Asked { default, of_everybody, networks } = selections(facts, &pod.namespace, policy)?;
        let find = |selection: Selection| async move {
            let definition = self.networks.find(&selection.namespace, &selection.name).await;
            match definition.map_err(|e: Error| e.fault())? {
                Some(definition) => Ok((selection, definition)),
                None => Err(no_network(&selection)),
            }
        };
        let (default, cluster) = match (default, call.config.get("clusterNetwork").and_then(Value::as_str)) {
            (Some(selection), _) => (Some(find(selection).await?), None),
            (None, Some(name)) if !name.is_empty() => self.cluster_network(name, policy).await?,
            (None, _) => (None, None),
        };
        Ok(Found {
            default,
            cluster,
            networks: try_join_all(of_everybody.into_iter().chain(networks).map(find)).await?,
        })
    }

    /// The default network as the configuration of a Multus names it: a definition, else a file by its network's name; or
    /// a folder or file by its path.
    async fn cluster_network(
        &self,
        name: &str,
        policy: &Policy,
    ) -> Result<(Option<Defined>, Option<DefaultNetwork>), Fault> {
        if name.contains('/') {
            return Ok((None, Some(at(&self.host.root().path(name))?)));
        }
        let mut selections = Selection::networks(name, &policy.namespace).map_err(|e| e.fault())?;
        let found = match selections.first() {
            Some(one) => self.networks.find(&one.namespace, &one.name).await.map_err(|e: Error| e.fault())?,
            None => None,
        };
        match found {
            Some(definition) => Ok((Some((selections.remove(0), definition)), None)),
            None => Ok((None, Some(named(&self.conf_d, name)?))),
        }
    }

    /// The configurations of what was found, and the default network.
    pub(super) fn chosen(&self, found: Found, call: &Call) -> Result<(DefaultChoice, Vec<Chosen>), Fault> {
        let folders = [self.conf_d.clone(), self.net_d.clone()];
        let choose = |(selection, definition): Defined| {
            let mut chosen = Chosen::of(selection, &definition, &folders)?;
            let coordinators = chosen.config.plugins.iter_mut().filter(|plugin| is_coordinator(plugin));
            coordinators.for_each(|plugin| self.surroundings.fill(plugin));
            Ok::<_, Fault>(chosen)
        };
        let networks = found.networks.into_iter().map(choose).collect::<Result<_, _>>()?;
        let default = match found.default {
            Some(defined) => DefaultChoice::Chosen(Box::new(choose(defined)?)),
            None => DefaultChoice::Wrapped(found.cluster.map_or_else(|| self.wrapped(call), Ok)?),
        };
        Ok((default, networks))
    }

    /// The cluster's default network: as its owner has it now, else as the configuration of the call wraps it.
    fn wrapped(&self, call: &Call) -> Result<DefaultNetwork, Fault> {
        first(&self.net_d).or_else(|fault| {
            let delegate =
                call.config.get("delegates").and_then(|list| list.get(0)).ok_or_else(|| fault.clone())?;
            let network = NetworkConfig::parse("default network", &delegate.to_string(), "default");
            Ok(DefaultNetwork { file: self.net_d.clone(), network: network.map_err(|_| fault)? })
        })
    }

    /// The devices of the pod; the kubelet is asked only if a network uses any.
    pub(super) fn devices(
        &self,
        pod: &PodRef,
        default: &DefaultChoice,
        networks: &[Chosen],
        runtime: &Handle,
    ) -> Result<Devices, Fault> {
        let default = match default {
            DefaultChoice::Chosen(chosen) => Some(chosen.as_ref()),
            DefaultChoice::Wrapped(_) => None,
        };
        if !default.into_iter().chain(networks).any(|chosen| chosen.resource.is_some()) {
            return Ok(Devices::default());
        }
        runtime.block_on(self.kubelet.devices(pod)).map_err(|e| e.fault())
    }
}

/// A network and its definition.
type Defined = (Selection, Arc<NetworkAttachmentDefinition>);

/// The definitions of a pod's networks.
pub(super) struct Found {
    /// In place of the cluster's default network.
    default: Option<Defined>,
    /// The cluster's, where the configuration of the call names it.
    cluster: Option<DefaultNetwork>,
    /// The others, in order.
    networks: Vec<Defined>,
}

fn is_coordinator(plugin: &Map<String, Value>) -> bool {
    plugin.get("type").and_then(Value::as_str) == Some("coordinator")
}

fn no_network(selection: &Selection) -> Fault {
    let Selection { namespace, name, .. } = selection;
    Fault::new(
        FaultCode::NoNetworkFound,
        format!("network {namespace}/{name}"),
        format!("cannot find a network-attachment-definition ({name}) in namespace ({namespace})"),
        "create it, or correct the annotation k8s.v1.cni.cncf.io/networks; once it is there the pod starts by itself",
    )
}
