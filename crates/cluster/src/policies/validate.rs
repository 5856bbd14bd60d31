//! Validates a policy for an adapter that it selects: against the adapter's capabilities and against other policies.

use super::{SelectedNic, VfRange};
use ferroband_api::sriov::{SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
use kube::ResourceExt;

/// Maximum number of VFs of a Mellanox adapter, whatever its firmware is set to.
const MELLANOX_MAX_VFS: i64 = 128;

/// A problem with applying a policy to an adapter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyFinding {
    /// If true, the policy is not applied to the adapter. Otherwise the finding is only a warning.
    pub rejects: bool,
    /// Reason of the condition in the status of the policy, for example `TooManyVfs`.
    pub reason: &'static str,
    pub field: &'static str,
    /// Message that states the problem and its remedy.
    pub cause: String,
}

/// Validates `policy` on the adapter `selected`, which `earlier` policies also select.
pub fn validate(
    policy: &SriovNetworkNodePolicy,
    selected: &SelectedNic<'_>,
    earlier: &[(&SriovNetworkNodePolicy, SelectedNic<'_>)],
) -> Vec<PolicyFinding> {
    let mut findings = validate_alone(&policy.spec, selected);
    for (other, other_selected) in earlier {
        findings.extend(validate_pair(policy, selected, other, other_selected));
    }
    findings
}

fn rejection(reason: &'static str, field: &'static str, cause: String) -> PolicyFinding {
    PolicyFinding { rejects: true, reason, field, cause }
}

fn validate_alone(spec: &SriovNetworkNodePolicySpec, selected: &SelectedNic<'_>) -> Vec<PolicyFinding> {
    let nic = selected.nic;
    let mut findings = Vec::new();
    let vendor = nic.vendor.as_deref().unwrap_or_default();
    let (requested, total) = (spec.num_vfs, nic.total_vfs.unwrap_or_default());
    if vendor == "15b3" && requested > MELLANOX_MAX_VFS {
        let cause = format!(
            "{requested} exceeds the {MELLANOX_MAX_VFS} VFs that this adapter can have; use at most {MELLANOX_MAX_VFS}"
        );
        findings.push(rejection("TooManyVfs", "spec.numVfs", cause));
    }
    // sriov_totalvfs is the limit, except on Mellanox adapters, whose firmware can be configured for more VFs.
    if vendor != "15b3" && requested > total {
        let cause = format!("{requested} exceeds the adapter's sriov_totalvfs, {total}; use at most {total}");
        findings.push(rejection("TooManyVfs", "spec.numVfs", cause));
    }
    if spec.vdpa_type.is_some() && vendor != "15b3" {
        findings.push(rejection(
            "Unsupported",
            "spec.vdpaType",
            "only adapters of vendor 15b3 support vDPA; remove the field".to_owned(),
        ));
    }
    if spec.e_switch_mode.as_deref() == Some("switchdev") {
        let cause =
            "Ferroband does not switch adapters to switchdev; remove the field, or set externallyManaged"
                .to_owned();
        findings.push(PolicyFinding {
            rejects: spec.externally_managed != Some(true),
            reason: "Unsupported",
            field: "spec.eSwitchMode",
            cause,
        });
    }
    if spec.externally_managed == Some(true) {
        let existing = nic.num_vfs.unwrap_or_default();
        if requested > existing {
            let cause = format!(
                "{requested} VFs are requested, but the externally managed adapter has {existing}; create more VFs on the adapter, or use at most {existing}"
            );
            findings.push(rejection("ExternallyManaged", "spec.numVfs", cause));
        }
        if let (Some(mtu), Some(now)) = (spec.mtu, nic.mtu)
            && mtu > now
        {
            let cause = format!(
                "{mtu} exceeds the MTU {now} of the externally managed adapter; raise the adapter's MTU, or use at most {now}"
            );
            findings.push(rejection("ExternallyManaged", "spec.mtu", cause));
        }
        if let (Some(link), Some(now)) = (spec.requested_link_type(), nic.link_type.as_deref())
            && !link.eq_ignore_ascii_case(now)
        {
            let cause = format!(
                "the externally managed adapter has link type {now}; change the link type of the adapter, or remove the field"
            );
            findings.push(rejection("ExternallyManaged", "spec.linkType", cause));
        }
    }
    findings
}

fn validate_pair(
    policy: &SriovNetworkNodePolicy,
    selected: &SelectedNic<'_>,
    other: &SriovNetworkNodePolicy,
    other_selected: &SelectedNic<'_>,
) -> Vec<PolicyFinding> {
    let name = format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any());
    let mut findings = Vec::new();
    let external = |policy: &SriovNetworkNodePolicy| policy.spec.externally_managed == Some(true);
    if external(policy) != external(other) {
        let cause = format!(
            "policy {name} has another value for the same adapter; set the same value in both policies"
        );
        findings.push(rejection("Conflict", "spec.externallyManaged", cause));
    }
    if selected.by_name && other_selected.by_name {
        match (selected.vf_range, other_selected.vf_range) {
            (Some(mine), Some(other)) if mine.overlaps(other) => {
                let cause =
                    format!("VFs {mine} overlap with VFs {other} of policy {name}; use another range");
                findings.push(rejection("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, None) => {
                let cause = format!(
                    "policy {name} selects the same adapter, also without a VF range; set a VF range in both policies"
                );
                findings.push(rejection("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, Some(_)) | (Some(_), None) => {
                let (mine, other) = (
                    selected.effective_vf_range(&policy.spec),
                    other_selected.effective_vf_range(&other.spec),
                );
                findings.extend(shadowed_finding(mine, other, &name));
            }
            _ => {}
        }
    }
    if selected.by_address && other_selected.by_address {
        let cause = format!(
            "policy {name} selects the same adapter; to share the adapter, use pfNames with VF ranges in both policies"
        );
        findings.push(rejection("Conflict", "spec.nicSelector.rootDevices", cause));
    }
    let topology = |policy: &SriovNetworkNodePolicy| policy.spec.exclude_topology == Some(true);
    if policy.spec.resource_name == other.spec.resource_name && topology(policy) != topology(other) {
        let cause = format!(
            "policy {name} has another value for the same resource; set the same value in both policies"
        );
        findings.push(rejection("Conflict", "spec.excludeTopology", cause));
    }
    findings
}

fn shadowed_finding(mine: VfRange, other: VfRange, name: &str) -> Option<PolicyFinding> {
    let cause = format!(
        "VFs {mine} overlap with VFs {other} of policy {name}; the policy with the lower priority number gets the common VFs"
    );
    let field = "spec.nicSelector.pfNames";
    mine.overlaps(other).then_some(PolicyFinding { rejects: false, reason: "Shadowed", field, cause })
}
