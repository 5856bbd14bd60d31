//! What the API server refuses, in its own language (CEL), so that it needs no webhook to be up.
//!
//! Only what can be said of one object alone is refused here. What depends on the cluster (is there such a node? does
//! another policy want the same functions?) changes without the object being touched, and is told in its conditions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};

/// A rule about the whole object: what must hold, and what is said when it does not.
type CelRule = (&'static str, &'static str);

/// Of a policy. One called `default` is a leftover of old operators and never looked at.
const POLICY_RULES: &[CelRule] = &[
    (
        "self.spec.resourceName.matches('^[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$')",
        "spec.resourceName: letters, digits, - and _, beginning and ending with a letter or digit, at most 63",
    ),
    ("self.spec.numVfs > 0", "spec.numVfs: at least 1; delete the policy to have none"),
    (
        "[has(self.spec.nicSelector.vendor) && self.spec.nicSelector.vendor != '', \
         has(self.spec.nicSelector.deviceID) && self.spec.nicSelector.deviceID != '', \
         has(self.spec.nicSelector.netFilter) && self.spec.nicSelector.netFilter != '', \
         has(self.spec.nicSelector.rootDevices) && size(self.spec.nicSelector.rootDevices) > 0, \
         has(self.spec.nicSelector.pfNames) && size(self.spec.nicSelector.pfNames) > 0].exists(given, given)",
        "spec.nicSelector: give at least one of vendor, deviceID, rootDevices, pfNames, netFilter",
    ),
    (
        "!has(self.spec.nicSelector.netFilter) || self.spec.nicSelector.netFilter == '' || \
         !(has(self.spec.nicSelector.vendor) || has(self.spec.nicSelector.deviceID) || \
         has(self.spec.nicSelector.rootDevices) || has(self.spec.nicSelector.pfNames) || \
         has(self.spec.eSwitchMode) || has(self.spec.bridge))",
        "spec.nicSelector.netFilter: cannot be together with vendor, deviceID, rootDevices, pfNames, eSwitchMode or bridge",
    ),
    (
        "!has(self.spec.nicSelector.netFilter) || self.spec.nicSelector.netFilter == '' || \
         ((!has(self.spec.linkType) || self.spec.linkType in ['eth', 'ETH']) && !(self.spec.deviceType in ['ib', 'infiniBand']))",
        "spec.nicSelector.netFilter: networks of virtual platforms are Ethernet; linkType must be eth or absent",
    ),
    (
        "!has(self.spec.nicSelector.pfNames) || self.spec.nicSelector.pfNames.all(name, \
         !name.contains('#') || name.matches('^[^#]+#[0-9]{1,4}-[0-9]{1,4}$'))",
        "spec.nicSelector.pfNames: a range is NAME#FIRST-LAST, like ibs1#0-3",
    ),
    (
        "!has(self.spec.nicSelector.pfNames) || self.spec.nicSelector.pfNames.all(name, \
         !name.matches('^[^#]+#[0-9]{1,4}-[0-9]{1,4}$') || \
         int(name.split('#')[1].split('-')[0]) <= int(name.split('#')[1].split('-')[1]) && \
         int(name.split('#')[1].split('-')[1]) < self.spec.numVfs)",
        "spec.nicSelector.pfNames: in NAME#FIRST-LAST, FIRST must not be after LAST, and LAST must be below numVfs",
    ),
    (
        "self.spec.deviceType != 'vfio-pci' || !has(self.spec.isRdma) || !self.spec.isRdma",
        "spec.deviceType vfio-pci and spec.isRdma true: the kernel's RDMA device is gone under vfio-pci; take one of them",
    ),
    (
        "!(self.spec.deviceType in ['ib', 'infiniBand']) || !has(self.spec.linkType) || self.spec.linkType in ['ib', 'IB']",
        "spec.deviceType ib and spec.linkType eth contradict each other",
    ),
    (
        "!has(self.spec.eSwitchMode) || self.spec.eSwitchMode != 'switchdev' || \
         ((!has(self.spec.linkType) || self.spec.linkType in ['eth', 'ETH']) && !(self.spec.deviceType in ['ib', 'infiniBand']))",
        "spec.eSwitchMode switchdev needs spec.linkType eth: InfiniBand has no e-switch",
    ),
    (
        "!has(self.spec.vdpaType) || (self.spec.deviceType == 'netdevice' && has(self.spec.eSwitchMode) && self.spec.eSwitchMode == 'switchdev')",
        "spec.vdpaType needs spec.deviceType netdevice and spec.eSwitchMode switchdev",
    ),
    (
        "!has(self.spec.bridge) || (has(self.spec.eSwitchMode) && self.spec.eSwitchMode == 'switchdev' && \
         (!has(self.spec.externallyManaged) || !self.spec.externallyManaged))",
        "spec.bridge needs spec.eSwitchMode switchdev, and functions that are not externallyManaged",
    ),
];

/// Of a pool of nodes.
const POOL_CONFIG_RULES: &[CelRule] = &[
    (
        "!has(self.spec.maxUnavailable) || (type(self.spec.maxUnavailable) == int ? int(self.spec.maxUnavailable) >= 0 : \
         string(self.spec.maxUnavailable).matches('^([1-9][0-9]?|100)%$'))",
        "spec.maxUnavailable: a number, 0 or more, or a percentage from 1% to 100%",
    ),
    (
        "!has(self.spec.ovsHardwareOffloadConfig) || !has(self.spec.ovsHardwareOffloadConfig.name) || \
         (!has(self.spec.maxUnavailable) && !has(self.spec.nodeSelector))",
        "spec.ovsHardwareOffloadConfig.name: cannot be together with maxUnavailable or nodeSelector",
    ),
];

/// The definition with its rules.
pub(crate) fn with_validation_rules(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let (rules, exempt) = match crd.spec.names.kind.as_str() {
        "SriovNetworkNodePolicy" => (POLICY_RULES, "self.metadata.name == 'default' || "),
        "SriovNetworkPoolConfig" => (POOL_CONFIG_RULES, ""),
        "SriovOperatorConfig" => return require_name_default(crd),
        _ => return crd,
    };
    let rule = |(rule, message): &CelRule| ValidationRule {
        rule: format!("{exempt}!has(self.spec) || ({rule})"),
        message: Some((*message).to_owned()),
        ..ValidationRule::default()
    };
    set_rules(&mut crd, rules.iter().map(rule).collect());
    crd
}

/// There is one configuration, and it has one name.
fn require_name_default(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let rule = ValidationRule {
        rule: "self.metadata.name == 'default'".to_owned(),
        message: Some("metadata.name: only the object called default is used".to_owned()),
        ..ValidationRule::default()
    };
    set_rules(&mut crd, vec![rule]);
    crd
}

fn set_rules(crd: &mut CustomResourceDefinition, rules: Vec<ValidationRule>) {
    for version in &mut crd.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            root.x_kubernetes_validations = Some(rules.clone());
        }
    }
}
