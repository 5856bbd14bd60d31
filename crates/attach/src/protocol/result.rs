//! The result of an ADD, in the formats of all CNI versions.
//!
//! Internally only the newest format is used; [`CniResult::read`] and [`CniResult::write`] convert.

use crate::protocol::{CniVersion, Error};
use ferroband_config::ConfigError;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

mod legacy;

/// The result of an ADD, in the structure of the newest CNI version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CniResult {
    /// Interfaces in the host and in the sandbox.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<ResultInterface>,
    /// Addresses of the interfaces.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<ResultIp>,
    /// Routes in the sandbox.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<ResultRoute>,
    /// DNS settings, copied without interpretation.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Map::is_empty")]
    pub dns: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultInterface {
    #[serde(default)]
    pub name: String,
    /// Hardware address: 6 bytes for Ethernet or 20 for IPoIB, in hexadecimal with colons.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// MTU in bytes; since CNI 1.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Path of the interface's network namespace; empty if the interface is in the host namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// Path of a socket that belongs to the interface, such as a vhost-user socket; since CNI 1.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub socket_path: String,
    /// PCI address of the interface's device; since CNI 1.1.0.
    #[serde(default, rename = "pciID", skip_serializing_if = "String::is_empty")]
    pub pci_id: String,
}

/// An IP address of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultIp {
    /// Index in [`CniResult::interfaces`]; absent in the result of an IPAM plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// Address with the prefix length of its subnet.
    pub address: IpNet,
    /// Gateway of the subnet, if any.
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRoute {
    pub dst: IpNet,
    /// Gateway; when absent, the first gateway of an address of the same family.
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// `mtu`, `advmss`, `priority`, `table` and `scope`: since CNI 1.1.0, copied without interpretation.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl CniResult {
    /// Parse a result. `assumed` is its version if it has no `cniVersion`.
    pub fn read(value: &Value, assumed: CniVersion) -> Result<Self, Error> {
        let version = match value.get("cniVersion").and_then(Value::as_str) {
            None | Some("") => assumed,
            Some(text) => {
                let unknown = || ConfigError::IncompatibleVersion { version: text.to_owned() };
                CniVersion::parse(text).ok_or_else(unknown)?
            }
        };
        let read = match version {
            CniVersion::V0_1_0 | CniVersion::V0_2_0 => legacy::read(value),
            _ => serde_path_to_error::deserialize(value),
        };
        read.map_err(|source| Error::InvalidResult { source })
    }

    /// Write the result in the format of `version`. Versions before 0.3.0 require an address.
    pub fn write(&self, version: CniVersion) -> Result<Value, Error> {
        if version < CniVersion::V0_3_0 {
            return legacy::write(self, version);
        }
        let mut output = self.clone();
        output.dns.retain(|_, value| !is_empty(value));
        if version < CniVersion::V1_1_0 {
            for interface in &mut output.interfaces {
                *interface = ResultInterface {
                    mtu: None,
                    socket_path: String::new(),
                    pci_id: String::new(),
                    ..std::mem::take(interface)
                };
            }
            output.routes.iter_mut().for_each(|route| route.more.clear());
        }
        let mut value = json!(output);
        value["cniVersion"] = json!(version.as_str());
        if version < CniVersion::V1_0_0 {
            value["dns"] = json!(output.dns);
            let written = value.get_mut("ips").and_then(Value::as_array_mut).into_iter().flatten();
            for (ip, written) in output.ips.iter().zip(written) {
                written["version"] = json!(family(ip.address));
            }
        }
        Ok(value)
    }

    /// Text for standard output: sorted keys, four spaces of indentation, no trailing newline, as libcni prints it.
    pub fn print(&self, version: CniVersion) -> Result<String, Error> {
        Ok(pretty(&self.write(version)?))
    }
}

/// JSON with an indentation of four spaces.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, indent);
    // Serializing a `Value` into memory cannot fail.
    let _ = value.serialize(&mut writer);
    String::from_utf8(text).unwrap_or_default()
}

fn family(address: IpNet) -> &'static str {
    if address.addr().is_ipv4() { "4" } else { "6" }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Parse an optional address. An empty string, which Go programs may write, counts as absent.
fn maybe_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    match Option::<String>::deserialize(from)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

/// Convert a plugin's result to the next plugin's `prevResult`. A result that already has the CNI version of
/// the configuration list is returned unchanged.
pub fn to_prev_result(result: &Value, version: CniVersion) -> Result<Value, Error> {
    match result.get("cniVersion").and_then(Value::as_str) {
        Some(text) if text == version.as_str() => Ok(result.clone()),
        None | Some("") if result.is_object() => {
            let mut result = result.clone();
            result["cniVersion"] = json!(version.as_str());
            Ok(result)
        }
        _ => CniResult::read(result, version)?.write(version),
    }
}

#[cfg(test)]
mod tests;
