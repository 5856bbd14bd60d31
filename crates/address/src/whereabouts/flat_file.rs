//! Whereabouts' flat file (`whereabouts.conf`), which provides defaults for `ipam` objects.

use ferroband_model::config_object::is_same_key;
use serde_json::{Map, Value};

/// Fills the empty values of the `ipam` object from `flat`. `null`, `false`, zero and empty strings, lists and objects
/// count as empty. As in Whereabouts, only the network can set `enable_overlapping_ranges`.
pub fn merge_flat_file(ipam: &Map<String, Value>, flat: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = ipam.clone();
    for (key, value) in flat {
        if is_same_key(key, "enable_overlapping_ranges") || is_same_key(key, "type") {
            continue;
        }
        let known = merged.keys().find(|known| is_same_key(known, key)).cloned();
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
    use crate::RequestedAddress;
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
    fn requested_addresses_are_static_only_in_a_network_without_a_pool() {
        let statics = |ipam: serde_json::Value, ip: &str| -> Result<Vec<String>, crate::Error> {
            let requested = RequestedAddress::read_all([ip], &Map::new())?;
            let read = WhereaboutsConfig::parse(&object(ipam)).unwrap().with_requested(&requested)?;
            Ok(read.static_addresses.iter().map(|fixed| fixed.address.to_string()).collect())
        };
        let without_pool = || json!({"type": "whereabouts", "addresses": [{"address": "10.10.0.1/24"}]});
        assert_eq!(statics(without_pool(), "10.20.0.5/24").unwrap(), ["10.10.0.1/24", "10.20.0.5/24"]);
        let wrong = statics(without_pool(), "10.20.0.5").unwrap_err();
        assert!(wrong.to_string().contains("IP: '10.20.0.5' is not an address with a prefix"), "{wrong}");
        let range = json!({"type": "whereabouts", "range": "10.0.0.0/24"});
        assert_eq!(statics(range, "10.20.0.5/24").unwrap(), Vec::<String>::new());
    }
}
