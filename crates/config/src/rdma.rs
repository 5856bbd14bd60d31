//! Configurations of type `rdma`.

use crate::{ConfigError, ConfigFields};
use schemars::JsonSchema;

/// Chained after another plugin, on nodes with RDMA netns mode exclusive: moves the RDMA device of the previous
/// plugin's interface into the pod.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct RdmaConfig {
    /// PCI address or auxiliary device name of the device; defaults to the device of the previous plugin's interface.
    #[schemars(rename = "deviceID")]
    pub device: Option<String>,
}

impl RdmaConfig {
    /// Parse a configuration.
    pub fn parse(fields: ConfigFields<'_>) -> Result<Self, ConfigError> {
        Ok(Self { device: fields.non_empty("deviceID")?.map(str::to_owned) })
    }
}
