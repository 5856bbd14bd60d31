//! A SpiderIPPool, understood.

use super::affinity::Affinity;
use super::ips::parse_ips;
use super::selector::Selector;
use crate::family::Family;
use crate::pool::Pool;
use crate::range::Warning;
use crate::whereabouts::Route;
use crate::{Error, Space};
use ipnet::IpNet;
use serde_json::Map;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// A pool as its object describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The object's name.
    pub name: String,
    /// `ipVersion`.
    pub version: Option<i64>,
    /// `subnet`.
    pub subnet: String,
    /// `ips`.
    pub ips: Vec<String>,
    /// `excludeIPs`.
    pub exclude: Vec<String>,
    /// `gateway`.
    pub gateway: Option<String>,
    /// `routes`: destination and gateway.
    pub routes: Vec<(String, String)>,
    /// `podAffinity`, `namespaceAffinity`, `namespaceName`, `nodeAffinity`, `nodeName` and `multusName`.
    pub affinity: Affinity,
    /// `default`.
    pub default: bool,
    /// `disable`.
    pub disable: bool,
    /// Whether the object is being deleted.
    pub terminating: bool,
    /// `vlan`.
    pub vlan: Option<i64>,
    /// Addresses that Spiderpool itself has assigned.
    pub taken: Vec<IpAddr>,
}

/// Whether a pool gives out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Open,
    /// Its `disable` says no. Those assigned stay, and are taken back.
    Disabled,
    /// It is being deleted.
    Terminating,
}

/// A pool that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct IpPool {
    /// The addresses.
    pub pool: Arc<Pool>,
    /// Routes that go with every address.
    pub routes: Vec<Route>,
    /// Who may use it.
    pub affinity: Affinity,
    /// Whether it serves interfaces for which nothing else is said.
    pub default: bool,
    /// Whether it gives out addresses.
    pub state: State,
    /// How many addresses it has, whether it gives them out or not.
    total: u128,
    /// What is accepted but should be written otherwise.
    pub warnings: Vec<Warning>,
}

impl IpPool {
    /// Reads a description.
    pub fn read(description: &Description) -> Result<Self, Error> {
        let name = &description.name;
        let wrong =
            |field: &str, cause: String| Error::Pool { pool: name.clone(), field: field.into(), cause };
        let mut warnings = Vec::new();
        let subnet = subnet(description, &mut warnings)?;
        let family = Family::of(subnet.addr());
        let expected = if family == Family::V4 { 4 } else { 6 };
        if let Some(version) = description.version.filter(|version| *version != expected) {
            return Err(wrong("ipVersion", format!("{version} is not that of subnet {subnet}")));
        }
        let inside = |field: &str, windows: &[(IpAddr, IpAddr)]| {
            let outside = windows.iter().find(|(low, high)| !(subnet.contains(low) && subnet.contains(high)));
            match outside {
                Some((low, high)) => Err(wrong(field, format!("{low}-{high} is not in subnet {subnet}"))),
                None => Ok(()),
            }
        };
        let ips = parse_ips(&description.ips, family).map_err(|cause| wrong("ips", cause))?;
        inside("ips", &ips)?;
        let excluded = parse_ips(&description.exclude, family).map_err(|cause| wrong("excludeIPs", cause))?;
        inside("excludeIPs", &excluded)?;
        let gateway = gateway(description, subnet)?;
        let mut held_back = excluded;
        if let Some(gateway) = gateway
            && ips.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
            && !held_back.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
        {
            // To give it out would take the gateway from everybody.
            held_back.push((gateway, gateway));
            warnings.push(Warning::Ignored {
                field: "ips".into(),
                value: gateway.to_string(),
                why: "it is the gateway; put it in excludeIPs",
            });
        }
        let whole = Pool::new(name.clone(), Space::default_space(), subnet, ips, &[], gateway)?;
        let offered = whole.holding_back(held_back);
        if offered.capacity() == 0 {
            return Err(Error::NoUsable { pool: name.clone() });
        }
        let total = offered.capacity();
        let offered = offered.holding_back(description.taken.iter().map(|address| (*address, *address)));
        let affinity = affinity(description, &wrong)?;
        let state = match (description.terminating, description.disable) {
            (true, _) => State::Terminating,
            (false, true) => State::Disabled,
            (false, false) => State::Open,
        };
        let pool = if state == State::Open { offered } else { offered.closed() };
        let routes = routes(description, subnet)?;
        if description.vlan.is_some_and(|vlan| vlan != 0) {
            let value = description.vlan.unwrap_or_default().to_string();
            warnings.push(Warning::Ignored { field: "vlan".into(), value, why: "the network says it" });
        }
        let default = description.default;
        Ok(Self { pool: Arc::new(pool), routes, affinity, default, state, total, warnings })
    }

    /// How many addresses it has, whether it gives them out now or not.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The same pool, without what is reserved: who has such an address keeps it.
    pub fn reserving(&self, reserved: &[(IpAddr, IpAddr)]) -> Self {
        Self { pool: Arc::new(self.pool.holding_back(reserved.iter().copied())), ..self.clone() }
    }
}

fn subnet(description: &Description, warnings: &mut Vec<Warning>) -> Result<IpNet, Error> {
    let text = &description.subnet;
    let written: IpNet = text.parse().map_err(|_| Error::Pool {
        pool: description.name.clone(),
        field: "subnet".into(),
        cause: format!("{text:?} is not a subnet like 172.16.0.0/16"),
    })?;
    if written != written.trunc() {
        warnings.push(Warning::Ignored {
            field: "subnet".into(),
            value: text.clone(),
            why: "its host bits; the subnet is the network they lie in",
        });
    }
    Ok(written.trunc())
}

fn gateway(description: &Description, subnet: IpNet) -> Result<Option<IpAddr>, Error> {
    let Some(text) = description.gateway.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong =
        |cause: String| Error::Pool { pool: description.name.clone(), field: "gateway".into(), cause };
    let gateway: IpAddr = text.parse().map_err(|_| wrong(format!("{text:?} is not an address")))?;
    match subnet.contains(&gateway) {
        true => Ok(Some(gateway)),
        false => Err(wrong(format!("{gateway} is not in subnet {subnet}"))),
    }
}

fn affinity(description: &Description, wrong: &impl Fn(&str, String) -> Error) -> Result<Affinity, Error> {
    let selectors = [
        ("podAffinity", &description.affinity.pods),
        ("namespaceAffinity", &description.affinity.namespaces),
        ("nodeAffinity", &description.affinity.nodes),
    ];
    for (field, selector) in selectors {
        if selector.as_ref().is_some_and(Selector::is_empty) {
            return Err(wrong(field, "it selects nothing in particular; leave it out or say what".into()));
        }
    }
    Ok(description.affinity.clone())
}

fn routes(description: &Description, subnet: IpNet) -> Result<Vec<Route>, Error> {
    let mut seen = BTreeSet::new();
    let read = |(position, (dst, gw)): (usize, &(String, String))| {
        let wrong = |cause: String| Error::Pool {
            pool: description.name.clone(),
            field: format!("routes[{position}]"),
            cause,
        };
        let dst: IpNet = dst.parse().map_err(|_| wrong(format!("dst {dst:?} is not a subnet")))?;
        let gw: IpAddr = gw.parse().map_err(|_| wrong(format!("gw {gw:?} is not an address")))?;
        if dst.prefix_len() == 0 {
            return Err(wrong("the default route is said by `gateway`".into()));
        }
        if Family::of(dst.addr()) != Family::of(subnet.addr()) {
            return Err(wrong(format!("dst {dst} is of the other family")));
        }
        if !subnet.contains(&gw) {
            return Err(wrong(format!("gw {gw} is not in subnet {subnet}")));
        }
        if !seen.insert(dst.trunc()) {
            return Err(wrong(format!("dst {dst} is there twice")));
        }
        Ok(Route { dst: dst.trunc(), gw: Some(gw), rest: Map::new() })
    };
    description.routes.iter().enumerate().map(read).collect()
}
