//! Conversions between API objects and the address engine. Node daemons assign addresses. The cluster daemon
//! releases leaked addresses and publishes the assignments. Both read the same objects.

use ferroband_address::{
    AddressAllocation, BlockAddition, Error, IpBlock, IpBlockId, IpFamily, IpSpace, REGION_LABEL,
    ResourceVersion, SPACE_LABEL, StickyAddress, StickyRecord, node_label, region_label, space_label,
    spiderpool::{
        IpPool, IpPoolSpec, LabelMatcher, LabelOperator, LabelRequirement, PoolAffinity, parse_ips,
    },
};
use ferroband_api::{
    ferroband::{
        AddressBlock, AddressBlockEntry, AddressBlockSpec, SpiderPoolCopy, StickyAddressEntry,
        StickyAddresses, StickyAddressesSpec,
    },
    spiderpool::{SpiderIPPool, SpiderIPPoolSpec, SpiderReservedIP},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ManagedFieldsEntry};
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{AddrParseError, IpAddr},
};

/// Label, as key and value, of the Whereabouts and Spiderpool objects that Ferroband writes.
pub const MANAGED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "ferroband");
/// Label selector of the objects with [`MANAGED_LABEL`], which Ferroband wrote.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ferroband";
/// Label selector of the objects without [`MANAGED_LABEL`], which Ferroband did not write.
pub const UNMANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by!=ferroband";

/// Whether Ferroband wrote the object, according to [`MANAGED_LABEL`].
pub fn is_managed(object: &impl Resource) -> bool {
    object.labels().get(MANAGED_LABEL.0).is_some_and(|by| by == MANAGED_LABEL.1)
}

/// Whether a StatefulSet controls the pod. The addresses of such a pod stay reserved for its name.
pub fn is_stateful(pod: &ObjectMeta) -> bool {
    let mut owners = pod.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "StatefulSet" && owner.controller == Some(true))
}

/// Why an AddressBlock object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBlock {
    /// `spec.first` is not an IP address.
    #[error("spec.first {0:?} is not an IP address")]
    First(String, #[source] AddrParseError),
    /// A key of `spec.entries` is not a number from 0 to 15.
    #[error("spec.entries[{0:?}] is not an offset from 0 to 15")]
    Offset(String),
    /// The name does not match the space and first address. Only with that name does the API server reject a
    /// second object for the same addresses.
    #[error("metadata.name must be {0}, the name for this spec.space and spec.first")]
    Name(String),
}

/// Returns the block that `object` describes, and the object's resource version.
pub fn block_from_object(object: &AddressBlock) -> Result<(IpBlock, ResourceVersion), InvalidBlock> {
    let spec = &object.spec;
    let first = spec.first.parse().map_err(|e| InvalidBlock::First(spec.first.clone(), e))?;
    let mut block = IpBlock {
        space: IpSpace::from_text(&spec.space),
        first,
        node: spec.node.clone(),
        entries: Default::default(),
    };
    for (offset, entry) in &spec.entries {
        let number = offset.parse().ok().filter(|number: &u8| *number < ferroband_address::IP_BLOCK_SIZE);
        let number = number.ok_or_else(|| InvalidBlock::Offset(offset.clone()))?;
        block.entries.insert(number, allocation_from_entry(entry));
    }
    let name = block.object_name();
    if object.metadata.name.as_deref() != Some(name.as_str()) {
        return Err(InvalidBlock::Name(name));
    }
    Ok((block, ResourceVersion(object.metadata.resource_version.clone().unwrap_or_default())))
}

/// Returns the object for `block` with resource version `expected`, so that the API server rejects the write
/// if the object has changed since. `expected` is `None` if the block has no object yet.
pub fn block_to_object(block: &IpBlock, expected: Option<&ResourceVersion>) -> AddressBlock {
    let entries =
        block.entries.iter().map(|(offset, entry)| (offset.to_string(), allocation_to_entry(entry)));
    let spec = AddressBlockSpec {
        space: block.space.as_str().to_owned(),
        first: block.first.to_string(),
        node: block.node.clone(),
        entries: entries.collect(),
    };
    let mut object = AddressBlock::new(&block.object_name(), spec);
    let nodes = block.entries.values().map(|entry| entry.node.as_str()).chain(block.node.as_deref());
    object.metadata.labels = Some(block_labels(&block.id(), nodes));
    object.metadata.resource_version = expected.map(|version| version.0.clone());
    // Every addition has a field manager of its own. This removes the managers that the object has collected. The next
    // addition finds no managers, and the API server then protects all fields that exist.
    object.metadata.managed_fields = expected.map(|_| vec![ManagedFieldsEntry::default()]);
    object
}

/// Returns the labels of a block that `nodes` have claimed or have entries in. A node finds its blocks by them. An empty
/// node name has no label.
fn block_labels<'a>(id: &IpBlockId, nodes: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let nodes = nodes.filter(|node| !node.is_empty()).map(|node| (node_label(node), String::new()));
    let space = (SPACE_LABEL.to_owned(), space_label(&id.space));
    let region = (REGION_LABEL.to_owned(), region_label(&id.space, id.first));
    nodes.chain([space, region]).collect()
}

/// Returns the configuration that adds the entries of `addition` by server-side apply, and creates the block if it does
/// not exist. Applied with a field manager that is used once, it conflicts if one of the offsets is taken or another node
/// has claimed the block, and changes nothing else.
pub fn addition_to_object(addition: &BlockAddition) -> AddressBlock {
    let BlockAddition { id, holder, entries, .. } = addition;
    let block = IpBlock { entries: entries.clone(), ..IpBlock::new(id.clone(), holder.clone()) };
    block_to_object(&block, None)
}

fn parse_sticky(entry: &StickyAddressEntry) -> Option<StickyAddress> {
    Some(StickyAddress {
        interface: entry.interface.clone(),
        ordinal: u8::try_from(entry.ordinal).ok()?,
        space: IpSpace::from_text(&entry.space),
        address: entry.address.parse().ok()?,
    })
}

/// Returns the addresses that the object points to. An entry that cannot be read points to nothing.
pub fn sticky_from_object(object: &StickyAddresses) -> StickyRecord {
    StickyRecord {
        addresses: object.spec.addresses.iter().filter_map(parse_sticky).collect(),
        version: object.metadata.resource_version.clone().map(ResourceVersion),
    }
}

/// Returns the object for `record`, the addresses of the pods with this namespace and name. Without a version, the object
/// must not exist yet.
pub fn sticky_to_object(namespace: &str, name: &str, record: &StickyRecord) -> StickyAddresses {
    let entry = |sticky: &StickyAddress| StickyAddressEntry {
        interface: sticky.interface.clone(),
        ordinal: sticky.ordinal.into(),
        space: sticky.space.as_str().to_owned(),
        address: sticky.address.to_string(),
    };
    let spec = StickyAddressesSpec { addresses: record.addresses.iter().map(entry).collect() };
    let mut object = StickyAddresses::new(name, spec);
    object.metadata.namespace = Some(namespace.to_owned());
    object.metadata.resource_version = record.version.as_ref().map(|version| version.0.clone());
    object
}

fn allocation_from_entry(entry: &AddressBlockEntry) -> AddressAllocation {
    AddressAllocation {
        pod: entry.pod.clone(),
        uid: entry.uid.clone(),
        sticky: entry.sticky,
        interface: entry.interface.clone(),
        // The CRD schema limits the ordinal to 0 to 255.
        ordinal: u8::try_from(entry.ordinal).unwrap_or_default(),
        container: entry.container.clone(),
        node: entry.node.clone(),
        pool: entry.pool.clone(),
    }
}

fn allocation_to_entry(allocation: &AddressAllocation) -> AddressBlockEntry {
    AddressBlockEntry {
        pod: allocation.pod.clone(),
        uid: allocation.uid.clone(),
        sticky: allocation.sticky,
        interface: allocation.interface.clone(),
        ordinal: allocation.ordinal.into(),
        container: allocation.container.clone(),
        node: allocation.node.clone(),
        pool: allocation.pool.clone(),
    }
}

fn pool_spec(name: String, spec: &SpiderIPPoolSpec, terminating: bool) -> IpPoolSpec {
    IpPoolSpec {
        name,
        ip_version: spec.ip_version,
        subnet: spec.subnet.clone(),
        ips: spec.ips.clone(),
        exclude_ips: spec.exclude_ips.clone(),
        gateway: spec.gateway.clone(),
        routes: spec.routes.iter().map(|route| (route.dst.clone(), route.gw.clone())).collect(),
        affinity: PoolAffinity {
            pods: spec.pod_affinity.as_ref().map(label_matcher),
            namespaces: spec.namespace_affinity.as_ref().map(label_matcher),
            namespace_names: spec.namespace_name.clone(),
            nodes: spec.node_affinity.as_ref().map(label_matcher),
            node_names: spec.node_name.clone(),
            networks: spec.multus_name.clone(),
        },
        default: spec.default,
        disable: spec.disable,
        terminating,
        vlan: spec.vlan,
    }
}

/// Returns the validated pool, or an error if its spec is invalid.
pub fn parse_pool(pool: &SpiderIPPool) -> Result<IpPool, Error> {
    let terminating = pool.metadata.deletion_timestamp.is_some();
    IpPool::from_spec(&pool_spec(pool.name_any(), &pool.spec, terminating))
}

/// Like [`parse_pool`], for the copy that nodes read.
pub fn parse_pool_copy(copy: &SpiderPoolCopy) -> Result<IpPool, Error> {
    let (name, spec) = (copy.name_any(), Value::Object(copy.spec.pool.clone()));
    match serde_json::from_value(spec) {
        Ok(spec) => IpPool::from_spec(&pool_spec(name, &spec, copy.spec.terminating)),
        Err(e) => Err(Error::InvalidPool { pool: name, field: "spec".into(), cause: e.to_string() }),
    }
}

/// Returns the reserved ranges as (first, last) addresses. Without `ip_version`, the first entry determines
/// the address family.
pub fn reserved_ranges(reserved: &SpiderReservedIP) -> Result<Vec<(IpAddr, IpAddr)>, Error> {
    let ips = &reserved.spec.ips;
    let first = ips.first().map(String::as_str).unwrap_or_default();
    let family = match reserved.spec.ip_version {
        Some(6) => IpFamily::V6,
        Some(_) => IpFamily::V4,
        None if first.contains(':') => IpFamily::V6,
        None => IpFamily::V4,
    };
    parse_ips(ips, family).map_err(|cause| Error::InvalidReservedIp { object: reserved.name_any(), cause })
}

/// Converts a Kubernetes label selector to the matcher of the address engine.
pub fn label_matcher(selector: &LabelSelector) -> LabelMatcher {
    let expressions = selector.match_expressions.iter().flatten().map(|expression| LabelRequirement {
        key: expression.key.clone(),
        operator: LabelOperator::from(expression.operator.as_str()),
        values: expression.values.clone().unwrap_or_default(),
    });
    LabelMatcher {
        labels: selector.match_labels.clone().unwrap_or_default(),
        expressions: expressions.collect(),
    }
}

/// Value of `by` in the allocation records of addresses that Ferroband assigned. Other records are
/// Spiderpool's.
pub const MANAGED_MARKER: &str = "ferroband";

/// One record in `status.allocated_ips` of a SpiderIPPool: the pod that uses an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiderpoolRecord {
    /// Pod that uses the address, as `<namespace>/<name>`.
    #[serde(default)]
    pub pod: String,
    #[serde(default, rename = "podUid")]
    pub pod_uid: String,
    /// Name of the pod's interface that has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// [`MANAGED_MARKER`] in records of Ferroband, absent in those of Spiderpool, which ignores this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl SpiderpoolRecord {
    /// Whether Ferroband wrote the record.
    pub fn is_managed(&self) -> bool {
        self.by.as_deref() == Some(MANAGED_MARKER)
    }
}

/// Why the allocation records of a pool cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableStatus {
    #[error("cannot decode the records: {0}")]
    Undecodable(#[from] serde_json::Error),
    #[error("{0:?} is not an IP address")]
    Address(String),
}

/// Returns the allocation records of a pool. Returns an error if one of them cannot be read, because it is then
/// unknown which addresses are in use.
pub fn allocation_records(pool: &SpiderIPPool) -> Result<Vec<(IpAddr, SpiderpoolRecord)>, UnreadableStatus> {
    let text = pool.status.as_ref().and_then(|status| status.allocated_ips.as_deref());
    // Spiderpool writes `null` or nothing for a pool without records.
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or("null");
    let read: Option<BTreeMap<String, SpiderpoolRecord>> = serde_json::from_str(text)?;
    let parse = |(address, record): (String, SpiderpoolRecord)| match address.parse() {
        Ok(parsed) => Ok((parsed, record)),
        Err(_) => Err(UnreadableStatus::Address(address)),
    };
    read.unwrap_or_default().into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests;
