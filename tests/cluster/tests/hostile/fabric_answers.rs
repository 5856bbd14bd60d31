//! Attacks with the answers of the subnet manager, and with its settings.

use crate::fixture::HostileFixture;
use ferroband_cluster_tests::{eventually, holds_for, kubectl, kubectl_get};
use ferroband_testbed::ufm::InjectedFault;
use serde_json::json;

/// One answer without the default partition and without members. The leader must neither add the victim again nor
/// forget it.
pub fn f_answer_without_partitions_is_not_believed(hostile: &mut HostileFixture) {
    let list = "GET /ufmRest/resources/pkeys";
    let (events, lists) = (hostile.fabric.ufm.events().len(), hostile.fabric.ufm.calls_matching(list).len());
    hostile.fabric.ufm.inject_fault(list, 1, InjectedFault::RespondWith(200));
    eventually("two more lists", 60, || match hostile.fabric.ufm.calls_matching(list).len() {
        now if now >= lists + 2 => Ok(()),
        now => Err(format!("{now} lists")),
    });
    assert_eq!(hostile.fabric.ufm.events().len(), events, "no member was added or removed");
    let requests = hostile.fabric.ufm.calls_matching("POST");
    let last = requests.last().map(|call| call.request.clone());
    holds_for("no change is sent", 5, || {
        let requests = hostile.fabric.ufm.calls_matching("POST");
        if requests.last().map(|call| call.request.clone()) == last {
            Ok(())
        } else {
            Err(format!("{requests:?}"))
        }
    });
    hostile.assert_victim_unchanged();
}

/// Who may change the ConfigMap would otherwise get the credentials of UFM.
pub fn f_config_map_cannot_redirect_ufm(hostile: &mut HostileFixture) {
    let change = |address: serde_json::Value| {
        let patch = json!({"data": {"UFM_ADDRESS": address, "UFM_HTTP_SCHEMA": address}}).to_string();
        let name = ["configmap", "ib-kubernetes-config", "--type=merge", "-p", &patch];
        kubectl(&[&["-n", "kube-system", "patch"], &name[..]].concat()).stdout_or_panic();
    };
    change(json!("10.77.0.99"));
    holds_for("UFM of the Secret is used", 10, || {
        let fabric = kubectl_get(&["fabrics.ferroband.io"])["items"][0].clone();
        let manager = fabric["status"]["manager"].as_str().unwrap_or_default().to_owned();
        let is_reachable = fabric["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Reachable" && condition["status"] == "True");
        if manager.contains("https://10.77.0.1:443") && is_reachable {
            Ok(())
        } else {
            Err(fabric.to_string())
        }
    });
    change(json!(null));
    hostile.assert_victim_unchanged();
}
