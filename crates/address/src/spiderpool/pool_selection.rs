//! The pools that an interface draws from, and why not the others.

use super::affinity::IneligibleReason;
use super::annotation::{self, AnnotatedRoute, PoolPreference};
use super::config::SpiderpoolConfig;
use super::glob;
use super::ip_pool::{IpPool, IpPoolState};
use crate::Error;
use crate::batch::AddressRequest;
use crate::family::IpFamily;
use crate::range::IpamWarning;
use crate::whereabouts::IpamRoute;
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Something for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T> {
    /// For IPv4.
    pub v4: T,
    /// For IPv6.
    pub v6: T,
}

/// What a choice is made from besides the interface itself.
#[derive(Clone, Debug)]
pub struct PoolSelectionContext<'a> {
    /// Annotations of the pod.
    pub pod_annotations: &'a BTreeMap<String, String>,
    /// Labels of the pod.
    pub pod_labels: &'a BTreeMap<String, String>,
    /// Its namespace.
    pub namespace: &'a str,
    /// Annotations of the namespace.
    pub namespace_annotations: &'a BTreeMap<String, String>,
    /// Labels of the namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// The node.
    pub node: &'a str,
    /// Labels of the node.
    pub node_labels: &'a BTreeMap<String, String>,
    /// The pools by name, or what is wrong with them.
    pub pools: &'a BTreeMap<String, Result<Arc<IpPool>, Error>>,
    /// Addresses that no pool gives out.
    pub reserved: &'a [(IpAddr, IpAddr)],
    /// Which families the cluster uses.
    pub enabled: PerFamily<bool>,
    /// The namespaces of networks that are named without one.
    pub network_namespaces: &'a [String],
}

/// An interface of the pod.
#[derive(Clone, Copy, Debug)]
pub struct PodNic<'a> {
    /// Its name.
    pub interface: &'a str,
    /// Which of the pod's it is, the default network's being 0.
    pub position: usize,
    /// Its network, `<namespace>/<name>`, when a definition describes it.
    pub network: Option<&'a str>,
}

/// The candidates of an interface, and what goes with an address of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSelection {
    /// Pools of each family, the first preferred; none where the interface gets no address of that family.
    pub pools: PerFamily<Vec<Arc<IpPool>>>,
    /// Whether the interface gets no default route.
    pub clean_gateway: bool,
    /// Routes that the pod asks for.
    pub routes: Vec<AnnotatedRoute>,
    /// What has no effect.
    pub warnings: Vec<IpamWarning>,
}

impl PoolSelection {
    /// Chooses for `nic`, whose network says `config`. `None` if nobody names any pool.
    pub fn select(
        around: &PoolSelectionContext<'_>,
        nic: &PodNic<'_>,
        config: &SpiderpoolConfig,
    ) -> Result<Option<Self>, Error> {
        annotation::reject_subnets(around.pod_annotations)?;
        let wish =
            match annotation::interface_preference(around.pod_annotations, nic.interface, nic.position)? {
                Some(wish) => wish,
                None => match annotation::pod_preference(around.pod_annotations)? {
                    Some(wish) => wish,
                    None => match annotation::namespace_preference(around.namespace_annotations)? {
                        Some(wish) => wish,
                        None if !config.preference.is_empty() => config.preference.clone(),
                        None => default_pools(around),
                    },
                },
            };
        if wish.is_empty() {
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
                    reason: "the cluster does not use that family",
                });
                return Ok(Vec::new());
            }
            eligible_pools(around, nic, names, family)
        };
        let pools = PerFamily {
            v4: find(&wish.v4, IpFamily::V4, around.enabled.v4)?,
            v6: find(&wish.v6, IpFamily::V6, around.enabled.v6)?,
        };
        Ok(Some(Self {
            pools,
            clean_gateway: wish.clean_gateway || config.preference.clean_gateway,
            routes: annotation::parse_routes(around.pod_annotations)?,
            warnings,
        }))
    }

    /// One request for each family.
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

    /// The routes that go with `addresses` of the interface: those of the pools, those of the pod whose gateways are
    /// here, and the default ones.
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

/// The subnet of everything, of the family of `address`.
fn default_destination(address: IpNet) -> IpNet {
    // A prefix length of 0 is right for both families.
    IpNet::new(address.addr(), 0).unwrap_or(address)
}

fn default_pools(around: &PoolSelectionContext<'_>) -> PoolPreference {
    let mut wish = PoolPreference::default();
    for (name, pool) in around.pools {
        let Ok(pool) = pool else { continue };
        if pool.default {
            match pool.addresses.family() {
                IpFamily::V4 => wish.v4.push(name.clone()),
                IpFamily::V6 => wish.v6.push(name.clone()),
            }
        }
    }
    wish
}

/// The pools of `names` that can be used, in order of preference.
fn eligible_pools(
    around: &PoolSelectionContext<'_>,
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
            let meant =
                around.pools.iter().filter(|(known, pool)| of_family(pool) && glob::matches(name, known));
            expanded.extend(meant.map(|(known, _)| known.as_str()).filter(|known| seen.insert(*known)));
        } else if seen.insert(name.as_str()) {
            expanded.push(name);
        } else {
            return Err(Error::DuplicatePool { interface: nic.interface.into(), pool: name.clone() });
        }
    }
    let mut fit = Vec::new();
    let mut unfit = Vec::new();
    for name in expanded {
        match check_pool(around, nic, name, family) {
            Ok(pool) => fit.push(pool),
            Err(reason) => unfit.push(format!("{name} {reason}")),
        }
    }
    if fit.is_empty() {
        return Err(Error::NoEligiblePool {
            interface: nic.interface.into(),
            family,
            requested: names.to_vec(),
            reasons: unfit,
        });
    }
    // Stable: among equals the order of the list counts. A closed pool is no reason to refuse: it still serves who has
    // an address of it, a restarted sandbox for example. That there is none is the engine's to see.
    fit.sort_by_key(|pool| (pool.state != IpPoolState::Active, pool.affinity.rank()));
    let reserving = |pool: Arc<IpPool>| match around.reserved.is_empty() {
        true => pool,
        false => Arc::new(pool.without_reserved(around.reserved)),
    };
    Ok(fit.into_iter().map(reserving).collect())
}

fn check_pool(
    around: &PoolSelectionContext<'_>,
    nic: &PodNic<'_>,
    name: &str,
    family: IpFamily,
) -> Result<Arc<IpPool>, IneligibleReason> {
    let pool = match around.pools.get(name) {
        None => return Err(IneligibleReason::NotFound),
        Some(Err(error)) => return Err(IneligibleReason::Invalid(error.to_string())),
        Some(Ok(pool)) => pool,
    };
    if pool.addresses.family() != family {
        return Err(IneligibleReason::Family);
    }
    pool.affinity.check(around, nic)?;
    Ok(Arc::clone(pool))
}
