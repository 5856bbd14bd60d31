//! Tests that Ferroband prevents opensm from failing open, that is, from making all ports full members of the
//! default partition.

use super::*;
use Membership::Full;
use std::fs;

// Case: partitions 71
#[tokio::test]
async fn invalid_foreign_section_blocks_writes() {
    let ports = consecutive_guids(1);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let manager = fabric.start_opensm(0, 0).unwrap();
    // The administrator's part of the file is invalid. Ferroband must report this and not change the file,
    // because it cannot know what was intended.
    fs::write(&manager.partitions, "Default=0x7fff: ALL, SELF=full;\nstorage=0x0100: nonsense;\n").unwrap();
    let before = fs::read_to_string(&manager.partitions).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(1));
    fixture.set_desired(table(&[(5, ports[0], Full)]));
    wait_until("the problem is reported", || {
        fixture.health.borrow().problem.as_ref().is_some_and(|text| text.contains("nonsense"))
    })
    .await;
    assert_eq!(fs::read_to_string(&manager.partitions).unwrap(), before);
    // After the administrator corrects the file, the partitions of the administrator and of Ferroband must be
    // programmed.
    fs::write(&manager.partitions, "Default=0x7fff: ALL, SELF=full;\nstorage=0x0100: ALL=limited;\n")
        .unwrap();
    wait_for_pkeys(&fabric, ports[0], |keys| keys.contains(&0x8005) && keys.contains(&0x0100)).await;
}

// Case: partitions 72
#[tokio::test]
async fn broken_file_is_repaired_within_one_list_period() {
    let ports = consecutive_guids(2);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let manager = fabric.start_opensm(0, 0).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&manager], Duration::from_millis(500));
    fixture.set_desired(table(&[(5, ports[0], Full)]));
    wait_for_pkeys(&fabric, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    for broken in ["", "# nothing\n", "Default=0x7fff: ALL=full;\nfb0005=0x5: 0xnonsense;\n"] {
        fs::write(&manager.partitions, broken).unwrap();
        manager.send_sighup().unwrap();
        // Whether or not opensm has read the broken file before it is repaired, the ports must have the
        // desired P_Keys in the end.
        wait_for_pkeys(&fabric, ports[0], |keys| keys.contains(&0x8005) && keys.contains(&0x7fff)).await;
        wait_for_pkeys(&fabric, ports[1], |keys| keys == [0x7fff]).await;
        wait_until("the file is repaired", || {
            fs::read_to_string(&manager.partitions).is_ok_and(|text| text.contains("fb0005=0x0005"))
        })
        .await;
    }
    fs::remove_file(&manager.partitions).unwrap();
    wait_until("the file is restored", || manager.partitions.exists()).await;
}

// Case: partitions 74
#[tokio::test]
async fn full_pkey_table_is_logged_by_opensm() {
    let ports = consecutive_guids(1);
    let fabric = OpensmTestbed::new(&ports).unwrap();
    let manager = fabric.start_opensm(0, 0).unwrap();
    let fixture = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    // The node daemon rejects more P_Keys than fit into the table of a port. The reconciler sends them all.
    fixture.set_desired((1..=70).map(|number| (key(number), ports[0], Full)).collect());
    wait_for_pkeys(&fabric, ports[0], |keys| keys.len() == 64).await;
    wait_until("opensm logs the error", || manager.log().contains("ERR 0512")).await;
}
