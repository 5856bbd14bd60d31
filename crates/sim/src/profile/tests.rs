use super::*;

#[test]
fn the_default_is_the_card_of_the_documents() {
    let profile = Profile::builtin("default").unwrap();
    let [hca] = profile.hcas.as_slice() else { panic!("{profile:?}") };
    assert_eq!((hca.pci.to_string().as_str(), hca.vendor.0, hca.device.0), ("0000:86:00.0", 0x15b3, 0x1017));
    assert_eq!((hca.total_vfs, hca.numa, hca.driver.as_str()), (16, Some(0), "mlx5_core"));
    let netdev = profile.netdevs().next().unwrap();
    assert_eq!((netdev.name.as_str(), netdev.altnames.as_slice()), ("ibs5f0", &["ib0".to_owned()][..]));
    profile.check().unwrap();
    assert!(Profile::builtin("none").is_none());
}

#[test]
fn a_description_is_read_as_it_was_written() {
    let profile = Profile::default();
    let text = serde_json::to_string(&profile).unwrap();
    assert!(text.contains(r#""vendor":"15b3""#), "{text}");
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}

#[test]
fn unknown_fields_and_wrong_numbers_are_refused() {
    let text = serde_json::to_string(&Profile::default()).unwrap();
    for (right, wrong) in [
        (r#""name":"default""#, r#""name":"default","gpus":[]"#),
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
fn what_no_machine_can_have_is_named() {
    let wrong = |change: fn(&mut Hca)| {
        let mut profile = Profile::default();
        change(&mut profile.hcas[0]);
        match profile.check() {
            Err(Error::Profile { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    fn netdev(hca: &mut Hca) -> &mut Netdev {
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
fn two_adapters_cannot_be_in_one_place() {
    let mut profile = Profile::default();
    let mut second = profile.hcas[0].clone();
    second.rdma = "mlx5_1".to_owned();
    second.ports.clear();
    profile.hcas.push(second);
    assert!(matches!(profile.check(), Err(Error::Profile { field: "pci", .. })));
}
