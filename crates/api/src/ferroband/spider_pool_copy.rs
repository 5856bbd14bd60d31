//! SpiderPoolCopy (`ferroband.io/v1alpha1`): the part of a SpiderIPPool that nodes need.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A copy of a SpiderIPPool without its status, which nodes read. Written by the cluster daemon; changes belong into the
/// SpiderIPPool of the same name.
///
/// The status of a SpiderIPPool changes with every pod. A node that watched it would receive the changes of all other
/// nodes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "SpiderPoolCopy",
    plural = "spiderpoolcopies",
    category = "ferroband",
    doc = "A copy of a SpiderIPPool without its status. Written by Ferroband; change the SpiderIPPool instead.",
    derive = "PartialEq",
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.pool.subnet"),
    printcolumn(name = "Generation", type_ = "integer", json_path = ".spec.generation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SpiderPoolCopySpec {
    /// Spec of the SpiderIPPool, as it is stored.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub pool: Map<String, Value>,
    /// Generation of the SpiderIPPool that was copied.
    #[serde(default)]
    pub generation: i64,
    /// Whether the SpiderIPPool is being deleted, so that it assigns no new addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,
}

/// The spec is copied without validation: the node reports an invalid one to the pods that need the pool.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
