//! Label selectors, as Kubernetes defines them.

use std::collections::BTreeMap;

/// Which labels are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelMatcher {
    /// These, exactly.
    pub labels: BTreeMap<String, String>,
    /// And all of these.
    pub expressions: Vec<LabelRequirement>,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// With what.
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// Its value is one of these.
    In,
    /// It is absent, or its value is none of these.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// Something that Kubernetes does not know; it selects nothing.
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
    /// Whether it says nothing, and so would select everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether something with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let held = |expression: &LabelRequirement| {
            let value = labels.get(&expression.key);
            let listed = value.is_some_and(|value| expression.values.contains(value));
            match expression.operator {
                LabelOperator::In => listed,
                LabelOperator::NotIn => !listed,
                LabelOperator::Exists => value.is_some(),
                LabelOperator::DoesNotExist => value.is_none(),
                LabelOperator::Unknown(_) => false,
            }
        };
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator() {
        let labels = BTreeMap::from([("app".to_owned(), "a".to_owned())]);
        let one = |operator: &str, key: &str, values: &[&str]| LabelMatcher {
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
            assert_eq!(one(operator, key, values).matches(&labels), expected, "{operator} {key} {values:?}");
        }
        assert!(LabelMatcher { labels: labels.clone(), expressions: vec![] }.matches(&labels));
        assert!(!LabelMatcher { labels: labels.clone(), expressions: vec![] }.matches(&BTreeMap::new()));
        assert!(LabelMatcher::default().is_empty() && LabelMatcher::default().matches(&labels));
    }
}
