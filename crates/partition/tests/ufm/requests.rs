//! What is sent, and what is made of the answers.

use super::*;
use ferroband_testbed::ufm::{MissingPartitionReply, UfmSimulatorOptions, VersionQuirks};
use serde_json::json;

fn start(manners: VersionQuirks) -> UfmSimulator {
    UfmSimulator::start(UfmSimulatorOptions { quirks: manners, ..UfmSimulatorOptions::default() }).unwrap()
}

#[tokio::test]
async fn case_26_one_call_for_a_partition_and_case_27_two_partitions_stay_apart() {
    let simulator = start(VersionQuirks::default());
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.set_desired(&[(0x3e8, POOL + 1), (0x3e8, POOL + 2), (6, POOL + 3)]);
    desk.wait_converged().await;
    assert_eq!(members(&simulator, 0x3e8), [POOL + 1, POOL + 2]);
    assert_eq!(members(&simulator, 6), [POOL + 3]);
    let adds = simulator.calls_matching("POST /ufmRest/resources/pkeys");
    assert_eq!(adds.len(), 2);
    let body = &adds.iter().find(|call| call.body["pkey"] == "0x03E8").unwrap().body;
    // Letter by letter what ib-kubernetes sends.
    assert_eq!(
        *body,
        json!({"pkey": "0x03E8", "index0": true, "ip_over_ib": true, "membership": "full",
            "guids": ["0200000000000001", "0200000000000002"]})
    );
    assert!(simulator.calls_matching("remove").is_empty() && simulator.calls_matching("DELETE").is_empty());
}

#[tokio::test]
async fn case_39_limited_members() {
    let simulator = start(VersionQuirks::default());
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    let limited = (key(5), Guid::new(POOL + 1), Membership::Limited);
    desk.set_desired_table(MembershipTable::from_iter([
        limited,
        (key(5), Guid::new(POOL + 2), Membership::Full),
    ]));
    desk.wait_converged().await;
    let kinds: Vec<_> = simulator.partitions()[&5].values().map(|member| member.full).collect();
    assert_eq!(kinds, [false, true]);
    let adds = simulator.calls_matching("POST");
    assert_eq!(adds.len(), 2, "never both kinds in one request");
    // From limited to full is a change like any other.
    desk.set_desired(&[(5, POOL + 1), (5, POOL + 2)]);
    desk.wait_converged().await;
    assert!(simulator.partitions()[&5].values().all(|member| member.full));
}

#[tokio::test]
async fn case_44_versions_with_other_statuses_and_without_creation() {
    for (success, exists) in [(201, 409), (204, 400), (202, 400)] {
        let simulator = start(VersionQuirks {
            success_status: success,
            exists_status: exists,
            add_creates_partition: false,
            ..VersionQuirks::default()
        });
        let desk = UfmReconcilerFixture::start(ufm(&simulator));
        desk.set_desired(&[(5, POOL + 1)]);
        desk.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        assert_eq!(simulator.calls_matching("/pkeys/add").len(), 1);
        // Somebody made the partition meanwhile, and it has no member: the list does not show who made it.
        desk.set_desired(&[(5, POOL + 1), (5, POOL + 2)]);
        desk.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1, POOL + 2]);
    }
}

#[tokio::test]
async fn case_48_and_50_removing_what_is_not_there() {
    for missing in [MissingPartitionReply::EmptyObject, MissingPartitionReply::NotFound] {
        for deletes in [true, false] {
            let simulator = start(VersionQuirks {
                missing_partition: missing,
                supports_delete: deletes,
                ..VersionQuirks::default()
            });
            let desk = UfmReconcilerFixture::start(ufm(&simulator));
            desk.set_desired(&[(5, POOL + 1), (5, POOL + 2), (6, POOL + 3)]);
            desk.wait_converged().await;
            // Somebody else is faster.
            let other = removed_by_hand(&simulator).await;
            assert!(other);
            desk.set_desired(&[]);
            desk.wait_converged().await;
            assert!(simulator.partitions().is_empty(), "{missing:?} {deletes}");
        }
    }
}

/// The administrator removes one member by hand.
async fn removed_by_hand(simulator: &UfmSimulator) -> bool {
    let hand = ufm(simulator);
    let change = ferroband_partition::PartitionChange {
        remove: [Guid::new(POOL + 1)].into(),
        ..ferroband_partition::PartitionChange::default()
    };
    let batch =
        ferroband_partition::PartitionBatch { changes: [(key(5), change)].into(), desired: Arc::default() };
    hand.apply(batch.clone()).await.unwrap();
    // Twice: the second time there is nothing to remove.
    hand.apply(batch).await.is_ok()
}

#[tokio::test]
async fn case_51_a_partition_ends_with_its_last_member_and_is_made_again() {
    let simulator = start(VersionQuirks { add_creates_partition: false, ..VersionQuirks::default() });
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    for _ in 0..2 {
        desk.set_desired(&[(5, POOL + 1)]);
        desk.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        desk.set_desired(&[]);
        desk.wait_converged().await;
        assert!(!simulator.partitions().contains_key(&5));
    }
}

#[tokio::test]
async fn case_35_and_36_what_is_somebody_elses_stays() {
    let simulator = start(VersionQuirks::default());
    let storage = Guid::new(0xe41d_2d03_0000_0001);
    let other_cluster = Guid::new(POOL + 0x9999);
    simulator.add_foreign_member(7, storage);
    simulator.add_foreign_member(5, other_cluster);
    simulator.add_foreign_member(7, Guid::new(POOL + 1)); // One of ours that was left behind.
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.set_desired(&[(5, POOL + 2)]);
    desk.wait_converged().await;
    assert_eq!(members(&simulator, 7), [storage.value()]);
    assert_eq!(members(&simulator, 5), [POOL + 2, other_cluster.value()]);
    desk.set_desired(&[]);
    desk.wait_converged().await;
    assert_eq!(members(&simulator, 5), [other_cluster.value()]);
}

#[tokio::test]
async fn case_83_a_default_partition_that_lets_everybody_in_is_told() {
    let simulator = start(VersionQuirks { default_membership: Some("full"), ..VersionQuirks::default() });
    let told = ufm(&simulator).observe().await.unwrap();
    assert_eq!(told.open, Some(true));
    assert_eq!(told.default_secrets, ["m_key is 0", "sm_key is 1", "sa_key is 1", "m_key_per_port is off"]);
    simulator.change_quirks(|manners| manners.default_membership = Some("limited"));
    assert_eq!(ufm(&simulator).observe().await.unwrap().open, Some(false));
    simulator.change_quirks(|manners| manners.default_membership = None);
    assert_eq!(ufm(&simulator).observe().await.unwrap().open, None);
}

#[tokio::test]
async fn case_12_what_stands_already_is_not_sent_again_after_a_restart() {
    let simulator = start(VersionQuirks::default());
    simulator.add_foreign_member(5, Guid::new(POOL + 1));
    simulator.add_foreign_member(6, Guid::new(POOL + 2));
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    desk.wait_converged().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(simulator.calls_matching("POST").is_empty() && simulator.calls_matching("DELETE").is_empty());
    assert_eq!((members(&simulator, 5), members(&simulator, 6)), (vec![POOL + 1], vec![POOL + 2]));
}

#[tokio::test]
async fn case_60_whoever_comes_after_one_that_was_killed_finds_what_it_did_and_adds_nothing_twice() {
    let simulator = start(VersionQuirks::default());
    let first = UfmReconcilerFixture::start(ufm(&simulator));
    first.set_desired(&[(5, POOL + 1)]);
    wait_until("it is in", || members(&simulator, 5) == [POOL + 1]).await;
    // Killed before it could say so; the next one reads the same objects.
    drop(first);
    let next = UfmReconcilerFixture::start(ufm(&simulator));
    next.set_desired(&[(5, POOL + 1)]);
    next.wait_converged().await;
    assert_eq!(simulator.events().len(), 1, "the same GUID, once");
    assert!(simulator.calls_matching("DELETE").is_empty() && simulator.calls_matching("remove").is_empty());
}
