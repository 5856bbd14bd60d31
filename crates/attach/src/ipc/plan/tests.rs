use super::*;
use serde_json::json;

fn parse(config: Value) -> Result<StepKind, Error> {
    StepKind::from_config(config.as_object().unwrap())
}

#[test]
fn dhcp_is_refused_for_interface_plugins_only() {
    let ipam = json!({"type": "dhcp"});
    let refused = parse(json!({"type": "ipoib", "master": "ib0", "ipam": ipam}));
    assert!(matches!(refused, Err(Error::Dhcp)), "{refused:?}");
    let refused = parse(json!({"type": "ib-sriov", "deviceID": "0000:86:00.1", "ipam": ipam}));
    assert!(matches!(refused, Err(Error::Dhcp)), "{refused:?}");
    for other in ["rdma", "coordinator", "whereabouts", "macvlan"] {
        assert!(parse(json!({"type": other, "ipam": ipam})).is_ok(), "{other}");
    }
}

#[test]
fn daemon_assigns_addresses_of_its_own_ipam_types() {
    for (ipam, expected) in [
        (json!({"type": "whereabouts"}), true),
        (json!({"type": "spiderpool"}), true),
        (json!({"type": "host-local"}), false),
        (json!({}), false),
    ] {
        let step = parse(json!({"type": "ipoib", "master": "ib0", "ipam": ipam})).unwrap();
        assert_eq!(step.uses_daemon_ipam(), expected, "{ipam}");
        let step = parse(json!({"type": "ib-sriov", "deviceID": "0000:86:00.1", "ipam": ipam})).unwrap();
        assert_eq!(step.uses_daemon_ipam(), expected, "{ipam}");
    }
    let foreign = parse(json!({"type": "macvlan", "ipam": {"type": "whereabouts"}})).unwrap();
    assert_eq!((foreign.uses_daemon_ipam(), foreign), (false, StepKind::Foreign));
}

#[test]
fn empty_device_id_of_rdma_counts_as_absent() {
    for (device, expected) in [("", None), ("0000:86:00.1", Some("0000:86:00.1"))] {
        let step = parse(json!({"type": "rdma", "deviceID": device})).unwrap();
        assert_eq!(step, StepKind::Rdma { device: expected.map(str::to_owned) });
    }
}

#[test]
fn default_routes_are_stored_only_if_they_change() {
    let stored = |default_routes: DefaultRoutes| {
        let attachment = Attachment { default_routes, ..Attachment::default() };
        let value = serde_json::to_value(&attachment).unwrap();
        assert_eq!(serde_json::from_value::<Attachment>(value.clone()).unwrap(), attachment);
        value
    };
    let keep = DefaultRoutes::default();
    let change = DefaultRoutes { v6: DefaultRoute::Remove, ..keep };
    assert_eq!((keep.is_keep(), change.is_keep()), (true, false));
    assert!(stored(keep).as_object().unwrap().len() < stored(change).as_object().unwrap().len());
}
