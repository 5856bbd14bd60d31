//! Ordinals and pod names of a StatefulSet.

use k8s_openapi::api::apps::v1::StatefulSet;

/// Ordinals of a StatefulSet's pods, from `spec.ordinals.start` and `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatefulSetOrdinals {
    start: i64,
    count: i64,
}

impl StatefulSetOrdinals {
    pub fn from_set(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let start = spec.and_then(|spec| spec.ordinals.as_ref()).and_then(|ordinals| ordinals.start);
        let count = spec.and_then(|spec| spec.replicas);
        Self { start: start.unwrap_or_default().into(), count: count.unwrap_or(1).into() }
    }

    /// Whether the set has a pod with this ordinal.
    pub fn contains(self, ordinal: i64) -> bool {
        (self.start..self.start.saturating_add(self.count)).contains(&ordinal)
    }
}

/// Splits `web-0` into the StatefulSet's name `web` and the ordinal 0. Returns `None` if the name has no ordinal.
pub fn split_pod_name(pod: &str) -> Option<(&str, i64)> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    Some((set, ordinal.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // Case: ipam A24
    #[test]
    fn only_current_ordinals_belong_to_a_statefulset() {
        let set = |spec| {
            let mut spec: serde_json::Value = spec;
            spec["selector"] = json!({});
            spec["template"] = json!({});
            StatefulSetOrdinals::from_set(
                &serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": spec})).unwrap(),
            )
        };
        let scaled = set(json!({"replicas": 2, "ordinals": {"start": 1}}));
        assert_eq!([0, 1, 2, 3].map(|ordinal| scaled.contains(ordinal)), [false, true, true, false]);
        assert!(set(json!({})).contains(0) && !set(json!({})).contains(1));
        assert!(!set(json!({"replicas": 0})).contains(0));
        assert_eq!(split_pod_name("db-a-12"), Some(("db-a", 12)));
        assert_eq!((split_pod_name("db"), split_pod_name("db-x")), (None, None));
    }
}
