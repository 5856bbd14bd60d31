use super::*;

fn need(resource: &str) -> ResourceRequest {
    ResourceRequest { resource: resource.to_owned(), shared: false }
}

fn member(name: &str) -> GroupNetwork {
    GroupNetwork { namespace: "s".into(), name: name.into(), request: None }
}

fn asked(containers: Value, needs: &[ResourceRequest]) -> AdmissionResponse {
    let mut answer = AdmissionResponse::default();
    request_resources(&json!({"spec": {"containers": containers}}), &count_resources(needs), &mut answer);
    answer
}

#[test]
fn m18_every_network_gets_its_resource_in_the_first_container() {
    let needs: Vec<_> = (1..=8).map(|n| need(&format!("spidernet.io/gpu{n}sriov"))).collect();
    let answer = asked(json!([{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]), &needs);
    assert_eq!(answer.patch.len(), 1);
    assert_eq!(answer.patch[0]["path"], "/spec/containers/0/resources");
    let value = &answer.patch[0]["value"];
    assert_eq!(value["limits"]["cpu"], "1", "what was there stays");
    assert_eq!(
        (value["limits"].as_object().unwrap().len(), value["requests"].as_object().unwrap().len()),
        (9, 8)
    );
    assert_eq!(value["limits"]["spidernet.io/gpu8sriov"], "1");
}

#[test]
fn m20_networks_that_share_a_resource_need_one_each_unless_the_device_is_shared() {
    let answer = asked(json!([{}]), &[need("a.b/c"), need("a.b/c")]);
    assert_eq!(answer.patch[0]["value"]["limits"]["a.b/c"], "2");
    let shared = ResourceRequest { shared: true, ..need("rdma/hca") };
    let answer = asked(json!([{}]), &[shared.clone(), shared]);
    assert_eq!(answer.patch[0]["value"]["limits"]["rdma/hca"], "1");
}

#[test]
fn m21_what_somebody_wrote_stays() {
    let second = json!([{"name": "a"}, {"name": "b", "resources": {"limits": {"a.b/c": "1"}}}]);
    assert_eq!(asked(second.clone(), &[need("a.b/c")]), AdmissionResponse::default());
    let answer = asked(second, &[need("a.b/c"), need("a.b/c")]);
    assert!(answer.patch.is_empty() && answer.warnings[0].contains("need 2 of a.b/c"), "{answer:?}");
    let requests = json!([{"resources": {"requests": {"a.b/c": 3}}}]);
    assert_eq!(asked(requests, &[need("a.b/c")]), AdmissionResponse::default());
}

#[test]
fn networks_are_added_in_the_form_that_is_there_and_only_once() {
    let members = [member("gpu1"), member("gpu2")];
    assert_eq!(append_networks("", "d", &members).unwrap().unwrap(), "s/gpu1,s/gpu2");
    assert_eq!(
        append_networks("mine, s/gpu2@ib0", "d", &members).unwrap().unwrap(),
        "mine, s/gpu2@ib0,s/gpu1"
    );
    let longer = append_networks(r#"[{"name":"mine"}]"#, "d", &members).unwrap().unwrap();
    let named = NetworkSelection::parse_networks(&longer, "d").unwrap();
    let names: Vec<_> = named.iter().map(NetworkSelection::display_name).collect();
    assert_eq!(names, ["d/mine", "s/gpu1", "s/gpu2"]);
    assert_eq!(append_networks(&longer, "d", &members).unwrap(), None);
    assert!(append_networks("[", "d", &members).is_err());
}
