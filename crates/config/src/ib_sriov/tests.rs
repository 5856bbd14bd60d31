use super::*;
use serde_json::json;

const DEVICE: &str = "0000:86:00.2";

fn step(mut config: Value) -> Result<IbSriovConfig, ConfigError> {
    if config.get("deviceID").is_none() {
        config["deviceID"] = json!(DEVICE);
    }
    IbSriovConfig::parse(ConfigFields(config.as_object().unwrap()))
}

// Case: cni 35
#[test]
fn link_state_accepts_auto_enable_disable_and_empty() {
    let state = |text: &str| step(json!({"link_state": text})).map(|step| step.link_state);
    assert_eq!(state("auto").unwrap(), Some(VfLinkState::Auto));
    assert_eq!(state("enable").unwrap(), Some(VfLinkState::Enable));
    assert_eq!(state("disable").unwrap(), Some(VfLinkState::Disable));
    assert_eq!(state("").unwrap(), None);
    assert!(matches!(state("up"), Err(ConfigError::Field { .. })));
}

// Case: cni 37
#[test]
fn a_function_managed_by_ib_kubernetes_must_be_marked_configured() {
    let managed = |mark: Value| step(json!({"ibKubernetesEnabled": true, "args": {"cni": mark}}));
    for mark in [json!({}), json!({"mellanox.infiniband.app": "pending"})] {
        assert!(matches!(managed(mark), Err(ConfigError::NotMarkedConfigured { .. })));
    }
    assert!(managed(json!({"mellanox.infiniband.app": "configured"})).unwrap().managed);
}

// Case: cni 38
#[test]
fn the_guid_of_runtime_config_wins_over_args() {
    let (first, second) = ("01:23:45:67:89:ab:cd:ef", "02:00:00:00:00:00:00:02");
    let runtime = json!({"infinibandGUID": first});
    let args = json!({"cni": {"guid": second}});
    let guid = |config| step(config).unwrap().guid;
    assert_eq!(guid(json!({"runtimeConfig": runtime, "args": args})), Some(Guid::new(0x0123_4567_89ab_cdef)));
    assert_eq!(guid(json!({"args": args})), Some(Guid::new(0x0200_0000_0000_0002)));
    assert_eq!(guid(json!({"guid": first})), None);
}

// Case: cni 39
#[test]
fn numbers_in_args_are_tolerated_for_unknown_keys() {
    assert_eq!(step(json!({"args": {"cni": {"priority": 7, "nested": {"a": 1}}}})).unwrap().guid, None);
    assert!(matches!(step(json!({"args": {"cni": {"guid": 7}}})), Err(ConfigError::Field { .. })));
}

// Case: cni 40
#[test]
fn invalid_guids_are_rejected() {
    let guid = |text: &str| step(json!({"runtimeConfig": {"infinibandGUID": text}})).map(|step| step.guid);
    let wrong = [
        "00:00:00:00:00:00:00:00",
        "01:23:45:67:89:ab:cd",
        "01:23:45:67:89:ab:cd:ef:01",
        "0g:23:45:67:89:ab:cd:ef",
        "01-23-45-67-89-ab-cd-ef",
        "0123456789abcdef",
        "1:23:45:67:89:ab:cd:ef0",
        "+1:23:45:67:89:ab:cd:ef",
        "nonsense",
    ];
    for text in wrong {
        let error = guid(text).unwrap_err();
        assert!(error.to_string().starts_with("invalid guid"), "{text}: {error}");
        assert_eq!(error.fault().code.cni_code(), 7);
    }
    assert_eq!(guid("AB:CD:EF:01:23:45:67:89").unwrap(), Some(Guid::new(0xabcd_ef01_2345_6789)));
    assert_eq!(guid("").unwrap(), None);
}

// Case: cni 45
#[test]
fn device_id_is_required_and_must_be_a_pci_address() {
    let read = |config: Value| IbSriovConfig::parse(ConfigFields(config.as_object().unwrap()));
    assert!(matches!(read(json!({"deviceID": ""})), Err(ConfigError::NoDeviceId)));
    assert!(matches!(read(json!({"deviceID": "mlx5_core.sf.6"})), Err(ConfigError::InvalidDeviceId { .. })));
    for config in [
        json!({"deviceID": DEVICE, "runtimeConfig": {"deviceID": "0000:00:00.0"}}),
        json!({"runtimeConfig": {"deviceID": DEVICE}}),
        json!({"pciBusID": DEVICE}),
    ] {
        assert_eq!(read(config).unwrap().device.to_string(), DEVICE);
    }
}

#[test]
fn mtu_is_set_only_if_positive() {
    for (mtu, expected) in [(-1, None), (0, None), (1, Some(1)), (4092, Some(4092))] {
        assert_eq!(step(json!({"mtu": mtu})).unwrap().mtu, expected, "{mtu}");
    }
    assert!(matches!(step(json!({"mtu": 1_i64 << 32})), Err(ConfigError::Field { .. })));
}

#[test]
fn missing_rdma_isolation_differs_from_false() {
    assert_eq!(step(json!({})).unwrap().isolation, None);
    assert_eq!(step(json!({"rdmaIsolation": null})).unwrap().isolation, None);
    assert_eq!(step(json!({"rdmaIsolation": false})).unwrap().isolation, Some(false));
    assert_eq!(step(json!({"rdmaIsolation": true})).unwrap().isolation, Some(true));
    assert!(step(json!({"rdmaIsolation": 1})).is_err());
}

#[test]
fn pkey_and_membership_are_parsed_and_invalid_ones_are_refused() {
    let partition = |config| step(config).map(|step| (step.pkey.map(RequestedPKey::number), step.limited));
    for key in [json!(1000), json!("0x3e8"), json!(33768), json!("0x83e8")] {
        assert_eq!(partition(json!({"pkey": key})).unwrap(), (Some(1000), false), "{key}");
    }
    assert_eq!(partition(json!({"PKEY": "5", "Membership": "limited"})).unwrap(), (Some(5), true));
    assert_eq!(partition(json!({"pkey": "", "membership": ""})).unwrap(), (None, false));
    for key in [json!(0), json!(32767), json!("0xffff"), json!("abc"), json!(true)] {
        assert!(matches!(partition(json!({"pkey": key})), Err(ConfigError::InvalidPKey(_))), "{key}");
    }
    let wrong = partition(json!({"membership": "some"}));
    assert!(matches!(wrong, Err(ConfigError::InvalidMembership { .. })), "{wrong:?}");
}
