use super::*;
use ferroband_api::ferroband::{NodePartitionsSpec, PartitionSpec};

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
    Arc::new(NodePartitions::new(name, NodePartitionsSpec { functions: functions.collect(), members }))
}

fn partition(pkey: &str, namespaces: &[&str], mode: PartitionMode) -> Arc<Partition> {
    let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
    Arc::new(Partition::new("storage", PartitionSpec { pkey: pkey.into(), namespaces, mode }))
}

fn of(memberships: &[Arc<NodePartitions>], partitions: &[Arc<Partition>]) -> DesiredMemberships {
    let nodes = memberships.iter().map(|object| (object.name_any(), PartitionNodeFacts::default())).collect();
    desired_memberships(&PartitionInputs {
        node_partitions: memberships,
        partitions,
        nodes: &nodes,
        managed_keys: PKeyRange::default(),
        observed: None,
    })
}

#[test]
fn what_nodes_say_is_wanted() {
    let wanted = of(&[node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])], &[]);
    let key = "0x3e8".parse().unwrap();
    assert_eq!(wanted.table.get(key, parse_guid(GUID).unwrap()), Some(Membership::Full));
    assert!(wanted.rejected.is_empty() && wanted.warnings.is_empty());
    assert!(wanted.ownership.may_remove(key, parse_guid(GUID).unwrap()));
}

#[test]
fn forged_a_guid_that_is_not_the_nodes_gets_nothing() {
    let storage = "e4:1d:2d:03:00:00:00:01";
    let thief = node(
        "n2",
        &[],
        vec![("c.net1", member("0x03e8", GUID, "a")), ("d.net1", member("0x03e8", storage, "a"))],
    );
    let wanted = of(&[node("n1", &[GUID], vec![]), thief], &[]);
    assert!(wanted.table.is_empty());
    assert_eq!(wanted.rejected.len(), 2);
    assert!(wanted.rejected[&("n2".into(), "c.net1".into())].contains("node n1's"));
}

#[test]
fn forged_a_foreign_partition_under_enforce_gets_nothing_and_under_warn_a_warning() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "evil"))])];
    let enforced = of(&nodes, &[partition("0x3e8", &["good"], PartitionMode::Enforce)]);
    assert!(enforced.table.is_empty());
    let reason = &enforced.rejected[&("n1".into(), "c.net1".into())];
    assert!(reason.contains("namespace evil") && reason.contains("0x03e8"), "{reason}");
    let warned = of(&nodes, &[partition("1000", &["good"], PartitionMode::Warn)]);
    assert_eq!((warned.table.len(), warned.warnings.len()), (1, 1));
    let admitted = of(&nodes, &[partition("0x3e8", &["good", "evil"], PartitionMode::Enforce)]);
    assert_eq!((admitted.table.len(), admitted.warnings.len()), (1, 0));
    let everybody = of(&nodes, &[partition("0x3e8", &["*"], PartitionMode::Enforce)]);
    assert_eq!(everybody.table.len(), 1);
    // Two objects that cannot both be right: the strict reading.
    let both = [
        partition("0x3e8", &["*"], PartitionMode::Warn),
        partition("0x3e8", &["good"], PartitionMode::Enforce),
    ];
    assert!(of(&nodes, &both).table.is_empty());
}

#[test]
fn case_40_the_129th_partition_of_a_node_is_refused_and_nobody_is_thrown_out_for_it() {
    let guids: Vec<String> = (0..130).map(|n| Guid::new(0x0200_0000_0000_0000 + n).to_string()).collect();
    let functions: Vec<&str> = guids.iter().map(String::as_str).collect();
    let names: Vec<String> = (0..130).map(|n| format!("c{n:03}.net1")).collect();
    let members = |from: usize| {
        let list =
            (from..130).map(|n| (names[n].as_str(), member(&format!("0x{:04x}", n + 1), &guids[n], "a")));
        list.collect::<Vec<_>>()
    };
    let full = node("n1", &functions, members(1));
    let first = of(&[full], &[]);
    assert_eq!((first.table.keys().count(), first.rejected.len()), (128, 1));
    // One that sorts before all others comes: it is the one that has to wait.
    let more = [node("n1", &functions, members(0))];
    let nodes = BTreeMap::from([("n1".to_owned(), PartitionNodeFacts::default())]);
    let given = PartitionInputs {
        node_partitions: &more,
        partitions: &[],
        nodes: &nodes,
        managed_keys: PKeyRange::default(),
        observed: Some(&first.table),
    };
    let second = desired_memberships(&given);
    assert_eq!(second.table, first.table);
    assert!(second.rejected.contains_key(&("n1".into(), names[0].clone())));
}

#[test]
fn a_lost_nodes_memberships_end_and_stay_ours_to_remove() {
    let nodes = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    for facts in [
        BTreeMap::new(),
        BTreeMap::from([("n1".to_owned(), PartitionNodeFacts { out_of_service: true, opensm_port: None })]),
    ] {
        let given = PartitionInputs {
            node_partitions: &nodes,
            partitions: &[],
            nodes: &facts,
            managed_keys: PKeyRange::default(),
            observed: None,
        };
        let wanted = desired_memberships(&given);
        assert!(wanted.table.is_empty());
        assert!(wanted.ownership.may_remove("0x3e8".parse().unwrap(), parse_guid(GUID).unwrap()));
        assert!(wanted.lost_nodes.contains("n1"));
    }
}

#[test]
fn case_58_a_node_that_is_only_silent_keeps_its_memberships_and_its_guids_are_nobody_elses() {
    // Its pod was deleted by force; the node's object, which it cannot write, still has the member.
    let silent = node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))]);
    let other = node("n2", &[], vec![("d.net1", member("0x0005", GUID, "a"))]);
    let wanted = of(&[silent, other], &[]);
    let guid = parse_guid(GUID).unwrap();
    assert_eq!(
        wanted.table.iter().map(|(key, guid, _)| (key.number(), guid)).collect::<Vec<_>>(),
        [(0x3e8, guid)]
    );
    assert!(
        wanted.rejected.contains_key(&("n2".into(), "d.net1".into())),
        "not used again until the node is back or gone"
    );
}

#[test]
fn case_57_an_object_that_went_unseen_is_missed_at_the_next_look() {
    let there = [node("n1", &[GUID], vec![("c.net1", member("0x03e8", GUID, "a"))])];
    assert_eq!(of(&there, &[]).table.len(), 1);
    // No event told of its end: the list that follows a broken watch does not have it.
    let emptied = [node("n1", &[GUID], vec![])];
    let wanted = of(&emptied, &[]);
    assert!(
        wanted.table.is_empty()
            && wanted.ownership.may_remove("0x3e8".parse().unwrap(), parse_guid(GUID).unwrap())
    );
}

#[test]
fn a_shared_port_with_two_tenants_keys_is_told() {
    let port = "b8:59:9f:03:00:a1:b2:c4";
    let shared = |pkey: &str, namespace: &str| NodeMember { shared: true, ..member(pkey, port, namespace) };
    let one = node("n1", &[], vec![("c.net1", shared("0x0005", "a")), ("d.net1", shared("0x0005", "b"))]);
    assert!(of(&[one], &[]).shared_port_keys.is_empty());
    let two = node("n1", &[], vec![("c.net1", shared("0x0005", "a")), ("d.net1", shared("0x0006", "b"))]);
    let wanted = of(&[two], &[]);
    assert_eq!(wanted.shared_port_keys["n1"].len(), 2);
    assert_eq!(wanted.placed["n1"].len(), 2);
    assert_eq!(parse_placement("0x0005 b8:59:9f:03:00:a1:b2:c4").map(|(key, _)| key.number()), Some(5));
}

#[test]
fn garbage_in_an_object_hurts_only_itself() {
    let bad = vec![
        ("a", member("0x8000", GUID, "a")),
        ("b", member("abc", GUID, "a")),
        ("c", member("0x0005", "?", "a")),
        ("d", member("0x0005", GUID, "a")),
    ];
    let wanted = of(&[node("n1", &[GUID], bad)], &[]);
    assert_eq!((wanted.table.len(), wanted.rejected.len()), (1, 3));
}
