//! Resolves a pod's networks to NetworkAttachmentDefinitions and CNI configurations.

use super::{
    DefaultNetwork, DefaultNetworkChoice, NetworkAccessPolicy, PodResolver, RequestedNetworks,
    ResolvedNetwork,
    default_network::{find_default_network, find_network_by_name, read_default_network},
};
use crate::Error;
use ferroband_api::{
    annotation::NetworkSelection,
    cncf::{NetworkAttachmentDefinition, NetworkConfig},
};
use ferroband_attach::message::CniCall;
use ferroband_model::{Fault, FaultCode, config_object::get_key};
use futures::future::try_join_all;
use serde_json::{Map, Value};
use std::sync::Arc;

impl PodResolver {
    /// Finds the NetworkAttachmentDefinitions of all networks that the pod gets. A missing definition is a
    /// fault.
    pub(super) async fn find_definitions(
        &self,
        requested: RequestedNetworks,
        policy: &NetworkAccessPolicy,
        call: &CniCall,
    ) -> Result<NetworkDefinitions, Fault> {
        let RequestedNetworks { default, cluster_wide, networks } = requested;
        let find = |selection: NetworkSelection| async move {
            let definition = self.networks.find(&selection.namespace, &selection.name).await;
            match definition.map_err(|e: Error| e.fault())? {
                Some(definition) => Ok((selection, definition)),
                None => Err(no_network_fault(&selection)),
            }
        };
        let (default, cluster) = match (default, call.setting("clusterNetwork").and_then(Value::as_str)) {
            (Some(selection), _) => (Some(find(selection).await?), None),
            (None, Some(name)) if !name.is_empty() => self.find_cluster_network(name, policy).await?,
            (None, _) => (None, None),
        };
        Ok(NetworkDefinitions {
            default,
            cluster,
            networks: try_join_all(cluster_wide.into_iter().chain(networks).map(find)).await?,
        })
    }

    /// Finds the default network that the Multus setting `clusterNetwork` names. A value with a slash is the
    /// path of a file or directory. Any other value is the name of a NetworkAttachmentDefinition or, if there
    /// is none, the name of a network in a CNI configuration file.
    async fn find_cluster_network(
        &self,
        name: &str,
        policy: &NetworkAccessPolicy,
    ) -> Result<(Option<DefinedNetwork>, Option<DefaultNetwork>), Fault> {
        if name.contains('/') {
            return Ok((None, Some(read_default_network(&self.root.path(name))?)));
        }
        let mut selections =
            NetworkSelection::parse_networks(name, &policy.namespace).map_err(|e| e.fault())?;
        let definition = match selections.first() {
            Some(selection) => self
                .networks
                .find(&selection.namespace, &selection.name)
                .await
                .map_err(|e: Error| e.fault())?,
            None => None,
        };
        match definition {
            Some(definition) => Ok((Some((selections.remove(0), definition)), None)),
            None => Ok((None, Some(find_network_by_name(&self.multus_conf_d, name)?))),
        }
    }

    /// Reads the CNI configurations of the pod's network definitions and of the default network.
    pub(super) fn read_configs(
        &self,
        definitions: NetworkDefinitions,
        call: &CniCall,
    ) -> Result<(DefaultNetworkChoice, Vec<ResolvedNetwork>), Fault> {
        let folders = [self.multus_conf_d.clone(), self.net_d.clone()];
        let resolve = |(selection, definition): DefinedNetwork| {
            let mut network = ResolvedNetwork::from_definition(selection, &definition, &folders)?;
            let coordinators = network.config.plugins.iter_mut().filter(|plugin| is_coordinator(plugin));
            coordinators.for_each(|plugin| self.coordinator_context.fill(plugin));
            Ok::<_, Fault>(network)
        };
        let networks = definitions.networks.into_iter().map(resolve).collect::<Result<_, _>>()?;
        let default = match definitions.default {
            Some(defined) => DefaultNetworkChoice::Resolved(Box::new(resolve(defined)?)),
            None => DefaultNetworkChoice::Wrapped(
                definitions.cluster.map_or_else(|| self.find_wrapped_network(call), Ok)?,
            ),
        };
        Ok((default, networks))
    }

    /// Returns the cluster's default network from its file or, if that fails, from the copy in the CNI
    /// configuration of the call.
    fn find_wrapped_network(&self, call: &CniCall) -> Result<DefaultNetwork, Fault> {
        find_default_network(&self.net_d).or_else(|fault| {
            let delegate =
                call.setting("delegates").and_then(|list| list.get(0)).ok_or_else(|| fault.clone())?;
            let network = NetworkConfig::parse("default network", &delegate.to_string(), "default");
            Ok(DefaultNetwork { file: self.net_d.clone(), network: network.map_err(|_| fault)? })
        })
    }
}

/// A network selection and the NetworkAttachmentDefinition that it refers to.
type DefinedNetwork = (NetworkSelection, Arc<NetworkAttachmentDefinition>);

/// The definitions of a pod's networks, before their CNI configurations are read.
pub(super) struct NetworkDefinitions {
    /// The network definition that replaces the cluster's default network, if any.
    default: Option<DefinedNetwork>,
    /// The default network from a file, if `clusterNetwork` in the CNI configuration of the call names a
    /// file.
    cluster: Option<DefaultNetwork>,
    /// The additional networks, in the order of their interfaces.
    networks: Vec<DefinedNetwork>,
}

fn is_coordinator(plugin: &Map<String, Value>) -> bool {
    get_key(plugin, "type").and_then(Value::as_str) == Some("coordinator")
}

fn no_network_fault(selection: &NetworkSelection) -> Fault {
    let NetworkSelection { namespace, name, .. } = selection;
    Fault::new(
        FaultCode::NoNetworkFound,
        format!("network {namespace}/{name}"),
        format!("cannot find a network-attachment-definition ({name}) in namespace ({namespace})"),
        "create this definition, or correct the annotation k8s.v1.cni.cncf.io/networks; the pod is retried",
    )
}
