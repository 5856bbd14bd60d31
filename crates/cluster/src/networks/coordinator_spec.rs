//! Validates the coordinator settings of a SpiderMultusConfig or SpiderCoordinator.
//!
//! The node daemon refuses the same values when a pod is attached. Here the author of the object sees them.

use super::NetworkSpecError;
use ferroband_api::spiderpool::CoordinatorSpec;
use ferroband_model::MacPrefix;
use ipnet::IpNet;
use std::net::IpAddr;

const MODES: [&str; 5] = ["", "auto", "underlay", "overlay", "disabled"];

/// Fails if a setting is invalid. `path` is the field of the object that contains the settings.
pub fn validate(path: &str, spec: &CoordinatorSpec) -> Result<(), NetworkSpecError> {
    let check = |field: &str, valid: bool, problem: &'static str| match valid {
        true => Ok(()),
        false => Err(NetworkSpecError::InvalidShape { field: format!("{path}.{field}"), problem }),
    };
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let is_u32 = |number: i64| u32::try_from(number).is_ok();
    check("mode", MODES.contains(&spec.mode.as_str()), "must be auto, underlay, overlay or disabled")?;
    check("podRPFilter", spec.pod_rp_filter <= 2, "must be 0, 1, 2, or negative to leave it unchanged")?;
    check(
        "podMACPrefix",
        text(&spec.pod_mac_prefix).is_none_or(|prefix| prefix.parse::<MacPrefix>().is_ok()),
        "must be two bytes of a unicast MAC address, such as 0a:1b",
    )?;
    check(
        "hostRuleTable",
        spec.host_rule_table > 0 && is_u32(spec.host_rule_table),
        "must be the number of a routing table",
    )?;
    check("txQueueLen", is_u32(spec.tx_queue_len), "must be a number of packets")?;
    check("vethMTU", spec.veth_mtu.is_none_or(|mtu| mtu > 0 && is_u32(mtu)), "must be a positive number")?;
    check(
        "vethLinkAddress",
        text(&spec.veth_link_address).is_none_or(|address| address.parse::<IpAddr>().is_ok()),
        "must be an IP address",
    )?;
    check(
        "hijackCIDR",
        spec.hijack_cidr.iter().all(|subnet| parse_subnet(subnet).is_some()),
        "must be a list of subnets or addresses",
    )?;
    let same_family = |dst: &str, gw: &str| {
        let (Some(subnet), Ok(gateway)) = (parse_subnet(dst), gw.parse::<IpAddr>()) else { return false };
        subnet.addr().is_ipv4() == gateway.is_ipv4()
    };
    check(
        "policyRoutes",
        spec.policy_routes.iter().all(|route| same_family(&route.dst, &route.gw)),
        "must be a list of routes with dst and gw of the same address family",
    )
}

fn parse_subnet(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problem(spec: Value) -> Option<String> {
        let spec = serde_json::from_value(spec).unwrap();
        validate("spec.coordinator", &spec).err().map(|error| error.to_string())
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_field() {
        for (field, value) in [
            ("podRPFilter", json!(4)),
            ("podMACPrefix", json!("01:00")),
            ("podMACPrefix", json!("0a:1b:2c")),
            ("mode", json!("sideways")),
            ("hostRuleTable", json!(0)),
            ("txQueueLen", json!(-1)),
            ("vethMTU", json!(0)),
            ("vethLinkAddress", json!("host")),
            ("hijackCIDR", json!(["10.0.0.0/8", "ten"])),
            ("policyRoutes", json!([{"dst": "10.1.0.0/16", "gw": "fd00::1"}])),
        ] {
            let found =
                problem(json!({field: value})).unwrap_or_else(|| panic!("{field}: {value} is accepted"));
            assert!(found.starts_with(&format!("spec.coordinator.{field} must be")), "{found}");
        }
    }

    #[test]
    fn valid_settings_are_accepted() {
        assert_eq!(problem(json!({})), None);
        let all = json!({"mode": "underlay", "podRPFilter": -1, "podMACPrefix": "0a:1b", "hostRuleTable": 500,
            "txQueueLen": 0, "vethMTU": 1500, "vethLinkAddress": "169.254.1.1", "hijackCIDR": ["10.0.0.0/8", "fd00::1"],
            "policyRoutes": [{"dst": "10.1.0.0/16", "gw": "10.9.0.1"}]});
        assert_eq!(problem(all), None);
        assert_eq!(problem(json!({"podMACPrefix": "", "vethLinkAddress": ""})), None);
    }
}
