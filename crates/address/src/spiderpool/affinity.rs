//! Who may use a pool.

use super::label_matcher::LabelMatcher;
use super::pool_selection::{PodNic, PoolSelectionContext};
use std::fmt;

/// What a pool asks of those who use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolAffinity {
    /// Labels of the pod.
    pub pods: Option<LabelMatcher>,
    /// Labels of its namespace.
    pub namespaces: Option<LabelMatcher>,
    /// Names of its namespace; they go before the labels.
    pub namespace_names: Vec<String>,
    /// Labels of its node.
    pub nodes: Option<LabelMatcher>,
    /// Names of its node; they go before the labels.
    pub node_names: Vec<String>,
    /// The networks it is for, `<namespace>/<name>` or `<name>`.
    pub networks: Vec<String>,
}

/// Why a pool is not for this interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IneligibleReason {
    /// There is none of that name.
    NotFound,
    /// It cannot be understood.
    Invalid(String),
    /// It has addresses of the other family.
    Family,
    /// It is not for this node.
    Node(String),
    /// It is not for this namespace.
    Namespace(String),
    /// It is not for pods with these labels.
    Pod,
    /// It is for other networks.
    Network(String),
}

impl fmt::Display for IneligibleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("does not exist"),
            Self::Invalid(cause) => write!(f, "cannot be used: {cause}"),
            Self::Family => f.write_str("is of the other address family"),
            Self::Node(node) => write!(f, "is not for node {node}"),
            Self::Namespace(namespace) => write!(f, "is not for namespace {namespace}"),
            Self::Pod => f.write_str("is not for pods with these labels"),
            Self::Network(network) if network.is_empty() => f.write_str("is for certain networks only"),
            Self::Network(network) => write!(f, "is not for network {network}"),
        }
    }
}

impl PoolAffinity {
    /// Whether it lets the interface in.
    pub(super) fn check(
        &self,
        around: &PoolSelectionContext<'_>,
        nic: &PodNic<'_>,
    ) -> Result<(), IneligibleReason> {
        let node = || IneligibleReason::Node(around.node.into());
        let namespace = || IneligibleReason::Namespace(around.namespace.into());
        let listed = |names: &[String], name: &str| names.iter().any(|known| known == name);
        if !self.node_names.is_empty() {
            listed(&self.node_names, around.node).then_some(()).ok_or_else(node)?;
        } else if let Some(nodes) = &self.nodes {
            nodes.matches(around.node_labels).then_some(()).ok_or_else(node)?;
        }
        if !self.namespace_names.is_empty() {
            listed(&self.namespace_names, around.namespace).then_some(()).ok_or_else(namespace)?;
        } else if let Some(namespaces) = &self.namespaces {
            namespaces.matches(around.namespace_labels).then_some(()).ok_or_else(namespace)?;
        }
        if self.pods.as_ref().is_some_and(|pods| !pods.matches(around.pod_labels)) {
            return Err(IneligibleReason::Pod);
        }
        let meant = |known: &String| match known.split_once('/') {
            Some(_) => nic.network == Some(known.as_str()),
            // Without a namespace it is one of the administrator's.
            None => nic.network.and_then(|network| network.split_once('/')).is_some_and(|(home, name)| {
                name == known && around.network_namespaces.iter().any(|known| known == home)
            }),
        };
        if !self.networks.is_empty() && !self.networks.iter().any(meant) {
            return Err(IneligibleReason::Network(nic.network.unwrap_or_default().into()));
        }
        Ok(())
    }

    /// What is said more precisely goes first; less is more precise.
    pub(super) fn rank(&self) -> [bool; 6] {
        [
            self.pods.is_none(),
            self.node_names.is_empty(),
            self.nodes.is_none(),
            self.namespace_names.is_empty(),
            self.namespaces.is_none(),
            self.networks.is_empty(),
        ]
    }
}
