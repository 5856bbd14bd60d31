//! Selects the pools from which an interface gets its addresses.

use super::affinity::IneligibleReason;
use super::annotation::{self, AnnotatedRoute, PoolPreference};
use super::config::SpiderpoolConfig;
use super::glob;
use super::ip_pool::{IpPool, IpPoolState};
use crate::Error;
use crate::batch::AddressRequest;
use crate::ip_space::IpFamily;
use crate::range::IpamWarning;
use crate::whereabouts::IpamRoute;
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// One value per address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T> {
    pub v4: T,
    pub v6: T,
}

/// Input of the pool selection, except for the interface.
#[derive(Clone, Debug)]
pub struct PoolSelectionContext<'a> {
    pub pod_annotations: &'a BTreeMap<String, String>,
    pub pod_labels: &'a BTreeMap<String, String>,
    pub namespace: &'a str,
    pub namespace_annotations: &'a BTreeMap<String, String>,
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Name of the pod's node.
    pub node: &'a str,
    pub node_labels: &'a BTreeMap<String, String>,
    /// Pools by name. For an invalid pool, the error of its validation.
    pub pools: &'a BTreeMap<String, Result<Arc<IpPool>, Error>>,
    /// Ranges (first and last address) that no pool assigns, from the SpiderReservedIPs.
    pub reserved: &'a [(IpAddr, IpAddr)],
    /// Address families that the cluster uses.
    pub enabled: PerFamily<bool>,
    /// Namespaces in which to search for a network that is named without a namespace.
    pub network_namespaces: &'a [String],
}

/// The interface of a pod for which pools are selected.
#[derive(Clone, Copy, Debug)]
pub struct PodNic<'a> {
    pub interface: &'a str,
    /// Index among the pod's interfaces. The interface of the default network has index 0.
    pub position: usize,
    /// NetworkAttachmentDefinition, `<namespace>/<name>`, if the network has one.
    pub network: Option<&'a str>,
}

/// The eligible pools of an interface, and its routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSelection {
    /// Pools per family, in order of preference. Empty if the interface gets no address of that family.
    pub pools: PerFamily<Vec<Arc<IpPool>>>,
    /// If true, the interface gets no default route.
    pub clean_gateway: bool,
    /// Routes from the pod annotation.
    pub routes: Vec<AnnotatedRoute>,
    /// Settings of the network that have no effect.
    pub warnings: Vec<IpamWarning>,
}

impl PoolSelection {
    /// Selects the pools of `nic`, whose network has `config`. Returns `None` if no annotation and no
    /// `ipam` object names a pool and there is no default pool.
    pub fn select(
        context: &PoolSelectionContext<'_>,
        nic: &PodNic<'_>,
        config: &SpiderpoolConfig,
    ) -> Result<Option<Self>, Error> {
        annotation::reject_subnets(context.pod_annotations)?;
        let preference =
            match annotation::interface_preference(context.pod_annotations, nic.interface, nic.position)? {
                Some(preference) => preference,
                None => match annotation::pod_preference(context.pod_annotations)? {
                    Some(preference) => preference,
                    None => match annotation::namespace_preference(context.namespace_annotations)? {
                        Some(preference) => preference,
                        None if !config.preference.is_empty() => config.preference.clone(),
                        None => default_pools(context),
                    },
                },
            };
        if preference.is_empty() {
            return Ok(None);
        }
        let mut warnings = config.warnings.clone();
        let mut find = |names: &[String], family: IpFamily, enabled: bool| {
            if names.is_empty() {
                return Ok(Vec::new());
            }
            if !enabled {
                let (field, value) = (format!("pools of {family}"), names.join(", "));
                warnings.push(IpamWarning::Ignored {
                    field,
                    value,
                    reason: "the cluster does not use this family",
                });
                return Ok(Vec::new());
            }
            eligible_pools(context, nic, names, family)
        };
        let pools = PerFamily {
            v4: find(&preference.v4, IpFamily::V4, context.enabled.v4)?,
            v6: find(&preference.v6, IpFamily::V6, context.enabled.v6)?,
        };
        Ok(Some(Self {
            pools,
            clean_gateway: preference.clean_gateway || config.preference.clean_gateway,
            routes: annotation::parse_routes(context.pod_annotations)?,
            warnings,
        }))
    }

    /// Creates one request for each family that has pools.
    pub fn requests(
        &self,
        pod: &PodRef,
        sticky: bool,
        interface: &str,
        container: &str,
    ) -> Vec<AddressRequest> {
        let request = |pools: &Vec<Arc<IpPool>>| AddressRequest {
            pools: pools.iter().map(|pool| Arc::clone(&pool.addresses)).collect(),
            pod: pod.clone(),
            sticky,
            interface: interface.into(),
            ordinal: 0,
            container: container.into(),
        };
        let families = [&self.pools.v4, &self.pools.v6].into_iter();
        families.filter(|pools| !pools.is_empty()).map(request).collect()
    }

    /// Returns the routes of the interface: the pools' routes, the pod's routes whose gateway is on this interface,
    /// and default routes. `addresses` are the interface's addresses, each with the gateway of its pool.
    pub fn routes(&self, addresses: &[(IpNet, Option<IpAddr>)]) -> Vec<IpamRoute> {
        let route = |dst: IpNet, gw: IpAddr| IpamRoute { dst, gw: Some(gw), extra: Map::new() };
        let mut routes: Vec<IpamRoute> = Vec::new();
        for (address, gateway) in addresses {
            let all = self.pools.v4.iter().chain(&self.pools.v6);
            let pool = all.into_iter().find(|pool| pool.addresses.can_keep(address.addr()));
            routes.extend(pool.into_iter().flat_map(|pool| pool.routes.iter().cloned()));
            let here = self.routes.iter().filter(|annotated| address.contains(&annotated.gw));
            routes.extend(here.map(|annotated| route(annotated.dst, annotated.gw)));
            if let Some(gateway) = gateway.filter(|_| !self.clean_gateway) {
                let everything = match gateway {
                    IpAddr::V4(_) => IpNet::from(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
                    IpAddr::V6(_) => IpNet::from(IpAddr::from(Ipv6Addr::UNSPECIFIED)),
                };
                routes.push(route(default_destination(everything), gateway));
            }
        }
        routes
    }
}

/// Returns the destination of the default route, `0.0.0.0/0` or `::/0`, for the family of `address`.
fn default_destination(address: IpNet) -> IpNet {
    // A prefix length of 0 is valid for both families.
    IpNet::new(address.addr(), 0).unwrap_or(address)
}

fn default_pools(context: &PoolSelectionContext<'_>) -> PoolPreference {
    let mut preference = PoolPreference::default();
    for (name, pool) in context.pools {
        let Ok(pool) = pool else { continue };
        if pool.default {
            match pool.addresses.family() {
                IpFamily::V4 => preference.v4.push(name.clone()),
                IpFamily::V6 => preference.v6.push(name.clone()),
            }
        }
    }
    preference
}

/// Returns the eligible pools among `names`, in order of preference. Returns an error if there are none.
fn eligible_pools(
    context: &PoolSelectionContext<'_>,
    nic: &PodNic<'_>,
    names: &[String],
    family: IpFamily,
) -> Result<Vec<Arc<IpPool>>, Error> {
    let mut expanded: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        if glob::is_pattern(name) {
            let of_family = |pool: &Result<Arc<IpPool>, Error>| {
                pool.as_ref().is_ok_and(|pool| pool.addresses.family() == family)
            };
            let matching = context
                .pools
                .iter()
                .filter(|(candidate, pool)| of_family(pool) && glob::matches(name, candidate));
            expanded.extend(
                matching.map(|(candidate, _)| candidate.as_str()).filter(|candidate| seen.insert(*candidate)),
            );
        } else if seen.insert(name.as_str()) {
            expanded.push(name);
        } else {
            return Err(Error::DuplicatePool { interface: nic.interface.into(), pool: name.clone() });
        }
    }
    let mut eligible = Vec::new();
    let mut reasons = Vec::new();
    for name in expanded {
        match check_pool(context, nic, name, family) {
            Ok(pool) => eligible.push(pool),
            Err(reason) => reasons.push(format!("{name} {reason}")),
        }
    }
    if eligible.is_empty() {
        return Err(Error::NoEligiblePool {
            interface: nic.interface.into(),
            family,
            requested: names.to_vec(),
            reasons,
        });
    }
    // The sort is stable: pools of equal rank keep the order in which they are named. Disabled and
    // terminating pools stay in the result because owners keep their addresses, for example when a sandbox
    // restarts. If a pod would need a new address from such a pool, the planner reports exhaustion.
    eligible.sort_by_key(|pool| (pool.state != IpPoolState::Active, pool.affinity.rank()));
    let without_reserved = |pool: Arc<IpPool>| match context.reserved.is_empty() {
        true => pool,
        false => Arc::new(pool.without_reserved(context.reserved)),
    };
    Ok(eligible.into_iter().map(without_reserved).collect())
}

fn check_pool(
    context: &PoolSelectionContext<'_>,
    nic: &PodNic<'_>,
    name: &str,
    family: IpFamily,
) -> Result<Arc<IpPool>, IneligibleReason> {
    let pool = match context.pools.get(name) {
        None => return Err(IneligibleReason::NotFound),
        Some(Err(error)) => return Err(IneligibleReason::Invalid(error.to_string())),
        Some(Ok(pool)) => pool,
    };
    if pool.addresses.family() != family {
        return Err(IneligibleReason::Family);
    }
    pool.affinity.check(context, nic)?;
    Ok(Arc::clone(pool))
}
