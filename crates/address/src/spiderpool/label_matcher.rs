//! Kubernetes label selectors.

use std::collections::BTreeMap;

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
