//! Selects the subnet manager backend. Each setting is read from ib-kubernetes' ConfigMap, its Secret, or the daemon's
//! environment, in this order. Address and credentials of UFM (`UFM_*`) come from the Secret only: who may change the
//! ConfigMap must not be able to send the credentials to another server.

use super::caches::{PartitionCaches, UFM_SECRET};
use super::opensm_host::OpensmHostObject;
use crate::ControllerContext;
use ferroband_partition::opensm::{Opensm, OpensmHost};
use ferroband_partition::{
    GuidRange, Membership, NoopSubnetManager, PKeyRange, PartitionSettings, SmPlugin, SubnetManager, ufm::Ufm,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The selected subnet manager. When the selection changes, a new client is created for it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSelection {
    /// Settings of the partition controller, or a message that says why they are invalid.
    pub settings: Result<PartitionSettings, String>,
    /// Nodes that run opensm, and the port that opensm uses on each.
    pub hosts: BTreeMap<String, String>,
}

impl BackendSelection {
    /// Selects the subnet manager from the cached ConfigMap, Secret and nodes, and from the environment.
    pub fn read(caches: &PartitionCaches) -> Self {
        let map = caches.config_maps.get(PartitionSettings::NAMESPACE, PartitionSettings::CONFIG_MAP);
        let secret = caches.secrets.get(PartitionSettings::NAMESPACE, UFM_SECRET);
        let nodes = caches.nodes.list().into_iter();
        let hosts: BTreeMap<String, String> =
            nodes.filter_map(|((_, name), facts)| Some((name, facts.opensm_port()?.to_owned()))).collect();
        let environment = |name: &str| std::env::var(name).ok();
        let setting = |name: &str| find_setting(name, map.as_deref(), secret.as_deref(), environment);
        let plugin = setting("DAEMON_SM_PLUGIN").filter(|plugin| !plugin.trim().is_empty());
        // If no plugin is configured, use UFM if its Secret exists, or else opensm if at least one node has
        // the label of subnet manager nodes.
        let plugin = plugin.unwrap_or_else(|| match (&secret, hosts.is_empty()) {
            (Some(_), _) => "ufm".to_owned(),
            (None, false) => "opensm".to_owned(),
            (None, true) => "noop".to_owned(),
        });
        let parsed = PartitionSettings::read(|name| {
            if name == "DAEMON_SM_PLUGIN" { Some(plugin.clone()) } else { setting(name) }
        });
        Self { settings: parsed.map_err(|problem| problem.fault().to_string()), hosts }
    }

    /// Creates the client of the selected subnet manager. Returns the error message if the settings are invalid.
    pub fn create_manager(
        &self,
        context: &ControllerContext,
        caches: &PartitionCaches,
    ) -> Result<Arc<dyn SubnetManager>, String> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        Ok(match &settings.plugin {
            SmPlugin::Ufm(ufm) => Arc::new(Ufm::new(ufm).map_err(|problem| problem.fault().to_string())?),
            SmPlugin::Opensm => {
                let host = |(node, port): (&String, &String)| {
                    Box::new(OpensmHostObject::new(context, caches, node, port)) as Box<dyn OpensmHost>
                };
                Arc::new(Opensm::new(self.hosts.iter().map(host).collect()))
            }
            SmPlugin::None => Arc::new(NoopSubnetManager),
        })
    }

    /// Whether `node` has the label of subnet manager nodes and no other backend is configured.
    pub fn runs_opensm_on(&self, node: &str) -> bool {
        // Invalid settings must not stop a running opensm.
        !matches!(&self.settings, Ok(PartitionSettings { plugin: SmPlugin::Ufm(_) | SmPlugin::None, .. }))
            && self.hosts.contains_key(node)
    }

    /// Whether Ferroband programs a subnet manager. Also true if the settings are invalid.
    pub fn is_managed(&self) -> bool {
        !matches!(&self.settings, Ok(PartitionSettings { plugin: SmPlugin::None, .. }))
    }

    /// How often the subnet manager's partitions are listed.
    pub fn poll_period(&self) -> Duration {
        self.settings.as_ref().map_or(Duration::from_secs(5), |settings| settings.period)
    }

    /// Range of P_Keys whose members Ferroband may change; the default range if the settings are invalid.
    pub fn managed_keys(&self) -> PKeyRange {
        self.settings.as_ref().map_or_else(|_| PKeyRange::default(), |settings| settings.keys)
    }

    /// Membership of physical ports in opensm's default partition; full if the settings are invalid.
    pub fn default_membership(&self) -> Membership {
        self.settings.as_ref().map_or_else(|_| Membership::default(), |settings| settings.default_membership)
    }

    /// Range from which this cluster assigns GUIDs; the default range if the settings are invalid.
    pub fn guid_range(&self) -> GuidRange {
        self.settings.as_ref().map_or(GuidRange::DEFAULT, |settings| settings.range)
    }
}

/// Prefix of settings that are read from the Secret only.
const SECRET_PREFIX: &str = "UFM_";

fn find_setting(
    name: &str,
    map: Option<&BTreeMap<String, String>>,
    secret: Option<&BTreeMap<String, String>>,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let in_secret = || secret.and_then(|secret| secret.get(name)).cloned();
    if name.starts_with(SECRET_PREFIX) {
        return in_secret();
    }
    map.and_then(|map| map.get(name)).cloned().or_else(in_secret).or_else(|| environment(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_of_ufm_is_read_from_the_secret_only() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let config_map =
            map(&[("UFM_ADDRESS", "evil.example"), ("UFM_HTTP_SCHEMA", "http"), ("FERROBAND_PKEYS", "a")]);
        let secret =
            map(&[("UFM_ADDRESS", "10.0.0.1"), ("FERROBAND_PKEYS", "b"), ("DAEMON_SM_PLUGIN", "ufm")]);
        let of = |name: &str| {
            find_setting(name, Some(&config_map), Some(&secret), |name| Some(format!("environment {name}")))
        };
        assert_eq!(of("UFM_ADDRESS").as_deref(), Some("10.0.0.1"));
        assert_eq!(of("UFM_HTTP_SCHEMA"), None);
        assert_eq!(of("FERROBAND_PKEYS").as_deref(), Some("a"));
        assert_eq!(of("DAEMON_SM_PLUGIN").as_deref(), Some("ufm"));
        assert_eq!(of("DAEMON_PERIODIC_UPDATE").as_deref(), Some("environment DAEMON_PERIODIC_UPDATE"));
    }
}
