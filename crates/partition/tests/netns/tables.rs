//! What ports have in their tables.

use super::*;
use Membership::{Full, Limited};

#[tokio::test]
async fn case_68_in_the_table_soon_and_out_of_it_soon() {
    let ports = consecutive_guids(3);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    desk.set_desired(MembershipTable::default());
    wait_for_pkeys(&bed, ports[0], |keys| keys == [0x7fff]).await;
    desk.set_desired(table(&[(0x3e8, ports[0], Full)]));
    let took = wait_for_pkeys(&bed, ports[0], |keys| keys == [0x83e8, 0x7fff]).await;
    assert_eq!(bed.pkey_table(ports[1]).unwrap(), [0x7fff], "another tenant's port has nothing of it");
    desk.set_desired(MembershipTable::default());
    let gone = wait_for_pkeys(&bed, ports[0], |keys| keys == [0x7fff]).await;
    println!("in after {took:?}, out after {gone:?}");
    // A second is what the contract asks for on an idle machine.
    assert!(took < Duration::from_secs(4) && gone < Duration::from_secs(4), "{took:?} {gone:?}");
}

#[tokio::test]
async fn case_39_and_69_limited_members_and_the_first_slot() {
    let ports = consecutive_guids(2);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    desk.set_desired(table(&[(5, ports[0], Full), (5, ports[1], Limited)]));
    wait_for_pkeys(&bed, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    wait_for_pkeys(&bed, ports[1], |keys| keys == [0x0005, 0x7fff]).await;
}

#[tokio::test]
async fn case_70_five_thousand_members_and_those_that_are_there_have_the_key() {
    let ports = consecutive_guids(20);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    let many = (0..5000).map(|number| (key(5), Guid::new(POOL + number), Full)).collect();
    desk.set_desired(many);
    for port in ports {
        wait_for_pkeys(&bed, port, |keys| keys.contains(&0x8005)).await;
    }
    let text = std::fs::read_to_string(&manager.partitions).unwrap();
    assert!(text.lines().all(|line| line.len() < 4000));
    assert!(!manager.log().contains("in error"));
}

#[tokio::test]
async fn case_73_a_port_that_comes_later_gets_its_key_without_being_asked() {
    let ports = consecutive_guids(2);
    let mut bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    bed.console_command("Unlink \"P0\"[1]").unwrap();
    desk.set_desired(table(&[(5, ports[0], Full), (5, ports[1], Full)]));
    wait_for_pkeys(&bed, ports[1], |keys| keys.contains(&0x8005)).await;
    wait_until("the programmer is content", || desk.running.lock().pending_changes().is_empty()).await;
    bed.console_command("ReLink \"P0\"[1]").unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // It cannot even be asked while it is not there.
    while !bed.pkey_table(ports[0]).is_ok_and(|keys| keys.contains(&0x8005)) {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn case_79_two_fabrics_side_by_side() {
    let ports = consecutive_guids(1);
    let (one, two) = (OpensmTestbed::new(&ports).unwrap(), OpensmTestbed::new(&ports).unwrap());
    let (first, second) = (one.start_opensm(0, 0).unwrap(), two.start_opensm(0, 0).unwrap());
    let (left, right) = (
        OpensmReconcilerFixture::start(&[&first], Duration::from_secs(5)),
        OpensmReconcilerFixture::start(&[&second], Duration::from_secs(5)),
    );
    left.set_desired(table(&[(5, ports[0], Full)]));
    right.set_desired(table(&[(6, ports[0], Full)]));
    wait_for_pkeys(&one, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    wait_for_pkeys(&two, ports[0], |keys| keys == [0x8006, 0x7fff]).await;
}

/// The distribution's opensm does not know virtual ports, and is known not to.
#[tokio::test]
async fn case_80_an_opensm_without_virtualization_is_known() {
    let bed = OpensmTestbed::new(&consecutive_guids(1)).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let told = Opensm::new(vec![local_host(&manager)]).observe().await.unwrap();
    assert_eq!(told.virtualization, Some(false));
    assert_eq!(told.open, Some(true), "without a file everybody is in");
}
