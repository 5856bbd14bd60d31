//! The settings of ib-kubernetes, from its ConfigMap, its Secret or the environment.

use crate::{GuidRange, Membership, PKeyRange, SettingError, ufm};
use std::time::Duration;

/// Subnet manager backend, selected by `DAEMON_SM_PLUGIN`.
#[derive(Clone, Debug, PartialEq)]
pub enum SmPlugin {
    /// NVIDIA's Unified Fabric Manager, through its REST API.
    Ufm(Box<ufm::UfmClientSettings>),
    /// opensm on nodes of the cluster.
    Opensm,
    /// No subnet manager: only GUIDs are assigned.
    None,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionSettings {
    /// Subnet manager backend (`DAEMON_SM_PLUGIN`).
    pub plugin: SmPlugin,
    /// Interval at which desired and observed memberships are compared (`DAEMON_PERIODIC_UPDATE`).
    /// ib-kubernetes sends changes only at this interval; Ferroband sends them immediately.
    pub period: Duration,
    /// Range from which GUIDs are assigned (`GUID_POOL_RANGE_START` and `GUID_POOL_RANGE_END`).
    pub range: GuidRange,
    /// P_Keys that Ferroband manages (`FERROBAND_PKEYS`).
    pub keys: PKeyRange,
    /// Membership of physical ports in the default partition with opensm (`FERROBAND_DEFAULT_MEMBERSHIP`).
    pub default_membership: Membership,
}

impl PartitionSettings {
    /// Namespace of ib-kubernetes' ConfigMap and Secret.
    pub const NAMESPACE: &str = "kube-system";
    /// Name of ib-kubernetes' ConfigMap.
    pub const CONFIG_MAP: &str = "ib-kubernetes-config";

    /// Parses all settings. `of` returns the value of a variable. An empty value counts as unset.
    pub fn read(of: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let of = |name: &str| of(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let plugin = match of("DAEMON_SM_PLUGIN").as_deref() {
            None => return Err(SettingError::Missing { names: vec!["DAEMON_SM_PLUGIN"] }),
            Some("ufm") => SmPlugin::Ufm(Box::new(ufm::UfmClientSettings::read(of)?)),
            Some("opensm") => SmPlugin::Opensm,
            Some("noop" | "none") => SmPlugin::None,
            Some(other) => {
                return Err(SettingError::Value {
                    name: "DAEMON_SM_PLUGIN",
                    value: other.to_owned(),
                    expected: "ufm, opensm, or noop",
                });
            }
        };
        Ok(Self {
            plugin,
            period: period(of("DAEMON_PERIODIC_UPDATE"))?,
            range: range(&of)?,
            keys: keys(&of)?,
            default_membership: default_membership(&of)?,
        })
    }

    /// Parses only the GUID range, which is all that nodes need.
    pub fn read_guid_range(of: impl Fn(&str) -> Option<String>) -> Result<GuidRange, SettingError> {
        range(&|name: &str| of(name).filter(|value| !value.trim().is_empty()))
    }
}

fn period(text: Option<String>) -> Result<Duration, SettingError> {
    let text = text.unwrap_or_else(|| "5".to_owned());
    match text.parse::<i64>() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds.unsigned_abs())),
        _ => Err(SettingError::Value {
            name: "DAEMON_PERIODIC_UPDATE",
            value: text,
            expected: "a whole number of seconds above 0",
        }),
    }
}

fn range(of: &impl Fn(&str) -> Option<String>) -> Result<GuidRange, SettingError> {
    let end = |name: &str, default: ferroband_model::Guid| of(name).unwrap_or_else(|| default.to_string());
    GuidRange::parse(
        &end("GUID_POOL_RANGE_START", GuidRange::DEFAULT.first),
        &end("GUID_POOL_RANGE_END", GuidRange::DEFAULT.last),
    )
}

fn keys(of: &impl Fn(&str) -> Option<String>) -> Result<PKeyRange, SettingError> {
    match of("FERROBAND_PKEYS") {
        None => Ok(PKeyRange::default()),
        Some(text) => text.parse().map_err(|_| SettingError::Value {
            name: "FERROBAND_PKEYS",
            value: text,
            expected: "a range of P_Keys such as 0x100-0x1ff",
        }),
    }
}

fn default_membership(of: &impl Fn(&str) -> Option<String>) -> Result<Membership, SettingError> {
    const NAME: &str = "FERROBAND_DEFAULT_MEMBERSHIP";
    let text = of(NAME).unwrap_or_default();
    match text.to_lowercase().as_str() {
        "" | "full" => Ok(Membership::Full),
        "limited" => Ok(Membership::Limited),
        _ => Err(SettingError::Value { name: NAME, value: text, expected: "full or limited" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<PartitionSettings, SettingError> {
        PartitionSettings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn default_membership_is_full_unless_asked() {
        let with = |value| read(&[("DAEMON_SM_PLUGIN", "opensm"), ("FERROBAND_DEFAULT_MEMBERSHIP", value)]);
        assert_eq!(with("").unwrap().default_membership, Membership::Full);
        assert_eq!(with("limited").unwrap().default_membership, Membership::Limited);
        assert!(with("none").unwrap_err().to_string().contains("full or limited"));
    }

    #[test]
    fn managed_pkeys_are_a_range() {
        let with = |keys| read(&[("DAEMON_SM_PLUGIN", "noop"), ("FERROBAND_PKEYS", keys)]);
        assert_eq!(with("0x100-0x1ff").unwrap().keys.to_string(), "0x0100-0x01ff");
        assert_eq!(with(" ").unwrap().keys, PKeyRange::default());
        assert!(with("0x0-0x1ff").unwrap_err().to_string().contains("FERROBAND_PKEYS"));
    }

    #[test]
    fn blank_guid_range_means_the_default() {
        let read = |text: &str| {
            let text = text.to_owned();
            PartitionSettings::read_guid_range(move |name| {
                (name == "GUID_POOL_RANGE_START").then(|| text.clone())
            })
        };
        assert_eq!(read(" "), Ok(GuidRange::DEFAULT));
        let range = read("02:00:00:00:00:00:01:00").unwrap();
        assert_eq!((range.first.value() & 0xffff, range.last), (0x100, GuidRange::DEFAULT.last));
        assert!(read("x").is_err());
    }

    // Case: partitions 1
    #[test]
    fn missing_plugin_is_reported_by_name() {
        assert_eq!(read(&[]), Err(SettingError::Missing { names: vec!["DAEMON_SM_PLUGIN"] }));
        assert!(read(&[("DAEMON_SM_PLUGIN", "sorcery")]).unwrap_err().to_string().contains("sorcery"));
    }

    // Case: partitions 2
    #[test]
    fn invalid_periods_are_rejected() {
        let with = |period| read(&[("DAEMON_SM_PLUGIN", "noop"), ("DAEMON_PERIODIC_UPDATE", period)]);
        for wrong in ["0", "-10", "soon", "1.5"] {
            assert!(with(wrong).unwrap_err().to_string().contains("DAEMON_PERIODIC_UPDATE"), "{wrong}");
        }
        assert_eq!(with("10").unwrap().period, Duration::from_secs(10));
        assert_eq!(with("").unwrap().period, Duration::from_secs(5));
    }

    #[test]
    fn ib_kubernetes_example_config_map_is_accepted() {
        let settings = read(&[
            ("DAEMON_SM_PLUGIN", "noop"),
            ("DAEMON_PERIODIC_UPDATE", "5"),
            ("GUID_POOL_RANGE_START", "02:00:00:00:00:00:00:00"),
            ("GUID_POOL_RANGE_END", "02:FF:FF:FF:FF:FF:FF:FF"),
        ]);
        let settings = settings.unwrap();
        assert_eq!((settings.plugin, settings.range), (SmPlugin::None, GuidRange::DEFAULT));
    }
}
