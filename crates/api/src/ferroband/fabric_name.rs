//! Name of a fabric in objects that contain P_Keys or GUIDs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the Fabric that an object belongs to. P_Keys and GUIDs are unique within one fabric only.
///
/// Ferroband manages one fabric, and the API server refuses other names. When several fabrics are supported, existing
/// objects need no migration, because they name theirs already.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FabricName {
    /// The fabric of the cluster.
    #[default]
    Default,
}
