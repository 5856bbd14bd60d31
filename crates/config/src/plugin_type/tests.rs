use super::*;

#[test]
fn every_plugin_type_has_one_place_in_a_call() {
    let places = |plugin_type: PluginType| {
        let places = [
            plugin_type.is_meta(),
            plugin_type.is_interface(),
            plugin_type.is_chained(),
            plugin_type.is_ipam(),
        ];
        places.map(u8::from)
    };
    for (plugin_type, expected) in [
        (PluginType::Ferroband, [1, 0, 0, 0]),
        (PluginType::Ipoib, [0, 1, 0, 0]),
        (PluginType::IbSriov, [0, 1, 0, 0]),
        (PluginType::Rdma, [0, 0, 1, 0]),
        (PluginType::Coordinator, [0, 0, 1, 0]),
        (PluginType::Whereabouts, [0, 0, 0, 1]),
        (PluginType::Spiderpool, [0, 0, 0, 1]),
    ] {
        assert_eq!(places(plugin_type), expected, "{plugin_type}");
    }
}

#[test]
fn argv0_selects_the_plugin_type() {
    let plugin_type = |program: &str| PluginType::from_program(Path::new(program));
    assert_eq!(plugin_type("/opt/cni/bin/ipoib"), Some(PluginType::Ipoib));
    assert_eq!(plugin_type("/opt/cni/bin/ib-sriov"), Some(PluginType::IbSriov));
    assert_eq!(plugin_type("rdma"), Some(PluginType::Rdma));
    assert_eq!(plugin_type("coordinator"), Some(PluginType::Coordinator));
    assert_eq!(plugin_type("whereabouts"), Some(PluginType::Whereabouts));
    assert_eq!(plugin_type("spiderpool"), Some(PluginType::Spiderpool));
    assert!(
        PluginType::is_daemon_ipam(Some("spiderpool")) && PluginType::is_daemon_ipam(Some("whereabouts"))
    );
    assert!(
        !PluginType::is_daemon_ipam(Some("ipoib"))
            && !PluginType::is_daemon_ipam(Some("host-local"))
            && !PluginType::is_daemon_ipam(None)
    );
    assert_eq!(plugin_type("./ferroband-cni"), Some(PluginType::Ferroband));
    assert_eq!(plugin_type("/opt/cni/bin/multus"), Some(PluginType::Ferroband));
    assert_eq!(plugin_type("multus-shim"), Some(PluginType::Ferroband));
    assert_eq!(plugin_type("/opt/cni/bin/bridge"), None);
    assert_eq!(plugin_type(""), None);
}

#[test]
fn only_the_seven_exact_versions_parse() {
    for version in CniVersion::ALL {
        assert_eq!(CniVersion::parse(version.as_str()), Some(version));
    }
    for text in ["0.5.0", "1.0", "v1.0.0", "1.1.0 ", "1.2.0"] {
        assert_eq!(CniVersion::parse(text), None, "{text}");
    }
    assert_eq!(CniVersion::parse(""), Some(CniVersion::V0_1_0));
}

#[test]
fn versions_compare_by_age() {
    assert!(CniVersion::ALL.is_sorted());
    assert!(CniVersion::V0_3_1 < CniVersion::V0_4_0);
}

#[test]
fn meta_plugins_are_known_by_all_their_names() {
    for name in ["ferroband", "ferroband-cni", "multus", "multus-shim", "../bin/multus"] {
        assert!(PluginType::is_meta_name(name), "{name}");
    }
    for name in ["", "ipoib", "multus2", "macvlan", ".."] {
        assert!(!PluginType::is_meta_name(name), "{name}");
    }
}
