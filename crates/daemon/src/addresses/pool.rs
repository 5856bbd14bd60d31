//! Conversion of SpiderIPPool and SpiderReservedIP objects to the types of the address engine.

use super::allocation_record::allocation_records;
use ferroband_address::{
    Error, IpFamily,
    spiderpool::{
        IpPool, IpPoolSpec, LabelMatcher, LabelOperator, LabelRequirement, PoolAffinity, parse_ips,
    },
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderReservedIP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use std::net::IpAddr;

/// Returns the settings of the pool, not yet validated, and the addresses that Spiderpool itself assigned.
pub fn pool_spec(pool: &SpiderIPPool) -> IpPoolSpec {
    let spec = &pool.spec;
    let (records, unreadable_records) = match allocation_records(pool) {
        Ok(records) => (records, None),
        Err(e) => (Vec::new(), Some(e.to_string())),
    };
    IpPoolSpec {
        name: pool.name_any(),
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
        terminating: pool.metadata.deletion_timestamp.is_some(),
        vlan: spec.vlan,
        spiderpool_assigned: records
            .into_iter()
            .filter(|(_, record)| !record.is_managed())
            .map(|(address, _)| address)
            .collect(),
        unreadable_records,
    }
}

/// Returns the validated pool, or an error if its spec is invalid.
pub fn parse_pool(pool: &SpiderIPPool) -> Result<IpPool, Error> {
    IpPool::from_spec(&pool_spec(pool))
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
