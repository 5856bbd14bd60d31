use super::*;
use ferroband_api::ferroband::{AddressImports, EtcdRestore, ImportPhase};

fn change_state(gate: &AssignmentGate, change: impl FnOnce(&mut AddressState)) {
    gate.update(|inputs| change(Arc::make_mut(inputs.state.get_or_insert_default())));
}

fn cause(gate: &AssignmentGate) -> String {
    gate.closed().map(|fault| fault.cause).unwrap_or_default()
}

#[test]
fn nothing_is_assigned_until_everything_is_known() {
    let gate = AssignmentGate::default();
    assert!(cause(&gate).contains("not connected"));
    gate.update(|inputs| inputs.connected = true);
    assert!(cause(&gate).contains("AddressState"));
    change_state(&gate, |_| {});
    assert!(cause(&gate).contains("confirmed"));
    gate.update(|inputs| inputs.start_confirmed = true);
    assert!(cause(&gate).contains("imported"));
    let imports = AddressImports { whereabouts: ImportPhase::Complete, spiderpool: ImportPhase::Pending };
    change_state(&gate, |state| state.status.get_or_insert_default().imports = imports);
    assert!(cause(&gate).contains("imported"), "one of two imports is not enough");
    change_state(&gate, |state| {
        state.status.get_or_insert_default().imports.spiderpool = ImportPhase::Complete;
    });
    assert_eq!(gate.closed(), None);
}

#[test]
fn a_restore_closes_the_gate_until_all_nodes_and_this_one_have_asserted() {
    let gate = AssignmentGate::open();
    gate.update(|inputs| inputs.restore_noticed = true);
    assert!(cause(&gate).contains("not confirmed it"));
    let restore = |phase| Some(EtcdRestore { epoch: "e1".into(), phase, reason: String::new() });
    change_state(&gate, |state| state.spec.restore = restore(RestorePhase::Asserting));
    gate.update(|inputs| inputs.restore_noticed = false);
    assert!(cause(&gate).contains("not all nodes"));
    change_state(&gate, |state| state.spec.restore = restore(RestorePhase::Complete));
    assert!(cause(&gate).contains("this node"));
    gate.update(|inputs| inputs.asserted_epoch = "e1".into());
    assert_eq!(gate.closed(), None);
    gate.update(|inputs| inputs.connected = false);
    assert!(cause(&gate).contains("not connected"), "etcd may be restored while the watch is broken");
}

#[test]
fn a_blocked_range_refuses_overlapping_ranges_of_its_space() {
    let (gate, space) = (AssignmentGate::open(), IpSpace::default_space());
    let block = |space: Option<&str>, range: &str| {
        let reason = "IPPool kube-system/a is unreadable".to_owned();
        let blocked =
            BlockedAddressRange { space: space.map(str::to_owned), range: range.to_owned(), reason };
        change_state(&gate, |state| {
            state.status.get_or_insert_default().blocked_ranges = vec![blocked];
        });
    };
    let refused = |first: &str, last: &str| {
        gate.refusal(&space, (first.parse().unwrap(), last.parse().unwrap())).is_some()
    };
    block(None, "10.0.0.10-10.0.0.20");
    assert!(refused("10.0.0.0", "10.0.0.10") && refused("10.0.0.20", "10.0.0.30"));
    assert!(!refused("10.0.0.0", "10.0.0.9") && !refused("10.0.0.21", "10.0.0.30"));
    assert!(!refused("::", "ffff::"), "another family");
    block(Some("network/a"), "10.0.0.0-10.0.0.255");
    assert!(!refused("10.0.0.1", "10.0.0.1"), "another space");
    block(Some("default"), "nonsense");
    assert!(refused("10.0.0.1", "10.0.0.1"), "an unreadable range blocks its space");
}

#[tokio::test]
async fn only_real_changes_wake_waiting_requests() {
    let gate = AssignmentGate::open();
    let mut changes = gate.changes();
    gate.update(|inputs| inputs.connected = true);
    assert!(!changes.has_changed().unwrap());
    gate.update(|inputs| inputs.connected = false);
    changes.changed().await.unwrap();
}
