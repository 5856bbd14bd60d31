//! Allocations that Whereabouts itself has recorded in its IPPools.

use crate::{AddressPool, IpSpace};
use ipnet::IpNet;
use std::net::IpAddr;

/// Number of records that an error names.
const MAX_RECORDS_IN_NOTICE: usize = 3;

/// The content of Whereabouts' IPPools, as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedAllocations {
    pub records: Vec<RecordedAllocation>,
    /// What cannot be read. It is unknown which addresses of these ranges are in use.
    pub unreadable: Vec<UnreadableRecords>,
}

/// A record in an IPPool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAllocation {
    pub space: IpSpace,
    pub address: IpAddr,
    /// Pod that has the address, `<namespace>/<name>`.
    pub pod: String,
    /// Interface of the pod. Old versions of Whereabouts do not record it.
    pub interface: Option<String>,
    /// IPPool with the record, `<namespace>/<name>`.
    pub ip_pool: String,
}

/// Records that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecords {
    /// Ranges whose records cannot be read; `None` if they are unknown, so that every range is affected.
    pub ranges: Option<Vec<IpNet>>,
    /// The object that cannot be read, and why.
    pub cause: String,
}

impl RecordedAllocations {
    /// Returns why it is unknown which addresses of `pool` are in use, if it is.
    pub(crate) fn unreadable_cause(&self, pool: &AddressPool) -> Option<&str> {
        let subnet = pool.subnet();
        let overlaps = |range: &IpNet| range.contains(&subnet) || subnet.contains(range);
        let affected = |unreadable: &&UnreadableRecords| {
            unreadable.ranges.as_ref().is_none_or(|ranges| ranges.iter().any(overlaps))
        };
        self.unreadable.iter().find(affected).map(|unreadable| unreadable.cause.as_str())
    }
}

impl RecordedAllocation {
    /// Whether Whereabouts recorded the address for this interface of this pod. Whereabouts then assigns it again,
    /// whatever sandbox the record names.
    pub(crate) fn is_of(&self, pod: &str, interface: &str) -> bool {
        self.pod == pod && self.interface.as_deref() == Some(interface)
    }
}

/// Names the records that withhold addresses, for error messages.
pub(crate) fn describe_records(records: &[&RecordedAllocation]) -> String {
    let name = |record: &&RecordedAllocation| {
        let RecordedAllocation { address, pod, interface, ip_pool, .. } = record;
        let interface = interface.as_deref().unwrap_or("unknown interface");
        format!("{address} for {pod} ({interface}) in IPPool {ip_pool}")
    };
    let named: Vec<_> = records.iter().take(MAX_RECORDS_IN_NOTICE).map(name).collect();
    let more = match records.len().saturating_sub(MAX_RECORDS_IN_NOTICE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Whereabouts has recorded {}{more}; a stale record is removed with its pod", named.join(", "))
}

/// Whether a record in `space` may be about an address of `pool`.
pub(crate) fn is_recorded_in(pool: &AddressPool, space: &IpSpace, sliced: bool) -> bool {
    // Whereabouts' IPPool objects do not contain `enable_overlapping_ranges`. A pool whose space is its own
    // subnet therefore also withholds the addresses that are recorded in the default space.
    let unnamed = [IpSpace::default_space(), IpSpace::pool(pool.subnet())].contains(pool.space());
    // With node slices, the name of the IPPool has the node's name where another IPPool has the network's name:
    // `[<network>-]<node>-<range>`. The record is therefore read as one of a network `[<network>-]<node>`.
    let of_slice = match unnamed {
        true => space.as_str().starts_with("network/"),
        false => space.as_str().strip_prefix(pool.space().as_str()).is_some_and(|node| node.starts_with('-')),
    };
    space == pool.space() || unnamed && *space == IpSpace::default_space() || sliced && of_slice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whereabouts::WhereaboutsConfig;
    use crate::{AddressPlanner, BlockView, Error};
    use ferroband_model::{FaultCode, PodRef};
    use serde_json::{Value, json};

    fn record(space: IpSpace, last: u8, pod: &str, interface: Option<&str>) -> RecordedAllocation {
        RecordedAllocation {
            space,
            address: [10, 0, 0, last].into(),
            pod: pod.into(),
            interface: interface.map(str::to_owned),
            ip_pool: "kube-system/10.0.0.0-29".into(),
        }
    }

    fn config(extra: &Value, recorded: &RecordedAllocations) -> WhereaboutsConfig {
        let mut ipam = json!({"type": "whereabouts", "range": "10.0.0.0/29"});
        ipam.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let config = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
        config.withholding_recorded(recorded, "ns/p", "net1")
    }

    /// Assigns an address to `net1` of pod `ns/p`.
    fn assign(recorded: &RecordedAllocations) -> Result<String, Error> {
        let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let requests = config(&json!({}), recorded).requests(&pod, false, "net1", "c");
        let planner = AddressPlanner { node: "n", node_count: 1, attempt: 0 };
        let mut plan = planner.plan_assignments(&BlockView::default(), &requests);
        match plan.refusals.pop() {
            Some(refusal) => Err(refusal.error),
            None => Ok(plan.assignments[0].address.to_string()),
        }
    }

    // Case: ipam W41
    #[test]
    fn addresses_recorded_by_whereabouts_are_withheld() {
        let records = vec![
            record(IpSpace::default_space(), 1, "ns/a", Some("net1")),
            record(IpSpace::network("a"), 2, "ns/b", Some("net1")),
        ];
        let recorded = RecordedAllocations { records, unreadable: Vec::new() };
        for extra in [json!({}), json!({"enable_overlapping_ranges": false})] {
            let read = config(&extra, &recorded);
            let has = |last: u8| read.pools[0].contains([10, 0, 0, last].into());
            assert!(!has(1) && has(2), "{extra}");
        }
    }

    #[test]
    fn records_of_node_slices_are_withheld() {
        let records = vec![
            record(IpSpace::network("node-1"), 1, "ns/a", Some("net1")),
            record(IpSpace::network("x-node-1"), 2, "ns/b", Some("net1")),
        ];
        let recorded = RecordedAllocations { records, unreadable: Vec::new() };
        let offered = |extra: Value| {
            let read = config(&extra, &recorded);
            [1, 2, 3].map(|last| read.pools[0].contains([10, 0, 0, last].into()))
        };
        assert_eq!(offered(json!({"node_slice_size": "/30"})), [false, false, true]);
        assert_eq!(offered(json!({"node_slice_size": "/30", "network_name": "x"})), [true, false, true]);
        assert_eq!(offered(json!({"node_slice_size": ""})), [true; 3], "no node slices");
    }

    #[test]
    fn record_of_the_same_pod_and_interface_is_used_again() {
        let full = |last: u8, interface: Option<&str>| {
            let pod = |at: u8| if at == last { "ns/p" } else { "ns/other" };
            let interface = |at: u8| if at == last { interface } else { Some("net1") };
            let records = (1..=6).map(|at| record(IpSpace::default_space(), at, pod(at), interface(at)));
            RecordedAllocations { records: records.collect(), unreadable: Vec::new() }
        };
        assert_eq!(assign(&full(5, Some("net1"))).unwrap(), "10.0.0.5/29", "the range is full otherwise");
        let mut roomy = full(5, Some("net1"));
        roomy.records.retain(|record| record.pod == "ns/p");
        assert_eq!(assign(&roomy).unwrap(), "10.0.0.5/29", "preferred to free addresses");

        for interface in [None, Some("net2")] {
            let error = assign(&full(2, interface)).unwrap_err().to_string();
            let named = ["10.0.0.2 for ns/p", "kube-system/10.0.0.0-29", "and 3 more"];
            assert!(named.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn range_whose_records_cannot_be_read_assigns_nothing() {
        let unreadable = |ranges: Option<&[&str]>| {
            let ranges = ranges.map(|ranges| ranges.iter().map(|range| range.parse().unwrap()).collect());
            let unreadable = vec![UnreadableRecords { ranges, cause: "IPPool kube-system/x: broken".into() }];
            assign(&RecordedAllocations { records: Vec::new(), unreadable })
        };
        for ranges in [None, Some(&["10.0.0.0/29"][..]), Some(&["10.0.0.0/8"]), Some(&["10.0.0.4/30"])] {
            let error = unreadable(ranges).unwrap_err();
            assert_eq!(error.fault("network x").code, FaultCode::NoPool);
            assert!(error.to_string().contains("IPPool kube-system/x: broken"), "{error}");
        }
        unreadable(Some(&["10.0.0.8/29", "fd00::/8"])).unwrap();
    }
}
