//! Which subnet manager, by the settings of ib-kubernetes: its ConfigMap, its Secret, else our own environment.

use super::hosts::ApiHost;
use super::seen::{SECRET, Seen};
use crate::Context;
use ferroband_partition::opensm::{Host, Opensm};
use ferroband_partition::{Absent, GuidRange, KeyRange, Plugin, Settings, SubnetManager, ufm::Ufm};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The choice, comparable: the manager is made anew only if this changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What was read, or what is wrong with it.
    pub settings: Result<Settings, String>,
    /// The nodes that run opensm, and on which port.
    pub hosts: BTreeMap<String, String>,
}

impl Choice {
    /// As things are now.
    pub fn read(seen: &Seen) -> Self {
        let map = seen.config_maps.get(Settings::NAMESPACE, Settings::CONFIG_MAP);
        let secret = seen.secrets.get(Settings::NAMESPACE, SECRET);
        let nodes = seen.nodes.all().into_iter();
        let hosts: BTreeMap<String, String> =
            nodes.filter_map(|((_, name), facts)| Some((name, facts.manager.clone()?))).collect();
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
            Settings::read(|name| if name == "DAEMON_SM_PLUGIN" { Some(plugin.clone()) } else { of(name) });
        Self { settings: read.map_err(|problem| problem.fault().to_string()), hosts }
    }

    /// The manager.
    pub fn manager(&self, context: &Context, seen: &Seen) -> Result<Arc<dyn SubnetManager>, String> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        Ok(match &settings.plugin {
            Plugin::Ufm(ufm) => Arc::new(Ufm::new(ufm).map_err(|problem| problem.fault().to_string())?),
            Plugin::Opensm => {
                let host = |(node, port): (&String, &String)| {
                    Box::new(ApiHost::new(context, seen, node, port)) as Box<dyn Host>
                };
                Arc::new(Opensm::new(self.hosts.iter().map(host).collect()))
            }
            Plugin::None => Arc::new(Absent),
        })
    }

    /// Whether a node is to run opensm.
    pub fn runs_on(&self, node: &str) -> bool {
        // What cannot be read says nothing, and ends nothing.
        !matches!(&self.settings, Ok(Settings { plugin: Plugin::Ufm(_) | Plugin::None, .. }))
            && self.hosts.contains_key(node)
    }

    /// Whether somebody is to be told about partitions at all.
    pub fn is_managed(&self) -> bool {
        !matches!(&self.settings, Ok(Settings { plugin: Plugin::None, .. }))
    }

    /// How often everything is listed.
    pub fn period(&self) -> Duration {
        self.settings.as_ref().map_or(Duration::from_secs(5), |settings| settings.period)
    }

    /// The partitions that are ours.
    pub fn keys(&self) -> KeyRange {
        self.settings.as_ref().map_or_else(|_| KeyRange::default(), |settings| settings.keys)
    }

    /// The range of GUIDs.
    pub fn range(&self) -> GuidRange {
        self.settings.as_ref().map_or(GuidRange::DEFAULT, |settings| settings.range)
    }
}
