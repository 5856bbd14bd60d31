//! More than one opensm.

use super::*;
use Membership::Full;

#[tokio::test]
async fn case_75_the_partitions_are_the_same_after_a_takeover() {
    let ports = ports(3);
    let bed = Bed::new(&ports).unwrap();
    let first = bed.manager(0, 5).unwrap();
    let second = bed.manager(1, 1).unwrap();
    assert!(first.is_master() && !second.is_master());
    let desk = Desk::open(&[&first, &second], Duration::from_secs(5));
    desk.want(table(&[(5, ports[0], Full), (6, ports[1], Full)]));
    shows(&bed, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    let before: Vec<_> = ports.iter().map(|port| bed.table(*port).unwrap()).collect();
    first.kill();
    eventually("the other is master", || second.is_master()).await;
    eventually("and has swept", || second.log().contains("SUBNET UP")).await;
    let after: Vec<_> = ports.iter().map(|port| bed.table(*port).unwrap()).collect();
    assert_eq!(before, after);
}

#[tokio::test]
async fn case_77_a_standby_that_is_told_to_look_does_no_harm() {
    let ports = ports(1);
    let bed = Bed::new(&ports).unwrap();
    let first = bed.manager(0, 5).unwrap();
    let second = bed.manager(1, 1).unwrap();
    let desk = Desk::open(&[&first, &second], Duration::from_secs(5));
    desk.want(table(&[(5, ports[0], Full)]));
    shows(&bed, ports[0], |keys| keys.contains(&0x8005)).await;
    for _ in 0..5 {
        second.hang_up().unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(first.is_master() && !second.is_master());
    assert_eq!(bed.table(ports[0]).unwrap(), [0x8005, 0x7fff]);
}
