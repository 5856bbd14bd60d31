use super::*;
use crate::Error;
use std::collections::BTreeSet;

#[test]
fn default_profile_is_the_connectx5_of_the_documentation() {
    let profile = Profile::builtin("default").unwrap();
    let [hca] = profile.hcas.as_slice() else { panic!("{profile:?}") };
    assert_eq!((hca.pci.to_string().as_str(), hca.vendor.0, hca.device.0), ("0000:86:00.0", 0x15b3, 0x1017));
    assert_eq!((hca.total_vfs, hca.numa, hca.driver.as_str()), (16, Some(0), "mlx5_core"));
    let netdev = profile.netdevs().next().unwrap();
    assert_eq!((netdev.name.as_str(), netdev.altnames.as_slice()), ("ibs5f0", &["ib0".to_owned()][..]));
    profile.validate().unwrap();
    assert!(Profile::builtin("none").is_none());
}

#[test]
fn profile_round_trips_through_json() {
    let profile = Profile::default();
    let text = serde_json::to_string(&profile).unwrap();
    assert!(text.contains(r#""vendor":"15b3""#), "{text}");
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}

#[test]
fn unknown_fields_and_invalid_values_are_rejected() {
    let text = serde_json::to_string(&Profile::default()).unwrap();
    for (right, wrong) in [
        (r#""name":"default""#, r#""name":"default","cpus":[]"#),
        (r#""totalVfs":16"#, r#""totalVfs":16,"vfs":4"#),
        (r#""vendor":"15b3""#, r#""vendor":"mellanox""#),
        (r#""pci":"0000:86:00.0""#, r#""pci":"86:00.0""#),
        (r#""state":"active""#, r#""state":"happy""#),
    ] {
        assert!(text.contains(right), "{right} in {text}");
        assert!(serde_json::from_str::<Profile>(&text.replacen(right, wrong, 1)).is_err(), "{wrong}");
    }
}

#[test]
fn invalid_field_is_reported() {
    let wrong = |change: fn(&mut HcaProfile)| {
        let mut profile = Profile::default();
        change(&mut profile.hcas[0]);
        match profile.validate() {
            Err(Error::InvalidProfile { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    fn netdev(hca: &mut HcaProfile) -> &mut NetdevProfile {
        hca.ports[0].netdev.as_mut().unwrap()
    }
    assert_eq!(wrong(|hca| netdev(hca).name = "../../etc".to_owned()), "netdev");
    assert_eq!(wrong(|hca| netdev(hca).name = "sixteen-letters-".to_owned()), "netdev");
    assert_eq!(wrong(|hca| netdev(hca).altnames.push("ibs5f0".to_owned())), "netdev");
    assert_eq!(wrong(|hca| hca.rdma = "..".to_owned()), "rdma");
    assert_eq!(wrong(|hca| hca.rdma.clear()), "rdma");
    assert_eq!(wrong(|hca| hca.driver = "a/b".to_owned()), "driver");
}

#[test]
fn two_adapters_cannot_share_a_pci_address() {
    let mut profile = Profile::default();
    let mut second = profile.hcas[0].clone();
    second.rdma = "mlx5_1".to_owned();
    second.ports.clear();
    profile.hcas.push(second);
    assert!(matches!(profile.validate(), Err(Error::InvalidProfile { field: "pci", .. })));
}

#[test]
fn builtin_profiles_are_valid() {
    let names: Vec<String> = Profile::builtins()
        .into_iter()
        .map(|profile| {
            profile.validate().unwrap_or_else(|error| panic!("{error}"));
            profile.name
        })
        .collect();
    assert_eq!(names, ["default", "connectx-6", "dgx", "ethernet", "vpi"]);
}

#[test]
fn dgx_has_one_adapter_per_gpu_switch() {
    let profile = Profile::builtin("dgx").unwrap();
    assert_eq!((profile.hcas.len(), profile.gpus.len()), (8, 8));
    for (hca, gpu) in profile.hcas.iter().zip(&profile.gpus) {
        // The adapter and the GPU must share the root port and the upstream port, but have different
        // downstream ports.
        assert_eq!(hca.behind[..2], gpu.behind[..2]);
        assert_ne!(hca.behind[2], gpu.behind[2]);
        assert_eq!(hca.numa, gpu.numa);
    }
    let switches: BTreeSet<_> = profile.hcas.iter().map(|hca| hca.behind[1]).collect();
    assert_eq!(switches.len(), 8);
    assert!(profile.netdevs().any(|netdev| netdev.name == "eno3np2"));
    assert!(profile.hcas.iter().all(|hca| hca.link_layer() == LinkLayer::InfiniBand));
}

#[test]
fn ethernet_functions_have_disjoint_vf_addresses() {
    let profile = Profile::builtin("ethernet").unwrap();
    assert!(profile.hcas.iter().all(|hca| hca.link_layer() == LinkLayer::Ethernet));
    let vfs: Vec<_> = profile.hcas.iter().map(|hca| hca.vf_address(0).unwrap().to_string()).collect();
    assert_eq!(vfs, ["0000:3b:00.2", "0000:3b:01.2"]);
}

#[test]
fn virtual_function_addresses_must_be_free_and_valid() {
    let mut profile = Profile::default();
    let mut second = profile.hcas[0].clone();
    second.pci = profile.hcas[0].vf_address(3).unwrap();
    second.rdma = "mlx5_1".to_owned();
    second.ports.clear();
    profile.hcas.push(second);
    assert!(matches!(profile.validate(), Err(Error::InvalidProfile { field: "pci", .. })));
    let mut profile = Profile::default();
    profile.hcas[0].pci = "0000:ff:1f.0".parse().unwrap();
    assert!(matches!(profile.validate(), Err(Error::InvalidProfile { field: "totalVfs", .. })));
}
