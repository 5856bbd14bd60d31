use super::*;
use ferroband_api::ferroband::{NodePartitionsSpec, NodePartitionsStatus, PartitionMode, PartitionSpec};
use ferroband_daemon::{TenantPolicy, UnlistedPartitions};
use std::sync::LazyLock;

mod tenants;

/// Settings without a quota.
static SETTINGS: LazyLock<ClusterSettings> =
    LazyLock::new(|| ClusterSettings { max_pkeys_per_namespace: 0, ..ClusterSettings::for_test() });
const GUID: &str = "02:00:00:00:00:00:00:01";

fn member(pkey: &str, guid: &str, namespace: &str) -> NodeMember {
    NodeMember {
        device: "0000:3b:00.2".into(),
        guid: guid.into(),
        pkey: pkey.into(),
        namespace: namespace.into(),
        pod: "p".into(),
        ..NodeMember::default()
    }
}

fn node(name: &str, functions: &[&str], members: Vec<(&str, NodeMember)>) -> Arc<NodePartitions> {
    let functions =
        functions.iter().enumerate().map(|(n, guid)| (format!("0000:3b:00.{n}"), (*guid).to_owned()));
    let members = members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect();
    Arc::new(NodePartitions::new(
        name,
        NodePartitionsSpec { functions: functions.collect(), members, ..NodePartitionsSpec::default() },
    ))
}

fn partition(pkey: &str, namespaces: &[&str], mode: PartitionMode) -> Arc<Partition> {
    let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
    Arc::new(Partition::new(
        "storage",
        PartitionSpec { pkey: pkey.into(), namespaces, mode, ..PartitionSpec::default() },
    ))
}

fn desired_for(memberships: &[Arc<NodePartitions>], partitions: &[Arc<Partition>]) -> DesiredMemberships {
    desired_with(memberships, partitions, &MembershipTable::default())
}

fn desired_with(
    memberships: &[Arc<NodePartitions>],
    partitions: &[Arc<Partition>],
    observed: &MembershipTable,
) -> DesiredMemberships {
    desired_memberships(&PartitionInputs {
        partitions,
        observed: Some(observed),
        ..inputs(memberships, &PartitionRecords::read(memberships, &PartitionRecords::default()))
    })
}

fn inputs<'a>(memberships: &'a [Arc<NodePartitions>], records: &'a PartitionRecords) -> PartitionInputs<'a> {
    PartitionInputs {
        node_partitions: memberships,
        partitions: &[],
        lost_nodes: const { &BTreeMap::new() },
        managed_keys: PKeyRange::default(),
        observed: None,
        unread: const { &BTreeSet::new() },
        records,
        managed: true,
        settings: &SETTINGS,
    }
}

#[test]
fn members_of_node_objects_are_desired() {
    let desired = desired_for(&[node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])], &[]);
    let key = "0x3e8".parse().unwrap();
    assert_eq!(desired.table.get(key, parse_guid(GUID).unwrap()), Some(Membership::Full));
    assert!(desired.rejected.is_empty() && desired.not_admitted.is_empty());
    assert!(desired.table.is_function(parse_guid(GUID).unwrap()));
    assert!(desired.ownership.owns(key, parse_guid(GUID).unwrap()));
}

#[test]
fn a_guid_of_another_node_is_rejected() {
    let storage = "e4:1d:2d:03:00:00:00:01";
    let thief = node(
        "n2",
        &[],
        vec![("c.net1", member("0x03e8", GUID, "a")), ("d.net1", member("0x03e8", storage, "a"))],
    );
    let desired = desired_for(&[node("n1", &[GUID], vec![]), thief], &[]);
    assert!(desired.table.is_empty());
    assert_eq!(desired.rejected.len(), 2);
    assert!(desired.rejected[&("n2".into(), "c.net1".into())].contains("is claimed by node n1"));
}

#[test]
fn a_namespace_that_is_not_admitted_is_rejected_in_enforce_mode_and_warned_about_in_warn_mode() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "evil"))])];
    let enforced = desired_for(&nodes, &[partition("0x3e8", &["good"], PartitionMode::Enforce)]);
    assert!(enforced.table.is_empty());
    let reason = &enforced.rejected[&("n1".into(), "c.net1".into())];
    assert!(reason.contains("namespace evil") && reason.contains("0x03e8"), "{reason}");
    let warned = desired_for(&nodes, &[partition("1000", &["good"], PartitionMode::Warn)]);
    assert_eq!((warned.table.len(), warned.not_admitted.len()), (1, 1));
    let admitted = desired_for(&nodes, &[partition("0x3e8", &["good", "evil"], PartitionMode::Enforce)]);
    assert_eq!((admitted.table.len(), admitted.not_admitted.len()), (1, 0));
    let everybody = desired_for(&nodes, &[partition("0x3e8", &["*"], PartitionMode::Enforce)]);
    assert_eq!(everybody.table.len(), 1);
    // Two Partition objects have the same P_Key, and one of them is enforced. All members must be rejected.
    let both = [
        partition("0x3e8", &["*"], PartitionMode::Warn),
        partition("0x3e8", &["good"], PartitionMode::Enforce),
    ];
    assert!(desired_for(&nodes, &both).table.is_empty());
}

// Case: partitions 40
#[test]
fn the_129th_partition_of_a_node_is_rejected_and_existing_members_stay() {
    let guids: Vec<String> = (0..130).map(|n| Guid::new(0x0200_0000_0000_0000 + n).to_string()).collect();
    let functions: Vec<&str> = guids.iter().map(String::as_str).collect();
    let names: Vec<String> = (0..130).map(|n| format!("c{n:03}.net1")).collect();
    let members = |from: usize| {
        let list =
            (from..130).map(|n| (names[n].as_str(), member(&format!("0x{:04x}", n + 1), &guids[n], "a")));
        list.collect::<Vec<_>>()
    };
    let full = node("n1", &functions, members(1));
    let first = desired_for(&[full], &[]);
    assert_eq!((first.table.keys().count(), first.rejected.len()), (128, 1));
    // The new member must be rejected, although its name sorts before all others.
    let more = [node("n1", &functions, members(0))];
    let records = PartitionRecords::default();
    let second =
        desired_memberships(&PartitionInputs { observed: Some(&first.table), ..inputs(&more, &records) });
    assert_eq!(second.table, first.table);
    assert!(second.rejected.contains_key(&("n1".into(), names[0].clone())));
}

// Case: partitions 58
#[test]
fn memberships_of_a_lost_node_end_and_may_still_be_removed() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    for loss in [NodeLoss::Deleted, NodeLoss::OutOfService] {
        let (records, lost) = (PartitionRecords::default(), BTreeMap::from([("n1".to_owned(), loss)]));
        let desired = desired_memberships(&PartitionInputs { lost_nodes: &lost, ..inputs(&nodes, &records) });
        assert!(desired.table.is_empty());
        assert!(desired.ownership.owns("0x3e8".parse().unwrap(), parse_guid(GUID).unwrap()));
        assert!(desired.lost_nodes.contains_key("n1"));
    }
}

// Case: partitions 58
#[test]
fn an_unreachable_node_keeps_its_memberships_and_guids() {
    // The pod was force-deleted, but its unreachable node cannot remove the member from its NodePartitions.
    // The member must stay.
    let silent = node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))]);
    let other = node("n2", &[], vec![("d.net1", member("0x0005", GUID, "a"))]);
    let desired = desired_for(&[silent, other], &[]);
    let guid = parse_guid(GUID).unwrap();
    assert_eq!(
        desired.table.iter().map(|(key, guid, _)| (key.number(), guid)).collect::<Vec<_>>(),
        [(0x3e8, guid)]
    );
    assert!(
        desired.rejected.contains_key(&("n2".into(), "d.net1".into())),
        "not reused until the node is back or deleted"
    );
}

// Case: partitions 57
#[test]
fn a_member_whose_delete_event_was_missed_is_removed_after_the_next_list() {
    let before = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    assert_eq!(desired_for(&before, &[]).table.len(), 1);
    // No delete event arrived, but the NodePartitions that are listed after a broken watch do not contain the
    // member. It must be removed.
    let emptied = [node("n1", &[GUID], vec![])];
    let desired = desired_for(&emptied, &[]);
    assert!(
        desired.table.is_empty()
            && desired.ownership.owns("0x3e8".parse().unwrap(), parse_guid(GUID).unwrap())
    );
}

#[test]
fn a_shared_port_with_keys_of_two_tenants_is_reported() {
    let port = "b8:59:9f:03:00:a1:b2:c4";
    let shared = |pkey: &str, namespace: &str| NodeMember { shared: true, ..member(pkey, port, namespace) };
    let one = node("n1", &[], vec![("c.net1", shared("0x0005", "a")), ("d.net1", shared("0x0005", "b"))]);
    assert!(desired_for(&[one], &[]).shared_port_keys.is_empty());
    let two = node("n1", &[], vec![("c.net1", shared("0x0005", "a")), ("d.net1", shared("0x0006", "b"))]);
    let desired = desired_for(&[two], &[]);
    assert_eq!(desired.shared_port_keys["n1"].len(), 2);
    assert_eq!(desired.placed["n1"].len(), 2);
    assert!(!desired.table.is_function(parse_guid(port).unwrap()), "a physical port never gets index 0");
}

#[test]
fn an_invalid_member_does_not_affect_others() {
    let bad = vec![
        ("a", member("0x8000", GUID, "a")),
        ("b", member("abc", GUID, "a")),
        ("c", member("0x0005", "?", "a")),
        ("d", member("0x0005", GUID, "a")),
    ];
    let desired = desired_for(&[node("n1", &[GUID], bad)], &[]);
    assert_eq!((desired.table.len(), desired.rejected.len()), (1, 3));
}

// Case: partitions 33
#[test]
fn a_membership_stays_owned_after_its_function_has_another_guid() {
    let (requested, key) = (parse_guid(GUID).unwrap(), "0x3e8".parse().unwrap());
    let running = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    let before = desired_for(&running, &[]);
    assert!(before.placed["n1"].contains(&(key, requested)), "recorded before it is added");
    // The pod is deleted. In the same write, the function has its own GUID again, or does not exist any more.
    for functions in [&["02:00:00:00:00:00:00:99"][..], &[]] {
        let mut after = (*node("n1", functions, vec![])).clone();
        let placed = before.placed["n1"].iter().map(|(key, guid)| format!("{key} {guid}")).collect();
        after.status = Some(NodePartitionsStatus { placed, ..NodePartitionsStatus::default() });
        let desired = desired_for(&[Arc::new(after)], &[]);
        assert!(desired.table.is_empty());
        assert!(desired.ownership.owns(key, requested), "or it would stay in the partition for ever");
    }
}

#[test]
fn several_partitions_of_one_key_are_refused_whatever_their_order() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "evil"))])];
    let (warn, enforce) = (PartitionMode::Warn, PartitionMode::Enforce);
    for modes in [[warn, enforce, warn], [enforce, warn, warn], [warn, warn, enforce]] {
        let partitions = modes.map(|mode| partition("0x3e8", &["*"], mode));
        assert!(desired_for(&nodes, &partitions).table.is_empty(), "{modes:?}");
    }
}

// Case: partitions 87
#[test]
fn a_physical_port_that_someone_else_added_stays_in_its_partition() {
    let (port, key) = ("b8:59:9f:03:00:a1:b2:c4", "0x5".parse().unwrap());
    let guid = parse_guid(port).unwrap();
    let shared = NodeMember { shared: true, ..member("0x0005", port, "a") };
    let nodes = [node("n1", &[], vec![("c.net1", shared)])];
    let observed = MembershipTable::from_iter([(key, guid, Membership::Full)]);
    let desired = desired_with(&nodes, &[], &observed);
    assert_eq!(desired.table.get(key, guid), Some(Membership::Full), "the pod may use it");
    assert!(!desired.ownership.owns(key, guid), "but its end does not remove the storage host's port");
    // The subnet manager has not been read yet, so it is unknown who added the port. Nothing is added or recorded.
    let unknown = desired_memberships(&inputs(&nodes, &PartitionRecords::default()));
    assert!(unknown.placed["n1"].is_empty() && !unknown.ownership.owns(key, guid));
    // Ferroband added the port earlier.
    let mut placed = (*nodes[0]).clone();
    let record = vec![format!("{key} {guid}")];
    placed.status = Some(NodePartitionsStatus { placed: record, ..NodePartitionsStatus::default() });
    assert!(desired_with(&[Arc::new(placed)], &[], &observed).ownership.owns(key, guid));
    // A membership of another type is not changed either.
    let limited = MembershipTable::from_iter([(key, guid, Membership::Limited)]);
    let refused = desired_with(&nodes, &[], &limited);
    assert!(refused.table.is_empty());
    assert!(refused.rejected[&("n1".into(), "c.net1".into())].contains("already a limited member"));
}

#[test]
fn nothing_is_recorded_without_a_subnet_manager() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    let records = PartitionRecords::default();
    let desired = desired_memberships(&PartitionInputs { managed: false, ..inputs(&nodes, &records) });
    assert!(desired.placed["n1"].is_empty() && !desired.accepted.is_empty());
}

/// Sets the records that the leader wrote after it accepted the members of `desired`.
fn accepted(object: &Arc<NodePartitions>, desired: &DesiredMemberships) -> Arc<NodePartitions> {
    let node = object.name_any();
    let of_node = desired.accepted.iter().filter(|((other, _), _)| *other == node);
    let accepted = of_node.map(|((_, name), (key, guid))| (name.clone(), format!("{key} {guid}"))).collect();
    let status = NodePartitionsStatus { accepted, ..NodePartitionsStatus::default() };
    Arc::new(NodePartitions { status: Some(status), ..(**object).clone() })
}

// Case: partitions 85
#[test]
fn a_partition_that_is_enforced_later_keeps_running_members_and_refuses_new_ones() {
    let other = "02:00:00:00:00:00:00:02";
    let running = node("n1", &[GUID, other], vec![("c.net1", member("0x03e8", GUID, "evil"))]);
    let running = accepted(&running, &desired_for(std::slice::from_ref(&running), &[]));
    let enforced = [partition("0x3e8", &["good"], PartitionMode::Enforce)];
    let mut later = (*running).clone();
    later.spec.members.insert("d.net1".into(), member("0x03e8", other, "evil"));
    let desired = desired_for(&[Arc::new(later.clone())], &enforced);
    let at = |name: &str| ("n1".to_owned(), name.to_owned());
    assert_eq!(desired.table.len(), 1);
    assert_eq!(desired.not_admitted[&at("c.net1")].treatment, NotAdmittedTreatment::Kept);
    assert_eq!(desired.not_admitted[&at("d.net1")].treatment, NotAdmittedTreatment::Refused);
    assert!(desired.rejected[&at("d.net1")].contains("namespace evil may not use"));
    // A node cannot move an accepted member to another partition or port.
    later.spec.members.insert("c.net1".into(), member("0x03e8", other, "evil"));
    assert!(desired_for(&[Arc::new(later)], &enforced).table.is_empty());
    // The administrator confirms the removal.
    let mut confirmed = (*enforced[0]).clone();
    confirmed.spec.remove_running_members = true;
    let desired = desired_for(std::slice::from_ref(&running), &[Arc::new(confirmed)]);
    assert!(desired.table.is_empty());
    assert_eq!(desired.not_admitted[&at("c.net1")].treatment, NotAdmittedTreatment::Refused);
    // A second object with the same P_Key is a mistake that must not stop running pods either.
    let both = [partition("0x3e8", &["evil"], PartitionMode::Enforce), enforced[0].clone()];
    assert_eq!(desired_for(&[running], &both).table.len(), 1);
}

#[test]
fn members_of_one_node_that_could_not_be_recorded_are_withheld_and_others_are_added() {
    let other = "02:00:00:00:00:00:00:02";
    let nodes = [
        node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))]),
        node("n2", &[other], vec![("d.net1", member("0x03e8", other, "a"))]),
    ];
    let mut desired = desired_for(&nodes, &[]);
    assert_eq!(desired.table.len(), 2);
    desired.withhold_unrecorded("n1", None);
    let key = "0x3e8".parse().unwrap();
    assert_eq!(desired.table.get(key, parse_guid(GUID).unwrap()), None);
    assert_eq!(desired.table.get(key, parse_guid(other).unwrap()), Some(Membership::Full));
    assert!(desired.placed["n1"].is_empty() && desired.accepted.len() == 1);
    // What was recorded before stays.
    let recorded = desired.placed["n2"].clone();
    desired.withhold_unrecorded("n2", Some(&recorded));
    assert_eq!(desired.table.len(), 1);
}
