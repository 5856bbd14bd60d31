use super::*;

fn request(resource: &str) -> ResourceRequest {
    ResourceRequest { resource: resource.to_owned(), shared: false }
}

fn member(name: &str) -> GroupNetwork {
    GroupNetwork { namespace: "s".into(), name: name.into(), request: None }
}

fn request_for(containers: Value, requests: &[ResourceRequest]) -> AdmissionResponse {
    let mut response = AdmissionResponse::default();
    request_resources(
        &json!({"spec": {"containers": containers}}),
        &count_resources(requests),
        &mut response,
    );
    response
}

// Case: ipam M18
#[test]
fn every_network_gets_its_resource_in_the_first_container() {
    let requests: Vec<_> = (1..=8).map(|n| request(&format!("spidernet.io/gpu{n}sriov"))).collect();
    let response =
        request_for(json!([{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]), &requests);
    assert_eq!(response.patch.len(), 1);
    assert_eq!(response.patch[0]["path"], "/spec/containers/0/resources");
    let value = &response.patch[0]["value"];
    assert_eq!(value["limits"]["cpu"], "1", "existing limits are kept");
    assert_eq!(
        (value["limits"].as_object().unwrap().len(), value["requests"].as_object().unwrap().len()),
        (9, 8)
    );
    assert_eq!(value["limits"]["spidernet.io/gpu8sriov"], "1");
}

// Case: ipam M20
#[test]
fn networks_with_the_same_resource_need_one_each_unless_the_device_is_shared() {
    let response = request_for(json!([{}]), &[request("a.b/c"), request("a.b/c")]);
    assert_eq!(response.patch[0]["value"]["limits"]["a.b/c"], "2");
    let shared = ResourceRequest { shared: true, ..request("rdma/hca") };
    let response = request_for(json!([{}]), &[shared.clone(), shared]);
    assert_eq!(response.patch[0]["value"]["limits"]["rdma/hca"], "1");
}

// Case: ipam M21
#[test]
fn existing_requests_are_not_changed() {
    let second = json!([{"name": "a"}, {"name": "b", "resources": {"limits": {"a.b/c": "1"}}}]);
    assert_eq!(request_for(second.clone(), &[request("a.b/c")]), AdmissionResponse::default());
    let response = request_for(second, &[request("a.b/c"), request("a.b/c")]);
    assert!(response.patch.is_empty() && response.warnings[0].contains("need 2 of a.b/c"), "{response:?}");
    let requests = json!([{"resources": {"requests": {"a.b/c": 3}}}]);
    assert_eq!(request_for(requests, &[request("a.b/c")]), AdmissionResponse::default());
}

#[test]
fn networks_are_added_in_the_format_of_the_annotation_and_only_once() {
    let members = [member("gpu1"), member("gpu2")];
    assert_eq!(append_networks("", "d", &members).unwrap().unwrap(), "s/gpu1,s/gpu2");
    assert_eq!(
        append_networks("mine, s/gpu2@ib0", "d", &members).unwrap().unwrap(),
        "mine, s/gpu2@ib0,s/gpu1"
    );
    let extended = append_networks(r#"[{"name":"mine"}]"#, "d", &members).unwrap().unwrap();
    let named = NetworkSelection::parse_networks(&extended, "d").unwrap();
    let names: Vec<_> = named.iter().map(NetworkSelection::display_name).collect();
    assert_eq!(names, ["d/mine", "s/gpu1", "s/gpu2"]);
    assert_eq!(append_networks(&extended, "d", &members).unwrap(), None);
    assert!(append_networks("[", "d", &members).is_err());
}
