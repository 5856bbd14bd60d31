//! Spiderpool's pools and reservations.

use super::record::records_of;
use ferroband_address::{
    Error, Family,
    spiderpool::{Affinity, Description, Expression, IpPool, Operator, Selector, parse_ips},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderReservedIP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use std::net::IpAddr;

/// What the object says, field by field.
pub fn describe(pool: &SpiderIPPool) -> Description {
    let spec = &pool.spec;
    Description {
        name: pool.name_any(),
        version: spec.ip_version,
        subnet: spec.subnet.clone(),
        ips: spec.ips.clone(),
        exclude: spec.exclude_ips.clone(),
        gateway: spec.gateway.clone(),
        routes: spec.routes.iter().map(|route| (route.dst.clone(), route.gw.clone())).collect(),
        affinity: Affinity {
            pods: spec.pod_affinity.as_ref().map(selector_of),
            namespaces: spec.namespace_affinity.as_ref().map(selector_of),
            namespace_names: spec.namespace_name.clone(),
            nodes: spec.node_affinity.as_ref().map(selector_of),
            node_names: spec.node_name.clone(),
            networks: spec.multus_name.clone(),
        },
        default: spec.default,
        disable: spec.disable,
        terminating: pool.metadata.deletion_timestamp.is_some(),
        vlan: spec.vlan,
        taken: records_of(pool)
            .into_iter()
            .filter(|(_, by)| !by.is_ours())
            .map(|(address, _)| address)
            .collect(),
    }
}

/// The pool, or why it cannot be used.
pub fn read_pool(pool: &SpiderIPPool) -> Result<IpPool, Error> {
    IpPool::read(&describe(pool))
}

/// The addresses that an object reserves, and what is wrong with the object.
pub fn reserved_of(reserved: &SpiderReservedIP) -> Result<Vec<(IpAddr, IpAddr)>, Error> {
    let ips = &reserved.spec.ips;
    let first = ips.first().map(String::as_str).unwrap_or_default();
    let family = match reserved.spec.ip_version {
        Some(6) => Family::V6,
        Some(_) => Family::V4,
        None if first.contains(':') => Family::V6,
        None => Family::V4,
    };
    parse_ips(ips, family).map_err(|cause| Error::Reserved { object: reserved.name_any(), cause })
}

/// A selector of the API server.
pub fn selector_of(selector: &LabelSelector) -> Selector {
    let expressions = selector.match_expressions.iter().flatten().map(|expression| Expression {
        key: expression.key.clone(),
        operator: Operator::from(expression.operator.as_str()),
        values: expression.values.clone().unwrap_or_default(),
    });
    Selector { labels: selector.match_labels.clone().unwrap_or_default(), expressions: expressions.collect() }
}
