//! Tests of requests to UFM and of the handling of its responses.

use super::*;
use ferroband_testbed::ufm::{MissingPartitionReply, UfmSimulatorOptions, VersionQuirks};
use serde_json::json;

fn start(manners: VersionQuirks) -> UfmSimulator {
    UfmSimulator::start(UfmSimulatorOptions { quirks: manners, ..UfmSimulatorOptions::default() }).unwrap()
}

// Case: partitions 26, partitions 27
#[tokio::test]
async fn each_partition_gets_one_request_with_its_own_members() {
    let simulator = start(VersionQuirks::default());
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.set_desired(&[(0x3e8, POOL + 1), (0x3e8, POOL + 2), (6, POOL + 3)]);
    fixture.wait_converged().await;
    assert_eq!(members(&simulator, 0x3e8), [POOL + 1, POOL + 2]);
    assert_eq!(members(&simulator, 6), [POOL + 3]);
    let adds = simulator.calls_matching("POST /ufmRest/resources/pkeys");
    assert_eq!(adds.len(), 2);
    let body = &adds.iter().find(|call| call.body["pkey"] == "0x03E8").unwrap().body;
    // The body must be the same as that of ib-kubernetes.
    assert_eq!(
        *body,
        json!({"pkey": "0x03E8", "index0": true, "ip_over_ib": true, "membership": "full",
            "guids": ["0200000000000001", "0200000000000002"]})
    );
    assert!(simulator.calls_matching("remove").is_empty() && simulator.calls_matching("DELETE").is_empty());
}

// Case: partitions 39
#[tokio::test]
async fn limited_members_are_added_separately() {
    let simulator = start(VersionQuirks::default());
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    let limited = (key(5), Guid::new(POOL + 1), Membership::Limited);
    fixture.set_desired_table(MembershipTable::from_iter([
        limited,
        (key(5), Guid::new(POOL + 2), Membership::Full),
    ]));
    fixture.wait_converged().await;
    let kinds: Vec<_> = simulator.partitions()[&5].values().map(|member| member.full).collect();
    assert_eq!(kinds, [false, true]);
    let adds = simulator.calls_matching("POST");
    assert_eq!(adds.len(), 2, "one request per membership type");
    // A limited member must become a full member when this is desired.
    fixture.set_desired(&[(5, POOL + 1), (5, POOL + 2)]);
    fixture.wait_converged().await;
    assert!(simulator.partitions()[&5].values().all(|member| member.full));
}

// Case: partitions 44
#[tokio::test]
async fn other_status_codes_and_explicit_creation_are_supported() {
    for (success, exists) in [(201, 409), (204, 400), (202, 400)] {
        let simulator = start(VersionQuirks {
            success_status: success,
            exists_status: exists,
            add_creates_partition: false,
            ..VersionQuirks::default()
        });
        let fixture = UfmReconcilerFixture::start(ufm(&simulator));
        fixture.set_desired(&[(5, POOL + 1)]);
        fixture.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        assert_eq!(simulator.calls_matching("/pkeys/add").len(), 1);
        // The partition exists now. A second member must be added to it.
        fixture.set_desired(&[(5, POOL + 1), (5, POOL + 2)]);
        fixture.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1, POOL + 2]);
    }
}

// Case: partitions 48, partitions 50
#[tokio::test]
async fn removing_an_absent_member_succeeds() {
    for missing in [MissingPartitionReply::EmptyObject, MissingPartitionReply::NotFound] {
        for deletes in [true, false] {
            let simulator = start(VersionQuirks {
                missing_partition: missing,
                supports_delete: deletes,
                ..VersionQuirks::default()
            });
            let fixture = UfmReconcilerFixture::start(ufm(&simulator));
            fixture.set_desired(&[(5, POOL + 1), (5, POOL + 2), (6, POOL + 3)]);
            fixture.wait_converged().await;
            // An administrator removes a member first. The removal by Ferroband must then succeed as well.
            let other = removed_by_hand(&simulator).await;
            assert!(other);
            fixture.set_desired(&[]);
            fixture.wait_converged().await;
            assert!(simulator.partitions().is_empty(), "{missing:?} {deletes}");
        }
    }
}

/// Removes one member twice with another client, as an administrator would. Returns whether the second
/// removal succeeded.
async fn removed_by_hand(simulator: &UfmSimulator) -> bool {
    let hand = ufm(simulator);
    let change = ferroband_partition::PartitionChange {
        remove: [Guid::new(POOL + 1)].into(),
        ..ferroband_partition::PartitionChange::default()
    };
    let batch =
        ferroband_partition::PartitionBatch { changes: [(key(5), change)].into(), desired: Arc::default() };
    hand.apply(batch.clone()).await.unwrap();
    // The second removal must succeed, although the member is already absent.
    hand.apply(batch).await.is_ok()
}

// Case: partitions 51
#[tokio::test]
async fn partition_is_recreated_after_its_last_member_is_removed() {
    let simulator = start(VersionQuirks { add_creates_partition: false, ..VersionQuirks::default() });
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    for _ in 0..2 {
        fixture.set_desired(&[(5, POOL + 1)]);
        fixture.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        fixture.set_desired(&[]);
        fixture.wait_converged().await;
        assert!(!simulator.partitions().contains_key(&5));
    }
}

// Case: partitions 35, partitions 36
#[tokio::test]
async fn members_of_others_are_not_changed() {
    let simulator = start(VersionQuirks::default());
    let storage = Guid::new(0xe41d_2d03_0000_0001);
    let other_cluster = Guid::new(POOL + 0x9999);
    simulator.add_foreign_member(7, storage);
    simulator.add_foreign_member(5, other_cluster);
    simulator.add_foreign_member(7, Guid::new(POOL + 1)); // A leftover of this cluster.
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.set_desired(&[(5, POOL + 2)]);
    fixture.wait_converged().await;
    assert_eq!(members(&simulator, 7), [storage.value()]);
    assert_eq!(members(&simulator, 5), [POOL + 2, other_cluster.value()]);
    fixture.set_desired(&[]);
    fixture.wait_converged().await;
    assert_eq!(members(&simulator, 5), [other_cluster.value()]);
}

// Case: partitions 83
#[tokio::test]
async fn open_default_partition_is_reported() {
    let simulator = start(VersionQuirks { default_membership: Some("full"), ..VersionQuirks::default() });
    let report = ufm(&simulator).observe().await.unwrap();
    assert_eq!(report.open, Some(true));
    assert_eq!(report.default_secrets, ["m_key is 0", "sm_key is 1", "sa_key is 1", "m_key_per_port is off"]);
    simulator.change_quirks(|manners| manners.default_membership = Some("limited"));
    assert_eq!(ufm(&simulator).observe().await.unwrap().open, Some(false));
    simulator.change_quirks(|manners| manners.default_membership = None);
    assert_eq!(ufm(&simulator).observe().await.unwrap().open, None);
}

// Case: partitions 12
#[tokio::test]
async fn existing_members_are_not_sent_again_after_a_restart() {
    let simulator = start(VersionQuirks::default());
    simulator.add_foreign_member(5, Guid::new(POOL + 1));
    simulator.add_foreign_member(6, Guid::new(POOL + 2));
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    fixture.wait_converged().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(simulator.calls_matching("POST").is_empty() && simulator.calls_matching("DELETE").is_empty());
    assert_eq!((members(&simulator, 5), members(&simulator, 6)), (vec![POOL + 1], vec![POOL + 2]));
}

// Case: partitions 60
#[tokio::test]
async fn restart_after_a_kill_adds_nothing_twice() {
    let simulator = start(VersionQuirks::default());
    let first = UfmReconcilerFixture::start(ufm(&simulator));
    first.set_desired(&[(5, POOL + 1)]);
    wait_until("the member is added", || members(&simulator, 5) == [POOL + 1]).await;
    // The first instance is killed before it records the success. The next instance has the same desired
    // members, and must not add them again.
    drop(first);
    let next = UfmReconcilerFixture::start(ufm(&simulator));
    next.set_desired(&[(5, POOL + 1)]);
    next.wait_converged().await;
    assert_eq!(simulator.events().len(), 1, "the same GUID, once");
    assert!(simulator.calls_matching("DELETE").is_empty() && simulator.calls_matching("remove").is_empty());
}

#[tokio::test]
async fn physical_port_keeps_the_default_partition_at_index_0() {
    let simulator = start(VersionQuirks::default());
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    let (function, port) = (Guid::new(POOL + 1), Guid::new(0xb859_9f03_00a1_b2c4));
    let mut table =
        MembershipTable::from_iter([(key(5), function, Membership::Full), (key(5), port, Membership::Full)]);
    table.add_function(function);
    let ownership = Ownership { guids: [function, port].into(), ..Ownership::default() };
    fixture.handle.lock().set_desired(table, ownership);
    fixture.handle.wake();
    fixture.wait_converged().await;
    let members = simulator.partitions().remove(&5).unwrap();
    assert!(members[&function].index0);
    assert!(!members[&port].index0, "the host's ib0 would lose the default partition");
}
