//! Configurations of type `coordinator`.

use crate::{ConfigError, ConfigFields};
use ferroband_model::{MacPrefix, config_object::set_key};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// RT_TABLE_UNSPEC, RT_TABLE_DEFAULT, RT_TABLE_MAIN and RT_TABLE_LOCAL of linux/rtnetlink.h. A route to a pod in one of
/// them would be a route of the whole node.
const NODE_TABLES: [u32; 4] = [0, 253, 254, 255];

/// Keys that list the subnets to reach through the node.
const SUBNET_KEYS: [&str; 3] = ["overlayPodCIDR", "serviceCIDR", "hijackCIDR"];
/// Keys that list the subnets of Services. Only the daemon sets the second one: a user may leave the first one empty.
const SERVICE_KEYS: [&str; 2] = ["serviceCIDR", CLUSTER_SERVICES];
const CLUSTER_SERVICES: &str = "clusterServiceCIDR";
/// Key of the subnets of the cluster network, which only the daemon sets.
const CLUSTER_PODS: &str = "clusterPodCIDR";

/// Chained after another plugin: routes to the node, the services and other pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorConfig {
    /// `auto` (the default), `underlay` (the pod's first interface is InfiniBand), `overlay` or `disabled`.
    #[schemars(with = "Option<String>")]
    pub mode: CoordinatorMode,
    /// Subnets that the pod reaches through its node: pods, services and others.
    #[schemars(rename = "overlayPodCIDR, serviceCIDR, hijackCIDR", with = "Vec<String>")]
    pub subnets: Vec<IpNet>,
    /// Subnets of Services, in which no pod may have an address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub services: Vec<IpNet>,
    /// Subnets of the cluster network, in which a network of a user may not choose addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub pods: Vec<IpNet>,
    /// Additional routes in the interface's table, `dst` and `gw`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub policy_routes: Vec<(IpNet, IpAddr)>,
    /// First two bytes of the MAC address, `xx:yy`; the others are those of the IP address. Ethernet only, not ipvlan.
    #[serde(rename = "mac", default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "podMACPrefix", with = "Option<String>")]
    pub mac_prefix: Option<MacPrefix>,
    /// Whether additional interfaces get their own routing tables; true by default.
    #[serde(rename = "tune")]
    #[schemars(rename = "tunePodRoutes")]
    pub tune_routes: bool,
    /// Interface that keeps the pod's default route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "podDefaultRouteNIC")]
    pub default_route: Option<String>,
    /// Routing table of the node for routes to pods; 500 by default. Not 0, not 253 to 255, and not a table that other
    /// rules of the node select.
    #[serde(rename = "table")]
    #[schemars(rename = "hostRuleTable")]
    pub host_rule_table: u32,
    /// `rp_filter` in the pod: 0, 1 or 2; 0 by default. A negative number leaves it unchanged.
    #[serde(rename = "filter", default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "podRPFilter")]
    pub rp_filter: Option<u8>,
    /// Transmit queue length of the interface, in packets; 0, the default, leaves it unchanged.
    #[serde(rename = "queue", default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "txQueueLen")]
    pub tx_queue_len: Option<u32>,
    /// MTU of the veth pair between pod and node; 1500 by default.
    #[serde(rename = "mtu")]
    #[schemars(rename = "vethMTU")]
    pub veth_mtu: u32,
    /// Address of the pod's end of the veth pair to its node.
    #[serde(rename = "address", default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "vethLinkAddress", with = "Option<String>")]
    pub veth_address: Option<IpAddr>,
}

/// How the coordinator connects a pod to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorMode {
    /// Underlay for `eth0` and for pods that have a veth pair, otherwise overlay.
    Auto,
    /// The pod has no interface of the cluster network and gets a veth pair to the node.
    Underlay,
    /// The interface is additional to the one of the cluster network.
    Overlay,
    /// The coordinator changes nothing in the pod or on the node.
    Disabled,
}

impl CoordinatorConfig {
    /// Set the interface that keeps the pod's default route.
    pub fn set_default_route(plugin: &mut Map<String, Value>, ifname: &str) {
        set_key(plugin, "podDefaultRouteNIC", ifname.into());
    }

    /// Set the subnets of the cluster's Services and pods, whatever the user wrote.
    pub fn set_cluster_subnets(plugin: &mut Map<String, Value>, services: Value, pods: Value) {
        set_key(plugin, CLUSTER_SERVICES, services);
        set_key(plugin, CLUSTER_PODS, pods);
    }

    /// Parse a configuration.
    pub fn parse(fields: ConfigFields<'_>) -> Result<Self, ConfigError> {
        let wrong = ConfigError::field;
        let mode = match fields.text("mode")?.unwrap_or_default() {
            "" | "auto" => CoordinatorMode::Auto,
            "underlay" => CoordinatorMode::Underlay,
            "overlay" => CoordinatorMode::Overlay,
            // Accept both spellings: upstream's plugin knows only "disable", and upstream's custom resource only
            // "disabled".
            "disabled" | "disable" => CoordinatorMode::Disabled,
            _ => return Err(wrong("mode", "`auto`, `underlay`, `overlay` or `disabled`")),
        };
        let subnets = |keys: &[&str]| {
            let mut subnets = Vec::new();
            for key in keys {
                for value in fields.list(key)?.into_iter().flatten() {
                    let subnet = value.as_str().and_then(parse_subnet);
                    subnets.push(subnet.ok_or_else(|| wrong(key, "a list of subnets or addresses"))?);
                }
            }
            Ok::<_, ConfigError>(subnets)
        };
        let whole = |key: &str, default: i64| Ok::<_, ConfigError>(fields.integer(key)?.unwrap_or(default));
        let table = u32::try_from(whole("hostRuleTable", 500)?);
        let mtu = u32::try_from(whole("vethMTU", 1500)?);
        let filter = whole("podRPFilter", 0)?;
        let queue =
            u32::try_from(whole("txQueueLen", 0)?).map_err(|_| wrong("txQueueLen", "a number of packets"))?;
        Ok(Self {
            mode,
            subnets: subnets(&SUBNET_KEYS)?,
            services: subnets(&SERVICE_KEYS)?,
            pods: subnets(&[CLUSTER_PODS])?,
            policy_routes: parse_policy_routes(fields)?,
            mac_prefix: match fields.non_empty("podMACPrefix")? {
                Some(text) => Some(
                    text.parse()
                        .map_err(|_| wrong("podMACPrefix", "two bytes of a unicast MAC, such as 0a:1b"))?,
                ),
                None => None,
            },
            tune_routes: fields.optional_flag("tunePodRoutes")?.unwrap_or(true),
            default_route: fields.non_empty("podDefaultRouteNIC")?.map(str::to_owned),
            host_rule_table: table.ok().filter(|table| !NODE_TABLES.contains(table)).ok_or_else(|| {
                wrong("hostRuleTable", "the number of a routing table other than 0 and 253 to 255")
            })?,
            rp_filter: match filter {
                0..=2 => u8::try_from(filter).ok(),
                ..0 => None,
                _ => return Err(wrong("podRPFilter", "0, 1, 2, or negative to leave it unchanged")),
            },
            // Upstream writes 0 into every configuration. Zero means the kernel's default.
            tx_queue_len: Some(queue).filter(|queue| *queue > 0),
            veth_mtu: mtu.ok().filter(|mtu| *mtu > 0).ok_or_else(|| wrong("vethMTU", "a positive number"))?,
            veth_address: match fields.non_empty("vethLinkAddress")? {
                Some(text) => Some(text.parse().map_err(|_| wrong("vethLinkAddress", "an IP address"))?),
                None => None,
            },
        })
    }
}

fn parse_subnet(text: &str) -> Option<IpNet> {
    let subnet: Option<IpNet> = text.parse().ok();
    subnet.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).map(|subnet| subnet.trunc())
}

fn parse_policy_routes(fields: ConfigFields<'_>) -> Result<Vec<(IpNet, IpAddr)>, ConfigError> {
    let wrong = || {
        ConfigError::field("policyRoutes", "a list of routes with `dst` and `gw` of the same address family")
    };
    let route = |value: &Value| {
        let fields = ConfigFields(value.as_object()?);
        let destination = parse_subnet(fields.text("dst").ok()??)?;
        let gateway: IpAddr = fields.text("gw").ok()??.parse().ok()?;
        (destination.addr().is_ipv4() == gateway.is_ipv4()).then_some((destination, gateway))
    };
    let routes = fields.list("policyRoutes")?.into_iter().flatten();
    routes.map(|value| route(value).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(config: Value) -> Result<CoordinatorConfig, ConfigError> {
        CoordinatorConfig::parse(ConfigFields(config.as_object().unwrap()))
    }

    #[test]
    fn missing_keys_have_the_documented_defaults() {
        let step = step(json!({})).unwrap();
        assert_eq!(
            (step.mode, step.host_rule_table, step.veth_mtu, step.rp_filter),
            (CoordinatorMode::Auto, 500, 1500, Some(0))
        );
        assert!(step.tune_routes && step.subnets.is_empty() && step.default_route.is_none());
    }

    #[test]
    fn all_subnet_keys_accept_subnets_and_addresses() {
        let config = json!({"serviceCIDR": ["10.96.1.2/12"], "hijackCIDR": ["169.254.0.0/16", "fd00::1"],
            "overlayPodCIDR": ["10.244.0.0/16"], "mode": "disabled", "podRPFilter": -1,
            "policyRoutes": [{"dst": "10.1.0.0/16", "gw": "10.9.0.1"}]});
        let step = step(config).unwrap();
        let shown: Vec<_> = step.subnets.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.244.0.0/16", "10.96.0.0/12", "169.254.0.0/16", "fd00::1/128"]);
        assert_eq!(step.services, [step.subnets[1]]);
        assert_eq!(
            (step.mode, step.rp_filter, step.policy_routes.len()),
            (CoordinatorMode::Disabled, None, 1)
        );
    }

    #[test]
    fn subnets_of_the_cluster_cannot_be_removed_by_the_user() {
        let mut config = json!({"serviceCIDR": [], "ClusterServiceCIDR": [], "clusterpodcidr": []});
        let plugin = config.as_object_mut().unwrap();
        CoordinatorConfig::set_cluster_subnets(plugin, json!(["10.96.0.0/12"]), json!(["10.244.0.0/16"]));
        let step = step(config).unwrap();
        assert_eq!(step.services, ["10.96.0.0/12".parse().unwrap()]);
        assert_eq!(step.pods, ["10.244.0.0/16".parse().unwrap()]);
    }

    #[test]
    fn every_mode_is_parsed() {
        for (text, mode) in [
            ("", CoordinatorMode::Auto),
            ("auto", CoordinatorMode::Auto),
            ("underlay", CoordinatorMode::Underlay),
            ("overlay", CoordinatorMode::Overlay),
            ("disable", CoordinatorMode::Disabled),
            ("disabled", CoordinatorMode::Disabled),
        ] {
            assert_eq!(step(json!({"mode": text})).unwrap().mode, mode, "{text}");
        }
    }

    #[test]
    fn values_are_parsed_and_empty_ones_count_as_absent() {
        let empty = step(json!({"podDefaultRouteNIC": "", "vethLinkAddress": "", "txQueueLen": 0,
            "tunePodRoutes": false, "podRPFilter": 0}))
        .unwrap();
        assert_eq!((empty.default_route, empty.veth_address, empty.tx_queue_len), (None, None, None));
        assert_eq!((empty.tune_routes, empty.rp_filter), (false, Some(0)));
        let full =
            step(json!({"podDefaultRouteNIC": "net1", "vethLinkAddress": "169.254.200.1", "txQueueLen": 1,
            "hostRuleTable": 1, "vethMTU": 1, "podRPFilter": 2}))
            .unwrap();
        assert_eq!(full.default_route.as_deref(), Some("net1"));
        assert_eq!(full.veth_address, Some([169, 254, 200, 1].into()));
        assert_eq!((full.tx_queue_len, full.host_rule_table, full.veth_mtu), (Some(1), 1, 1));
        assert_eq!(full.rp_filter, Some(2));
    }

    #[test]
    fn invalid_values_are_rejected() {
        for config in [
            json!({"mode": "sideways"}),
            json!({"serviceCIDR": "10.0.0.0/8"}),
            json!({"serviceCIDR": ["ten"]}),
            json!({"hostRuleTable": 0}),
            json!({"hostRuleTable": -1}),
            json!({"hostRuleTable": 253}),
            json!({"hostRuleTable": 254}),
            json!({"hostRuleTable": 255}),
            json!({"vethMTU": 0}),
            json!({"vethMTU": -1}),
            json!({"txQueueLen": -1}),
            json!({"podRPFilter": 3}),
            json!({"podMACPrefix": "01:00"}),
            json!({"policyRoutes": [{"dst": "10.1.0.0/16", "gw": "fd00::1"}]}),
            json!({"vethLinkAddress": "host_netlink"}),
        ] {
            assert!(matches!(step(config.clone()), Err(ConfigError::Field { .. })), "{config}");
        }
    }
}
