//! Parses the annotations by which a pod requests networks.
//!
//! ```text
//! k8s.v1.cni.cncf.io/networks: "a, other/b@ib1"                        comma list
//! k8s.v1.cni.cncf.io/networks: '[{"name":"b","namespace":"other",…}]'  JSON, when it has [ { or "
//! ```

use super::validate::{selection_error, validate};
use super::{DEFAULT_NETWORK, NETWORKS};
use crate::Error;
use ferroband_model::ConfigObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// One network that a pod requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkSelection {
    /// Namespace of the NetworkAttachmentDefinition.
    pub namespace: String,
    /// Name of the NetworkAttachmentDefinition.
    pub name: String,
    /// Requested interface name in the pod; `net<n>` for the n-th network if absent.
    pub interface: Option<String>,
    /// Requested addresses, with or without prefix length.
    pub ips: Vec<String>,
    /// Requested link-layer address of 6, 8 or 20 bytes.
    pub mac: Option<String>,
    /// Requested GUID: eight bytes, separated by `:` or `-`, or in pairs by `.`.
    pub infiniband_guid: Option<String>,
    /// Host ports to forward to the pod.
    pub port_mappings: Vec<PortMapping>,
    /// Traffic shaping limits, passed to plugins with the capability `bandwidth`.
    pub bandwidth: Option<Bandwidth>,
    /// Requested device, passed to plugins with the capability `deviceID`.
    pub device_id: Option<String>,
    /// Arguments that every plugin of the network gets in `args.cni`.
    pub cni_args: Map<String, Value>,
    /// Gateways of the default route. An empty list removes the default route from every interface.
    pub default_route: Option<Vec<IpAddr>>,
    /// Name of an IPAMClaim, which outlives the pod.
    pub ipam_claim_reference: Option<String>,
}

/// A host port forwarded to the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// Port number on the host, 1 to 65535.
    pub host_port: i64,
    /// Port number in the pod, 1 to 65535.
    pub container_port: i64,
    /// `tcp`, `udp` or `sctp` in any case; TCP when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Host address to bind to; all addresses if absent.
    #[serde(default, rename = "hostIP", skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<String>,
}

/// Traffic limits: rates in bits per second, bursts in bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bandwidth {
    /// Rate limit for traffic into the pod, in bits per second.
    pub ingress_rate: i64,
    /// Burst limit for traffic into the pod, in bits.
    pub ingress_burst: i64,
    /// Rate limit for traffic out of the pod, in bits per second.
    pub egress_rate: i64,
    /// Burst limit for traffic out of the pod, in bits.
    pub egress_burst: i64,
}

/// One element of the JSON form of the annotation, with the keys of the specification.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct NetworkSelectionElement {
    name: Option<String>,
    namespace: Option<String>,
    interface: Option<String>,
    #[serde(rename = "interfaceRequest")]
    interface_request: Option<String>,
    ips: Option<Vec<String>>,
    mac: Option<String>,
    infiniband_guid: Option<String>,
    #[serde(rename = "portMappings")]
    port_mappings: Option<Vec<PortMapping>>,
    bandwidth: Option<Bandwidth>,
    #[serde(rename = "deviceID")]
    device_id: Option<String>,
    cni_args: Option<ConfigObject>,
    default_route: Option<Vec<IpAddr>>,
    ipam_claim_reference: Option<String>,
}

impl NetworkSelection {
    /// Parses the annotation [`NETWORKS`] of a pod in `namespace`, preserving the order. Empty text selects no network.
    pub fn parse_networks(annotation: &str, namespace: &str) -> Result<Vec<Self>, Error> {
        parse(NETWORKS, annotation, namespace)
    }

    /// Parses the annotation [`DEFAULT_NETWORK`]. A name without a namespace is looked up in `namespace`. Returns
    /// `None` for empty text, and an error for more than one network.
    pub fn parse_default_network(annotation: &str, namespace: &str) -> Result<Option<Self>, Error> {
        let mut selections = parse(DEFAULT_NETWORK, annotation, namespace)?;
        match selections.len() {
            0 | 1 => Ok(selections.pop()),
            count => Err(Error::MultipleDefaultNetworks { annotation: DEFAULT_NETWORK, count }),
        }
    }

    /// Returns `<namespace>/<name>`, as written to the annotation `network-status`.
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn parse(annotation: &'static str, text: &str, namespace: &str) -> Result<Vec<NetworkSelection>, Error> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let selections: Vec<NetworkSelection> = if text.contains(['[', '{', '"']) {
        let elements: Vec<NetworkSelectionElement> =
            serde_json::from_str(text).map_err(|source| Error::AnnotationJson { annotation, source })?;
        elements.into_iter().map(NetworkSelectionElement::into_selection).collect()
    } else {
        let item = |(position, item)| parse_comma_item(annotation, position, item);
        text.split(',').enumerate().map(item).collect::<Result<_, _>>()?
    };
    let mut selections = selections;
    for (position, selection) in selections.iter_mut().enumerate() {
        validate(annotation, position, selection)?;
        if selection.namespace.is_empty() {
            selection.namespace = namespace.into();
        }
    }
    let routes = || selections.iter().filter_map(|s| s.default_route.as_ref()).flatten();
    for (family, count) in [
        ("IPv4", routes().filter(|gateway| gateway.is_ipv4()).count()),
        ("IPv6", routes().filter(|gateway| gateway.is_ipv6()).count()),
    ] {
        if count > 1 {
            return Err(Error::MultipleDefaultRoutes { annotation, family });
        }
    }
    Ok(selections)
}

impl NetworkSelectionElement {
    fn into_selection(self) -> NetworkSelection {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        NetworkSelection {
            namespace: self.namespace.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            interface: some(self.interface).or_else(|| some(self.interface_request)),
            ips: self.ips.unwrap_or_default(),
            mac: some(self.mac),
            infiniband_guid: some(self.infiniband_guid),
            port_mappings: self.port_mappings.unwrap_or_default(),
            bandwidth: self.bandwidth,
            device_id: some(self.device_id),
            cni_args: self.cni_args.unwrap_or_default().0,
            default_route: self.default_route,
            ipam_claim_reference: some(self.ipam_claim_reference),
        }
    }
}

/// Parses one item of the comma list, `[<namespace>/]<name>[@<interface>]`.
fn parse_comma_item(
    annotation: &'static str,
    position: usize,
    item: &str,
) -> Result<NetworkSelection, Error> {
    let item = item.trim();
    let wrong = |field, problem: String| selection_error(annotation, position, item, field, problem);
    let (network, interface) = match item.split_once('@') {
        Some((_, rest)) if rest.contains('@') => {
            return Err(wrong("interface", "contains more than one @".into()));
        }
        Some((network, interface)) => (network, Some(interface.trim())),
        None => (item, None),
    };
    let (namespace, name) = match network.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return Err(wrong("name", "contains more than one /".into()));
        }
        Some((namespace, name)) => (namespace.trim(), name.trim()),
        None => ("", network.trim()),
    };
    // Multus rejects dots in the comma list but accepts them in JSON, and users rely on the error.
    if name.contains('.') {
        return Err(wrong("name", format!("{name:?} contains a dot; only the JSON form allows dots")));
    }
    let interface = interface.map(str::to_owned);
    Ok(NetworkSelection {
        namespace: namespace.into(),
        name: name.into(),
        interface,
        ..NetworkSelection::default()
    })
}

#[cfg(test)]
mod tests;
