//! Tests with large numbers of members and partitions.

use super::*;
use ferroband_testbed::ufm::UfmSimulatorOptions;

// Case: partitions 62
#[tokio::test]
async fn five_hundred_pods_need_few_requests() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let fixture = UfmReconcilerFixture::start(ufm(&simulator));
    fixture.wait_converged().await;
    let mut desired = Vec::new();
    for pod in 0..500_u64 {
        desired.push(((5 + pod % 10) as u16, POOL + pod));
        fixture.set_desired(&desired);
        if pod % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    fixture.wait_converged().await;
    let there: usize = simulator.partitions().values().map(BTreeMap::len).sum();
    assert_eq!(there, 500);
    let calls = simulator.calls_matching("POST").len();
    assert!(calls <= 10 * 4, "{calls} calls for 10 partitions");
}

/// Uses 100,000 GUIDs in 1,000 partitions if the environment variable FERROBAND_SOAK is set, otherwise 2,000
/// GUIDs in 100 partitions.
#[tokio::test]
async fn full_resync_takes_less_than_a_minute() {
    let soak = std::env::var_os("FERROBAND_SOAK").is_some();
    let (partitions, each) = if soak { (1000_u16, 100_u64) } else { (100, 20) };
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let settings = settings(&simulator.client_env());
    let fixture = UfmReconcilerFixture::start_with_period(
        Arc::new(Ufm::new(&settings).unwrap()),
        Duration::from_secs(300),
    );
    let mut table = MembershipTable::default();
    let mut ownership = Ownership::default();
    for partition in 0..partitions {
        for member in 0..each {
            let guid = Guid::new(POOL + u64::from(partition) * each + member);
            table.insert(key(partition + 1), guid, Membership::Full);
            ownership.guids.insert(guid);
        }
    }
    let start = Instant::now();
    fixture.handle.lock().set_desired(table.clone(), ownership.clone());
    fixture.handle.wake();
    fixture.wait_converged().await;
    let first = start.elapsed();
    let there: usize = simulator.partitions().values().map(BTreeMap::len).sum();
    assert_eq!(there, usize::from(partitions) * each as usize);
    // UFM restarts without its partitions. All members must be added again.
    simulator.go_down();
    simulator.come_up(false);
    let start = Instant::now();
    fixture.managers.send_replace(Arc::new(Ufm::new(&settings).unwrap()));
    wait_until("all members are restored", || {
        simulator.partitions().values().map(BTreeMap::len).sum::<usize>() == there
    })
    .await;
    let again = start.elapsed();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{there} members of {partitions} partitions: {first:.1?}, again {again:.1?}; simulator and client together {memory}"
    );
    assert!(first < Duration::from_secs(60) && again < Duration::from_secs(60), "{first:?} {again:?}");
}
