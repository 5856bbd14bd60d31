//! Settings of the plugins `ib-sriov` and `rdma`.

use crate::{ConfigError, ConfigFields, fields};
use ferroband_model::config_object::remove_key;
use ferroband_model::{Guid, PciAddress, RequestedPKey, VfLinkState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Key and value that ib-kubernetes puts into `args.cni` once it has configured the pod.
const MARK: (&str, &str) = ("mellanox.infiniband.app", "configured");

/// A virtual function of an InfiniBand adapter in the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IbSriovConfig {
    /// PCI address of the function; set by the meta plugin from the pod's resource. `pciBusID` is an alias.
    #[schemars(rename = "deviceID", with = "String")]
    pub device: PciAddress,
    /// The pod's annotation may request a GUID; `cni-args.guid` is equivalent. By default the function keeps its GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "capabilities.infinibandGUID", with = "bool")]
    pub guid: Option<Guid>,
    /// `auto`, `enable` or `disable`; unchanged by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "link_state", with = "Option<String>")]
    pub link_state: Option<VfLinkState>,
    /// MTU in bytes; unchanged by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether the function's RDMA device moves into the pod; defaults to the node's RDMA netns mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "rdmaIsolation")]
    pub isolation: Option<bool>,
    /// The function is bound to vfio-pci, so there is no interface to move.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(rename = "vfioPciMode")]
    pub vfio: bool,
    /// Reject pods that ib-kubernetes has not marked (`mellanox.infiniband.app: configured` in `cni-args`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(rename = "ibKubernetesEnabled")]
    pub managed: bool,
    /// P_Key of the partition that the function becomes a member of, hexadecimal (`0x…`) or decimal; none by default.
    /// The default partition (0x7fff) cannot be requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pkey: Option<RequestedPKey>,
    /// Membership in the partition of `pkey`: `full` (the default) or `limited`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(rename = "membership", with = "Option<String>")]
    pub limited: bool,
}

impl IbSriovConfig {
    /// Parse a configuration. Fails without the address of a function.
    pub fn parse(fields: ConfigFields<'_>) -> Result<Self, ConfigError> {
        let runtime = fields.object("runtimeConfig")?;
        let of_runtime = |key| runtime.map_or(Ok(None), |runtime| runtime.non_empty(key));
        let args = fields.object("args")?.map_or(Ok(None), |args| args.object("cni"))?;
        let of_args = |key| args.map_or(Ok(None), |args| args.non_empty(key));

        let device = match (fields.non_empty("deviceID")?, of_runtime("deviceID")?) {
            (Some(device), _) | (None, Some(device)) => device,
            (None, None) => fields.non_empty("pciBusID")?.ok_or(ConfigError::NoDeviceId)?,
        };
        let invalid = |_| ConfigError::InvalidDeviceId { device: device.to_owned() };
        let device: PciAddress = device.parse().map_err(invalid)?;
        let managed = fields.flag("ibKubernetesEnabled")?;
        if managed && of_args(MARK.0)? != Some(MARK.1) {
            return Err(ConfigError::NotMarkedConfigured { function: device });
        }
        let guid = match of_runtime("infinibandGUID")? {
            Some(guid) => Some(guid),
            None => of_args("guid")?,
        };
        Ok(Self {
            device,
            guid: guid.map(parse_guid).transpose()?,
            link_state: fields.non_empty("link_state")?.map(parse_link_state).transpose()?,
            mtu: fields.mtu()?,
            isolation: Self::rdma_isolation(fields)?,
            vfio: fields.flag("vfioPciMode")?,
            managed,
            pkey: fields::parse_pkey(fields)?,
            limited: fields::parse_limited(fields)?,
        })
    }

    /// Whether the configuration does not name a function yet.
    pub fn lacks_device(plugin: &Map<String, Value>) -> bool {
        let is_empty = |key: &str| ConfigFields(plugin).non_empty(key).ok().flatten().is_none();
        is_empty("deviceID") && is_empty("pciBusID")
    }

    /// Remove `ibKubernetesEnabled`.
    pub fn remove_ib_kubernetes_flag(plugin: &mut Map<String, Value>) {
        remove_key(plugin, "ibKubernetesEnabled");
    }

    /// The key `rdmaIsolation` of a configuration that need not name a function yet.
    pub fn rdma_isolation(fields: ConfigFields<'_>) -> Result<Option<bool>, ConfigError> {
        fields.optional_flag("rdmaIsolation")
    }
}

fn parse_link_state(text: &str) -> Result<VfLinkState, ConfigError> {
    let wrong = |_| ConfigError::field("link_state", "`auto`, `enable`, `disable` or empty");
    VfLinkState::deserialize(Value::from(text)).map_err(wrong)
}

/// Parse a GUID. As upstream, accept only eight bytes separated by colons, not all zero.
fn parse_guid(text: &str) -> Result<Guid, ConfigError> {
    let has_eight_groups = text.split(':').count() == 8;
    let guid = text.parse::<Guid>().ok().filter(|guid| has_eight_groups && guid.value() != 0);
    guid.ok_or_else(|| ConfigError::InvalidGuid { guid: text.to_owned() })
}

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

#[cfg(test)]
mod tests;
