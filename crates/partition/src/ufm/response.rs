//! Parsing of UFM responses.

use crate::{FabricReport, Membership, MembershipTable, RequestedPKey, parse_guid};
use ferroband_model::PKey;
use serde_json::{Map, Value};

/// Parses the partitions and members of `GET …/resources/pkeys?guids_data=true`.
///
/// Invalid entries are skipped with a warning, so that an invalid entry of someone else does not hide
/// Ferroband's own entries.
pub(super) fn parse_partitions(body: &Map<String, Value>) -> FabricReport {
    let mut fabric = FabricReport { lacks_default_partition: true, ..FabricReport::default() };
    let mut members = MembershipTable::default();
    for (text, partition) in body {
        let number = text.parse::<PKey>().map(PKey::base);
        if number == Ok(PKey::DEFAULT.base()) {
            fabric.lacks_default_partition = false;
            // UFM reports the membership type of the default partition since version 6.19.
            fabric.open = partition.get("membership").and_then(Value::as_str).map(|word| word == "full");
            continue;
        }
        let Some(key) = number.ok().and_then(RequestedPKey::new) else {
            fabric.warnings.push(format!("UFM lists a partition with an invalid P_Key: {text:?}"));
            continue;
        };
        for member in partition.get("guids").and_then(Value::as_array).into_iter().flatten() {
            let guid = member.get("guid").and_then(Value::as_str).and_then(parse_guid);
            let Some(guid) = guid else {
                fabric.warnings.push(format!("partition {key} has a member with an invalid GUID: {member}"));
                continue;
            };
            let limited = member.get("membership").and_then(Value::as_str) == Some("limited");
            members.set(key, guid, if limited { Membership::Limited } else { Membership::Full });
        }
    }
    fabric.members = members;
    fabric
}

/// Returns the management keys in `GET …/app/smconf` that still have UFM's default value.
pub(super) fn default_secrets(body: &Map<String, Value>) -> Vec<String> {
    let number = |name: &str| {
        let value = body.get(name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
        digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
    };
    let mut found = Vec::new();
    for (name, default) in [("m_key", 0), ("sm_key", 1), ("sa_key", 1)] {
        if number(name) == Some(default) {
            found.push(format!("{name} is {default}"));
        }
    }
    if body.get("m_key_per_port").is_some_and(|value| value == false || value == "false") {
        found.push("m_key_per_port is off".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn partitions_are_parsed_in_every_format() {
        let fabric = parse_partitions(&object(json!({
            "0x7fff": {"partition": "management", "membership": "full", "guids": []},
            "0x5": {"partition": "a", "ip_over_ib": true, "guids": [
                {"guid": "02000000000000AB", "index0": true, "membership": "full"},
                {"guid": "0x02000000000000ac", "membership": "limited"},
                {"guid": "nonsense"},
            ]},
            "0x6": {"partition": "no guids"},
            "zz": {},
        })));
        assert_eq!((fabric.open, fabric.lacks_default_partition), (Some(true), false));
        assert!(parse_partitions(&object(json!({"0x5": {"guids": []}}))).lacks_default_partition);
        let key = RequestedPKey::new(5).unwrap();
        let members: Vec<_> = fabric.members.members(key).map(|(guid, m)| (guid.value() & 0xff, m)).collect();
        assert_eq!(members, [(0xab, Membership::Full), (0xac, Membership::Limited)]);
        assert_eq!(fabric.warnings.len(), 2);
    }

    #[test]
    fn default_management_keys_are_reported() {
        let found = default_secrets(&object(
            json!({"m_key": "0x0", "sm_key": 1, "sa_key": "0x77", "m_key_per_port": false}),
        ));
        assert_eq!(found, ["m_key is 0", "sm_key is 1", "m_key_per_port is off"]);
        assert!(default_secrets(&object(json!({}))).is_empty());
        assert_eq!(default_secrets(&object(json!({"m_key_per_port": "false"}))), ["m_key_per_port is off"]);
        for on in [json!(true), json!("true"), json!(1)] {
            assert!(default_secrets(&object(json!({"m_key_per_port": on}))).is_empty(), "{on}");
        }
    }
}
