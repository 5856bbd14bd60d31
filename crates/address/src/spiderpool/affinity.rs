//! Affinity of pools to pods, namespaces, nodes and networks.

use super::label_matcher::LabelMatcher;
use super::pool_selection::{PodNic, PoolSelectionContext};
use std::fmt;

/// Which pods, namespaces, nodes and networks may use a pool. Fields that are not set do not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolAffinity {
    pub pods: Option<LabelMatcher>,
    /// Selector for the labels of the namespace.
    pub namespaces: Option<LabelMatcher>,
    /// Namespace names; if there are any, `namespaces` is ignored.
    pub namespace_names: Vec<String>,
    /// Selector for the labels of the node.
    pub nodes: Option<LabelMatcher>,
    /// Node names; if there are any, `nodes` is ignored.
    pub node_names: Vec<String>,
    /// Networks that may use the pool, `<namespace>/<name>` or `<name>`.
    pub networks: Vec<String>,
}

/// Why an interface cannot use a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IneligibleReason {
    /// No SpiderIPPool has the requested name.
    NotFound,
    /// The SpiderIPPool is invalid, with the error of its validation.
    Invalid(String),
    /// The pool is IPv4 but was requested as IPv6, or the reverse.
    Family,
    /// The pool does not allow the pod's node, which is named here.
    Node(String),
    /// The pool does not allow the pod's namespace, which is named here.
    Namespace(String),
    /// The pool does not select the pod's labels.
    Pod,
    /// The pool does not allow the interface's network: `<namespace>/<name>`, or empty if it has no
    /// NetworkAttachmentDefinition.
    Network(String),
}

impl fmt::Display for IneligibleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("does not exist"),
            Self::Invalid(cause) => write!(f, "is invalid: {cause}"),
            Self::Family => f.write_str("does not have the requested address family"),
            Self::Node(node) => write!(f, "does not allow node {node}"),
            Self::Namespace(namespace) => write!(f, "does not allow namespace {namespace}"),
            Self::Pod => f.write_str("does not select the pod's labels"),
            Self::Network(network) if network.is_empty() => {
                f.write_str("allows only certain NetworkAttachmentDefinitions, and the interface has none")
            }
            Self::Network(network) => write!(f, "does not allow network {network}"),
        }
    }
}

impl PoolAffinity {
    /// Returns the reason as an error if the interface `nic` may not use the pool.
    pub(super) fn check(
        &self,
        context: &PoolSelectionContext<'_>,
        nic: &PodNic<'_>,
    ) -> Result<(), IneligibleReason> {
        let node = || IneligibleReason::Node(context.node.into());
        let namespace = || IneligibleReason::Namespace(context.namespace.into());
        let contains = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
        if !self.node_names.is_empty() {
            contains(&self.node_names, context.node).then_some(()).ok_or_else(node)?;
        } else if let Some(nodes) = &self.nodes {
            nodes.matches(context.node_labels).then_some(()).ok_or_else(node)?;
        }
        if !self.namespace_names.is_empty() {
            contains(&self.namespace_names, context.namespace).then_some(()).ok_or_else(namespace)?;
        } else if let Some(namespaces) = &self.namespaces {
            namespaces.matches(context.namespace_labels).then_some(()).ok_or_else(namespace)?;
        }
        if self.pods.as_ref().is_some_and(|pods| !pods.matches(context.pod_labels)) {
            return Err(IneligibleReason::Pod);
        }
        let allows = |allowed: &String| match allowed.split_once('/') {
            Some(_) => nic.network == Some(allowed.as_str()),
            // A name without a namespace refers to a network in one of the `network_namespaces`.
            None => {
                nic.network.and_then(|network| network.split_once('/')).is_some_and(|(namespace, name)| {
                    name == allowed
                        && context.network_namespaces.iter().any(|candidate| candidate == namespace)
                })
            }
        };
        if !self.networks.is_empty() && !self.networks.iter().any(allows) {
            return Err(IneligibleReason::Network(nic.network.unwrap_or_default().into()));
        }
        Ok(())
    }

    /// Sort key: more specific affinities sort first.
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
