//! Affinity of pools to pods, namespaces, nodes and networks, by name or by label selector.

use super::pool_selection::{PodNic, PoolSelectionContext};
use std::collections::BTreeMap;
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

/// A label selector. All labels and all expressions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelMatcher {
    /// Labels with exact values (`matchLabels`).
    pub labels: BTreeMap<String, String>,
    /// Requirements (`matchExpressions`).
    pub expressions: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: LabelOperator,
    /// Values for `In` and `NotIn`; empty for the other operators.
    pub values: Vec<String>,
}

/// How a requirement compares a label with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// The label exists and its value is in `values`.
    In,
    /// The label is absent or its value is not in `values`.
    NotIn,
    /// The label exists, with any value.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// An operator that Kubernetes does not define. It matches no labels.
    Unknown(String),
}

impl From<&str> for LabelOperator {
    fn from(text: &str) -> Self {
        match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            other => Self::Unknown(other.into()),
        }
    }
}

impl LabelMatcher {
    /// Whether the selector is empty and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether `labels` satisfy all parts of the selector.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let satisfied = |expression: &LabelRequirement| {
            let value = labels.get(&expression.key);
            let in_list = value.is_some_and(|value| expression.values.contains(value));
            match expression.operator {
                LabelOperator::In => in_list,
                LabelOperator::NotIn => !in_list,
                LabelOperator::Exists => value.is_some(),
                LabelOperator::DoesNotExist => value.is_none(),
                LabelOperator::Unknown(_) => false,
            }
        };
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(satisfied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_match_as_in_kubernetes() {
        let labels = BTreeMap::from([("app".to_owned(), "a".to_owned())]);
        let matcher = |operator: &str, key: &str, values: &[&str]| LabelMatcher {
            labels: BTreeMap::new(),
            expressions: vec![LabelRequirement {
                key: key.into(),
                operator: operator.into(),
                values: values.iter().map(|value| (*value).into()).collect(),
            }],
        };
        for (operator, key, values, expected) in [
            ("In", "app", &["b", "a"][..], true),
            ("In", "app", &["b"], false),
            ("In", "none", &["a"], false),
            ("NotIn", "app", &["a"], false),
            ("NotIn", "none", &["a"], true),
            ("Exists", "app", &[], true),
            ("Exists", "none", &[], false),
            ("DoesNotExist", "app", &[], false),
            ("DoesNotExist", "none", &[], true),
            ("Gt", "app", &["0"], false),
        ] {
            assert_eq!(
                matcher(operator, key, values).matches(&labels),
                expected,
                "{operator} {key} {values:?}"
            );
        }
        assert!(LabelMatcher { labels: labels.clone(), expressions: vec![] }.matches(&labels));
        assert!(!LabelMatcher { labels: labels.clone(), expressions: vec![] }.matches(&BTreeMap::new()));
        assert!(LabelMatcher::default().is_empty() && LabelMatcher::default().matches(&labels));
    }
}
