use super::*;
use serde_json::json;

#[test]
fn selectors_match_the_label() {
    let (name, value) = MANAGED_LABEL;
    assert_eq!(
        (MANAGED_SELECTOR, UNMANAGED_SELECTOR),
        (&*format!("{name}={value}"), &*format!("{name}!={value}"))
    );
}

#[test]
fn block_equals_the_spec_of_its_object() {
    let entry = json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": "a"});
    let third = json!({
        "pod": "ns/p", "uid": "u", "interface": "net1", "ordinal": 3, "container": "c", "node": "a",
    });
    let spec = json!({
        "space": "default", "first": "10.0.0.0", "node": "a",
        "entries": {"10": entry, "3": third},
    });
    let mut object = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock",
        "metadata": {"name": "default-10.0.0.0", "resourceVersion": "7"}, "spec": spec,
    });
    let (block, version) = block_from_object(&serde_json::from_value(object.clone()).unwrap()).unwrap();
    assert_eq!(block.address(10).to_string(), "10.0.0.10");
    assert_eq!((block.entries[&10].ordinal, block.entries[&3].ordinal), (0, 3));
    let written = serde_json::to_value(block_to_object(&block, Some(&version))).unwrap();
    assert_eq!(written["spec"], spec, "an ordinal of 0 is not stored");
    let space = IpSpace::default_space();
    let region = region_label(&space, [10, 0, 0, 0].into());
    let labels = json!({(node_label("a")): "", (SPACE_LABEL): space_label(&space), (REGION_LABEL): region});
    assert_eq!(written["metadata"]["labels"], labels);
    assert_eq!(written["metadata"]["managedFields"], json!([{}]), "a replacement drops the field managers");
    object["spec"]["entries"] = json!({"16": entry});
    assert!(block_from_object(&serde_json::from_value(object).unwrap()).is_err());
}

fn pool(allocated: Option<&str>) -> SpiderIPPool {
    let object = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.3"]},
        "status": {"allocatedIPs": allocated},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn records_that_cannot_be_read_are_an_error() {
    for text in ["{", "[]", r#"{"10.0.0.1": 7}"#, r#"{"10.0.0.1": {"pod": 7}}"#, r#"{"x": {"pod": "a/b"}}"#] {
        allocation_records(&pool(Some(text))).unwrap_err();
    }
}

#[test]
fn pool_without_records_is_empty() {
    for text in [None, Some(""), Some("null"), Some("{}")] {
        assert_eq!(allocation_records(&pool(text)).unwrap(), [], "{text:?}");
    }
    let records = pool(Some(r#"{"10.0.0.2":{"pod":"a/b","podUid":"u"}}"#));
    assert_eq!(allocation_records(&records).unwrap().len(), 1);
    assert_eq!(parse_pool(&records).unwrap().addresses.capacity(), 3, "only blocks decide what is assigned");
}

#[test]
fn a_copy_of_a_pool_means_the_same_as_the_pool() {
    let original = pool(None);
    let copy = |spec: Value, terminating: bool| {
        let object = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "SpiderPoolCopy",
            "metadata": {"name": "p"}, "spec": {"pool": spec, "terminating": terminating}});
        parse_pool_copy(&serde_json::from_value(object).unwrap())
    };
    let spec = serde_json::to_value(&original.spec).unwrap();
    assert_eq!(copy(spec.clone(), false).unwrap(), parse_pool(&original).unwrap());
    assert_eq!(
        copy(spec, true).unwrap().addresses.capacity(),
        0,
        "a pool that is being deleted assigns nothing"
    );
    let error = copy(json!({"subnet": 5}), false).unwrap_err().to_string();
    assert!(error.contains('p') && error.contains("spec"), "{error}");
}
