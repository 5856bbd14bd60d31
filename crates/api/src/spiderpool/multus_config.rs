//! A network, in sections instead of JSON text.

use super::{CoordinatorSpec, IbSriovSection, IpoibSection, OvsSection, SriovSection, VlanSection};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A network that becomes a NetworkAttachmentDefinition.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderMultusConfig",
    plural = "spidermultusconfigs",
    shortname = "smc",
    category = "spiderpool",
    namespaced,
    derive = "PartialEq",
    doc = "A network in sections; it becomes a NetworkAttachmentDefinition."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.macvlan), has(self.ipvlan), has(self.vlan), has(self.sriov), has(self.ovs), has(self.ibsriov), \
         has(self.ipoib)].filter(given, given).size() <= 1"
    ).message("only one section may be given: it says which plugin is meant"),
    validation = Rule::new(
        "!has(self.customCNI) || self.customCNI == '' || !(has(self.macvlan) || has(self.ipvlan) || has(self.vlan) || \
         has(self.sriov) || has(self.ovs) || has(self.ibsriov) || has(self.ipoib))"
    ).message("customCNI is the whole configuration: remove the section, or customCNI")
)]
pub struct SpiderMultusConfigSpec {
    /// Which plugin. Where it and the one section given disagree, the section counts.
    #[serde(default = "custom")]
    #[schemars(extend(
        "enum" = ["macvlan", "ipvlan", "vlan", "sriov", "ovs", "ib-sriov", "ipoib", "custom"]
    ))]
    pub cni_type: String,
    /// An InfiniBand virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibsriov: Option<IbSriovSection>,
    /// An IPoIB child interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipoib: Option<IpoibSection>,
    /// A macvlan interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macvlan: Option<VlanSection>,
    /// An ipvlan interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvlan: Option<VlanSection>,
    /// A VLAN interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanSection>,
    /// An Ethernet virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sriov: Option<SriovSection>,
    /// A port of Open vSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<OvsSection>,
    /// Whether the coordinator is chained.
    #[serde(default = "yes")]
    pub enable_coordinator: bool,
    /// Whether the network has no addresses.
    #[serde(default, rename = "disableIPAM")]
    pub disable_ipam: bool,
    /// How the pod routes, for this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<CoordinatorSpec>,
    /// Plugins chained after the main one, each as JSON text.
    #[serde(default, rename = "chainCNIJsonData", skip_serializing_if = "Vec::is_empty")]
    pub chain_cni_json_data: Vec<String>,
    /// The whole configuration as JSON text, with `cniType: custom`.
    #[serde(default, rename = "customCNI", skip_serializing_if = "Option::is_none")]
    pub custom_cni: Option<String>,
}

fn custom() -> String {
    "custom".into()
}

fn yes() -> bool {
    true
}
