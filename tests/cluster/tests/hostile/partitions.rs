//! Attacks with P_Keys.

use crate::fixture::{ATTACKER, HostileFixture, PKEY_QUOTA, partition, wait_running};
use ferroband_cluster_tests::tenants::{tenant_network, tenant_pod};
use ferroband_cluster_tests::{eventually, kubectl};
use serde_json::{Value, json};

#[track_caller]
fn assert_pkey_refused(hostile: &mut HostileFixture, name: &str, pkey: Value, rule: &str) {
    hostile.objects.apply(&tenant_network(ATTACKER, name, pkey));
    let pod = tenant_pod(ATTACKER, name, &hostile.nodes[1], name);
    hostile.assert_refused(name, &pod, rule);
}

pub fn n_unlisted_pkey_is_refused(hostile: &mut HostileFixture) {
    assert_pkey_refused(hostile, "unlisted", json!("0x0555"), "partitions.unlisted: refuse");
    assert!(hostile.fabric.members(0x555).is_empty());
}

pub fn n_pkey_of_another_namespace_is_refused(hostile: &mut HostileFixture) {
    assert_pkey_refused(hostile, "foreign", json!("0x3e8"), "may not use partition 0x03e8");
}

/// 33768 is 1000 with the bit of full members: the same partition.
pub fn n_pkey_of_another_namespace_with_the_member_bit_is_refused(hostile: &mut HostileFixture) {
    assert_pkey_refused(hostile, "with-bit", json!(33768), "may not use partition 0x03e8");
}

/// Partitions that admit everybody are listed, but count for the quota.
pub fn n_pkeys_above_the_quota_are_refused(hostile: &mut HostileFixture) {
    let names: Vec<String> = (0..=PKEY_QUOTA).map(|number| format!("open-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let pkey = json!(0x0a1 + number);
        hostile.objects.apply(&partition(name, pkey.clone(), &["*"]));
        hostile.objects.apply(&tenant_network(ATTACKER, name, pkey));
    }
    let pod = |name: &str| tenant_pod(ATTACKER, name, &hostile.nodes[1], name);
    let (first, last) = (names[..PKEY_QUOTA].to_vec(), names[PKEY_QUOTA].clone());
    let manifests: Vec<String> = first.iter().map(|name| pod(name)).collect();
    let above = pod(&last);
    for (name, manifest) in first.iter().zip(&manifests) {
        hostile.objects.apply(manifest);
        wait_running(ATTACKER, name);
    }
    hostile.assert_refused(&last, &above, "maxPKeysPerNamespace");
    assert!(hostile.fabric.members(0x0a1 + u16::try_from(PKEY_QUOTA).expect("a small number")).is_empty());
    for name in &first {
        kubectl(&["delete", "pod", "-n", ATTACKER, name, "--wait", "--timeout=60s"]).stdout_or_panic();
    }
    // The tests that follow expect that nothing is sent to the subnet manager.
    eventually("the partitions are empty again", 60, || {
        let members = (0x0a1..0x0a4).map(|key| hostile.fabric.members(key));
        let left: Vec<_> = members.flatten().collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}
