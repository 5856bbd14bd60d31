//! Attacks with the answers of the subnet manager, and with its settings.

use crate::fixture::HostileFixture;
use crate::webhook::daemons;
use ferroband_cluster_tests::{eventually, holds_for, kubectl, kubectl_get};
use ferroband_model::Guid;
use ferroband_testbed::ufm::InjectedFault;
use serde_json::json;

const LIST: &str = "GET /ufmRest/resources/pkeys";

/// Waits until UFM was asked for this number of further lists.
#[track_caller]
fn wait_lists(hostile: &HostileFixture, number: usize) {
    let before = hostile.fabric.ufm.calls_matching(LIST).len();
    eventually(&format!("{number} more lists"), 60, || match hostile.fabric.ufm.calls_matching(LIST).len() {
        now if now >= before + number => Ok(()),
        now => Err(format!("{now} lists")),
    });
}

/// UFM gives one wrong answer. The leader must not send any change because of it.
#[track_caller]
fn assert_answer_not_believed(hostile: &mut HostileFixture, answer: InjectedFault) {
    let requests = |hostile: &HostileFixture| {
        let all = hostile.fabric.ufm.calls().into_iter().map(|call| call.request);
        all.filter(|request| !request.starts_with("GET")).collect::<Vec<_>>()
    };
    let (before, events) = (requests(hostile), hostile.fabric.ufm.events().len());
    hostile.fabric.ufm.inject_fault(LIST, 1, answer);
    wait_lists(hostile, 3);
    assert_eq!(requests(hostile), before, "no change is sent");
    assert_eq!(hostile.fabric.ufm.events().len(), events, "no member was added or removed");
    hostile.assert_victim_unchanged();
}

/// One answer without the default partition and without members. The leader must neither add the victim again nor
/// forget it.
pub fn f_answer_without_partitions_is_not_believed(hostile: &mut HostileFixture) {
    assert_answer_not_believed(hostile, InjectedFault::RespondWith(200));
}

/// One answer with the default partition, but without the members of the others.
pub fn f_answer_that_drops_many_members_is_not_believed(hostile: &mut HostileFixture) {
    for number in 0..40 {
        hostile.fabric.ufm.add_foreign_member(0x222, Guid::new(0xe41d_2d03_0000_0000 + number));
    }
    wait_lists(hostile, 2);
    let answer = json!({"0x7fff": {"partition": "management", "ip_over_ib": true, "guids": []}});
    assert_answer_not_believed(hostile, InjectedFault::RespondWithBody(answer.to_string()));
}

pub fn f_errors_of_the_subnet_manager_change_nothing(hostile: &mut HostileFixture) {
    for status in [500, 401, 404, 204] {
        assert_answer_not_believed(hostile, InjectedFault::RespondWith(status));
    }
}

pub fn f_answers_of_any_shape_do_not_end_the_leader(hostile: &mut HostileFixture) {
    let before = daemons();
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "[]",
        "5",
        &deep,
        r#"{"0x7fff": 5, "0x3e8": [], "zz": {}, "0xffffff": {}}"#,
        r#"{"0x7fff": {}, "0x3e8": {"guids": [5, {"guid": "x"}, {"guid": null}, {"membership": {}}]}}"#,
    ] {
        hostile.fabric.ufm.inject_fault(LIST, 1, InjectedFault::RespondWithBody(body.to_owned()));
        wait_lists(hostile, 2);
    }
    hostile.fabric.wait_condition("Reachable", "True", 60);
    assert_eq!(daemons(), before, "no daemon was restarted");
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
