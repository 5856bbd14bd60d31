//! Whereabouts' flat file (`whereabouts.conf`), which provides defaults for `ipam` objects.

use serde_json::{Map, Value};

/// Fills the empty values of the `ipam` object from `flat`. `null`, `false`, zero and empty strings, lists and objects
/// count as empty. As in Whereabouts, only the network can set `enable_overlapping_ranges`.
pub fn merge_flat_file(ipam: &Map<String, Value>, flat: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = ipam.clone();
    for (key, value) in flat {
        if key.eq_ignore_ascii_case("enable_overlapping_ranges") || key.eq_ignore_ascii_case("type") {
            continue;
        }
        let known = merged.keys().find(|known| known.eq_ignore_ascii_case(key)).cloned();
        let known = known.unwrap_or_else(|| key.clone());
        match (merged.get(&known), value) {
            (Some(Value::Object(inner)), Value::Object(flat)) if !inner.is_empty() => {
                let inner = self::merge_flat_file(inner, flat);
                merged.insert(known, Value::Object(inner));
            }
            (Some(present), _) if !is_zero_value(present) => {}
            _ => {
                merged.insert(known, value.clone());
            }
        }
    }
    merged
}

fn is_zero_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whereabouts::WhereaboutsConfig;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn network_takes_precedence_over_flat_file() {
        let flat = object(json!({"range": "10.0.0.0/24", "gateway": "10.0.0.1", "exclude": ["10.0.0.0/28"],
            "enable_overlapping_ranges": false, "kubernetes": {"kubeconfig": "/k"}, "log_level": "debug"}));
        let ipam = object(json!({"type": "whereabouts", "range": "", "gateway": "10.0.0.2", "exclude": []}));
        let merged = merge_flat_file(&ipam, &flat);
        let read = WhereaboutsConfig::parse(&merged).unwrap();
        assert_eq!(read.pools[0].to_string(), "10.0.0.0/24");
        assert_eq!(read.pools[0].gateway(), Some([10, 0, 0, 2].into()));
        assert!(
            !read.pools[0].contains([10, 0, 0, 5].into()) && read.pools[0].contains([10, 0, 0, 16].into())
        );
        assert_eq!(
            read.pools[0].space().as_str(),
            "default",
            "only the network sets enable_overlapping_ranges"
        );
    }

    // Case: ipam W38
    #[test]
    fn cni_args_add_static_addresses_with_the_gateways_of_their_subnets() {
        let ipam = object(json!({"type": "whereabouts", "range": "10.0.0.0/24",
            "addresses": [{"address": "10.10.0.1/24", "gateway": "10.10.0.254"}]}));
        let read = WhereaboutsConfig::parse(&ipam)
            .unwrap()
            .with_cni_args("10.20.0.5/24, 10.30.0.5/16", "10.30.0.1")
            .unwrap();
        let fixed: Vec<_> = read
            .static_addresses
            .iter()
            .map(|fixed| (fixed.address.to_string(), fixed.gateway.map(|gw| gw.to_string())))
            .collect();
        let expected =
            |address: &str, gateway: Option<&str>| (address.to_owned(), gateway.map(str::to_owned));
        assert_eq!(
            fixed,
            [
                expected("10.10.0.1/24", Some("10.10.0.254")),
                expected("10.20.0.5/24", None),
                expected("10.30.0.5/16", Some("10.30.0.1")),
            ]
        );
        let wrong = WhereaboutsConfig::parse(&ipam).unwrap().with_cni_args("10.20.0.5", "").unwrap_err();
        assert!(wrong.to_string().contains("10.20.0.5"), "{wrong}");
    }

    // Case: ipam W41
    #[test]
    fn addresses_recorded_by_another_ipam_are_withheld() {
        let ipam = object(json!({"type": "whereabouts", "range": "10.0.0.0/29"}));
        let taken = [
            (crate::IpSpace::default_space(), [10, 0, 0, 1].into()),
            (crate::IpSpace::network("a"), [10, 0, 0, 2].into()),
        ];
        let mut isolated = ipam.clone();
        isolated.insert("enable_overlapping_ranges".to_owned(), false.into());
        for ipam in [ipam, isolated] {
            let read = WhereaboutsConfig::parse(&ipam).unwrap().withholding_taken(&taken);
            let has = |last: u8| read.pools[0].contains([10, 0, 0, last].into());
            assert!(!has(1) && has(2), "{ipam:?}");
        }
    }
}
