//! What cannot be, though each object alone is in order.

use super::{SelectedNic, VfRange};
use ferroband_api::sriov::{SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
use kube::ResourceExt;

/// Mellanox adapters take no more virtual functions than this, whatever their firmware says now.
const MELLANOX_MAX_VFS: i64 = 128;

/// Something to tell whoever wrote the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyFinding {
    /// Whether the policy has no effect on the device for it.
    pub rejects: bool,
    /// One word.
    pub reason: &'static str,
    /// The field.
    pub field: &'static str,
    /// What is wrong and what to do about it.
    pub cause: String,
}

/// Judge what `policy` wants of the device `chosen`, which `earlier` policies want, too.
pub fn validate(
    policy: &SriovNetworkNodePolicy,
    chosen: &SelectedNic<'_>,
    earlier: &[(&SriovNetworkNodePolicy, SelectedNic<'_>)],
) -> Vec<PolicyFinding> {
    let mut found = validate_alone(&policy.spec, chosen);
    for (other, theirs) in earlier {
        found.extend(validate_pair(policy, chosen, other, theirs));
    }
    found
}

fn rejection(reason: &'static str, field: &'static str, cause: String) -> PolicyFinding {
    PolicyFinding { rejects: true, reason, field, cause }
}

fn validate_alone(spec: &SriovNetworkNodePolicySpec, chosen: &SelectedNic<'_>) -> Vec<PolicyFinding> {
    let nic = chosen.nic;
    let mut found = Vec::new();
    let vendor = nic.vendor.as_deref().unwrap_or_default();
    let (wanted, total) = (spec.num_vfs, nic.total_vfs.unwrap_or_default());
    if vendor == "15b3" && wanted > MELLANOX_MAX_VFS {
        let cause = format!(
            "{wanted} is more than the {MELLANOX_MAX_VFS} that such an adapter can have; ask for at most {MELLANOX_MAX_VFS}"
        );
        found.push(rejection("TooManyVfs", "spec.numVfs", cause));
    }
    // Only Mellanox firmware can be told to have more.
    if vendor != "15b3" && wanted > total {
        let cause = format!("{wanted} is more than sriov_totalvfs, {total}; ask for at most {total}");
        found.push(rejection("TooManyVfs", "spec.numVfs", cause));
    }
    if spec.vdpa_type.is_some() && vendor != "15b3" {
        found.push(rejection(
            "Unsupported",
            "spec.vdpaType",
            "only adapters of vendor 15b3 have vDPA; leave it out".to_owned(),
        ));
    }
    if spec.e_switch_mode.as_deref() == Some("switchdev") {
        let cause = "Ferroband does not switch adapters to switchdev; leave it out, or set externallyManaged"
            .to_owned();
        found.push(PolicyFinding {
            rejects: spec.externally_managed != Some(true),
            reason: "Unsupported",
            field: "spec.eSwitchMode",
            cause,
        });
    }
    if spec.externally_managed == Some(true) {
        let there = nic.num_vfs.unwrap_or_default();
        if wanted > there {
            let cause = format!(
                "{wanted} are wanted, but whoever manages the adapter made {there}; make more, or ask for at most {there}"
            );
            found.push(rejection("ExternallyManaged", "spec.numVfs", cause));
        }
        if let (Some(mtu), Some(now)) = (spec.mtu, nic.mtu)
            && mtu > now
        {
            let cause =
                format!("{mtu} is above the adapter's {now}, which somebody else manages; raise it there");
            found.push(rejection("ExternallyManaged", "spec.mtu", cause));
        }
        if let (Some(link), Some(now)) = (spec.requested_link_type(), nic.link_type.as_deref())
            && !link.eq_ignore_ascii_case(now)
        {
            let cause = format!(
                "the adapter speaks {now}, and somebody else manages it; change it there, or leave it out"
            );
            found.push(rejection("ExternallyManaged", "spec.linkType", cause));
        }
    }
    found
}

fn validate_pair(
    policy: &SriovNetworkNodePolicy,
    chosen: &SelectedNic<'_>,
    other: &SriovNetworkNodePolicy,
    theirs: &SelectedNic<'_>,
) -> Vec<PolicyFinding> {
    let name = format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any());
    let mut found = Vec::new();
    let external = |policy: &SriovNetworkNodePolicy| policy.spec.externally_managed == Some(true);
    if external(policy) != external(other) {
        let cause = format!("policy {name} says otherwise for the same adapter; make them agree");
        found.push(rejection("Conflict", "spec.externallyManaged", cause));
    }
    if chosen.by_name && theirs.by_name {
        match (chosen.vf_range, theirs.vf_range) {
            (Some(mine), Some(other)) if mine.overlaps(other) => {
                let cause = format!("functions {mine} overlap with {other} of policy {name}; take others");
                found.push(rejection("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, None) => {
                let cause =
                    format!("policy {name} names the same adapter without a range; give both a range");
                found.push(rejection("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, Some(_)) | (Some(_), None) => {
                let (mine, other) =
                    (chosen.effective_vf_range(&policy.spec), theirs.effective_vf_range(&other.spec));
                found.extend(shadowed_finding(mine, other, &name));
            }
            _ => {}
        }
    }
    if chosen.by_address && theirs.by_address {
        let cause = format!("policy {name} names the same adapter; use pfNames with ranges to share it");
        found.push(rejection("Conflict", "spec.nicSelector.rootDevices", cause));
    }
    let topology = |policy: &SriovNetworkNodePolicy| policy.spec.exclude_topology == Some(true);
    if policy.spec.resource_name == other.spec.resource_name && topology(policy) != topology(other) {
        let cause = format!("policy {name} says otherwise for the same resource; make them agree");
        found.push(rejection("Conflict", "spec.excludeTopology", cause));
    }
    found
}

fn shadowed_finding(mine: VfRange, other: VfRange, name: &str) -> Option<PolicyFinding> {
    let cause = format!(
        "functions {mine} overlap with {other} of policy {name}; the one with the lower priority number has them"
    );
    let field = "spec.nicSelector.pfNames";
    mine.overlaps(other).then_some(PolicyFinding { rejects: false, reason: "Shadowed", field, cause })
}
