use super::*;

#[test]
fn pairs_of_an_attachment_are_appended() {
    assert_eq!(append("A=1;", &BTreeMap::new()), "A=1;");
    let more = BTreeMap::from([("IP".to_owned(), "10.0.0.1/24".to_owned())]);
    assert_eq!(append("A=1;", &more), "A=1;IP=10.0.0.1/24");
    assert_eq!(append("", &more), "IP=10.0.0.1/24");
    assert_eq!(requested_ips("A=1;IP=10.0.0.1/24, fd00::1;IP=10.9.9.9"), ["10.0.0.1/24", "fd00::1"]);
    assert_eq!(requested_ips("K8S_POD_IP=10.0.0.1;IP="), Vec::<String>::new());
}

#[test]
fn the_pod_is_parsed_from_the_runtimes_args() {
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=ipoib-test;\
                K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1";
    let expected = PodRef { namespace: "default".into(), name: "ipoib-test".into(), uid: "u-1".into() };
    assert_eq!(parse_pod(args).unwrap(), Some(expected));
    assert_eq!(parse_pod("").unwrap(), None);
    for incomplete in ["K8S_POD_NAMESPACE=default", "K8S_POD_NAME=ipoib-test", "K8S_POD_UID=u-1"] {
        assert_eq!(parse_pod(incomplete).unwrap(), None, "{incomplete}");
    }
}

// Case: cni 16
#[test]
fn unknown_keys_and_malformed_pairs_are_errors() {
    assert!(matches!(parse_pod("A=1"), Err(Error::UnknownArgument { key }) if key == "A"));
    assert_eq!(parse_pod("IgnoreUnknown=1;A=1").unwrap(), None);
    assert_eq!(parse_pod("IgnoreUnknown=TRUE;BLAH=foo=bar;").unwrap(), None);
    assert!(matches!(parse_pod("IgnoreUnknown=1;A"), Err(Error::MalformedArgument { pair }) if pair == "A"));
}

#[test]
fn file_stems_are_unique_and_parse_back() {
    let ids = [
        AttachmentId::new(PluginType::Ferroband, "c1", "eth0"),
        AttachmentId::new(PluginType::Ipoib, "c1", "net1"),
        AttachmentId::new(PluginType::Ipoib, "c1", "net2"),
        AttachmentId::new(PluginType::Whereabouts, "c1", "net1"),
        AttachmentId::new(PluginType::Ferroband, "c1.net1.ipoib", "eth0"),
    ]
    .to_vec();
    let stems: Vec<_> = ids.iter().map(AttachmentId::file_stem).collect();
    for (id, stem) in ids.iter().zip(&stems) {
        assert_eq!(AttachmentId::from_stem(stem).as_ref(), Some(id));
    }
    assert_eq!((AttachmentId::from_stem("c1:net1"), AttachmentId::from_stem("c1:net1:bridge")), (None, None));
    assert_eq!(stems, ["c1", "c1:net1:ipoib", "c1:net2:ipoib", "c1:net1:whereabouts", "c1.net1.ipoib"]);
}

#[test]
fn the_meta_plugin_has_one_id_per_container() {
    let id = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
    assert_eq!((id.plugin_type(), id.container()), (None, "c1"));
    let alone = AttachmentId::new(PluginType::Ipoib, "c1", "net1");
    assert_eq!((alone.plugin_type(), alone.ifname()), (Some(PluginType::Ipoib), Some("net1")));
    assert_eq!((id.ifname(), &id), (None, &AttachmentId::new(PluginType::Ferroband, "c1", "eth1")));
}
