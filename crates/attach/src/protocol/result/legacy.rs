//! Results of CNI 0.1.0 and 0.2.0: one address per family, with the routes of that family.

use super::{CniResult, ResultIp, ResultRoute, is_empty, maybe_address, nullable};
use crate::protocol::{CniVersion, Error};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

#[derive(Deserialize)]
struct LegacyCniResult {
    ip4: Option<LegacyIpConfig>,
    ip6: Option<LegacyIpConfig>,
    #[serde(default, deserialize_with = "nullable")]
    dns: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct LegacyIpConfig {
    ip: IpNet,
    #[serde(default, deserialize_with = "maybe_address", skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    routes: Vec<ResultRoute>,
}

pub(super) fn read(value: &Value) -> Result<CniResult, serde_path_to_error::Error<serde_json::Error>> {
    let legacy: LegacyCniResult = serde_path_to_error::deserialize(value)?;
    let mut result = CniResult { dns: legacy.dns, ..CniResult::default() };
    for family in [legacy.ip4, legacy.ip6].into_iter().flatten() {
        result.ips.push(ResultIp { interface: None, address: family.ip, gateway: family.gateway });
        result.routes.extend(family.routes);
    }
    Ok(result)
}

pub(super) fn write(result: &CniResult, version: CniVersion) -> Result<Value, Error> {
    let family = |v4: bool| {
        let ip = result.ips.iter().find(|ip| ip.address.addr().is_ipv4() == v4)?;
        let routes = result.routes.iter().filter(|route| route.dst.addr().is_ipv4() == v4);
        let routes = routes.map(|route| ResultRoute { more: Map::new(), ..route.clone() }).collect();
        Some(LegacyIpConfig { ip: ip.address, gateway: ip.gateway, routes })
    };
    let mut dns = result.dns.clone();
    dns.retain(|_, value| !is_empty(value));
    let mut value = json!({ "cniVersion": version.as_str(), "dns": dns });
    let families = [("ip4", family(true)), ("ip6", family(false))];
    if families.iter().all(|(_, family)| family.is_none()) {
        return Err(Error::ResultNeedsAddress { version });
    }
    for (key, family) in families {
        if let Some(family) = family {
            value[key] = json!(family);
        }
    }
    Ok(value)
}
