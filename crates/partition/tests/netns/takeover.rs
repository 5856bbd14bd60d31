//! Tests of the takeover by a standby opensm, and of signals to a standby.

use super::*;
use Membership::Full;

// Case: partitions 75
#[tokio::test]
async fn partitions_are_unchanged_after_a_takeover() {
    // ibsim sometimes loses a request when one of its clients dies, and has no timeouts. The other opensm
    // then waits forever (2 of 250 runs on a busy host). This is unrelated to the takeover, so retry.
    for _ in 0..3 {
        if let Some((before, after)) = takeover().await {
            assert_eq!(before, after);
            return;
        }
    }
    panic!("the standby opensm never became master");
}

/// Returns the P_Key tables before and after the master is killed, or `None` if the standby did not take
/// over.
async fn takeover() -> Option<(Vec<Vec<u16>>, Vec<Vec<u16>>)> {
    let ports = consecutive_guids(3);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let tables = || ports.iter().map(|port| fabric.pkey_table(*port).unwrap()).collect();
    let first = fabric.start_opensm(0, 5).unwrap();
    let second = fabric.start_second_opensm(&first, 1, 1).unwrap();
    assert!(first.is_master() && !second.is_master());
    let fixture = OpensmReconcilerFixture::start(&[&first, &second], Duration::from_secs(5));
    fixture.set_desired(table(&[(5, ports[0], Full), (6, ports[1], Full)]));
    wait_for_pkeys(&fabric, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    let before = tables();
    first.kill();
    let end = Instant::now() + Duration::from_secs(30);
    while !(second.is_master() && second.log().contains("SUBNET UP")) {
        if Instant::now() > end {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Some((before, tables()))
}

// Case: partitions 77
#[tokio::test]
async fn signalling_a_standby_has_no_effect() {
    let ports = consecutive_guids(1);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let first = fabric.start_opensm(0, 5).unwrap();
    let second = fabric.start_second_opensm(&first, 1, 1).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&first, &second], Duration::from_secs(5));
    fixture.set_desired(table(&[(5, ports[0], Full)]));
    wait_for_pkeys(&fabric, ports[0], |keys| keys.contains(&0x8005)).await;
    for _ in 0..5 {
        second.send_sighup().unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(first.is_master() && !second.is_master());
    assert_eq!(fabric.pkey_table(ports[0]).unwrap(), [0x8005, 0x7fff]);
}
