//! A UFM outage during a hundred pod starts and stops, audited afterwards.
//!
//! The test imitates a node: a pod runs once its function is in its partition and in no other, and the function is free
//! for the next pod once its removal is confirmed.

use super::*;
use ferroband_partition::MembershipState;
use ferroband_testbed::audit::{PodTenancy, audit};
use ferroband_testbed::ufm::UfmSimulatorOptions;
use std::sync::Mutex;

/// Number of virtual functions that the pods share.
const FUNCTIONS: u64 = 16;

/// The pods of a node: their desired memberships, and which pod used which function at what time.
#[derive(Default)]
struct PodChurn {
    desired: Mutex<BTreeMap<u64, u16>>,
    tenancies: Mutex<Vec<PodTenancy>>,
}

impl PodChurn {
    fn publish_desired(&self, fixture: &UfmReconcilerFixture) {
        let desired: Vec<(u16, u64)> =
            self.desired.lock().unwrap().iter().map(|(guid, key)| (*key, *guid)).collect();
        fixture.set_desired(&desired);
    }

    /// Runs pods one after another on one function, each in a different partition than the previous one.
    async fn run_pods(
        &self,
        fixture: &UfmReconcilerFixture,
        simulator: &UfmSimulator,
        function: u64,
        pods: u64,
    ) {
        let guid = Guid::new(POOL + function);
        for turn in 0..pods {
            let number = 5 + ((function + turn) % 4) as u16;
            self.desired.lock().unwrap().insert(guid.value(), number);
            self.publish_desired(fixture);
            let table = || -> Vec<u16> {
                let all = simulator.partitions();
                all.iter().filter(|(_, members)| members.contains_key(&guid)).map(|(key, _)| *key).collect()
            };
            // Wait until the function is programmed in its partition and is in no other one.
            wait_for(|| {
                let standing = fixture.handle.lock().membership_state(key(number), guid);
                standing == MembershipState::Programmed && table() == [number]
            })
            .await;
            let from = Instant::now();
            tokio::time::sleep(Duration::from_millis(100 + 30 * (function % 5))).await;
            let to = Some(Instant::now());
            let pod = format!("pod-{function}-{turn}");
            self.tenancies.lock().unwrap().push(PodTenancy { pod, guid, key: number, from, to });
            self.desired.lock().unwrap().remove(&guid.value());
            self.publish_desired(fixture);
        }
    }
}

async fn wait_for(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "timeout");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_ran_outside_its_partition_during_a_ufm_outage() {
    let away = if std::env::var_os("FERROBAND_SOAK").is_some() { 120 } else { 6 };
    let simulator = Arc::new(UfmSimulator::start(UfmSimulatorOptions::default()).unwrap());
    let fixture = Arc::new(UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1)));
    let pods = Arc::new(PodChurn::default());
    let turns: Vec<_> = (0..FUNCTIONS)
        .map(|function| {
            let (pods, fixture, simulator) = (pods.clone(), fixture.clone(), simulator.clone());
            tokio::spawn(async move { pods.run_pods(&fixture, &simulator, function, 7).await })
        })
        .collect();
    wait_for(|| pods.tenancies.lock().unwrap().len() > 20).await;
    simulator.go_down();
    let before = pods.tenancies.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(away)).await;
    let during = pods.tenancies.lock().unwrap().len() - before;
    assert!(during <= FUNCTIONS as usize, "{during} pods ended, none can have started");
    simulator.come_up(true);
    for turn in turns {
        turn.await.unwrap();
    }
    fixture.wait_converged().await;
    wait_until("all members are removed", || simulator.partitions().is_empty()).await;
    let tenancies = pods.tenancies.lock().unwrap().clone();
    let breaches = audit(&simulator.events(), &tenancies);
    println!("{} pods, UFM away for {away} s, {} changes in UFM", tenancies.len(), simulator.events().len());
    assert!(tenancies.len() > 100);
    assert_eq!(breaches, []);
}
