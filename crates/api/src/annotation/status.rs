//! The annotation `network-status`: the attached interfaces of a pod.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::net::IpAddr;

/// One interface in the annotation. Fields are in the key order that consumers expect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusEntry {
    /// The network, `<namespace>/<name>`, or the CNI name of the default network.
    pub name: String,
    /// Interface name in the pod; absent if the CNI result reports no interface in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Addresses of the interface, without prefix length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Link-layer address of the interface; absent if the CNI result has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// MTU of the interface in bytes; absent if the CNI result has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u64>,
    /// Whether this is the interface of the pod's default network; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// DNS settings from the CNI result.
    #[serde(default)]
    pub dns: Dns,
    /// The device that provides the interface, in the format of the device-info specification.
    #[serde(default, rename = "device-info", skip_serializing_if = "Option::is_none")]
    pub device_info: Option<Value>,
    /// Gateways of the default routes in the CNI result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<String>,
}

/// DNS settings of a CNI result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dns {
    /// Addresses of the name servers, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Local domain, for lookups of short names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Search domains for lookups of short names, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Resolver options, as in `resolv.conf`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// The CNI result of one attached network.
#[derive(Clone, Copy, Debug)]
pub struct AttachedNetworkResult<'a> {
    /// `<namespace>/<name>` of the NetworkAttachmentDefinition, or the CNI name of the default network.
    pub name: &'a str,
    /// The requested interface name (`CNI_IFNAME`).
    pub interface: &'a str,
    /// Whether this is the pod's default network.
    pub default: bool,
    /// The CNI result of the last plugin, in the format of version 1.0.0 or newer.
    pub result: &'a Value,
    /// The device that provides the interface, in the format of the device-info specification.
    pub device_info: Option<&'a Value>,
}

/// An interface of a CNI result. Malformed values count as absent.
struct StatusInterface<'a> {
    name: Option<&'a str>,
    mac: Option<&'a str>,
    mtu: Option<u64>,
    in_pod: bool,
}

impl AttachedNetworkResult<'_> {
    /// Returns one entry for each interface in the pod. A result with addresses but without interfaces gives one entry
    /// for the requested interface.
    pub fn status_entries(&self) -> Vec<StatusEntry> {
        let list = |key: &str| self.result.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let interfaces: Vec<_> = list("interfaces").iter().map(StatusInterface::read).collect();
        let ips: Vec<_> = list("ips").iter().filter_map(parse_ip).collect();
        let common = StatusEntry {
            name: self.name.into(),
            dns: self.result.get("dns").and_then(|dns| Dns::deserialize(dns).ok()).unwrap_or_default(),
            device_info: self.device_info.cloned(),
            gateway: list("routes").iter().filter_map(default_gateway).collect(),
            ..StatusEntry::default()
        };
        let addresses = |entry_of: &dyn Fn(Option<usize>) -> bool| -> Vec<String> {
            ips.iter().filter(|ip| entry_of(ip.interface)).map(|ip| ip.address.to_string()).collect()
        };
        match interfaces.as_slice() {
            // A result without interfaces, as of CNI 0.2.0 and older, describes the requested interface.
            [] if ips.is_empty() => Vec::new(),
            [] => vec![StatusEntry {
                interface: Some(self.interface.into()),
                ips: addresses(&|_| true),
                default: self.default,
                ..common
            }],
            [only] => {
                let entry = StatusEntry { ips: addresses(&|_| true), default: self.default, ..common };
                vec![if only.in_pod { only.fill_entry(entry) } else { entry }]
            }
            several => {
                let in_pod = || (0..several.len()).filter(|i| several[*i].in_pod);
                let (Some(first), Some(last)) = (in_pod().next(), in_pod().next_back()) else {
                    return Vec::new();
                };
                let with_gateway = ips.iter().find(|ip| ip.has_gateway && ip.interface.is_some());
                let default = with_gateway.and_then(|ip| ip.interface).unwrap_or(first);
                let entry = |i: usize| {
                    let belongs = |of: Option<usize>| of == Some(i) || (of.is_none() && i == last);
                    several[i].fill_entry(StatusEntry {
                        ips: addresses(&belongs),
                        default: self.default && i == default,
                        ..common.clone()
                    })
                };
                in_pod().map(entry).collect()
            }
        }
    }
}

impl<'a> StatusInterface<'a> {
    fn read(value: &'a Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Self {
            name: text("name"),
            mac: text("mac"),
            mtu: value.get("mtu").and_then(Value::as_u64).filter(|mtu| *mtu > 0),
            in_pod: text("sandbox").is_some(),
        }
    }

    fn fill_entry(&self, entry: StatusEntry) -> StatusEntry {
        StatusEntry {
            interface: self.name.map(str::to_owned),
            mac: self.mac.map(str::to_owned),
            mtu: self.mtu,
            ..entry
        }
    }
}

struct StatusIp {
    address: IpAddr,
    interface: Option<usize>,
    has_gateway: bool,
}

fn parse_ip(value: &Value) -> Option<StatusIp> {
    let address = value.get("address")?.as_str()?;
    let address = address.split_once('/').map_or(address, |(address, _)| address).parse().ok()?;
    let interface = value.get("interface").and_then(Value::as_u64).and_then(|i| usize::try_from(i).ok());
    let with_gateway =
        value.get("gateway").and_then(Value::as_str).is_some_and(|gateway| !gateway.is_empty());
    Some(StatusIp { address, interface, has_gateway: with_gateway })
}

/// Returns the gateway of `route`; `None` if it is not a default route or has no gateway.
fn default_gateway(route: &Value) -> Option<String> {
    let destination = route.get("dst").and_then(Value::as_str).unwrap_or_default();
    let address = destination.split('/').next().unwrap_or_default();
    let is_default =
        address.is_empty() || address.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
    let gateway = route.get("gw").and_then(Value::as_str).filter(|gateway| !gateway.is_empty())?;
    is_default.then(|| gateway.to_owned())
}

/// Renders the annotation as Multus does: entries indented by four spaces and joined by a comma without a space.
pub fn render_status(entries: &[StatusEntry]) -> String {
    let entry = |entry: &StatusEntry| {
        let mut text = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
        // Serializing strings and numbers cannot fail, and the output is UTF-8.
        match entry.serialize(&mut serializer) {
            Ok(()) => String::from_utf8(text).unwrap_or_default(),
            Err(_) => String::new(),
        }
    };
    format!("[{}]", entries.iter().map(entry).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
