//! Configurations of type `ipoib`.

use crate::{ConfigError, ConfigFields, fields};
use ferroband_model::{PKey, RequestedPKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An IPoIB interface in the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpoibConfig {
    /// IPoIB interface of the node that is the parent of the pod's interface: its name or an altname. Required.
    #[schemars(rename = "master")]
    pub parent: String,
    /// MTU in bytes; defaults to the parent's.
    pub mtu: Option<u32>,
    /// P_Key of the partition that the interface belongs to, hexadecimal (`0x…`) or decimal; defaults to the parent's.
    /// The default partition (0x7fff) cannot be requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pkey: Option<PKey>,
    /// Membership in the partition of `pkey`: `full` (the default) or `limited`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(rename = "membership", with = "Option<String>")]
    pub limited: bool,
}

impl IpoibConfig {
    /// Parse a configuration. Fails without a `master`.
    pub fn parse(fields: ConfigFields<'_>) -> Result<Self, ConfigError> {
        let wrong = |_| ConfigError::field("pkey", RequestedPKey::EXPECTED);
        Ok(Self {
            parent: fields.non_empty("master")?.ok_or(ConfigError::NoMaster)?.to_owned(),
            mtu: fields.mtu()?,
            pkey: fields::parse_pkey(fields).map_err(wrong)?.map(RequestedPKey::full),
            limited: fields::parse_limited(fields)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn step(config: Value) -> Result<IpoibConfig, ConfigError> {
        IpoibConfig::parse(ConfigFields(config.as_object().unwrap()))
    }

    // Case: cni 17
    #[test]
    fn master_is_required() {
        for config in [json!({}), json!({"master": ""}), json!({"master": null})] {
            assert!(matches!(step(config), Err(ConfigError::NoMaster)));
        }
        assert_eq!(step(json!({"master": "ib0"})).unwrap().parent, "ib0");
    }

    // Case: cni 22
    #[test]
    fn only_a_positive_mtu_is_set() {
        let mtu = |mtu: Value| step(json!({"master": "ib0", "mtu": mtu})).map(|step| step.mtu);
        assert_eq!(mtu(json!(1496)).unwrap(), Some(1496));
        for unset in [json!(0), json!(-5), json!(null)] {
            assert_eq!(mtu(unset).unwrap(), None);
        }
        assert!(matches!(mtu(json!(1u64 << 40)), Err(ConfigError::Field { .. })));
    }

    #[test]
    fn only_a_pkey_that_users_may_assign_is_accepted() {
        let pkey = |pkey: Value| step(json!({"master": "ib0", "pkey": pkey})).map(|step| step.pkey);
        for key in [json!(1000), json!("0x3e8"), json!(33768), json!("0x83e8")] {
            assert_eq!(pkey(key).unwrap().map(PKey::value), Some(0x83e8));
        }
        assert_eq!(pkey(json!("")).unwrap(), None);
        for wrong in [
            json!(0),
            json!("0x0"),
            json!("0x8000"),
            json!("0x7fff"),
            json!("0xffff"),
            json!(32767),
            json!(true),
        ] {
            let error = pkey(wrong.clone()).expect_err(&wrong.to_string());
            assert!(error.to_string().contains("0x0001 to 0x7ffe"), "{error}");
        }
    }
}
