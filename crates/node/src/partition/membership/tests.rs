use super::*;
use ferroband_model::PciAddress;
use tempfile::TempDir;

/// The memberships of a node without adapters, in the folder that is returned first.
fn membership_under(tenants: TenantPolicy) -> (TempDir, Arc<NodePartitionsSync>, NodePartitionMembership) {
    let folder = tempfile::tempdir().unwrap();
    let hardware: Arc<dyn Hardware> =
        ferroband_sim::hardware(&ferroband_kernel::Root::at(folder.path())).unwrap().into();
    let client = crate::fake_api::FakeApi::default().client();
    let sync = Arc::new(NodePartitionsSync::new(client.clone(), "n1".into()));
    let claims = super::super::GuidClaimClient::new(client, "n1".into());
    let guids = Arc::new(RequestedGuids::new(claims, hardware.clone()));
    let membership = NodePartitionMembership::new(sync.clone(), hardware, guids, tenants, Handle::current());
    (folder, sync, membership)
}

// Case: partitions 64
#[test]
fn timeout_names_pod_network_and_pending_step() {
    let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
    let pci: PciAddress = "0000:3b:00.2".parse().unwrap();
    let request = PodPartitionRequest {
        attachment: 1,
        network: "default/red".into(),
        ifname: "net1".into(),
        pkey: RequestedPKey::new(0x3e8),
        limited: false,
        port: RequestedPort::Function { pci, guid: None },
    };
    let fault = timeout_fault(&pod, &request, "2 attempts failed, last error: connection refused");
    let text = fault.to_string();
    for word in ["a/p", "default/red", "0x03e8", "net1", "2 attempts", "connection refused"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert_eq!(fault.code, FaultCode::PortNotReady);
}

#[tokio::test]
async fn two_sandboxes_of_one_pod_are_two_members() {
    let (_folder, sync, membership) = membership_under(TenantPolicy::default());
    let pci = "0000:3b:00.2".parse().unwrap();
    let requests = [PodPartitionRequest {
        attachment: 0,
        network: "a/ib".into(),
        ifname: "net1".into(),
        pkey: RequestedPKey::new(5),
        limited: false,
        port: RequestedPort::Function { pci, guid: None },
    }];
    let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
    let sandbox = |container| SandboxPartitions { container, pod: &pod, requests: &requests };
    membership.begin_add(sandbox("c1")).unwrap();
    membership.begin_add(sandbox("c2")).unwrap();
    let guids = [(0, Guid::new(7))];
    for container in ["c1", "c2"] {
        let wait = membership.wait_until_member(sandbox(container), &guids);
        tokio::time::timeout(Duration::from_millis(50), wait).await.unwrap_err();
    }
    let names = || sync.state().spec().members.into_keys().collect::<Vec<_>>();
    assert_eq!(names(), ["c1.net1", "c2.net1"]);
    membership.remove_sandbox("c1", None);
    assert_eq!(names(), ["c2.net1"]);
}

#[tokio::test]
async fn unlisted_partitions_can_be_refused() {
    let refuse = TenantPolicy { unlisted_partitions: UnlistedPartitions::Refuse, ..TenantPolicy::default() };
    let (_folder, sync, membership) = membership_under(refuse);
    let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
    let check = |network: &str, pkey: u16| {
        let pci = "0000:3b:00.2".parse().unwrap();
        let port = RequestedPort::Function { pci, guid: None };
        let (network, ifname, pkey) = (network.to_owned(), "net1".to_owned(), RequestedPKey::new(pkey));
        membership.check_admitted(
            &pod,
            &PodPartitionRequest { attachment: 0, network, ifname, pkey, limited: false, port },
        )
    };
    let fault = check("a/ib", 5).unwrap_err();
    assert!(fault.cause.contains("0x0005") && fault.cause.contains("partitions.unlisted: refuse"), "{fault}");
    assert_eq!(check("kube-system/ib", 5), Ok(()), "a trusted namespace");
    let partition = serde_json::json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "Partition",
        "metadata": {"name": "five"}, "spec": {"pkey": 5, "namespaces": ["a"]}});
    let partition = serde_json::from_value(partition).unwrap();
    let event = kube::runtime::watcher::Event::Apply(((String::new(), "five".into()), Some(partition)));
    sync.partitions.apply(event);
    assert_eq!(check("a/ib", 5), Ok(()));
    assert!(check("a/ib", 6).is_err());
}
