//! Tests of the difference of a whole node: the order of actions, and what waits.

use super::{A, desired_adapter, guids, managed_state, observed_adapter, pci};
use crate::configure::{
    Action, DesiredAdapter, DesiredNodeConfig, GuidChooser, NodeDiff, ObservedAdapter, ObservedNode,
    VfDriver, Wait, diff, report::deferred_message,
};
use ferroband_api::sriov::VfHolder;
use ferroband_kernel::{NetnsMode, firmware::parse_query};
use ferroband_model::PciAddress;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

fn desired_node(desired: DesiredAdapter) -> DesiredNodeConfig {
    DesiredNodeConfig { adapters: BTreeMap::from([(pci(A), desired)]), ..DesiredNodeConfig::default() }
}

/// A managed node with adapter A, on which pods hold `held`.
fn observed_node(adapter: ObservedAdapter, held: &[PciAddress]) -> ObservedNode {
    let holder = |vf: &PciAddress| VfHolder {
        namespace: "ns".to_owned(),
        name: "holder".to_owned(),
        uid: "u1".to_owned(),
        devices: vec![vf.to_string()],
    };
    ObservedNode {
        original_states: BTreeMap::from([(adapter.pci, managed_state(&adapter))]),
        adapters: vec![adapter],
        holders: Some(held.iter().map(|vf| (*vf, vec![holder(vf)])).collect()),
        ..ObservedNode::default()
    }
}

fn diff_of(desired: &DesiredNodeConfig, observed: &ObservedNode) -> NodeDiff {
    let source = guids();
    let chooser = GuidChooser::read(Path::new("/nonexistent"), Some(&source));
    let diff = diff(desired, observed, &chooser.choose(desired, observed));
    assert_eq!(diff.faults, []);
    diff
}

// Case: operator C72
#[test]
fn missing_driver_of_a_held_function_causes_no_drain() {
    let mut adapter = observed_adapter(4);
    adapter.vfs[0].driver = None;
    let vf = adapter.vfs[0].pci;
    let bind = |driver| Action::BindVfDriver { pf: pci(A), vf, driver };
    let held = diff_of(&desired_node(desired_adapter(json!({}))), &observed_node(adapter.clone(), &[vf]));
    assert_eq!((&held.actions[..], &held.holders[..]), (&[][..], &[][..]));
    assert_eq!(held.waiting.iter().map(|w| &w.action).collect::<Vec<_>>(), [&bind(VfDriver::Kernel)]);
    // The same holds if the policy requests another driver, also with disableDrain.
    let vfio = desired_adapter(
        json!({"vfGroups": [{"resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3"}]}),
    );
    for skip_drain in [false, true] {
        let desired = DesiredNodeConfig { skip_drain, ..desired_node(vfio.clone()) };
        let other = diff_of(&desired, &observed_node(observed_adapter(4), &[vf]));
        assert_eq!((other.actions.len(), &other.holders[..]), (3, &[][..]));
        assert!(other.disrupted_vfs.contains(&vf), "no other pod may get it");
        let message = deferred_message(&other.waiting).unwrap();
        assert!(message.ends_with(&format!("{vf} (driver vfio-pci; held by ns/holder)")), "{message}");
    }
    // If no pod holds the function, its driver must be bound again.
    let free = diff_of(&desired_node(desired_adapter(json!({}))), &observed_node(adapter.clone(), &[]));
    assert_eq!((free.actions, free.waiting), (vec![bind(VfDriver::Kernel)], vec![]));
    // If the checkpoint cannot be read, every function may be held.
    let unknown = ObservedNode { holders: None, ..observed_node(adapter, &[]) };
    assert_eq!(diff_of(&desired_node(desired_adapter(json!({}))), &unknown).actions, []);
}

#[test]
fn reset_of_an_adapter_waits_for_a_drain_unless_draining_is_disabled() {
    let adapter = observed_adapter(4);
    let vf = adapter.vfs[2].pci;
    let observed = observed_node(adapter, &[vf]);
    let mut desired = desired_node(desired_adapter(json!({"numVfs": 8})));
    let held = diff_of(&desired, &observed);
    let reset = Action::SetVfCount { pf: pci(A), count: 8 };
    assert_eq!((held.actions.len(), held.holders.len(), held.disrupted_vfs.len()), (0, 1, 4));
    assert_eq!((&held.waiting[0].action, &held.waiting[0].wait), (&reset, &Wait::Drain));
    assert_eq!(deferred_message(&held.waiting), None, "the pod is drained, not waited for");
    desired.skip_drain = true;
    let now = diff_of(&desired, &observed);
    assert_eq!((now.actions, now.waiting, now.holders), (vec![reset], vec![], vec![]));
}

// Case: operator C63
#[test]
fn settings_of_the_node_come_first_and_a_reboot_only_after_all_are_set() {
    let adapter = observed_adapter(0);
    let mut observed = observed_node(adapter, &[]);
    observed.rdma_mode = Some(NetnsMode::Shared);
    let settings = |next| parse_query(&format!("NUM_OF_VFS x 16 {next}\nSRIOV_EN x True(1) True(1)"));
    observed.firmware.cards.insert(pci(A), Ok(settings("16")));
    let mut desired = desired_node(desired_adapter(json!({"numVfs": 32, "mtu": 4092})));
    desired.rdma_mode = Some(NetnsMode::Exclusive);
    let first = diff_of(&desired, &observed);
    let texts: Vec<_> = first.pending().into_iter().map(|action| (action.target, action.change)).collect();
    let expected = [
        (A, "firmware NUM_OF_VFS=32"),
        ("node", "modprobe options ib_core netns_mode=0"),
        ("node", "RDMA mode exclusive"),
        (A, "MTU 4092"),
    ];
    assert_eq!(texts, expected.map(|(target, change)| (target.to_owned(), change.to_owned())));
    assert_eq!(first.reboot, [] as [&str; 0]);
    // The firmware is set, and the kernel has refused to change the mode.
    observed.firmware.cards.insert(pci(A), Ok(settings("32")));
    observed.modprobe_options = Some("options ib_core netns_mode=0\n".to_owned());
    observed.refused = vec![Action::SetRdmaMode { mode: NetnsMode::Exclusive }];
    let second = diff_of(&desired, &observed);
    assert_eq!(second.reboot, ["firmware of 0000:3b:00.0", "RDMA mode exclusive"]);
    assert_eq!(second.actions, [Action::SetMtu { pf: pci(A), mtu: 4092 }]);
    assert_eq!(second.waiting[0].wait, Wait::Reboot);
    let reboot = second.pending().pop().unwrap();
    assert_eq!(reboot.change, "reboot for firmware of 0000:3b:00.0, RDMA mode exclusive");
    assert_eq!(reboot.waits_for.as_deref(), Some("administrator, or allowReboot"));
}

#[test]
fn modprobe_options_are_removed_with_the_setting_and_kept_by_others() {
    let mut observed = observed_node(observed_adapter(4), &[]);
    observed.rdma_mode = Some(NetnsMode::Exclusive);
    let mut desired = desired_node(desired_adapter(json!({})));
    desired.rdma_mode = Some(NetnsMode::Exclusive);
    assert_eq!(diff_of(&desired, &observed).actions, [], "a node that has the mode is not changed");
    observed.modprobe_options = Some("options ib_core netns_mode=1\n".to_owned());
    let options = "options ib_core netns_mode=0\n".to_owned();
    assert_eq!(diff_of(&desired, &observed).actions, [Action::WriteModprobeOptions { options }]);
    desired.rdma_mode = None;
    assert_eq!(diff_of(&desired, &observed).actions, [Action::RemoveModprobeOptions]);
}
