//! Which subnet manager, by the settings of ib-kubernetes: its ConfigMap, its Secret, else our own environment.

use super::caches::{PartitionCaches, UFM_SECRET};
use super::opensm_host::OpensmHostObject;
use crate::ControllerContext;
use ferroband_partition::opensm::{Opensm, OpensmHost};
use ferroband_partition::{
    GuidRange, NoopSubnetManager, PKeyRange, PartitionSettings, SmPlugin, SubnetManager, ufm::Ufm,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The choice, comparable: the manager is made anew only if this changes.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSelection {
    /// What was read, or what is wrong with it.
    pub settings: Result<PartitionSettings, String>,
    /// The nodes that run opensm, and on which port.
    pub hosts: BTreeMap<String, String>,
}

impl BackendSelection {
    /// As things are now.
    pub fn read(seen: &PartitionCaches) -> Self {
        let map = seen.config_maps.get(PartitionSettings::NAMESPACE, PartitionSettings::CONFIG_MAP);
        let secret = seen.secrets.get(PartitionSettings::NAMESPACE, UFM_SECRET);
        let nodes = seen.nodes.list().into_iter();
        let hosts: BTreeMap<String, String> =
            nodes.filter_map(|((_, name), facts)| Some((name, facts.opensm_port.clone()?))).collect();
        let of = |name: &str| {
            let told = map.as_ref().and_then(|map| map.get(name));
            let told = told.or_else(|| secret.as_ref().and_then(|secret| secret.get(name)));
            told.cloned().or_else(|| std::env::var(name).ok())
        };
        let plugin = of("DAEMON_SM_PLUGIN").filter(|plugin| !plugin.trim().is_empty());
        // Nobody has said anything: what there is decides.
        let plugin = plugin.unwrap_or_else(|| match (&secret, hosts.is_empty()) {
            (Some(_), _) => "ufm".to_owned(),
            (None, false) => "opensm".to_owned(),
            (None, true) => "noop".to_owned(),
        });
        let read =
            PartitionSettings::read(
                |name| if name == "DAEMON_SM_PLUGIN" { Some(plugin.clone()) } else { of(name) },
            );
        Self { settings: read.map_err(|problem| problem.fault().to_string()), hosts }
    }

    /// The manager.
    pub fn create_manager(
        &self,
        context: &ControllerContext,
        seen: &PartitionCaches,
    ) -> Result<Arc<dyn SubnetManager>, String> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        Ok(match &settings.plugin {
            SmPlugin::Ufm(ufm) => Arc::new(Ufm::new(ufm).map_err(|problem| problem.fault().to_string())?),
            SmPlugin::Opensm => {
                let host = |(node, port): (&String, &String)| {
                    Box::new(OpensmHostObject::new(context, seen, node, port)) as Box<dyn OpensmHost>
                };
                Arc::new(Opensm::new(self.hosts.iter().map(host).collect()))
            }
            SmPlugin::None => Arc::new(NoopSubnetManager),
        })
    }

    /// Whether a node is to run opensm.
    pub fn runs_opensm_on(&self, node: &str) -> bool {
        // What cannot be read says nothing, and ends nothing.
        !matches!(&self.settings, Ok(PartitionSettings { plugin: SmPlugin::Ufm(_) | SmPlugin::None, .. }))
            && self.hosts.contains_key(node)
    }

    /// Whether somebody is to be told about partitions at all.
    pub fn is_managed(&self) -> bool {
        !matches!(&self.settings, Ok(PartitionSettings { plugin: SmPlugin::None, .. }))
    }

    /// How often everything is listed.
    pub fn poll_period(&self) -> Duration {
        self.settings.as_ref().map_or(Duration::from_secs(5), |settings| settings.period)
    }

    /// The partitions that are ours.
    pub fn managed_keys(&self) -> PKeyRange {
        self.settings.as_ref().map_or_else(|_| PKeyRange::default(), |settings| settings.keys)
    }

    /// The range of GUIDs.
    pub fn guid_range(&self) -> GuidRange {
        self.settings.as_ref().map_or(GuidRange::DEFAULT, |settings| settings.range)
    }
}
