//! The pools that an interface draws from, and why not the others.

use super::affinity::Unfit;
use super::annotation::{self, AnnotatedRoute, Wish};
use super::config::Config;
use super::glob;
use super::pool::{IpPool, State};
use crate::Error;
use crate::batch::Request;
use crate::family::Family;
use crate::range::Warning;
use crate::whereabouts::Route;
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Something for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Family2<T> {
    /// For IPv4.
    pub v4: T,
    /// For IPv6.
    pub v6: T,
}

/// What a choice is made from besides the interface itself.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
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
    pub enabled: Family2<bool>,
    /// The namespaces of networks that are named without one.
    pub homes: &'a [String],
}

/// An interface of the pod.
#[derive(Clone, Copy, Debug)]
pub struct Nic<'a> {
    /// Its name.
    pub interface: &'a str,
    /// Which of the pod's it is, the default network's being 0.
    pub position: usize,
    /// Its network, `<namespace>/<name>`, when a definition describes it.
    pub network: Option<&'a str>,
}

/// The candidates of an interface, and what goes with an address of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Pools of each family, the first preferred; none where the interface gets no address of that family.
    pub pools: Family2<Vec<Arc<IpPool>>>,
    /// Whether the interface gets no default route.
    pub clean_gateway: bool,
    /// Routes that the pod asks for.
    pub routes: Vec<AnnotatedRoute>,
    /// What has no effect.
    pub warnings: Vec<Warning>,
}

impl Choice {
    /// Chooses for `nic`, whose network says `config`. `None` if nobody names any pool.
    pub fn make(around: &Surroundings<'_>, nic: &Nic<'_>, config: &Config) -> Result<Option<Self>, Error> {
        annotation::refuse_subnets(around.pod_annotations)?;
        let wish = match annotation::of_interface(around.pod_annotations, nic.interface, nic.position)? {
            Some(wish) => wish,
            None => match annotation::of_pod(around.pod_annotations)? {
                Some(wish) => wish,
                None => match annotation::of_namespace(around.namespace_annotations)? {
                    Some(wish) => wish,
                    None if !config.wish.is_empty() => config.wish.clone(),
                    None => default_pools(around),
                },
            },
        };
        if wish.is_empty() {
            return Ok(None);
        }
        let mut warnings = config.warnings.clone();
        let mut find = |names: &[String], family: Family, enabled: bool| {
            if names.is_empty() {
                return Ok(Vec::new());
            }
            if !enabled {
                let (field, value) = (format!("pools of {family}"), names.join(", "));
                warnings.push(Warning::Ignored { field, value, why: "the cluster does not use that family" });
                return Ok(Vec::new());
            }
            candidates(around, nic, names, family)
        };
        let pools = Family2 {
            v4: find(&wish.v4, Family::V4, around.enabled.v4)?,
            v6: find(&wish.v6, Family::V6, around.enabled.v6)?,
        };
        Ok(Some(Self {
            pools,
            clean_gateway: wish.clean_gateway || config.wish.clean_gateway,
            routes: annotation::routes(around.pod_annotations)?,
            warnings,
        }))
    }

    /// One request for each family.
    pub fn requests(&self, pod: &PodRef, sticky: bool, interface: &str, container: &str) -> Vec<Request> {
        let request = |pools: &Vec<Arc<IpPool>>| Request {
            pools: pools.iter().map(|pool| Arc::clone(&pool.pool)).collect(),
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
    pub fn routes(&self, addresses: &[(IpNet, Option<IpAddr>)]) -> Vec<Route> {
        let route = |dst: IpNet, gw: IpAddr| Route { dst, gw: Some(gw), rest: Map::new() };
        let mut routes: Vec<Route> = Vec::new();
        for (address, gateway) in addresses {
            let all = self.pools.v4.iter().chain(&self.pools.v6);
            let pool = all.into_iter().find(|pool| pool.pool.keeps(address.addr()));
            routes.extend(pool.into_iter().flat_map(|pool| pool.routes.iter().cloned()));
            let here = self.routes.iter().filter(|annotated| address.contains(&annotated.gw));
            routes.extend(here.map(|annotated| route(annotated.dst, annotated.gw)));
            if let Some(gateway) = gateway.filter(|_| !self.clean_gateway) {
                let everything = match gateway {
                    IpAddr::V4(_) => IpNet::from(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
                    IpAddr::V6(_) => IpNet::from(IpAddr::from(Ipv6Addr::UNSPECIFIED)),
                };
                routes.push(route(whole(everything), gateway));
            }
        }
        routes
    }
}

/// The subnet of everything, of the family of `address`.
fn whole(address: IpNet) -> IpNet {
    // A prefix length of 0 is right for both families.
    IpNet::new(address.addr(), 0).unwrap_or(address)
}

fn default_pools(around: &Surroundings<'_>) -> Wish {
    let mut wish = Wish::default();
    for (name, pool) in around.pools {
        let Ok(pool) = pool else { continue };
        if pool.default {
            match pool.pool.family() {
                Family::V4 => wish.v4.push(name.clone()),
                Family::V6 => wish.v6.push(name.clone()),
            }
        }
    }
    wish
}

/// The pools of `names` that can be used, in order of preference.
fn candidates(
    around: &Surroundings<'_>,
    nic: &Nic<'_>,
    names: &[String],
    family: Family,
) -> Result<Vec<Arc<IpPool>>, Error> {
    let mut expanded: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        if glob::is_pattern(name) {
            let of_family = |pool: &Result<Arc<IpPool>, Error>| {
                pool.as_ref().is_ok_and(|pool| pool.pool.family() == family)
            };
            let meant =
                around.pools.iter().filter(|(known, pool)| of_family(pool) && glob::matches(name, known));
            expanded.extend(meant.map(|(known, _)| known.as_str()).filter(|known| seen.insert(*known)));
        } else if seen.insert(name.as_str()) {
            expanded.push(name);
        } else {
            return Err(Error::PoolTwice { interface: nic.interface.into(), pool: name.clone() });
        }
    }
    let mut fit = Vec::new();
    let mut unfit = Vec::new();
    for name in expanded {
        match usable(around, nic, name, family) {
            Ok(pool) => fit.push(pool),
            Err(reason) => unfit.push(format!("{name} {reason}")),
        }
    }
    if fit.is_empty() {
        return Err(Error::NoFit {
            interface: nic.interface.into(),
            family,
            asked: names.to_vec(),
            reasons: unfit,
        });
    }
    // Stable: among equals the order of the list counts. A closed pool is no reason to refuse: it still serves who has
    // an address of it, a restarted sandbox for example. That there is none is the engine's to see.
    fit.sort_by_key(|pool| (pool.state != State::Open, pool.affinity.rank()));
    let reserving = |pool: Arc<IpPool>| match around.reserved.is_empty() {
        true => pool,
        false => Arc::new(pool.reserving(around.reserved)),
    };
    Ok(fit.into_iter().map(reserving).collect())
}

fn usable(
    around: &Surroundings<'_>,
    nic: &Nic<'_>,
    name: &str,
    family: Family,
) -> Result<Arc<IpPool>, Unfit> {
    let pool = match around.pools.get(name) {
        None => return Err(Unfit::Missing),
        Some(Err(error)) => return Err(Unfit::Broken(error.to_string())),
        Some(Ok(pool)) => pool,
    };
    if pool.pool.family() != family {
        return Err(Unfit::Family);
    }
    pool.affinity.admits(around, nic)?;
    Ok(Arc::clone(pool))
}
