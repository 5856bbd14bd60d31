//! CEL validation rules, which the API server enforces without a webhook.
//!
//! The rules check only what can be decided from the object alone. Whether a node matches, or another policy claims
//! the same functions, can change without an update of the object. Such problems are reported in conditions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};

/// A rule for the whole object: a CEL expression, and the message of the API server if the expression is false.
type CelRule = (&'static str, &'static str);

/// Rules for SriovNetworkNodePolicy. They do not apply to an object named `default`, which old operators created.
const POLICY_RULES: &[CelRule] = &[
    (
        "self.spec.resourceName.matches('^[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$')",
        "spec.resourceName: at most 63 letters, digits, - and _, starting and ending with a letter or digit",
    ),
    (
        "self.spec.numVfs > 0",
        "spec.numVfs must be at least 1; delete the policy to remove all virtual functions",
    ),
    (
        "[has(self.spec.nicSelector.vendor) && self.spec.nicSelector.vendor != '', \
         has(self.spec.nicSelector.deviceID) && self.spec.nicSelector.deviceID != '', \
         has(self.spec.nicSelector.netFilter) && self.spec.nicSelector.netFilter != '', \
         has(self.spec.nicSelector.rootDevices) && size(self.spec.nicSelector.rootDevices) > 0, \
         has(self.spec.nicSelector.pfNames) && size(self.spec.nicSelector.pfNames) > 0].exists(present, present)",
        "spec.nicSelector must set at least one of vendor, deviceID, rootDevices, pfNames, netFilter",
    ),
    (
        "!has(self.spec.nicSelector.netFilter) || self.spec.nicSelector.netFilter == '' || \
         !(has(self.spec.nicSelector.vendor) || has(self.spec.nicSelector.deviceID) || \
         has(self.spec.nicSelector.rootDevices) || has(self.spec.nicSelector.pfNames) || \
         has(self.spec.eSwitchMode) || has(self.spec.bridge))",
        "spec.nicSelector.netFilter excludes vendor, deviceID, rootDevices, pfNames, eSwitchMode and bridge",
    ),
    (
        "!has(self.spec.nicSelector.netFilter) || self.spec.nicSelector.netFilter == '' || \
         ((!has(self.spec.linkType) || self.spec.linkType in ['eth', 'ETH']) && !(self.spec.deviceType in ['ib', 'infiniBand']))",
        "spec.nicSelector.netFilter allows only linkType eth: virtualization platforms use Ethernet",
    ),
    (
        "!has(self.spec.nicSelector.pfNames) || self.spec.nicSelector.pfNames.all(name, \
         !name.contains('#') || name.matches('^[^#]+#[0-9]{1,4}-[0-9]{1,4}$'))",
        "spec.nicSelector.pfNames: a range must have the form NAME#FIRST-LAST, for example ibs1#0-3",
    ),
    (
        "!has(self.spec.nicSelector.pfNames) || self.spec.nicSelector.pfNames.all(name, \
         !name.matches('^[^#]+#[0-9]{1,4}-[0-9]{1,4}$') || \
         int(name.split('#')[1].split('-')[0]) <= int(name.split('#')[1].split('-')[1]) && \
         int(name.split('#')[1].split('-')[1]) < self.spec.numVfs)",
        "spec.nicSelector.pfNames: in NAME#FIRST-LAST, FIRST must not exceed LAST, and LAST must be less than numVfs",
    ),
    (
        "self.spec.deviceType != 'vfio-pci' || !has(self.spec.isRdma) || !self.spec.isRdma",
        "spec.isRdma cannot be true with spec.deviceType vfio-pci, which has no kernel RDMA device",
    ),
    (
        "!(self.spec.deviceType in ['ib', 'infiniBand']) || !has(self.spec.linkType) || self.spec.linkType in ['ib', 'IB']",
        "spec.deviceType ib contradicts spec.linkType eth",
    ),
    (
        "!has(self.spec.eSwitchMode) || self.spec.eSwitchMode != 'switchdev' || \
         ((!has(self.spec.linkType) || self.spec.linkType in ['eth', 'ETH']) && !(self.spec.deviceType in ['ib', 'infiniBand']))",
        "spec.eSwitchMode switchdev requires spec.linkType eth: InfiniBand has no e-switch",
    ),
    (
        "!has(self.spec.vdpaType) || (self.spec.deviceType == 'netdevice' && has(self.spec.eSwitchMode) && self.spec.eSwitchMode == 'switchdev')",
        "spec.vdpaType requires spec.deviceType netdevice and spec.eSwitchMode switchdev",
    ),
    (
        "!has(self.spec.bridge) || (has(self.spec.eSwitchMode) && self.spec.eSwitchMode == 'switchdev' && \
         (!has(self.spec.externallyManaged) || !self.spec.externallyManaged))",
        "spec.bridge requires spec.eSwitchMode switchdev and cannot be combined with externallyManaged",
    ),
];

const POOL_CONFIG_RULES: &[CelRule] = &[
    (
        "!has(self.spec.maxUnavailable) || (type(self.spec.maxUnavailable) == int ? int(self.spec.maxUnavailable) >= 0 : \
         string(self.spec.maxUnavailable).matches('^([1-9][0-9]?|100)%$'))",
        "spec.maxUnavailable must be a number of at least 0, or a percentage from 1% to 100%",
    ),
    (
        "!has(self.spec.ovsHardwareOffloadConfig) || !has(self.spec.ovsHardwareOffloadConfig.name) || \
         (!has(self.spec.maxUnavailable) && !has(self.spec.nodeSelector))",
        "spec.ovsHardwareOffloadConfig.name cannot be combined with maxUnavailable or nodeSelector",
    ),
];

/// Adds the validation rules of the CRD's kind to the CRD. A kind without rules is returned unchanged.
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

/// Allows only the object name `default`.
fn require_name_default(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let rule = ValidationRule {
        rule: "self.metadata.name == 'default'".to_owned(),
        message: Some("metadata.name must be default: only the object with this name is used".to_owned()),
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
