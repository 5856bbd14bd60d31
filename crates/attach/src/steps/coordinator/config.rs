//! Parsing of configurations of type `coordinator`.

use crate::ipc::plan::{CoordinatorMode, CoordinatorStep};
use crate::protocol::Error;
use crate::protocol::config::ConfigFields;
use ipnet::IpNet;
use serde_json::Value;
use std::net::IpAddr;

/// Keys that list the subnets to reach through the node.
const SUBNET_KEYS: [&str; 3] = ["overlayPodCIDR", "serviceCIDR", "hijackCIDR"];

pub(crate) fn parse_config(fields: ConfigFields<'_>) -> Result<CoordinatorStep, Error> {
    let wrong = |field: &str, expected| Error::Field { field: field.to_owned(), expected };
    let mode = match fields.text("mode")?.unwrap_or_default() {
        "" | "auto" => CoordinatorMode::Auto,
        "underlay" => CoordinatorMode::Underlay,
        "overlay" => CoordinatorMode::Overlay,
        // Accept both spellings: upstream's plugin knows only "disable", and upstream's custom resource only
        // "disabled".
        "disabled" | "disable" => CoordinatorMode::Disabled,
        _ => return Err(wrong("mode", "`auto`, `underlay`, `overlay` or `disabled`")),
    };
    let mut subnets = Vec::new();
    for key in SUBNET_KEYS {
        for value in fields.list(key)?.into_iter().flatten() {
            let subnet = value.as_str().and_then(parse_subnet);
            subnets.push(subnet.ok_or_else(|| wrong(key, "a list of subnets or addresses"))?);
        }
    }
    let whole = |key: &str, default: i64| Ok::<_, Error>(fields.integer(key)?.unwrap_or(default));
    let table = u32::try_from(whole("hostRuleTable", 500)?);
    let mtu = u32::try_from(whole("vethMTU", 1500)?);
    let filter = whole("podRPFilter", 0)?;
    let queue =
        u32::try_from(whole("txQueueLen", 0)?).map_err(|_| wrong("txQueueLen", "a number of packets"))?;
    Ok(CoordinatorStep {
        mode,
        subnets,
        policy_routes: parse_policy_routes(fields)?,
        mac_prefix: match fields.text("podMACPrefix")?.filter(|prefix| !prefix.is_empty()) {
            Some(text) => Some(
                text.parse()
                    .map_err(|_| wrong("podMACPrefix", "two bytes of a unicast MAC, such as 0a:1b"))?,
            ),
            None => None,
        },
        tune_routes: fields.get("tunePodRoutes").map_or(Ok(true), |_| fields.flag("tunePodRoutes"))?,
        default_route: fields.text("podDefaultRouteNIC")?.filter(|nic| !nic.is_empty()).map(str::to_owned),
        host_rule_table: table
            .ok()
            .filter(|table| *table > 0)
            .ok_or_else(|| wrong("hostRuleTable", "the number of a routing table"))?,
        rp_filter: match filter {
            0..=2 => u8::try_from(filter).ok(),
            ..0 => None,
            _ => return Err(wrong("podRPFilter", "0, 1, 2, or negative to leave it unchanged")),
        },
        // Upstream writes 0 into every configuration. Zero means the kernel's default.
        tx_queue_len: Some(queue).filter(|queue| *queue > 0),
        veth_mtu: mtu.ok().filter(|mtu| *mtu > 0).ok_or_else(|| wrong("vethMTU", "a positive number"))?,
        veth_address: match fields.text("vethLinkAddress")?.filter(|address| !address.is_empty()) {
            Some(text) => Some(text.parse().map_err(|_| wrong("vethLinkAddress", "an IP address"))?),
            None => None,
        },
    })
}

fn parse_subnet(text: &str) -> Option<IpNet> {
    let subnet: Option<IpNet> = text.parse().ok();
    subnet.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).map(|subnet| subnet.trunc())
}

fn parse_policy_routes(fields: ConfigFields<'_>) -> Result<Vec<(IpNet, IpAddr)>, Error> {
    let wrong = || Error::Field {
        field: "policyRoutes".to_owned(),
        expected: "a list of routes with `dst` and `gw` of the same address family",
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

    fn step(config: Value) -> Result<CoordinatorStep, Error> {
        parse_config(ConfigFields(config.as_object().unwrap()))
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
        assert_eq!(
            (step.mode, step.rp_filter, step.policy_routes.len()),
            (CoordinatorMode::Disabled, None, 1)
        );
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
            json!({"vethMTU": 0}),
            json!({"vethMTU": -1}),
            json!({"txQueueLen": -1}),
            json!({"podRPFilter": 3}),
            json!({"podMACPrefix": "01:00"}),
            json!({"policyRoutes": [{"dst": "10.1.0.0/16", "gw": "fd00::1"}]}),
            json!({"vethLinkAddress": "host_netlink"}),
        ] {
            assert!(matches!(step(config.clone()), Err(Error::Field { .. })), "{config}");
        }
    }
}
