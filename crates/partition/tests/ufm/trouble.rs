//! Slow, wrong, gone and forgetful.

use super::*;
use ferroband_testbed::ufm::{Fault, Start};

#[tokio::test]
async fn case_10_away_at_the_start_and_back_later() {
    let simulator = Simulator::start(Start::default()).unwrap();
    simulator.leave();
    let desk = Desk::open(ufm(&simulator));
    desk.want(&[(5, POOL + 1)]);
    eventually("the problem is told", || desk.health.borrow().problem.is_some()).await;
    simulator.come_back(true);
    desk.settled().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
    eventually("the problem is over", || desk.health.borrow().problem.is_none()).await;
}

#[tokio::test]
async fn case_45_a_call_that_hangs_ends_and_holds_nobody_up() {
    let simulator = Simulator::start(Start::default()).unwrap();
    let desk = Desk::open(ufm(&simulator));
    desk.settled().await;
    simulator.fault("POST", 1, Fault::Slow(Duration::from_secs(30)));
    desk.want(&[(5, POOL + 1)]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let begun = Instant::now();
    desk.want(&[(5, POOL + 1), (6, POOL + 2)]);
    eventually("the other partition", || members(&simulator, 6) == [POOL + 2]).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for the one that hangs");
    eventually("the first, tried again", || members(&simulator, 5) == [POOL + 1]).await;
}

#[tokio::test]
async fn case_46_three_errors_then_success_with_the_same_guid_and_no_removal() {
    for fault in [Fault::Status(500), Fault::Status(503), Fault::Drop] {
        let simulator = Simulator::start(Start::default()).unwrap();
        let desk = Desk::open(ufm(&simulator));
        simulator.fault("POST", 3, fault);
        desk.want(&[(5, POOL + 1)]);
        desk.settled().await;
        assert_eq!(members(&simulator, 5), [POOL + 1]);
        let adds = simulator.calls_of("POST");
        assert!(adds.len() >= 4 && adds.iter().all(|call| call.body == adds[0].body));
        assert!(simulator.calls_of("DELETE").is_empty() && simulator.calls_of("remove").is_empty());
    }
}

#[tokio::test]
async fn case_47_done_but_not_answered() {
    for fault in [Fault::DoneThenDrop, Fault::DoneThenSlow(Duration::from_secs(3))] {
        let simulator = Simulator::start(Start::default()).unwrap();
        let desk = Desk::open(ufm(&simulator));
        desk.settled().await;
        simulator.fault("POST", 1, fault);
        desk.want(&[(5, POOL + 1)]);
        eventually("it is done", || members(&simulator, 5) == [POOL + 1]).await;
        desk.want(&[]);
        eventually("it is undone", || members(&simulator, 5).is_empty()).await;
        desk.settled().await;
        assert!(desk.running.lock().is_out(Guid::new(POOL + 1)));
    }
}

#[tokio::test]
async fn case_52_credentials_that_are_wrong_until_the_secret_changes() {
    let simulator = Simulator::start(Start::default()).unwrap();
    let mut variables = simulator.variables();
    variables.insert("UFM_TOKEN".to_owned(), "old".to_owned());
    let wrong = Ufm::new(&settings(&variables)).unwrap();
    let desk = Desk::open(Arc::new(wrong));
    desk.want(&[(5, POOL + 1)]);
    eventually("it is told", || desk.health.borrow().unauthorized).await;
    assert!(simulator.calls().iter().all(|call| call.request.contains("/ufmRestV3/")));
    simulator.behave(|manners| manners.tokens.push("new".to_owned()));
    variables.insert("UFM_TOKEN".to_owned(), "new".to_owned());
    desk.managers.send_replace(Arc::new(Ufm::new(&settings(&variables)).unwrap()));
    desk.settled().await;
    assert_eq!(members(&simulator, 5), [POOL + 1]);
}

#[tokio::test]
async fn a_manager_that_lost_its_memory_is_told_everything_again() {
    let simulator = Simulator::start(Start::default()).unwrap();
    let desk = Desk::with_period(ufm(&simulator), Duration::from_secs(1));
    desk.want(&[(5, POOL + 1), (6, POOL + 2)]);
    desk.settled().await;
    simulator.leave();
    simulator.come_back(false);
    assert!(simulator.partitions().is_empty());
    eventually("all is back", || {
        members(&simulator, 5) == [POOL + 1] && members(&simulator, 6) == [POOL + 2]
    })
    .await;
}

#[tokio::test]
async fn gone_for_a_while_amid_a_hundred_starts_and_stops() {
    let simulator = Simulator::start(Start::default()).unwrap();
    let desk = Desk::with_period(ufm(&simulator), Duration::from_secs(1));
    let mut wanted = std::collections::BTreeSet::new();
    for step in 0..100_u64 {
        let member = ((5 + step % 7) as u16, POOL + step % 40);
        if !wanted.insert(member) {
            wanted.remove(&member);
        }
        desk.want(&wanted.iter().copied().collect::<Vec<_>>());
        match step {
            20 => simulator.leave(),
            60 => simulator.come_back(step % 2 == 0),
            70 => simulator.fault("", 5, Fault::Status(502)),
            80 => {
                simulator.leave();
                simulator.come_back(false);
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    desk.settled().await;
    eventually("desired equals observed", || {
        let there = simulator.partitions();
        let there: std::collections::BTreeSet<_> =
            there.iter().flat_map(|(key, members)| members.keys().map(|guid| (*key, guid.value()))).collect();
        there == wanted
    })
    .await;
}
