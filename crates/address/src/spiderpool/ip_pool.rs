//! A SpiderIPPool, understood.

use super::affinity::PoolAffinity;
use super::ip_list::parse_ips;
use super::label_matcher::LabelMatcher;
use crate::family::IpFamily;
use crate::pool::AddressPool;
use crate::range::IpamWarning;
use crate::whereabouts::IpamRoute;
use crate::{Error, IpSpace};
use ipnet::IpNet;
use serde_json::Map;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// A pool as its object describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IpPoolSpec {
    /// The object's name.
    pub name: String,
    /// `ipVersion`.
    pub ip_version: Option<i64>,
    /// `subnet`.
    pub subnet: String,
    /// `ips`.
    pub ips: Vec<String>,
    /// `excludeIPs`.
    pub exclude_ips: Vec<String>,
    /// `gateway`.
    pub gateway: Option<String>,
    /// `routes`: destination and gateway.
    pub routes: Vec<(String, String)>,
    /// `podAffinity`, `namespaceAffinity`, `namespaceName`, `nodeAffinity`, `nodeName` and `multusName`.
    pub affinity: PoolAffinity,
    /// `default`.
    pub default: bool,
    /// `disable`.
    pub disable: bool,
    /// Whether the object is being deleted.
    pub terminating: bool,
    /// `vlan`.
    pub vlan: Option<i64>,
    /// Addresses that Spiderpool itself has assigned.
    pub spiderpool_assigned: Vec<IpAddr>,
}

/// Whether a pool gives out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpPoolState {
    /// It does.
    Active,
    /// Its `disable` says no. Those assigned stay, and are taken back.
    Disabled,
    /// It is being deleted.
    Terminating,
}

/// A pool that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct IpPool {
    /// The addresses.
    pub addresses: Arc<AddressPool>,
    /// Routes that go with every address.
    pub routes: Vec<IpamRoute>,
    /// Who may use it.
    pub affinity: PoolAffinity,
    /// Whether it serves interfaces for which nothing else is said.
    pub default: bool,
    /// Whether it gives out addresses.
    pub state: IpPoolState,
    /// How many addresses it has, whether it gives them out or not.
    total: u128,
    /// What is accepted but should be written otherwise.
    pub warnings: Vec<IpamWarning>,
}

impl IpPool {
    /// Reads a description.
    pub fn from_spec(description: &IpPoolSpec) -> Result<Self, Error> {
        let name = &description.name;
        let wrong = |field: &str, cause: String| Error::InvalidPool {
            pool: name.clone(),
            field: field.into(),
            cause,
        };
        let mut warnings = Vec::new();
        let subnet = parse_subnet(description, &mut warnings)?;
        let family = IpFamily::of(subnet.addr());
        let expected = if family == IpFamily::V4 { 4 } else { 6 };
        if let Some(version) = description.ip_version.filter(|version| *version != expected) {
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
        let excluded =
            parse_ips(&description.exclude_ips, family).map_err(|cause| wrong("excludeIPs", cause))?;
        inside("excludeIPs", &excluded)?;
        let gateway = parse_gateway(description, subnet)?;
        let mut held_back = excluded;
        if let Some(gateway) = gateway
            && ips.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
            && !held_back.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
        {
            // To give it out would take the gateway from everybody.
            held_back.push((gateway, gateway));
            warnings.push(IpamWarning::Ignored {
                field: "ips".into(),
                value: gateway.to_string(),
                reason: "it is the gateway; put it in excludeIPs",
            });
        }
        let whole = AddressPool::new(name.clone(), IpSpace::default_space(), subnet, ips, &[], gateway)?;
        let offered = whole.withholding(held_back);
        if offered.capacity() == 0 {
            return Err(Error::NoUsableAddress { pool: name.clone() });
        }
        let total = offered.capacity();
        let offered =
            offered.withholding(description.spiderpool_assigned.iter().map(|address| (*address, *address)));
        let affinity = validate_affinity(description, &wrong)?;
        let state = match (description.terminating, description.disable) {
            (true, _) => IpPoolState::Terminating,
            (false, true) => IpPoolState::Disabled,
            (false, false) => IpPoolState::Active,
        };
        let pool = if state == IpPoolState::Active { offered } else { offered.closed() };
        let routes = parse_routes(description, subnet)?;
        if description.vlan.is_some_and(|vlan| vlan != 0) {
            let value = description.vlan.unwrap_or_default().to_string();
            warnings.push(IpamWarning::Ignored {
                field: "vlan".into(),
                value,
                reason: "the network says it",
            });
        }
        let default = description.default;
        Ok(Self { addresses: Arc::new(pool), routes, affinity, default, state, total, warnings })
    }

    /// How many addresses it has, whether it gives them out now or not.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The same pool, without what is reserved: who has such an address keeps it.
    pub fn without_reserved(&self, reserved: &[(IpAddr, IpAddr)]) -> Self {
        Self { addresses: Arc::new(self.addresses.withholding(reserved.iter().copied())), ..self.clone() }
    }
}

fn parse_subnet(description: &IpPoolSpec, warnings: &mut Vec<IpamWarning>) -> Result<IpNet, Error> {
    let text = &description.subnet;
    let written: IpNet = text.parse().map_err(|_| Error::InvalidPool {
        pool: description.name.clone(),
        field: "subnet".into(),
        cause: format!("{text:?} is not a subnet like 172.16.0.0/16"),
    })?;
    if written != written.trunc() {
        warnings.push(IpamWarning::Ignored {
            field: "subnet".into(),
            value: text.clone(),
            reason: "its host bits; the subnet is the network they lie in",
        });
    }
    Ok(written.trunc())
}

fn parse_gateway(description: &IpPoolSpec, subnet: IpNet) -> Result<Option<IpAddr>, Error> {
    let Some(text) = description.gateway.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong =
        |cause: String| Error::InvalidPool { pool: description.name.clone(), field: "gateway".into(), cause };
    let gateway: IpAddr = text.parse().map_err(|_| wrong(format!("{text:?} is not an address")))?;
    match subnet.contains(&gateway) {
        true => Ok(Some(gateway)),
        false => Err(wrong(format!("{gateway} is not in subnet {subnet}"))),
    }
}

fn validate_affinity(
    description: &IpPoolSpec,
    wrong: &impl Fn(&str, String) -> Error,
) -> Result<PoolAffinity, Error> {
    let selectors = [
        ("podAffinity", &description.affinity.pods),
        ("namespaceAffinity", &description.affinity.namespaces),
        ("nodeAffinity", &description.affinity.nodes),
    ];
    for (field, selector) in selectors {
        if selector.as_ref().is_some_and(LabelMatcher::is_empty) {
            return Err(wrong(field, "it selects nothing in particular; leave it out or say what".into()));
        }
    }
    Ok(description.affinity.clone())
}

fn parse_routes(description: &IpPoolSpec, subnet: IpNet) -> Result<Vec<IpamRoute>, Error> {
    let mut seen = BTreeSet::new();
    let read = |(position, (dst, gw)): (usize, &(String, String))| {
        let wrong = |cause: String| Error::InvalidPool {
            pool: description.name.clone(),
            field: format!("routes[{position}]"),
            cause,
        };
        let dst: IpNet = dst.parse().map_err(|_| wrong(format!("dst {dst:?} is not a subnet")))?;
        let gw: IpAddr = gw.parse().map_err(|_| wrong(format!("gw {gw:?} is not an address")))?;
        if dst.prefix_len() == 0 {
            return Err(wrong("the default route is said by `gateway`".into()));
        }
        if IpFamily::of(dst.addr()) != IpFamily::of(subnet.addr()) {
            return Err(wrong(format!("dst {dst} is of the other family")));
        }
        if !subnet.contains(&gw) {
            return Err(wrong(format!("gw {gw} is not in subnet {subnet}")));
        }
        if !seen.insert(dst.trunc()) {
            return Err(wrong(format!("dst {dst} is there twice")));
        }
        Ok(IpamRoute { dst: dst.trunc(), gw: Some(gw), extra: Map::new() })
    };
    description.routes.iter().enumerate().map(read).collect()
}
