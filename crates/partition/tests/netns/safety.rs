//! opensm fails open; we do not let it.

use super::*;
use Membership::Full;
use std::fs;

#[tokio::test]
async fn case_71_nothing_that_would_open_the_fabric_is_written() {
    let ports = consecutive_guids(1);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    // Somebody's part of the file has an error, and opensm has opened the fabric already. It is not ours to guess.
    fs::write(&manager.partitions, "Default=0x7fff: ALL, SELF=full;\nstorage=0x0100: nonsense;\n").unwrap();
    let before = fs::read_to_string(&manager.partitions).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(1));
    desk.set_desired(table(&[(5, ports[0], Full)]));
    wait_until("it is told", || {
        desk.health.borrow().problem.as_ref().is_some_and(|text| text.contains("nonsense"))
    })
    .await;
    assert_eq!(fs::read_to_string(&manager.partitions).unwrap(), before);
    // The administrator corrects it.
    fs::write(&manager.partitions, "Default=0x7fff: ALL, SELF=full;\nstorage=0x0100: ALL=limited;\n")
        .unwrap();
    wait_for_pkeys(&bed, ports[0], |keys| keys.contains(&0x8005) && keys.contains(&0x0100)).await;
}

#[tokio::test]
async fn case_72_a_file_that_somebody_broke_is_put_right_within_a_look() {
    let ports = consecutive_guids(2);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_millis(500));
    desk.set_desired(table(&[(5, ports[0], Full)]));
    wait_for_pkeys(&bed, ports[0], |keys| keys == [0x8005, 0x7fff]).await;
    for broken in ["", "# nothing\n", "Default=0x7fff: ALL=full;\nfb0005=0x5: 0xnonsense;\n"] {
        fs::write(&manager.partitions, broken).unwrap();
        manager.send_sighup().unwrap();
        // It may have been put right before opensm looked; if not, everybody was in for a moment.
        wait_for_pkeys(&bed, ports[0], |keys| keys.contains(&0x8005) && keys.contains(&0x7fff)).await;
        wait_for_pkeys(&bed, ports[1], |keys| keys == [0x7fff]).await;
        wait_until("the file is ours again", || {
            fs::read_to_string(&manager.partitions).is_ok_and(|text| text.contains("fb0005=0x0005"))
        })
        .await;
    }
    fs::remove_file(&manager.partitions).unwrap();
    wait_until("the file is there again", || manager.partitions.exists()).await;
}

#[tokio::test]
async fn case_74_a_full_table_is_seen_in_the_log() {
    let ports = consecutive_guids(1);
    let bed = OpensmTestbed::new(&ports).unwrap();
    let manager = bed.start_opensm(0, 0).unwrap();
    let desk = OpensmReconcilerFixture::start(&[&manager], Duration::from_secs(5));
    // Forced: the budget that refuses this is kept where the node is known.
    desk.set_desired((1..=70).map(|number| (key(number), ports[0], Full)).collect());
    wait_for_pkeys(&bed, ports[0], |keys| keys.len() == 64).await;
    wait_until("opensm says so", || manager.log().contains("ERR 0512")).await;
}
