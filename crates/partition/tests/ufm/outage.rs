//! UFM away amid a hundred starts and stops, looked back upon.
//!
//! What a node does is done here in a few lines: a pod's function is used when the manager has it in its partition and
//! no other, and is free for the next pod when it is known to be out.

use super::*;
use ferroband_partition::Standing;
use ferroband_testbed::audit::{Tenancy, audit};
use ferroband_testbed::ufm::Start;
use std::sync::Mutex;

/// Functions that pods take turns on.
const FUNCTIONS: u64 = 16;

/// The pods of a node: what is wanted, and who had which function when.
#[derive(Default)]
struct Pods {
    wanted: Mutex<BTreeMap<u64, u16>>,
    tenancies: Mutex<Vec<Tenancy>>,
}

impl Pods {
    fn tell(&self, desk: &Desk) {
        let wanted: Vec<(u16, u64)> =
            self.wanted.lock().unwrap().iter().map(|(guid, key)| (*key, *guid)).collect();
        desk.want(&wanted);
    }

    /// One pod after another on one function, each in another partition than the one before.
    async fn turns(&self, desk: &Desk, simulator: &Simulator, function: u64, pods: u64) {
        let guid = Guid::new(POOL + function);
        for turn in 0..pods {
            let number = 5 + ((function + turn) % 4) as u16;
            self.wanted.lock().unwrap().insert(guid.value(), number);
            self.tell(desk);
            let table = || -> Vec<u16> {
                let all = simulator.partitions();
                all.iter().filter(|(_, members)| members.contains_key(&guid)).map(|(key, _)| *key).collect()
            };
            // The port's own table shows what UFM has; and a key that is about to go does not count.
            until(|| {
                let standing = desk.running.lock().standing(key(number), guid);
                standing == Standing::Programmed && table() == [number]
            })
            .await;
            let from = Instant::now();
            tokio::time::sleep(Duration::from_millis(100 + 30 * (function % 5))).await;
            let to = Some(Instant::now());
            let pod = format!("pod-{function}-{turn}");
            self.tenancies.lock().unwrap().push(Tenancy { pod, guid, key: number, from, to });
            self.wanted.lock().unwrap().remove(&guid.value());
            self.tell(desk);
        }
    }
}

async fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "it did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_ran_outside_and_no_key_outlived_its_pod_while_ufm_was_away() {
    let away = if std::env::var_os("FERROBAND_SOAK").is_some() { 120 } else { 20 };
    let simulator = Arc::new(Simulator::start(Start::default()).unwrap());
    let desk = Arc::new(Desk::with_period(ufm(&simulator), Duration::from_secs(1)));
    let pods = Arc::new(Pods::default());
    let turns: Vec<_> = (0..FUNCTIONS)
        .map(|function| {
            let (pods, desk, simulator) = (pods.clone(), desk.clone(), simulator.clone());
            tokio::spawn(async move { pods.turns(&desk, &simulator, function, 7).await })
        })
        .collect();
    until(|| pods.tenancies.lock().unwrap().len() > 20).await;
    simulator.leave();
    let before = pods.tenancies.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(away)).await;
    let during = pods.tenancies.lock().unwrap().len() - before;
    assert!(during <= FUNCTIONS as usize, "{during} pods ended, none can have started");
    simulator.come_back(true);
    for turn in turns {
        turn.await.unwrap();
    }
    desk.settled().await;
    eventually("desired equals observed: nobody is in", || simulator.partitions().is_empty()).await;
    let tenancies = pods.tenancies.lock().unwrap().clone();
    let breaches = audit(&simulator.events(), &tenancies);
    println!("{} pods, away for {away} s, {} changes at UFM", tenancies.len(), simulator.events().len());
    assert!(tenancies.len() > 100);
    assert_eq!(breaches, []);
}
