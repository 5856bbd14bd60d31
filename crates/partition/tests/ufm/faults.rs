//! Slow, wrong, gone and forgetful.

use super::*;
use ferroband_testbed::ufm::{InjectedFault, UfmSimulatorOptions};

#[tokio::test]
async fn case_10_away_at_the_start_and_back_later() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    simulator.go_down();
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.set_desired(&[(5, POOL + 1)]);
    wait_until("the problem is told", || desk.health.borrow().problem.is_some()).await;
    simulator.come_up(true);
    desk.wait_converged().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
    wait_until("the problem is over", || desk.health.borrow().problem.is_none()).await;
}

#[tokio::test]
async fn case_45_a_call_that_hangs_ends_and_holds_nobody_up() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.wait_converged().await;
    simulator.inject_fault("POST", 1, InjectedFault::Delay(Duration::from_secs(30)));
    desk.set_desired(&[(5, POOL + 1)]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let begun = Instant::now();
    desk.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    wait_until("the other partition", || members(&simulator, 6) == [POOL + 2]).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for the one that hangs");
    wait_until("the first, tried again", || members(&simulator, 5) == [POOL + 1]).await;
}

#[tokio::test]
async fn case_46_three_errors_then_success_with_the_same_guid_and_no_removal() {
    for fault in [InjectedFault::RespondWith(500), InjectedFault::RespondWith(503), InjectedFault::Disconnect]
    {
        let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
        let desk = UfmReconcilerFixture::start(ufm(&simulator));
        simulator.inject_fault("POST", 3, fault);
        desk.set_desired(&[(5, POOL + 1)]);
        desk.wait_converged().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        let adds = simulator.calls_matching("POST");
        assert!(adds.len() >= 4 && adds.iter().all(|call| call.body == adds[0].body));
        assert!(
            simulator.calls_matching("DELETE").is_empty() && simulator.calls_matching("remove").is_empty()
        );
    }
}

#[tokio::test]
async fn case_47_done_but_not_answered() {
    for fault in [InjectedFault::ApplyThenDisconnect, InjectedFault::ApplyThenDelay(Duration::from_secs(3))] {
        let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
        let desk = UfmReconcilerFixture::start(ufm(&simulator));
        desk.wait_converged().await;
        simulator.inject_fault("POST", 1, fault);
        desk.set_desired(&[(5, POOL + 1)]);
        wait_until("it is done", || members(&simulator, 5) == [POOL + 1]).await;
        desk.set_desired(&[]);
        wait_until("it is undone", || members(&simulator, 5).is_empty()).await;
        desk.wait_converged().await;
        assert!(desk.running.lock().is_in_no_partition(Guid::new(POOL + 1)));
    }
}

#[tokio::test]
async fn case_52_credentials_that_are_wrong_until_the_secret_changes() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let mut variables = simulator.client_env();
    variables.insert("UFM_TOKEN".to_owned(), "old".to_owned());
    let wrong = Ufm::new(&settings(&variables)).unwrap();
    let desk = UfmReconcilerFixture::start(Arc::new(wrong));
    desk.set_desired(&[(5, POOL + 1)]);
    wait_until("it is told", || desk.health.borrow().unauthorized).await;
    assert!(simulator.calls().iter().all(|call| call.request.contains("/ufmRestV3/")));
    simulator.change_quirks(|manners| manners.tokens.push("new".to_owned()));
    variables.insert("UFM_TOKEN".to_owned(), "new".to_owned());
    desk.managers.send_replace(Arc::new(Ufm::new(&settings(&variables)).unwrap()));
    desk.wait_converged().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
}

#[tokio::test]
async fn a_manager_that_lost_its_memory_is_told_everything_again() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let desk = UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1));
    desk.set_desired(&[(5, POOL + 1), (6, POOL + 2)]);
    desk.wait_converged().await;
    simulator.go_down();
    simulator.come_up(false);
    assert!(simulator.partitions().is_empty());
    wait_until("all is back", || {
        members(&simulator, 5) == [POOL + 1] && members(&simulator, 6) == [POOL + 2]
    })
    .await;
}

#[tokio::test]
async fn gone_for_a_while_amid_a_hundred_starts_and_stops() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let desk = UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1));
    let mut wanted = std::collections::BTreeSet::new();
    for step in 0..100_u64 {
        let member = ((5 + step % 7) as u16, POOL + step % 40);
        if !wanted.insert(member) {
            wanted.remove(&member);
        }
        desk.set_desired(&wanted.iter().copied().collect::<Vec<_>>());
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
    desk.wait_converged().await;
    wait_until("desired equals observed", || {
        let there = simulator.partitions();
        let there: std::collections::BTreeSet<_> =
            there.iter().flat_map(|(key, members)| members.keys().map(|guid| (*key, guid.value()))).collect();
        there == wanted
    })
    .await;
}
