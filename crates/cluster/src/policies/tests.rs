use super::node_state_gc::{NodeStateAction, node_state_action, parse_delay};
use super::*;
use ferroband_api::sriov::{
    InterfaceSpec, InterfaceStatus, SUCCEEDED, SriovNetworkNodePolicy, SriovNetworkNodeState,
    SriovNetworkNodeStateSpec, SriovNetworkNodeStateStatus, SriovNetworkPoolConfig, SriovOperatorConfigSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const A: &str = "0000:3b:00.0";
const B: &str = "0000:3b:00.1";
const C: &str = "0000:d8:00.0";

/// The adapters of a test node: A is a Mellanox adapter with InfiniBand, B one with Ethernet, C is an Intel adapter.
fn nics() -> Vec<InterfaceStatus> {
    let nic = |pci: &str, name: &str, ids: (&str, &str), link: &str, total: i64| InterfaceStatus {
        pci_address: pci.to_owned(),
        name: Some(name.to_owned()),
        vendor: Some(ids.0.to_owned()),
        device_id: Some(ids.1.to_owned()),
        link_type: Some(link.to_owned()),
        mtu: Some(2044),
        num_vfs: Some(0),
        total_vfs: Some(total),
        ..InterfaceStatus::default()
    };
    let a = InterfaceStatus {
        alt_names: vec!["enp59s0".to_owned()],
        ..nic(A, "ibs1", ("15b3", "1017"), "IB", 16)
    };
    vec![a, nic(B, "ens2f1np1", ("15b3", "1017"), "ETH", 16), nic(C, "ens3f0", ("8086", "158b"), "ETH", 64)]
}

/// A policy in kube-system, created `age` seconds after a fixed time.
fn policy(name: &str, age: i64, spec: Value) -> Arc<SriovNetworkNodePolicy> {
    let mut whole =
        json!({"resourceName": name, "nodeSelector": {}, "numVfs": 4, "nicSelector": {"pfNames": ["ibs1"]}});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let created = jiff::Timestamp::from_second(1_700_000_000 + age).unwrap().to_string();
    let object = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name, "namespace": "kube-system", "generation": 1, "creationTimestamp": created},
        "spec": whole,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn node(name: &str, interfaces: Vec<InterfaceStatus>) -> PolicyNode {
    let mut state = SriovNetworkNodeState::new(name, SriovNetworkNodeStateSpec::default());
    state.metadata.generation = Some(1);
    state.status = Some(SriovNetworkNodeStateStatus { interfaces, ..Default::default() });
    let labels = [("kubernetes.io/os", "linux"), ("kubernetes.io/hostname", name)];
    let labels: BTreeMap<_, _> = labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    PolicyNode { name: name.to_owned(), labels: Arc::new(labels), state: Some(Arc::new(state)) }
}

fn decide_for(policies: &[Arc<SriovNetworkNodePolicy>], nodes: &[PolicyNode]) -> PolicyDecision {
    let namespaces = ["ferroband-system", "kube-system", "spiderpool"];
    decide(policies.to_vec(), nodes, &NodePools::default(), &SriovOperatorConfigSpec::default(), &namespaces)
}

/// Returns the desired adapters of a node that has the adapters `nics()`.
fn merged(policies: &[Arc<SriovNetworkNodePolicy>]) -> Vec<InterfaceSpec> {
    decide_for(policies, &[node("n1", nics())]).specs["n1"].interfaces.clone()
}

fn condition_of<'a>(decision: &'a PolicyDecision, policy: &str, kind: &str) -> &'a Condition {
    let (_, conditions) =
        decision.policies.iter().find(|(p, _)| p.metadata.name.as_deref() == Some(policy)).unwrap();
    conditions.iter().find(|condition| condition.type_ == kind).unwrap()
}

/// Returns resource name and VF range of each VF group of an adapter.
fn groups(spec: &InterfaceSpec) -> Vec<(&str, &str)> {
    spec.vf_groups
        .iter()
        .map(|group| {
            (
                group.resource_name.as_deref().unwrap_or_default(),
                group.vf_range.as_deref().unwrap_or_default(),
            )
        })
        .collect()
}

fn rejection_of(policies: &[Arc<SriovNetworkNodePolicy>], loser: &str) -> String {
    let decision = decide_for(policies, &[node("n1", nics())]);
    let accepted = condition_of(&decision, loser, "Accepted");
    assert_eq!(accepted.status, "False", "{accepted:?}");
    let vf_groups = decision.specs["n1"].interfaces.iter().flat_map(|i| &i.vf_groups);
    assert!(
        vf_groups.clone().all(|group| group.policy_name.as_deref() != Some(loser)),
        "it must not be applied: {vf_groups:?}"
    );
    format!("{}: {}", accepted.reason, accepted.message)
}

fn accepted(policies: &[Arc<SriovNetworkNodePolicy>], name: &str) -> Condition {
    let decision = decide_for(policies, &[node("n1", nics())]);
    let accepted = condition_of(&decision, name, "Accepted").clone();
    assert_eq!(accepted.status, "True", "{accepted:?}");
    accepted
}

// Case: operator C08
#[test]
fn more_vfs_than_the_adapter_can_have_are_rejected() {
    let many = |count: i64| [policy("p", 0, json!({"numVfs": count}))];
    assert!(rejection_of(&many(129), "p").starts_with("TooManyVfs: spec.numVfs: 129"));
    // 17 VFs are accepted: sriov_totalvfs is 16, but the firmware of a Mellanox adapter can be configured for
    // more.
    accepted(&many(17), "p");
    let intel = [policy("p", 0, json!({"numVfs": 65, "nicSelector": {"vendor": "8086"}}))];
    assert!(rejection_of(&intel, "p").contains("sriov_totalvfs, 64"));
}

// Case: operator C10
#[test]
fn a_policy_that_matches_no_node_or_adapter_reports_it_and_does_not_affect_others() {
    let nowhere = policy("nowhere", 0, json!({"nodeSelector": {"a": "b"}}));
    let nothing = policy("nothing", 1, json!({"nicSelector": {"vendor": "15b3", "pfNames": ["ens1"]}}));
    let works = policy("works", 2, json!({}));
    let decision = decide_for(&[nowhere, nothing, works], &[node("n1", nics())]);
    let (no_node, no_nic) =
        (condition_of(&decision, "nowhere", "Matched"), condition_of(&decision, "nothing", "Matched"));
    assert_eq!((no_node.status.as_str(), no_node.reason.as_str()), ("False", "NoNode"));
    assert_eq!((no_nic.status.as_str(), no_nic.reason.as_str()), ("False", "NoNic"));
    for part in [
        "spec.nicSelector",
        "n1",
        "0 of 3",
        "2 by pfNames",
        "1 by vendor",
        "ibs1 (15b3:1017 at 0000:3b:00.0)",
    ] {
        assert!(no_nic.message.contains(part), "{part}: {}", no_nic.message);
    }
    assert_eq!(condition_of(&decision, "works", "Matched").status, "True");
    assert_eq!(groups(&decision.specs["n1"].interfaces[0]), [("works", "0-3")]);
}

// Case: operator C11
#[test]
fn the_older_of_two_policies_with_overlapping_vf_ranges_applies() {
    let by =
        |name: &str, age, pf: &str| policy(name, age, json!({"numVfs": 8, "nicSelector": {"pfNames": [pf]}}));
    let p1 = by("p1", 0, "ibs1#0-3");
    assert!(rejection_of(&[by("p2", 1, "ibs1#3-7"), p1.clone()], "p2").contains("policy kube-system/p1"));
    assert!(rejection_of(&[p1.clone(), by("p2", 1, "enp59s0#2-5")], "p2").contains("kube-system/p1"));
    accepted(&[p1.clone(), by("p2", 1, "ibs1#4-7")], "p2");
    // p2 now selects only n2. It must still conflict with p1, which selects n2 as well.
    let mut other = (*by("p2", 1, "ibs1#3-7")).clone();
    other.spec.node_selector = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "n2".to_owned())]);
    let decision = decide_for(&[p1, Arc::new(other)], &[node("n1", nics()), node("n2", nics())]);
    assert_eq!(condition_of(&decision, "p2", "Accepted").reason, "Conflict", "n2 has both");
}

// Case: operator C12
#[test]
fn two_policies_for_all_vfs_of_one_pf_conflict() {
    let by =
        |name: &str, age, pf: &str| policy(name, age, json!({"numVfs": 8, "nicSelector": {"pfNames": [pf]}}));
    assert!(rejection_of(&[by("p1", 0, "ibs1"), by("p2", 1, "ibs1")], "p2").contains("p1"));
    let shadowed = accepted(&[by("p1", 0, "ibs1"), by("p2", 1, "ibs1#4-7")], "p2");
    assert_eq!(shadowed.reason, "Shadowed");
    assert!(shadowed.message.contains("0-7 of policy kube-system/p1"), "{}", shadowed.message);
}

// Case: operator C13
#[test]
fn two_policies_with_the_same_root_device_conflict_on_a_common_node() {
    let by = |name: &str, age, node: &str| {
        let selector = json!({"kubernetes.io/hostname": node});
        policy(name, age, json!({"nodeSelector": selector, "nicSelector": {"rootDevices": [A]}}))
    };
    assert!(rejection_of(&[by("p1", 0, "n1"), by("p2", 1, "n1")], "p2").contains("rootDevices"));
    let decision =
        decide_for(&[by("p1", 0, "n1"), by("p2", 1, "n2")], &[node("n1", nics()), node("n2", nics())]);
    assert_eq!(condition_of(&decision, "p2", "Accepted").status, "True");
}

// Case: operator C15
#[test]
fn a_policy_must_fit_an_externally_managed_adapter() {
    let mut nics_with_vfs = nics();
    nics_with_vfs[0].num_vfs = Some(4);
    let nodes = [node("n1", nics_with_vfs)];
    let with = |spec: Value| {
        let mut spec = spec;
        spec["externallyManaged"] = json!(true);
        let decision = decide_for(&[policy("p", 0, spec)], &nodes);
        let accepted = condition_of(&decision, "p", "Accepted").clone();
        (accepted.status == "True", accepted.message)
    };
    let (many, message) = with(json!({"numVfs": 8}));
    assert!(!many && message.contains("spec.numVfs"), "{message}");
    let (mtu, message) = with(json!({"mtu": 4092}));
    assert!(!mtu && message.contains("spec.mtu"), "{message}");
    let (link, message) = with(json!({"linkType": "eth"}));
    assert!(!link && message.contains("spec.linkType"), "{message}");
    assert!(with(json!({"linkType": "IB", "mtu": 2044})).0);
}

// Case: operator C16
#[test]
fn policies_of_one_adapter_must_agree_on_externally_managed() {
    let p1 =
        policy("p1", 0, json!({"externallyManaged": true, "nicSelector": {"vendor": "15b3"}, "numVfs": 0}));
    let p2 = policy("p2", 1, json!({"nicSelector": {"pfNames": ["ibs1#0-1"]}}));
    assert!(rejection_of(&[p1, p2], "p2").contains("spec.externallyManaged"));
}

// Case: operator C17
#[test]
fn a_policy_in_another_namespace_is_not_applied_and_reports_it() {
    let mut elsewhere = (*policy("p", 0, json!({}))).clone();
    elsewhere.metadata.namespace = Some("default".to_owned());
    let decision = decide_for(&[Arc::new(elsewhere)], &[node("n1", nics())]);
    assert!(decision.specs["n1"].interfaces.is_empty());
    assert_eq!(condition_of(&decision, "p", "Accepted").reason, "OtherNamespace");
    let leftover = decide_for(&[policy("default", 0, json!({}))], &[node("n1", nics())]);
    assert!(leftover.specs["n1"].interfaces.is_empty() && leftover.policies.is_empty());
}

// Case: operator C24
#[test]
fn the_lower_priority_number_wins() {
    let all = json!({"vendor": "15b3", "rootDevices": [A]});
    let p1 = policy("p1", 0, json!({"priority": 99, "numVfs": 8, "nicSelector": {"pfNames": ["ibs1"]}}));
    let p2 = policy("p2", 1, json!({"priority": 10, "numVfs": 4, "nicSelector": all}));
    let merged = merged(&[p1, p2]);
    assert_eq!((merged[0].num_vfs, groups(&merged[0])), (Some(4), vec![("p2", "0-3")]));
}

// Case: operator C25
#[test]
fn within_one_priority_the_last_name_wins_and_the_highest_vf_count_applies() {
    let by = |name: &str, count: i64| {
        policy(
            name,
            0,
            json!({"priority": 99, "numVfs": count, "nicSelector": {"vendor": "15b3", "deviceID": "1017"}}),
        )
    };
    let merged = merged(&[by("a", 8), by("b", 4)]);
    assert_eq!(merged.iter().map(|i| i.pci_address.as_str()).collect::<Vec<_>>(), [A, B]);
    assert_eq!((merged[0].num_vfs, groups(&merged[0])), (Some(8), vec![("b", "0-3")]));
}

// Case: operator C26, operator C27
#[test]
fn disjoint_vf_ranges_are_both_kept() {
    let by = |name: &str, priority: i64, pf: &str, resource: &str| {
        let spec = json!({"priority": priority, "numVfs": 8, "nicSelector": {"pfNames": [pf]}, "resourceName": resource});
        policy(name, 0, spec)
    };
    let merged_c26 = merged(&[by("p1", 99, "ibs1#0-3", "r1"), by("p2", 10, "ibs1#4-7", "r2")]);
    assert_eq!(
        (merged_c26[0].num_vfs, groups(&merged_c26[0])),
        (Some(8), vec![("r2", "4-7"), ("r1", "0-3")])
    );
    let merged_c27 = merged(&[by("p1", 99, "ibs1#0-3", "r"), by("p2", 10, "ibs1#4-7", "r")]);
    assert_eq!(groups(&merged_c27[0]), [("r", "4-7"), ("r", "0-3")]);
}

// Case: operator C28
#[test]
fn a_vf_range_of_an_alternative_name_applies() {
    let merged = merged(&[policy("p", 0, json!({"nicSelector": {"pfNames": ["enp59s0#2-3"]}}))]);
    assert_eq!(groups(&merged[0]), [("p", "2-3")]);
    // `#2` is not a valid range, so the policy must match no adapter. The SR-IOV operator panics on it if its
    // webhook is disabled.
    let broken = policy("p", 0, json!({"nicSelector": {"pfNames": ["ibs1#2"]}}));
    let decision = decide_for(&[broken], &[node("n1", nics())]);
    assert_eq!(condition_of(&decision, "p", "Matched").reason, "NoNic");
}

// Case: operator C29
#[test]
fn a_node_that_has_not_reported_adapters_is_not_changed() {
    let decision = decide_for(&[policy("p", 0, json!({}))], &[node("n1", Vec::new())]);
    assert!(decision.specs.is_empty());
    assert_eq!(condition_of(&decision, "p", "Matched").reason, "NotReported");
}

// Case: operator C30
#[test]
fn states_of_deleted_nodes_are_kept_for_the_delay() {
    let now: jiff::Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
    let usual = parse_delay(None);
    assert_eq!(node_state_action(true, None, now, usual), NodeStateAction::Keep);
    assert_eq!(
        node_state_action(false, None, now, usual),
        NodeStateAction::Mark("2026-01-02T03:30:00Z".parse().unwrap())
    );
    assert_eq!(node_state_action(false, Some("2026-01-02T03:00:01Z"), now, usual), NodeStateAction::Keep);
    assert_eq!(node_state_action(false, Some("2026-01-02T03:00:00Z"), now, usual), NodeStateAction::Delete);
    assert_eq!(node_state_action(true, Some("2026-01-02T02:00:00Z"), now, usual), NodeStateAction::Unmark);
    assert_eq!(node_state_action(false, None, now, parse_delay(Some("0"))), NodeStateAction::Delete);
    assert_eq!((parse_delay(Some("-1")), parse_delay(Some("x"))), (usual, usual));
}

#[test]
fn device_type_infiniband_selects_link_type_ib_and_rdma() {
    for word in ["ib", "infiniBand"] {
        let merged = merged(&[policy("p", 0, json!({"deviceType": word}))]);
        let group = &merged[0].vf_groups[0];
        assert_eq!(merged[0].link_type.as_deref(), Some("ib"));
        assert_eq!((group.device_type.as_deref(), group.is_rdma), (Some("netdevice"), Some(true)));
    }
}

#[test]
fn a_policy_is_ready_when_every_node_has_applied_the_current_spec() {
    let p = [policy("p", 0, json!({}))];
    let mut one = node("n1", nics());
    let desired = decide_for(&p, &[one.clone()]).specs["n1"].clone();
    let mut state = one.state.as_deref().unwrap().clone();
    let mut ready_after = |change: &dyn Fn(&mut SriovNetworkNodeState)| {
        change(&mut state);
        one.state = Some(Arc::new(state.clone()));
        let decision = decide_for(&p, &[one.clone()]);
        let ready = condition_of(&decision, "p", "Ready");
        (ready.status == "True", ready.reason.clone())
    };
    let status = |state: &mut SriovNetworkNodeState, word: &str, generation| {
        let status = state.status.as_mut().unwrap();
        status.sync_status = Some(word.to_owned());
        status.observed_generation = Some(generation);
    };
    assert_eq!(ready_after(&|state| status(state, SUCCEEDED, 1)), (false, "InProgress".to_owned()));
    assert_eq!(ready_after(&|state| state.spec = desired.clone()), (true, "AllNodesReady".to_owned()));
    assert_eq!(ready_after(&|state| state.metadata.generation = Some(2)), (false, "InProgress".to_owned()));
    assert_eq!(ready_after(&|state| status(state, "Failed", 2)), (false, "Failed".to_owned()));
}

#[test]
fn conditions_are_written_only_when_they_change() {
    let now: jiff::Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
    let later: jiff::Timestamp = "2026-01-02T04:00:00Z".parse().unwrap();
    let desired = [new_condition("Ready", false, "InProgress", "0 of 1 nodes")];
    let first = updated_conditions(&[], &desired, Some(1), now).unwrap();
    assert_eq!(updated_conditions(&first, &desired, Some(1), later), None);
    let other = [new_condition("Ready", false, "Failed", "n1")];
    let second = updated_conditions(&first, &other, Some(1), later).unwrap();
    assert_eq!(second[0].last_transition_time.0, now, "the status is the same");
    let ready =
        updated_conditions(&second, &[new_condition("Ready", true, "AllNodesReady", "")], Some(1), later)
            .unwrap();
    assert_eq!(ready[0].last_transition_time.0, later);
}

fn pool(name: &str, spec: Value) -> Arc<SriovNetworkPoolConfig> {
    let object = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkPoolConfig",
        "metadata": {"name": name, "namespace": "ferroband-system"}, "spec": spec,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

// Case: operator C71
#[test]
fn a_drain_budget_of_zero_is_reported() {
    let budget =
        |most: Value, nodes| DrainBudget::of_pool(Some(&pool("p", json!({"maxUnavailable": most}))), nodes);
    assert_eq!(budget(json!("30%"), 1), Ok(DrainBudget::AtMost(0)));
    assert_eq!(budget(json!("50%"), 5), Ok(DrainBudget::AtMost(2)));
    assert_eq!(budget(json!(3), 5), Ok(DrainBudget::AtMost(3)));
    assert_eq!(DrainBudget::of_pool(Some(&pool("p", json!({}))), 5), Ok(DrainBudget::Unlimited));
    assert_eq!(DrainBudget::of_pool(None, 5), Ok(DrainBudget::AtMost(1)));
    for wrong in [json!("150%"), json!("0%"), json!("two"), json!(-1)] {
        budget(wrong, 5).unwrap_err();
    }
    let (pools, _) = NodePools::from_objects([pool("p", json!({"maxUnavailable": "30%"}))]);
    let nodes = [node("n1", nics())];
    let decision =
        decide(Vec::new(), &nodes, &pools, &SriovOperatorConfigSpec::default(), &["ferroband-system"]);
    assert_eq!(decision.pools[0].1[0].reason, "NeverDrains");
}

#[test]
fn a_node_in_two_pools_keeps_its_system_settings() {
    let (pools, _) = NodePools::from_objects([
        pool("p", json!({"rdmaMode": "exclusive"})),
        pool("q", json!({"rdmaMode": "shared"})),
    ]);
    let nodes = [node("n1", nics())];
    let decision =
        decide(Vec::new(), &nodes, &pools, &SriovOperatorConfigSpec::default(), &["ferroband-system"]);
    assert_eq!(decision.specs["n1"].system, None, "unchanged");
    assert!(decision.pools.iter().all(|(_, conditions)| conditions[0].reason == "NodeInTwoPools"));
    let (one, _) = NodePools::from_objects([pool("p", json!({"rdmaMode": "exclusive"}))]);
    let decision =
        decide(Vec::new(), &nodes, &one, &SriovOperatorConfigSpec::default(), &["ferroband-system"]);
    let system = decision.specs["n1"].system.as_ref().unwrap();
    assert_eq!(system.rdma_mode.as_deref(), Some("exclusive"));
}
