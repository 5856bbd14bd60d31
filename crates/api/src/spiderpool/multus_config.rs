//! SpiderMultusConfig (`spiderpool.spidernet.io/v2beta1`): the source of a generated NetworkAttachmentDefinition.

use super::{CoordinatorSpec, IbSriovSection, IpoibSection, OvsSection, SriovSection, VlanSection};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A network from which a NetworkAttachmentDefinition is generated.
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
    doc = "A structured network configuration from which a NetworkAttachmentDefinition is generated."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.macvlan), has(self.ipvlan), has(self.vlan), has(self.sriov), has(self.ovs), has(self.ibsriov), \
         has(self.ipoib)].filter(present, present).size() <= 1"
    ).message("at most one plugin section may be set"),
    validation = Rule::new(
        "!has(self.customCNI) || self.customCNI == '' || !(has(self.macvlan) || has(self.ipvlan) || has(self.vlan) || \
         has(self.sriov) || has(self.ovs) || has(self.ibsriov) || has(self.ipoib))"
    ).message("customCNI cannot be combined with a plugin section")
)]
pub struct SpiderMultusConfigSpec {
    /// CNI plugin. If it contradicts the section that is set, the section wins.
    #[serde(default = "custom")]
    #[schemars(extend(
        "enum" = ["macvlan", "ipvlan", "vlan", "sriov", "ovs", "ib-sriov", "ipoib", "custom"]
    ))]
    pub cni_type: String,
    /// Settings for `cniType: ib-sriov`: the pod gets an InfiniBand virtual function.
    pub ibsriov: Option<IbSriovSection>,
    /// Settings for `cniType: ipoib`: the pod gets an IPoIB child interface.
    pub ipoib: Option<IpoibSection>,
    /// Settings for `cniType: macvlan`.
    pub macvlan: Option<VlanSection>,
    /// Settings for `cniType: ipvlan`.
    pub ipvlan: Option<VlanSection>,
    /// Settings for `cniType: vlan`. Not supported: the network is rejected.
    pub vlan: Option<VlanSection>,
    /// Settings for `cniType: sriov`: the pod gets an Ethernet virtual function.
    pub sriov: Option<SriovSection>,
    /// Settings for `cniType: ovs`. Not supported: the network is rejected.
    pub ovs: Option<OvsSection>,
    /// Whether the coordinator plugin is added to the end of the plugin chain.
    #[serde(default = "yes")]
    pub enable_coordinator: bool,
    /// Whether interfaces of the network get no addresses.
    #[serde(default, rename = "disableIPAM")]
    pub disable_ipam: bool,
    /// Routing settings for this network, which take precedence over those of the SpiderCoordinator.
    pub coordinator: Option<CoordinatorSpec>,
    /// Configurations of plugins that run after the main plugin, each as a JSON object.
    #[serde(default, rename = "chainCNIJsonData", skip_serializing_if = "Vec::is_empty")]
    pub chain_cni_json_data: Vec<String>,
    /// The whole CNI configuration as JSON, for `cniType: custom`.
    #[serde(rename = "customCNI")]
    pub custom_cni: Option<String>,
}

fn custom() -> String {
    "custom".into()
}

fn yes() -> bool {
    true
}
