//! What cannot be, though each object alone is in order.

use super::{Chosen, Span};
use ferroband_api::sriov::{SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
use kube::ResourceExt;

/// Mellanox adapters take no more virtual functions than this, whatever their firmware says now.
const MOST: i64 = 128;

/// Something to tell whoever wrote the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Whether the policy has no effect on the device for it.
    pub refused: bool,
    /// One word.
    pub reason: &'static str,
    /// The field.
    pub field: &'static str,
    /// What is wrong and what to do about it.
    pub cause: String,
}

/// Judge what `policy` wants of the device `chosen`, which `earlier` policies want, too.
pub fn judge(
    policy: &SriovNetworkNodePolicy,
    chosen: &Chosen<'_>,
    earlier: &[(&SriovNetworkNodePolicy, Chosen<'_>)],
) -> Vec<Finding> {
    let mut found = alone(&policy.spec, chosen);
    for (other, theirs) in earlier {
        found.extend(together(policy, chosen, other, theirs));
    }
    found
}

fn refuse(reason: &'static str, field: &'static str, cause: String) -> Finding {
    Finding { refused: true, reason, field, cause }
}

fn alone(spec: &SriovNetworkNodePolicySpec, chosen: &Chosen<'_>) -> Vec<Finding> {
    let nic = chosen.nic;
    let mut found = Vec::new();
    let vendor = nic.vendor.as_deref().unwrap_or_default();
    let (wanted, total) = (spec.num_vfs, nic.total_vfs.unwrap_or_default());
    if vendor == "15b3" && wanted > MOST {
        let cause =
            format!("{wanted} is more than the {MOST} that such an adapter can have; ask for at most {MOST}");
        found.push(refuse("TooManyVfs", "spec.numVfs", cause));
    }
    // Only Mellanox firmware can be told to have more.
    if vendor != "15b3" && wanted > total {
        let cause = format!("{wanted} is more than sriov_totalvfs, {total}; ask for at most {total}");
        found.push(refuse("TooManyVfs", "spec.numVfs", cause));
    }
    if spec.vdpa_type.is_some() && vendor != "15b3" {
        found.push(refuse(
            "Unsupported",
            "spec.vdpaType",
            "only adapters of vendor 15b3 have vDPA; leave it out".to_owned(),
        ));
    }
    if spec.e_switch_mode.as_deref() == Some("switchdev") {
        let cause = "Ferroband does not switch adapters to switchdev; leave it out, or set externallyManaged"
            .to_owned();
        found.push(Finding {
            refused: spec.externally_managed != Some(true),
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
            found.push(refuse("ExternallyManaged", "spec.numVfs", cause));
        }
        if let (Some(mtu), Some(now)) = (spec.mtu, nic.mtu)
            && mtu > now
        {
            let cause =
                format!("{mtu} is above the adapter's {now}, which somebody else manages; raise it there");
            found.push(refuse("ExternallyManaged", "spec.mtu", cause));
        }
        if let (Some(link), Some(now)) = (spec.link(), nic.link_type.as_deref())
            && !link.eq_ignore_ascii_case(now)
        {
            let cause = format!(
                "the adapter speaks {now}, and somebody else manages it; change it there, or leave it out"
            );
            found.push(refuse("ExternallyManaged", "spec.linkType", cause));
        }
    }
    found
}

fn together(
    policy: &SriovNetworkNodePolicy,
    chosen: &Chosen<'_>,
    other: &SriovNetworkNodePolicy,
    theirs: &Chosen<'_>,
) -> Vec<Finding> {
    let name = format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any());
    let mut found = Vec::new();
    let external = |policy: &SriovNetworkNodePolicy| policy.spec.externally_managed == Some(true);
    if external(policy) != external(other) {
        let cause = format!("policy {name} says otherwise for the same adapter; make them agree");
        found.push(refuse("Conflict", "spec.externallyManaged", cause));
    }
    if chosen.by_name && theirs.by_name {
        match (chosen.span, theirs.span) {
            (Some(mine), Some(other)) if mine.overlaps(other) => {
                let cause = format!("functions {mine} overlap with {other} of policy {name}; take others");
                found.push(refuse("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, None) => {
                let cause =
                    format!("policy {name} names the same adapter without a range; give both a range");
                found.push(refuse("Conflict", "spec.nicSelector.pfNames", cause));
            }
            (None, Some(_)) | (Some(_), None) => {
                let (mine, other) = (chosen.taken(&policy.spec), theirs.taken(&other.spec));
                found.extend(shadow(mine, other, &name));
            }
            _ => {}
        }
    }
    if chosen.by_address && theirs.by_address {
        let cause = format!("policy {name} names the same adapter; use pfNames with ranges to share it");
        found.push(refuse("Conflict", "spec.nicSelector.rootDevices", cause));
    }
    let topology = |policy: &SriovNetworkNodePolicy| policy.spec.exclude_topology == Some(true);
    if policy.spec.resource_name == other.spec.resource_name && topology(policy) != topology(other) {
        let cause = format!("policy {name} says otherwise for the same resource; make them agree");
        found.push(refuse("Conflict", "spec.excludeTopology", cause));
    }
    found
}

fn shadow(mine: Span, other: Span, name: &str) -> Option<Finding> {
    let cause = format!(
        "functions {mine} overlap with {other} of policy {name}; the one with the lower priority number has them"
    );
    let field = "spec.nicSelector.pfNames";
    mine.overlaps(other).then_some(Finding { refused: false, reason: "Shadowed", field, cause })
}
