//! UFM away amid a hundred starts and stops, looked back upon.
//!
//! What a node does is done here in a few lines: a pod's function is used when the manager has it in its partition and
//! no other, and is free for the next pod when it is known to be out.

use super::*;
use ferroband_partition::MembershipState;
use ferroband_testbed::audit::{PodTenancy, audit};
use ferroband_testbed::ufm::UfmSimulatorOptions;
use std::sync::Mutex;

/// Functions that pods take turns on.
const FUNCTIONS: u64 = 16;

/// The pods of a node: what is wanted, and who had which function when.
#[derive(Default)]
struct PodChurn {
    wanted: Mutex<BTreeMap<u64, u16>>,
    tenancies: Mutex<Vec<PodTenancy>>,
}

impl PodChurn {
    fn publish_desired(&self, desk: &UfmReconcilerFixture) {
        let wanted: Vec<(u16, u64)> =
            self.wanted.lock().unwrap().iter().map(|(guid, key)| (*key, *guid)).collect();
        desk.set_desired(&wanted);
    }

    /// One pod after another on one function, each in another partition than the one before.
    async fn run_pods(
        &self,
        desk: &UfmReconcilerFixture,
        simulator: &UfmSimulator,
        function: u64,
        pods: u64,
    ) {
        let guid = Guid::new(POOL + function);
        for turn in 0..pods {
            let number = 5 + ((function + turn) % 4) as u16;
            self.wanted.lock().unwrap().insert(guid.value(), number);
            self.publish_desired(desk);
            let table = || -> Vec<u16> {
                let all = simulator.partitions();
                all.iter().filter(|(_, members)| members.contains_key(&guid)).map(|(key, _)| *key).collect()
            };
            // The port's own table shows what UFM has; and a key that is about to go does not count.
            wait_for(|| {
                let standing = desk.running.lock().membership_state(key(number), guid);
                standing == MembershipState::Programmed && table() == [number]
            })
            .await;
            let from = Instant::now();
            tokio::time::sleep(Duration::from_millis(100 + 30 * (function % 5))).await;
            let to = Some(Instant::now());
            let pod = format!("pod-{function}-{turn}");
            self.tenancies.lock().unwrap().push(PodTenancy { pod, guid, key: number, from, to });
            self.wanted.lock().unwrap().remove(&guid.value());
            self.publish_desired(desk);
        }
    }
}

async fn wait_for(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "it did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_ran_outside_and_no_key_outlived_its_pod_while_ufm_was_away() {
    let away = if std::env::var_os("FERROBAND_SOAK").is_some() { 120 } else { 20 };
    let simulator = Arc::new(UfmSimulator::start(UfmSimulatorOptions::default()).unwrap());
    let desk = Arc::new(UfmReconcilerFixture::start_with_period(ufm(&simulator), Duration::from_secs(1)));
    let pods = Arc::new(PodChurn::default());
    let turns: Vec<_> = (0..FUNCTIONS)
        .map(|function| {
            let (pods, desk, simulator) = (pods.clone(), desk.clone(), simulator.clone());
            tokio::spawn(async move { pods.run_pods(&desk, &simulator, function, 7).await })
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
    desk.wait_converged().await;
    wait_until("desired equals observed: nobody is in", || simulator.partitions().is_empty()).await;
    let tenancies = pods.tenancies.lock().unwrap().clone();
    let breaches = audit(&simulator.events(), &tenancies);
    println!("{} pods, away for {away} s, {} changes at UFM", tenancies.len(), simulator.events().len());
    assert!(tenancies.len() > 100);
    assert_eq!(breaches, []);
}
