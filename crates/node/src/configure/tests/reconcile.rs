//! Tests that the node state shows an action before it runs.

use super::guids;
use crate::configure::{
    Configurator, OriginalStateStore, object::NodeStateObject, reboot::RebootLog,
    reconcile::NodeStateReconciler,
};
use crate::fake_api::FakeApi;
use crate::partition::GuidLease;
use ferroband_api::sriov::{SriovNetworkNodeState, SriovNetworkNodeStateSpec};
use ferroband_kernel::{LinuxHost, Root, firmware::Mstconfig};
use http::StatusCode;
use kube::runtime::watcher::Event;
use serde_json::Value;
use std::{collections::BTreeSet, fs, sync::Arc};
use tokio::sync::watch;

#[tokio::test]
async fn action_is_in_the_status_before_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    for path in ["bus/pci/devices", "class/infiniband", "class/net"] {
        fs::create_dir_all(root.sys(path)).unwrap();
    }
    // The spec sets no RDMA mode, so Ferroband's options must be removed.
    let options = root.path("etc/modprobe.d/ferroband.conf");
    fs::create_dir_all(options.parent().unwrap()).unwrap();
    fs::write(&options, "options ib_core netns_mode=0\n").unwrap();
    let path = "/apis/sriovnetwork.openshift.io/v1/namespaces/ns/sriovnetworknodestates/n";
    let status_path = format!("{path}/status");
    let start = |api: &FakeApi| {
        let state = SriovNetworkNodeState::new("n", SriovNetworkNodeStateSpec::default());
        api.insert_object(path, serde_json::to_value(&state).unwrap());
        let object = NodeStateObject::new(api.client(), "ns", "n");
        object.cache().apply(Event::Apply((("ns".to_owned(), "n".to_owned()), Some(state))));
        let configurator = Configurator {
            hardware: Arc::new(LinuxHost::new(root.clone())),
            firmware: Arc::new(Mstconfig),
            original_states: OriginalStateStore::new(&root),
            guids: Some(Arc::new(guids())),
            requested_guids: Arc::new(BTreeSet::<GuidLease>::new()),
            device_plugins_dir: root.path("var/lib/kubelet/device-plugins"),
            pods: Arc::default(),
            pools: watch::Sender::default(),
            prefix: "a.b".to_owned(),
        };
        NodeStateReconciler::new(object, Arc::new(configurator), RebootLog::open(&root).unwrap())
    };
    // If the status cannot be written, nothing is changed.
    let failing = FakeApi::default();
    failing.reject(&status_path, StatusCode::INTERNAL_SERVER_ERROR);
    start(&failing).reconcile().await;
    assert!(options.exists());
    let status = &failing.last_body("PATCH", &status_path)["status"];
    assert_eq!(status["pendingActions"][0]["change"], "remove the modprobe options of ib_core");
    assert_eq!(status["syncStatus"], "InProgress");
    let api = FakeApi::default();
    start(&api).reconcile().await;
    assert!(!options.exists());
    let status = &api.last_body("PATCH", &status_path)["status"];
    assert_eq!((status["syncStatus"].as_str(), &status["pendingActions"]), (Some("Succeeded"), &Value::Null));
}
