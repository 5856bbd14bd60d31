//! Tests that many membership changes cause few sweeps of opensm.

use super::*;
use Membership::Full;

// Case: partitions 76
#[tokio::test]
async fn twenty_changes_in_a_second_cause_few_sweeps() {
    let ports = consecutive_guids(20);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let manager = fabric.start_opensm(0, 0).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    fixture.set_desired(MembershipTable::default());
    wait_until("the partitions file", || manager.partitions.exists()).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = manager.heavy_sweeps();
    let start = Instant::now();
    let mut desired = MembershipTable::default();
    for port in &ports {
        desired.insert(key(5), *port, Full);
        fixture.set_desired(desired.clone());
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    for port in ports {
        wait_for_pkeys(&fabric, port, |keys| keys.contains(&0x8005)).await;
    }
    let (sweeps, seconds) = (manager.heavy_sweeps() - before, start.elapsed().as_secs() as usize);
    assert!(sweeps <= 2 + seconds, "{sweeps} sweeps in {seconds} s");
}

#[tokio::test]
async fn two_hundred_pods_cause_one_sweep_per_second() {
    let ports = consecutive_guids(40);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let manager = fabric.start_opensm(0, 0).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    fixture.set_desired(MembershipTable::default());
    wait_until("the partitions file", || manager.partitions.exists()).await;
    let (before, start) = (manager.heavy_sweeps(), Instant::now());
    let mut desired = MembershipTable::default();
    for pod in 0..200_usize {
        let (port, partition) = (ports[pod % ports.len()], key(5 + (pod % 3) as u16));
        if pod >= ports.len() {
            let old = key(5 + ((pod - ports.len()) % 3) as u16);
            desired.remove(old, port);
        }
        desired.insert(partition, port, Full);
        fixture.set_desired(desired.clone());
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    for port in &ports {
        let own: Vec<u16> =
            (5..8).filter(|k| desired.get(key(*k), *port).is_some()).map(|k| k | 0x8000).collect();
        assert_eq!(own.len(), 1);
        wait_for_pkeys(&fabric, *port, |keys| keys.iter().filter(|found| **found != 0x7fff).eq(own.iter()))
            .await;
    }
    let (sweeps, took) = (manager.heavy_sweeps() - before, start.elapsed());
    println!("{sweeps} sweeps in {took:?}");
    assert!(sweeps as u64 <= 2 + took.as_secs(), "{sweeps} sweeps in {took:?}");
    assert!(!manager.log().contains("in error"));
}
