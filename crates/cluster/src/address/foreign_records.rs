//! Reads the records in which Whereabouts and Spiderpool store the addresses that they assigned. Does no I/O.

use ferroband_address::{
    AddressAllocation, IpFamily, IpSpace,
    spiderpool::parse_ips,
    whereabouts::{node_slice_space, parse_allocation_key, ranges_in_name},
};
use ferroband_api::{ferroband::BlockedAddressRange, spiderpool::SpiderIPPool, whereabouts::IPPool};
use ferroband_daemon::addresses::allocation_records;
use ipnet::IpNet;
use jiff::Timestamp;
use kube::{ResourceExt, core::DeserializeGuard};
use std::net::IpAddr;

/// Manager name under which Whereabouts writes its objects: the name of its program.
const WHEREABOUTS_MANAGER: &str = "whereabouts";

/// An IPPool that Ferroband did not write.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignIpPool {
    pub namespace: String,
    pub name: String,
    /// The object, or why it cannot be decoded.
    pub object: Result<IPPool, String>,
    /// When Whereabouts itself last wrote the object.
    pub written_by_whereabouts: Option<Timestamp>,
}

impl ForeignIpPool {
    pub fn from_object(object: DeserializeGuard<IPPool>) -> Self {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let (object, fields) = match object.0 {
            Ok(mut pool) => {
                let fields = pool.metadata.managed_fields.take();
                (Ok(pool), fields)
            }
            Err(e) => (Err(e.error), e.metadata.managed_fields),
        };
        let own = fields
            .into_iter()
            .flatten()
            .filter(|field| field.manager.as_deref() == Some(WHEREABOUTS_MANAGER));
        let written_by_whereabouts = own.filter_map(|field| field.time).map(|time| time.0).max();
        Self { namespace, name, object, written_by_whereabouts }
    }

    /// Name for messages.
    pub fn describe(&self) -> String {
        format!("IPPool {}/{}", self.namespace, self.name)
    }

    /// Returns the ranges that the object may be about.
    pub fn ranges(&self) -> Vec<IpNet> {
        let written = self.object.as_ref().ok().and_then(|pool| pool.spec.range.parse().ok());
        let mut ranges: Vec<IpNet> = written.into_iter().chain(ranges_in_name(&self.name)).collect();
        ranges.sort();
        ranges.dedup();
        ranges
    }
}

/// An address that Whereabouts or Spiderpool assigned, according to its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignRecord {
    /// The IP space in which the address is unique, and the address.
    pub slot: RecordSlot,
    /// The object with the record, for messages: `IPPool kube-system/10.0.0.0-24`.
    pub source: String,
    /// Key of the record in its object: an offset or an address.
    pub key: String,
    /// The pod that has the address, as `<namespace>/<name>`.
    pub pod: String,
    /// The pod's UID. Whereabouts does not record it.
    pub uid: Option<String>,
    /// Name of the interface in the pod, if it is recorded.
    pub interface: Option<String>,
    /// ID of the pod sandbox. Spiderpool does not record it.
    pub container: Option<String>,
    /// Whereabouts range in CIDR notation, or name of the SpiderIPPool.
    pub pool: String,
    /// Whether the record is certainly about this space. An IPPool does not say whether its range may overlap with
    /// others, so a record of the default space is also imported into the space of its range.
    pub primary: bool,
}

/// An address in an IP space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordSlot {
    pub space: IpSpace,
    pub address: IpAddr,
}

impl Default for RecordSlot {
    fn default() -> Self {
        Self { space: IpSpace::default_space(), address: [0, 0, 0, 0].into() }
    }
}

impl ForeignRecord {
    /// Returns the sandbox ID of the record's entry. Spiderpool does not record the sandbox, so its entries get a
    /// placeholder, for which the node searches its network namespaces for the address.
    pub fn entry_container(&self) -> String {
        let placeholder = || format!("before-{}", self.uid.as_deref().unwrap_or_default());
        clip(&self.container.clone().filter(|id| !id.is_empty()).unwrap_or_else(placeholder), 253)
    }

    /// Returns the entry with which the address is withheld until it is known whether a pod has it. It names no node.
    pub fn placeholder(&self) -> AddressAllocation {
        AddressAllocation {
            pod: clip(&self.pod, 320),
            uid: clip(self.uid.as_deref().unwrap_or_default(), 128),
            sticky: false,
            interface: self.interface.clone().filter(|name| name.len() <= 15).unwrap_or_default(),
            ordinal: 0,
            container: self.entry_container(),
            node: String::new(),
            pool: clip(&self.pool, 253),
        }
    }
}

/// Whether the entry withholds the address of a foreign record, and no node is responsible for it.
pub fn is_placeholder(entry: &AddressAllocation) -> bool {
    entry.node.is_empty() && !entry.container.is_empty()
}

/// Shortens a text to what the schema of an AddressBlock allows. One odd record must not keep a block from being written.
fn clip(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The records of one foreign object, and the ranges whose records cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedRecords {
    pub records: Vec<ForeignRecord>,
    pub unreadable: Vec<BlockedAddressRange>,
}

/// Reads an IPPool of Whereabouts. An IPPool of a node slice has the name of a node where others have the name of a
/// network.
pub fn whereabouts_records(pool: &ForeignIpPool, is_node: impl Fn(&str) -> bool) -> ParsedRecords {
    let mut parsed = ParsedRecords::default();
    let source = pool.describe();
    let unreadable = |cause: &str| {
        let reason = clip(&format!("{source} of Whereabouts cannot be read: {cause}"), 1024);
        // Whereabouts finds an IPPool by the range in its name. It does not use one without a range.
        pool.ranges().into_iter().map(move |range| blocked_net(range, reason.clone())).collect::<Vec<_>>()
    };
    let object = match &pool.object {
        Ok(object) => object,
        Err(cause) => return ParsedRecords { unreadable: unreadable(cause), ..parsed },
    };
    let range = &object.spec.range;
    for (key, allocation) in &object.spec.allocations {
        let Some((space, address)) = parse_allocation_key(&pool.name, range, key) else {
            let cause = format!("range {range:?} and key {key:?} are not an address of it");
            parsed.unreadable.extend(unreadable(&cause));
            continue;
        };
        let space = node_slice_space(&space, &is_node).unwrap_or(space);
        let own_space = range.parse().ok().map(IpSpace::pool).filter(|_| space == IpSpace::default_space());
        let record = ForeignRecord {
            slot: RecordSlot { space, address },
            source: source.clone(),
            key: key.clone(),
            pod: allocation.podref.clone(),
            uid: None,
            interface: allocation.ifname.clone().filter(|name| !name.is_empty()),
            container: Some(allocation.id.clone()),
            pool: range.clone(),
            primary: true,
        };
        parsed.records.extend(own_space.map(|space| ForeignRecord {
            slot: RecordSlot { space, address },
            primary: false,
            ..record.clone()
        }));
        parsed.records.push(record);
    }
    parsed.unreadable.sort();
    parsed.unreadable.dedup_by(|a, b| a.range == b.range);
    parsed
}

/// Reads the records that Spiderpool wrote into the status of a SpiderIPPool. `interface` returns the interface of a pod
/// (by name and UID) that has an address, if its SpiderEndpoint says so.
pub fn spiderpool_records(
    pool: &SpiderIPPool,
    interface: impl Fn(&str, &str, IpAddr) -> Option<String>,
) -> ParsedRecords {
    let (name, mut parsed) = (pool.name_any(), ParsedRecords::default());
    let records = match allocation_records(pool) {
        Ok(records) => records,
        Err(e) => {
            let reason = format!("SpiderIPPool {name}: status.allocatedIPs: {e}");
            return ParsedRecords { unreadable: blocked_pool(pool, &reason), ..parsed };
        }
    };
    for (address, record) in records.into_iter().filter(|(_, record)| !record.is_managed()) {
        parsed.records.push(ForeignRecord {
            slot: RecordSlot { space: IpSpace::default_space(), address },
            source: format!("SpiderIPPool {name}"),
            key: address.to_string(),
            interface: interface(&record.pod, &record.pod_uid, address),
            pod: record.pod,
            uid: Some(record.pod_uid),
            container: None,
            pool: name.clone(),
            primary: true,
        });
    }
    parsed
}

/// Returns the ranges of a SpiderIPPool, to be blocked for `reason`. A pool whose addresses are invalid assigns nothing
/// anyway.
pub fn blocked_pool(pool: &SpiderIPPool, reason: &str) -> Vec<BlockedAddressRange> {
    let family = if pool.spec.subnet.contains(':') { IpFamily::V6 } else { IpFamily::V4 };
    let ranges = parse_ips(&pool.spec.ips, family).unwrap_or_default();
    let space = Some(IpSpace::default_space().as_str().to_owned());
    let blocked = |(first, last)| BlockedAddressRange {
        space: space.clone(),
        range: format!("{first}-{last}"),
        reason: clip(reason, 1024),
    };
    ranges.into_iter().map(blocked).collect()
}

/// Returns a range that is blocked in every space: records that cannot be read do not say which space they are about.
pub fn blocked_net(range: IpNet, reason: String) -> BlockedAddressRange {
    BlockedAddressRange { space: None, range: format!("{}-{}", range.network(), range.broadcast()), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ip_pool(name: &str, spec: Value) -> ForeignIpPool {
        let metadata = json!({"name": name, "namespace": "kube-system", "managedFields": [
            {"manager": "kubectl", "time": "2026-11-16T12:00:00Z"},
            {"manager": "whereabouts", "time": "2026-11-16T10:00:00Z"},
        ]});
        let object = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": metadata, "spec": spec,
        });
        ForeignIpPool::from_object(serde_json::from_value(object).unwrap())
    }

    // Case: ipam W41
    #[test]
    fn ip_pool_that_cannot_be_read_blocks_its_range() {
        let record = json!({"id": "c", "podref": "ns/p", "ifname": "net1"});
        let pool = ip_pool("10.0.0.0-24", json!({"range": "10.0.0.0/24", "allocations": {"7": record}}));
        assert_eq!(pool.written_by_whereabouts.unwrap().to_string(), "2026-11-16T10:00:00Z");
        let read = whereabouts_records(&pool, |_| false);
        let spaces: Vec<_> = read.records.iter().map(|one| (one.slot.space.as_str(), one.primary)).collect();
        assert_eq!(spaces, [("pool/10.0.0.0/24", false), ("default", true)]);
        let entry = read.records[1].placeholder();
        assert_eq!(
            (entry.pod.as_str(), entry.interface.as_str(), entry.container.as_str()),
            ("ns/p", "net1", "c")
        );
        assert!(is_placeholder(&entry) && read.unreadable.is_empty());

        let broken = [
            json!({"range": "10.0.0.0/24", "allocations": {"x": record, "y": record}}),
            json!({"range": "10.0.0.0/24", "allocations": {"7": 3}}),
            json!({"range": "", "allocations": {"7": record}}),
            json!({"range": 7}),
            json!("x"),
        ];
        for spec in broken {
            let read = whereabouts_records(&ip_pool("10.0.0.0-24", spec.clone()), |_| false);
            let [blocked] = &read.unreadable[..] else { panic!("{spec}: {read:?}") };
            assert_eq!((blocked.range.as_str(), &blocked.space), ("10.0.0.0-10.0.0.255", &None), "{spec}");
            assert!(blocked.reason.contains("IPPool kube-system/10.0.0.0-24"), "{}", blocked.reason);
        }
    }

    #[test]
    fn records_of_node_slices_belong_to_the_network() {
        let record = json!({"id": "c", "podref": "ns/p"});
        let space = |name: &str| {
            let spec = json!({"range": "10.0.0.0/24", "allocations": {"7": record}});
            let read = whereabouts_records(&ip_pool(name, spec), |name| name == "node-1");
            read.records.last().unwrap().slot.space.to_string()
        };
        assert_eq!(space("node-1-10.0.0.0-24"), "default");
        assert_eq!(space("x-node-1-10.0.0.0-24"), "network/x");
        assert_eq!(space("x-10.0.0.0-24"), "network/x");
    }

    #[test]
    fn unreadable_status_of_a_pool_blocks_its_addresses() {
        let pool = |status: Value| -> SpiderIPPool {
            let spec = json!({"subnet": "172.91.0.0/16", "ips": ["172.91.0.100-172.91.0.120"]});
            let object = json!({
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
                "metadata": {"name": "p"}, "spec": spec, "status": {"allocatedIPs": status},
            });
            serde_json::from_value(object).unwrap()
        };
        let own = r#"{"172.91.0.100":{"pod":"a/b","podUid":"u","by":"ferroband"},"172.91.0.101":{"pod":"a/c","podUid":"v"}}"#;
        let read =
            spiderpool_records(&pool(json!(own)), |pod, _, _| (pod == "a/c").then(|| "net1".to_owned()));
        let [record] = &read.records[..] else { panic!("{read:?}") };
        assert_eq!((record.key.as_str(), record.interface.as_deref()), ("172.91.0.101", Some("net1")));
        assert_eq!(record.entry_container(), "before-v");
        let read = spiderpool_records(&pool(json!("{\"x\":{}}")), |_, _, _| None);
        let [blocked] = &read.unreadable[..] else { panic!("{read:?}") };
        assert_eq!(blocked.range, "172.91.0.100-172.91.0.120");
        assert!(blocked.reason.contains("status.allocatedIPs"), "{}", blocked.reason);
    }

    #[test]
    fn odd_texts_fit_into_an_entry() {
        let record = ForeignRecord {
            pod: "é".repeat(400),
            interface: Some("far-too-long-for-an-interface".into()),
            container: Some("c".repeat(1000)),
            ..ForeignRecord::default()
        };
        let entry = record.placeholder();
        assert!(entry.pod.len() <= 320 && entry.container.len() == 253 && entry.interface.is_empty());
    }
}
