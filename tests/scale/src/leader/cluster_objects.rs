//! The objects of a large cluster: Nodes, NodePartitions, SpiderIPPools and full AddressBlocks.

use super::object_store::ObjectStore;
use super::stored_object::StoredObject;
use anyhow::{Context, Result};
use ferroband_address::{AddressAllocation, IP_BLOCK_SIZE, IpBlock, IpBlockId, IpSpace};
use ferroband_api::ferroband::{NodeMember, NodePartitionsSpec};
use ferroband_daemon::addresses::block_to_object;
use ferroband_model::Guid;
use ferroband_partition::PartitionSettings;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

pub const NODES: &str = "/api/v1/nodes";
pub const NODE_PARTITIONS: &str = "/apis/ferroband.io/v1alpha1/nodepartitions";
const SECRETS: &str = "/api/v1/secrets";
const BLOCKS: &str = "/apis/ferroband.io/v1alpha1/addressblocks";
const POOLS: &str = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools";
/// Number of SpiderIPPools, one per rail.
const RAILS: usize = 8;
/// Number of partitions that the members are spread over.
const PARTITIONS: usize = 50;
/// Images in the status of a Node. A kubelet reports up to 50.
const IMAGES: usize = 40;

/// Size of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSize {
    pub nodes: usize,
    /// Virtual functions per node. Each has a GUID.
    pub functions: usize,
    pub blocks: usize,
}

pub fn node_name(node: usize) -> String {
    format!("node-{node:05}")
}

/// Creates all objects. Every function but the last of each node is a member of a partition.
pub fn create_objects(store: &mut ObjectStore, size: ClusterSize) -> Result<()> {
    for node in 0..size.nodes {
        let name = node_name(node);
        store.put(NODES, &name, node_object(node, 0)?);
        let spec = partitions_spec(node, size.functions, size.functions - 1);
        let object = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "NodePartitions",
            "metadata": {"name": name}, "spec": spec});
        store.put(NODE_PARTITIONS, &name, StoredObject::from_value(&object)?);
    }
    for rail in 0..RAILS {
        let (name, subnet) = (format!("rail-{rail}"), format!("10.{rail}.0.0/16"));
        let ips = format!("10.{rail}.0.0-10.{rail}.255.255");
        let object = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": name}, "spec": {"ipVersion": 4, "subnet": subnet, "ips": [ips]}});
        store.put(POOLS, &name, StoredObject::from_value(&object)?);
    }
    for block in 0..size.blocks {
        let block = full_block(block, size.nodes)?;
        let object = StoredObject::from_value(&serde_json::to_value(block_to_object(&block, None))?)?;
        store.put(BLOCKS, &block.object_name(), object);
    }
    Ok(())
}

/// Creates the Secret with the address and the credentials of UFM.
pub fn create_ufm_secret(store: &mut ObjectStore, settings: BTreeMap<String, String>) -> Result<()> {
    let (name, namespace) = ("ib-kubernetes-ufm-secret", PartitionSettings::NAMESPACE);
    let data = settings.into_iter().map(|(name, value)| (name, ByteString(value.into_bytes())));
    let secret = Secret { data: Some(data.collect()), ..Secret::default() };
    let mut object = StoredObject::from_value(&serde_json::to_value(secret)?)?;
    object.metadata.insert("name".into(), json!(name));
    object.metadata.insert("namespace".into(), json!(namespace));
    store.put(SECRETS, &format!("{namespace}/{name}"), object);
    Ok(())
}

/// The spec of a node's NodePartitions when its first `members` functions are in partitions.
pub fn partitions_spec(node: usize, functions: usize, members: usize) -> NodePartitionsSpec {
    let guid = |function: usize| {
        Guid::new(0x0200_0000_0000_0000 + (node * functions + function) as u64 + 1).to_string()
    };
    let device = |function: usize| format!("0000:{:02x}:00.{}", 0x40 + function / 8, function % 8);
    let partition = |function: usize| (node + function) % PARTITIONS;
    let member = |function: usize| NodeMember {
        device: device(function),
        guid: guid(function),
        pkey: format!("0x{:04x}", 0x100 + partition(function)),
        // A tenant per partition, because the number of P_Keys of a namespace is limited.
        namespace: format!("tenant-{}", partition(function)),
        pod: format!("pod-{node}-{function}"),
        uid: format!("00000000-0000-4000-8000-{node:06}{function:06}"),
        network: "tenant/fabric".into(),
        ..NodeMember::default()
    };
    let container = |function: usize| format!("{:064x}.net1", node * functions + function);
    NodePartitionsSpec {
        functions: (0..functions).map(|function| (device(function), guid(function))).collect(),
        members: (0..members).map(|function| (container(function), member(function))).collect(),
        ..NodePartitionsSpec::default()
    }
}

/// A block whose 16 addresses are assigned on one node.
fn full_block(number: usize, nodes: usize) -> Result<IpBlock> {
    let (rail, position) = (number % RAILS, number / RAILS);
    let rail = u8::try_from(rail).context("too many rails")?;
    let offset = u32::try_from(position * usize::from(IP_BLOCK_SIZE)).context("too many blocks")?;
    let first = IpAddr::from(Ipv4Addr::from(u32::from(Ipv4Addr::new(10, rail, 0, 0)) + offset));
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), first);
    let node = node_name(number % nodes);
    let mut block = IpBlock::new(id, Some(node.clone()));
    for entry in 0..IP_BLOCK_SIZE {
        let pod = number * usize::from(IP_BLOCK_SIZE) + usize::from(entry);
        let allocation = AddressAllocation {
            pod: format!("tenant/pod-{pod}"),
            uid: format!("00000000-0000-4000-8000-{pod:012}"),
            interface: format!("net{}", rail + 1),
            container: format!("{pod:064x}"),
            node: node.clone(),
            pool: format!("rail-{rail}"),
            ..AddressAllocation::default()
        };
        block.entries.insert(entry, allocation);
    }
    Ok(block)
}

/// A Node after its n-th heartbeat, as large as a kubelet writes it.
pub fn node_object(node: usize, heartbeat: u64) -> Result<StoredObject> {
    let name = node_name(node);
    let seconds = heartbeat * 10;
    let time = format!(
        "2026-01-{:02}T{:02}:{:02}:{:02}Z",
        1 + seconds / 86_400 % 28,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "lastHeartbeatTime": time,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "KubeletReady", "message": "kubelet is posting ready status"})
    };
    let image = |n: usize| {
        json!({"names": [format!("registry.example.com/team-{n}/image-{n}@sha256:{n:064x}"), format!("registry.example.com/team-{n}/image-{n}:v1")],
            "sizeBytes": 100_000_000 + n})
    };
    let object: Value = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-uid-{node}"), "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "gpu-8", "topology.kubernetes.io/zone": "z1",
        }, "managedFields": [{"manager": "kubelet", "operation": "Update", "subresource": "status", "time": time,
            "fieldsV1": {"f:status": {"f:conditions": {"f:lastHeartbeatTime": {}}, "f:images": {}}}}]},
        "spec": {"podCIDR": "10.200.0.0/24"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
            "capacity": {"cpu": "128", "memory": "1056Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        },
    });
    StoredObject::from_value(&object)
}
