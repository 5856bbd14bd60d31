//! Partition (`ferroband.io/v1alpha1`): the namespaces that may use a P_Key.

use super::FabricName;
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A partition of the fabric and the namespaces whose pods may join it. Written by the fabric administrator.
///
/// A partition without a Partition object is open to all namespaces, unless the daemons are configured to refuse it
/// (`partitions.unlisted: refuse`).
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "Partition",
    plural = "partitions",
    category = "ferroband",
    status = "PartitionStatus",
    doc = "A partition of the fabric and the namespaces whose pods may join it.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "P_Key", type_ = "string", json_path = ".spec.pkey"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".spec.namespaces"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.members"),
    printcolumn(name = "Not admitted", type_ = "integer", json_path = ".status.notAdmitted"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSpec {
    /// Name of the Fabric; only `default` is supported.
    #[serde(default)]
    pub fabric: FabricName,
    /// The P_Key, `0x0001` to `0x7ffe`, as an integer or as a string: `1000`, `"1000"` or `"0x3e8"`.
    #[serde(deserialize_with = "crate::pkey_field::text_of_int_or_string")]
    #[schemars(with = "IntOrString")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 && self <= 32766 : self.matches('^(0[xX][0-7]?[0-9a-fA-F]{1,3}|[0-9]{1,5})$') && !self.matches('^0[xX]0*$|^0*$|^0[xX]7[fF]{3}$') && (self.matches('^0[xX]') || (int(self) >= 1 && int(self) <= 32766))").message("pkey must be 0x0001 to 0x7ffe (1 to 32766)"))]
    pub pkey: String,
    /// Namespaces whose pods may join the partition; `*` allows all.
    #[schemars(length(max = 4096))]
    pub namespaces: Vec<String>,
    /// How pods of other namespaces are handled: `enforce`, the default, rejects them; `warn` allows them with a warning
    /// event.
    #[serde(default)]
    pub mode: PartitionMode,
    /// Whether `enforce` also removes pods that are members already when the Partition is created or changed. Without
    /// it they stay members until they end, and only new pods are rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove_running_members: bool,
}

/// What happens to a pod that requests the partition from a namespace that is not listed.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PartitionMode {
    /// The pod is allowed, with a warning event.
    Warn,
    /// The pod is rejected.
    #[default]
    Enforce,
}

/// Observed use of the partition.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionStatus {
    /// Number of pod ports that are members.
    #[serde(default)]
    pub members: i32,
    /// Number of pod interfaces that request the partition from a namespace that is not listed: with `warn`, members that
    /// cause a warning; with `enforce`, members that run since before and interfaces that are rejected.
    #[serde(default)]
    pub not_admitted: i32,
    /// Conditions of the partition: `MembersAdmitted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pkey_is_an_integer_or_a_string() {
        let pkey = |value| serde_json::from_value::<PartitionSpec>(json!({"pkey": value, "namespaces": []}));
        assert_eq!(pkey(json!(1000)).unwrap().pkey, "1000");
        assert_eq!(pkey(json!("0x3e8")).unwrap().pkey, "0x3e8");
        assert!(pkey(json!(null)).is_err() && pkey(json!([5])).is_err());
    }
}
