//! Many at once.

use super::*;
use ferroband_testbed::ufm::UfmSimulatorOptions;

#[tokio::test]
async fn case_62_five_hundred_at_once_take_few_calls() {
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let desk = UfmReconcilerFixture::start(ufm(&simulator));
    desk.wait_converged().await;
    let mut wanted = Vec::new();
    for pod in 0..500_u64 {
        wanted.push(((5 + pod % 10) as u16, POOL + pod));
        desk.set_desired(&wanted);
        if pod % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    desk.wait_converged().await;
    let there: usize = simulator.partitions().values().map(BTreeMap::len).sum();
    assert_eq!(there, 500);
    let calls = simulator.calls_matching("POST").len();
    assert!(calls <= 10 * 4, "{calls} calls for 10 partitions");
}

/// 100,000 GUIDs in 1,000 partitions. A thousandth of it always, all of it in the soak tier.
#[tokio::test]
async fn everything_anew_within_a_minute() {
    let soak = std::env::var_os("FERROBAND_SOAK").is_some();
    let (partitions, each) = if soak { (1000_u16, 100_u64) } else { (100, 20) };
    let simulator = UfmSimulator::start(UfmSimulatorOptions::default()).unwrap();
    let settings = settings(&simulator.client_env());
    let desk = UfmReconcilerFixture::start_with_period(
        Arc::new(Ufm::new(&settings).unwrap()),
        Duration::from_secs(300),
    );
    let mut table = MembershipTable::default();
    let mut owned = Ownership::default();
    for partition in 0..partitions {
        for member in 0..each {
            let guid = Guid::new(POOL + u64::from(partition) * each + member);
            table.insert(key(partition + 1), guid, Membership::Full);
            owned.guids.insert(guid);
        }
    }
    let begun = Instant::now();
    desk.running.lock().set_desired(table.clone(), owned.clone());
    desk.running.wake();
    desk.wait_converged().await;
    let first = begun.elapsed();
    let there: usize = simulator.partitions().values().map(BTreeMap::len).sum();
    assert_eq!(there, usize::from(partitions) * each as usize);
    // The manager forgets everything, and is heard anew.
    simulator.go_down();
    simulator.come_up(false);
    let begun = Instant::now();
    desk.managers.send_replace(Arc::new(Ufm::new(&settings).unwrap()));
    wait_until("all of it again", || {
        simulator.partitions().values().map(BTreeMap::len).sum::<usize>() == there
    })
    .await;
    let again = begun.elapsed();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{there} members of {partitions} partitions: {first:.1?}, again {again:.1?}; simulator and client together {memory}"
    );
    assert!(first < Duration::from_secs(60) && again < Duration::from_secs(60), "{first:?} {again:?}");
}
