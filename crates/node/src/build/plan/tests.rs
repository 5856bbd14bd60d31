use super::super::attachment::build_steps;
use super::*;
use ferroband_model::{Fault, FaultCode};
use serde_json::{Value, json};

fn requests_of(config: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
    let config = config.as_object().unwrap().clone();
    Ok(partition_requests(&[Attachment {
        network: "default/ib".into(),
        ifname: "net1".into(),
        steps: build_steps("default/ib", [config].into_iter())?,
        ..Attachment::default()
    }]))
}

fn requests(pkey: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
    requests_of(json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "pkey": pkey}))
}

#[test]
fn p_keys_are_parsed_and_invalid_ones_are_rejected_with_the_valid_range() {
    for wrong in [json!(0), json!("0x7fff"), json!("0x8000"), json!(70000), json!("abc")] {
        let fault = requests(wrong.clone()).expect_err(&wrong.to_string());
        assert_eq!(fault.code, FaultCode::InvalidConfig);
        assert!(fault.to_string().contains("0x0001 to 0x7ffe"), "{fault}");
    }
    for right in [json!(1000), json!("0x3e8"), json!("1000")] {
        assert_eq!(requests(right).unwrap()[0].table_entry().unwrap().value(), 0x83e8);
    }
    assert_eq!(requests(json!("")).unwrap()[0].pkey, None);
}

// Case: partitions 39
#[test]
fn limited_membership_has_no_full_bit() {
    let config = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "limited"});
    let requests = requests_of(config).unwrap();
    assert_eq!(requests[0].table_entry().unwrap().value(), 5);
    assert_eq!(requests[0].port, RequestedPort::Parent("ib0".into()));
    let wrong = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "some"});
    assert!(requests_of(wrong).is_err());
    assert!(requests_of(json!({"type": "ipoib", "master": "ib0"})).unwrap().is_empty());
}
