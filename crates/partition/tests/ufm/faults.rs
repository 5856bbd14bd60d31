//! Tests of slow responses, errors, outages and lost state of UFM.

use super::*;
use ferroband_testbed::ufm::{InjectedFault, UfmSimulatorOptions};

// Case: partitions 10
#[tokio::test]
async fn ufm_down_at_start_recovers_without_restart() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    simulator.go_down();
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.set_desired(&[(5, POOL + 1)]);
    wait_until("the problem is reported", || fixture.health.borrow().problem.is_some()).await;
    simulator.come_up(true);
    fixture.wait_converged().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
    wait_until("the problem is cleared", || fixture.health.borrow().problem.is_none()).await;
}

// Case: partitions 45
#[tokio::test]
async fn hanging_request_does_not_block_other_partitions() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.wait_converged().await;
    simulator.inject_fault("POST", 1, InjectedFault::Delay(Duration::from_secs(30)));
    fixture.set_desired(&[(5, POOL + 1)]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let start = Instant::now();
    fixture.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    wait_until("the other partition", || members(&simulator, 6) == [POOL + 2]).await;
    assert!(start.elapsed() < Duration::from_secs(20), "it does not wait for the hanging request");
    wait_until("the first partition after a retry", || members(&simulator, 5) == [POOL + 1]).await;
}

// Case: partitions 46
#[tokio::test]
async fn errors_are_retried_with_the_same_request() {
    for fault in [InjectedFault::RespondWith(500), InjectedFault::RespondWith(503), InjectedFault::Disconnect]
    {
        let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
        let fixture = UfmReconcilerFixture::start(ufm(&simulator));
        simulator.inject_fault("POST", 3, fault);
        fixture.set_desired(&[(5, POOL + 1)]);
        fixture.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        let adds = simulator.calls_matching("POST");
        assert!(adds.len() >= 4 && adds.iter().all(|call| call.body == adds[0].body));
        assert!(
            simulator.calls_matching("DELETE").is_empty() && simulator.calls_matching("remove").is_empty()
        );
    }
}

// Case: partitions 47
#[tokio::test]
async fn request_applied_without_response_is_removed_later() {
    for fault in [InjectedFault::ApplyThenDisconnect, InjectedFault::ApplyThenDelay(Duration::from_secs(3))] {
        let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
        let fixture = UfmReconcilerFixture::start(ufm(&simulator));
        fixture.wait_converged().await;
        simulator.inject_fault("POST", 1, fault);
        fixture.set_desired(&[(5, POOL + 1)]);
        wait_until("the member is added", || members(&simulator, 5) == [POOL + 1]).await;
        fixture.set_desired(&[]);
        wait_until("the member is removed", || members(&simulator, 5).is_empty()).await;
        fixture.wait_converged().await;
        wait_until("the removal is confirmed", || {
            fixture.handle.lock().is_in_no_partition(Guid::new(POOL + 1))
        })
        .await;
    }
}

// Case: partitions 89
#[tokio::test]
async fn partitions_are_read_one_by_one_if_the_list_takes_too_long() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    simulator.add_foreign_member(5, Guid::new(POOL + 9));
    simulator.add_foreign_member(6, Guid::new(POOL + 9));
    simulator.inject_fault("pkeys?guids_data", 9, InjectedFault::Delay(Duration::from_secs(9)));
    simulator.inject_fault("pkeys/0x6?", 2, InjectedFault::RespondWith(500));
    let client = Ufm::new(&settings(&simulator.client_env())).unwrap();
    let client = client.with_list_timeout(Duration::from_millis(300));
    let fixture = UfmReconcilerFixture::start_with_period(Arc::new(client), Duration::from_millis(500));
    fixture.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    // The members of partition 6 are unknown. Partition 5 is changed meanwhile.
    wait_until("partition 5", || members(&simulator, 5) == [POOL + 1]).await;
    assert_eq!(members(&simulator, 6), [POOL + 9]);
    wait_until("partition 6 can be read again", || members(&simulator, 6) == [POOL + 2]).await;
    fixture.wait_converged().await;
    assert!(simulator.calls_matching("pkeys?guids_data").len() <= 1, "the long list is not requested again");
}

// Case: partitions 52
#[tokio::test]
async fn new_credentials_are_used_without_restart() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let mut variables = simulator.client_env();
    variables.insert("UFM_TOKEN".to_owned(), "old".to_owned());
    let wrong = Ufm::new(&settings(&variables)).unwrap();
    let fixture = UfmReconcilerFixture::start(Arc::new(wrong));
    fixture.set_desired(&[(5, POOL + 1)]);
    wait_until("the rejection is reported", || fixture.health.borrow().unauthorized).await;
    assert!(simulator.calls().iter().all(|call| call.request.contains("/ufmRestV3/")));
    simulator.change_quirks(|manners| manners.tokens.push("new".to_owned()));
    variables.insert("UFM_TOKEN".to_owned(), "new".to_owned());
    fixture.managers.send_replace(Arc::new(Ufm::new(&settings(&variables)).unwrap()));
    fixture.wait_converged().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
}

#[tokio::test]
async fn lost_state_is_restored() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let fixture = UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1));
    fixture.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    fixture.wait_converged().await;
    simulator.go_down();
    simulator.come_up(false);
    assert!(simulator.partitions().is_empty());
    wait_until("all members are restored", || {
        members(&simulator, 5) == [POOL + 1] && members(&simulator, 6) == [POOL + 2]
    })
    .await;
}

#[tokio::test]
async fn outages_during_a_hundred_changes_are_reconciled() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let fixture = UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1));
    let mut desired = std::collections::BTreeSet::new();
    for step in 0..100_u64 {
        let member = ((5 + step % 7) as u16, POOL + step % 40);
        if !desired.insert(member) {
            desired.remove(&member);
        }
        fixture.set_desired(&desired.iter().copied().collect::<Vec<_>>());
        match step {
            20 => simulator.go_down(),
            60 => simulator.come_up(step % 2 == 0),
            70 => simulator.inject_fault("", 5, InjectedFault::RespondWith(502)),
            80 => {
                simulator.go_down();
                simulator.come_up(false);
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    fixture.wait_converged().await;
    wait_until("desired equals observed", || {
        let there = simulator.partitions();
        let there: std::collections::BTreeSet<_> =
            there.iter().flat_map(|(key, members)| members.keys().map(|guid| (*key, guid.value()))).collect();
        there == desired
    })
    .await;
}

#[tokio::test]
async fn one_answer_without_partitions_changes_nothing() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let fixture = UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_millis(500));
    fixture.set_desired(&[(5, POOL + 1)]);
    fixture.wait_converged().await;
    let list = "GET /ufmRest/resources/pkeys";
    let (lists, changes) = (simulator.calls_matching(list).len(), simulator.calls_matching("POST").len());
    // The answer is a JSON object without any partition.
    simulator.inject_fault(list, 1, InjectedFault::RespondWith(200));
    wait_until("two more lists", || simulator.calls_matching(list).len() >= lists + 2).await;
    fixture.wait_converged().await;
    assert_eq!(simulator.calls_matching("POST").len(), changes, "the member is not sent again");
}
