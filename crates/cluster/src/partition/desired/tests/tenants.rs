//! Rules for tenants: P_Keys that no Partition lists, and the quota of P_Keys per namespace.

use super::*;

fn desired_under(
    memberships: &[Arc<NodePartitions>],
    partitions: &[Arc<Partition>],
    settings: &ClusterSettings,
) -> DesiredMemberships {
    let records = PartitionRecords::read(memberships, &PartitionRecords::default());
    let (inputs, observed) = (inputs(memberships, &records), MembershipTable::default());
    desired_memberships(&PartitionInputs { partitions, observed: Some(&observed), settings, ..inputs })
}

fn of_network(network: &str) -> Arc<NodePartitions> {
    let member = NodeMember { network: network.into(), ..member("0x03e8", GUID, "evil") };
    node("n1", &[GUID], vec![("c.net1", member)])
}

#[test]
fn a_pkey_that_no_partition_lists_is_refused_if_the_administrator_says_so() {
    let tenants = TenantPolicy { unlisted_partitions: UnlistedPartitions::Refuse, ..TenantPolicy::default() };
    let refuse = ClusterSettings { tenants, ..ClusterSettings::for_test() };
    let nodes = [of_network("evil/ib")];
    let refused = desired_under(&nodes, &[], &refuse);
    let reason = &refused.rejected[&("n1".into(), "c.net1".into())];
    assert!(refused.table.is_empty());
    assert!(reason.contains("0x03e8") && reason.contains("partitions.unlisted: refuse"), "{reason}");
    // Networks of administrators, listed P_Keys, and members that run already.
    assert_eq!(desired_under(&[of_network("kube-system/ib")], &[], &refuse).table.len(), 1);
    let listed = [partition("1000", &["evil"], PartitionMode::Enforce)];
    assert_eq!(desired_under(&nodes, &listed, &refuse).table.len(), 1);
    let running = accepted(&nodes[0], &desired_for(&nodes, &[]));
    let kept = desired_under(&[running], &[], &refuse);
    assert_eq!(kept.table.len(), 1);
    assert_eq!(kept.not_admitted[&("n1".into(), "c.net1".into())].treatment, NotAdmittedTreatment::Kept);
}

#[test]
fn a_pkey_that_no_partition_lists_causes_a_warning_once_partitions_exist() {
    let nodes = [of_network("evil/ib")];
    assert!(desired_for(&nodes, &[]).not_admitted.is_empty());
    let other = [partition("0x5", &["good"], PartitionMode::Enforce)];
    let warned = desired_for(&nodes, &other);
    assert_eq!((warned.table.len(), warned.rejected.len()), (1, 0));
    let entry = &warned.not_admitted[&("n1".into(), "c.net1".into())];
    assert_eq!(entry.treatment, NotAdmittedTreatment::Warned);
    assert!(entry.reason.contains("no Partition object lists"), "{}", entry.reason);
    assert!(desired_for(&[of_network("kube-system/ib")], &other).not_admitted.is_empty());
}

/// Two nodes with two functions each; `evil` requests one P_Key on each function.
fn two_nodes(keys: [&str; 4]) -> [Arc<NodePartitions>; 2] {
    let guid = |number: usize| format!("02:00:00:00:00:00:00:0{number}");
    let of = |name: &str, first: usize| {
        let guids = [guid(first), guid(first + 1)];
        let request = |at: usize| member(keys[first + at], &guids[at], "evil");
        node(name, &[&guids[0], &guids[1]], vec![("c.net1", request(0)), ("c.net2", request(1))])
    };
    [of("n1", 0), of("n2", 2)]
}

#[test]
fn the_pkeys_of_a_namespace_are_limited_over_all_nodes() {
    let two = ClusterSettings { max_pkeys_per_namespace: 2, ..ClusterSettings::for_test() };
    let nodes = two_nodes(["0x5", "0x6", "0x6", "0x7"]);
    let desired = desired_under(&nodes, &[], &two);
    assert_eq!((desired.table.len(), desired.rejected.len()), (3, 1), "{:?}", desired.rejected);
    let reason = &desired.rejected[&("n2".into(), "c.net2".into())];
    assert!(reason.contains("namespace evil") && reason.contains("maxPKeysPerNamespace"), "{reason}");
    let unlimited = ClusterSettings { max_pkeys_per_namespace: 0, ..ClusterSettings::for_test() };
    assert_eq!(desired_under(&nodes, &[], &unlimited).rejected.len(), 0);
    // The administrator has assigned one of the P_Keys to the namespace by name, so it does not count.
    let assigned = [partition("0x5", &["evil"], PartitionMode::Enforce)];
    assert_eq!(desired_under(&nodes, &assigned, &two).rejected.len(), 0);
    let open = [partition("0x5", &["*"], PartitionMode::Enforce)];
    assert_eq!(desired_under(&nodes, &open, &two).rejected.len(), 1);
}

#[test]
fn a_quota_never_ends_members_that_were_accepted_before() {
    let two = ClusterSettings { max_pkeys_per_namespace: 2, ..ClusterSettings::for_test() };
    let [first, second] = two_nodes(["0x5", "0x6", "0x7", "0x8"]);
    let running = accepted(&second, &desired_for(std::slice::from_ref(&second), &[]));
    // The node whose members are new is processed first.
    let desired = desired_under(&[first, running], &[], &two);
    let rejected: Vec<_> = desired.rejected.keys().map(|(node, _)| node.as_str()).collect();
    assert_eq!(rejected, ["n1", "n1"]);
}
