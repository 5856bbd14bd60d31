//! The result of an ADD, in all forms that the specification has had.
//!
//! Inside there is one form, the newest; [`CniResult::read`] and [`CniResult::write`] translate.

use crate::{CniVersion, Error};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

mod legacy;

/// What an ADD brought about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CniResult {
    /// The interfaces, in the host and in the sandbox.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<ResultInterface>,
    /// The addresses.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<ResultIp>,
    /// The routes.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<ResultRoute>,
    /// Name service settings, as written.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Map::is_empty")]
    pub dns: Map<String, Value>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultInterface {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its hardware address: 6 bytes of Ethernet or 20 of IPoIB, in hexadecimal with colons.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Its MTU; since 1.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The sandbox it is in; empty for the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// Since 1.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub socket_path: String,
    /// Since 1.1.0.
    #[serde(default, rename = "pciID", skip_serializing_if = "String::is_empty")]
    pub pci_id: String,
}

/// One address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultIp {
    /// Position of its interface in the list of interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// The address with its prefix length.
    pub address: IpNet,
    /// The gateway of its subnet.
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRoute {
    /// Destination.
    pub dst: IpNet,
    /// Gateway; that of the address's family when absent.
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// `mtu`, `advmss`, `priority`, `table`, `scope`: since 1.1.0, as written.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl CniResult {
    /// Read a result that says its version itself, or else is of `assumed`.
    pub fn read(value: &Value, assumed: CniVersion) -> Result<Self, Error> {
        let version = match value.get("cniVersion").and_then(Value::as_str) {
            None | Some("") => assumed,
            Some(text) => {
                let unknown = || Error::IncompatibleVersion { asked: text.to_owned() };
                CniVersion::parse(text).ok_or_else(unknown)?
            }
        };
        let read = match version {
            CniVersion::V0_1_0 | CniVersion::V0_2_0 => legacy::read(value),
            _ => serde_path_to_error::deserialize(value),
        };
        read.map_err(|source| Error::InvalidResult { source })
    }

    /// Write it as `version` wants it. The oldest versions cannot say that there is no address.
    pub fn write(&self, version: CniVersion) -> Result<Value, Error> {
        if version < CniVersion::V0_3_0 {
            return legacy::write(self, version);
        }
        let mut told = self.clone();
        told.dns.retain(|_, value| !is_empty(value));
        if version < CniVersion::V1_1_0 {
            for interface in &mut told.interfaces {
                *interface = ResultInterface {
                    mtu: None,
                    socket_path: String::new(),
                    pci_id: String::new(),
                    ..std::mem::take(interface)
                };
            }
            told.routes.iter_mut().for_each(|route| route.more.clear());
        }
        let mut value = json!(told);
        value["cniVersion"] = json!(version.as_str());
        if version < CniVersion::V1_0_0 {
            value["dns"] = json!(told.dns);
            let written = value.get_mut("ips").and_then(Value::as_array_mut).into_iter().flatten();
            for (ip, written) in told.ips.iter().zip(written) {
                written["version"] = json!(family(ip.address));
            }
        }
        Ok(value)
    }

    /// As text for standard output: keys sorted, four blanks of indentation, no newline, as libcni prints it.
    pub fn print(&self, version: CniVersion) -> Result<String, Error> {
        Ok(pretty(&self.write(version)?))
    }
}

/// JSON indented by four blanks.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, indent);
    // A `Value` always serializes, and into memory nothing fails.
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

/// An address, where Go programs may write an empty string for none.
fn maybe_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    match Option::<String>::deserialize(from)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests;
