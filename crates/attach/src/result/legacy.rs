//! The results of 0.1.0 and 0.2.0: one address per family, each with the routes of its family.

use super::{CniResult, Ip, Route, is_empty, maybe_address, nullable};
use crate::{Error, Version};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

#[derive(Deserialize)]
struct Legacy {
    ip4: Option<Family>,
    ip6: Option<Family>,
    #[serde(default, deserialize_with = "nullable")]
    dns: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Family {
    ip: IpNet,
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

pub(super) fn read(value: &Value) -> Result<CniResult, serde_path_to_error::Error<serde_json::Error>> {
    let legacy: Legacy = serde_path_to_error::deserialize(value)?;
    let mut result = CniResult { dns: legacy.dns, ..CniResult::default() };
    for family in [legacy.ip4, legacy.ip6].into_iter().flatten() {
        result.ips.push(Ip { interface: None, address: family.ip, gateway: family.gateway });
        result.routes.extend(family.routes);
    }
    Ok(result)
}

pub(super) fn write(result: &CniResult, version: Version) -> Result<Value, Error> {
    let family = |v4: bool| {
        let ip = result.ips.iter().find(|ip| ip.address.addr().is_ipv4() == v4)?;
        let routes = result.routes.iter().filter(|route| route.dst.addr().is_ipv4() == v4);
        let routes = routes.map(|route| Route { more: Map::new(), ..route.clone() }).collect();
        Some(Family { ip: ip.address, gateway: ip.gateway, routes })
    };
    let mut dns = result.dns.clone();
    dns.retain(|_, value| !is_empty(value));
    let mut value = json!({ "cniVersion": version.as_str(), "dns": dns });
    let families = [("ip4", family(true)), ("ip6", family(false))];
    if families.iter().all(|(_, family)| family.is_none()) {
        return Err(Error::NoAddressToTell { version });
    }
    for (key, family) in families {
        if let Some(family) = family {
            value[key] = json!(family);
        }
    }
    Ok(value)
}
