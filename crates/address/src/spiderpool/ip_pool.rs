//! Validated SpiderIPPools.

use super::affinity::{LabelMatcher, PoolAffinity};
use super::ip_list::parse_ips;
use crate::ip_space::IpFamily;
use crate::pool::AddressPool;
use crate::range::IpamWarning;
use crate::whereabouts::IpamRoute;
use crate::{Error, IpSpace};
use ipnet::IpNet;
use serde_json::Map;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// The fields of a SpiderIPPool object, not yet validated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IpPoolSpec {
    pub name: String,
    pub ip_version: Option<i64>,
    pub subnet: String,
    pub ips: Vec<String>,
    pub exclude_ips: Vec<String>,
    pub gateway: Option<String>,
    /// `routes`: destination and gateway.
    pub routes: Vec<(String, String)>,
    /// `podAffinity`, `namespaceAffinity`, `namespaceName`, `nodeAffinity`, `nodeName` and `multusName`.
    pub affinity: PoolAffinity,
    pub default: bool,
    pub disable: bool,
    /// Whether the object is being deleted.
    pub terminating: bool,
    pub vlan: Option<i64>,
}

/// Whether a pool assigns addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpPoolState {
    /// The pool assigns addresses: it is neither disabled nor being deleted.
    Active,
    /// `disable` is set. Assigned addresses stay valid and can be released.
    Disabled,
    /// The object is being deleted. Assigned addresses stay valid and can be released.
    Terminating,
}

/// A validated SpiderIPPool.
#[derive(Clone, Debug, PartialEq)]
pub struct IpPool {
    pub addresses: Arc<AddressPool>,
    /// Routes that an interface gets with an address of the pool.
    pub routes: Vec<IpamRoute>,
    pub affinity: PoolAffinity,
    /// Whether the pool serves interfaces without a configured pool.
    pub default: bool,
    pub state: IpPoolState,
    /// Number of addresses in `ips` without `excludeIPs`, including those that are not assignable now.
    total: u128,
    /// Accepted settings that should be corrected.
    pub warnings: Vec<IpamWarning>,
}

impl IpPool {
    /// Validates `spec`. Returns an error that names the invalid field. Harmless mistakes become warnings.
    pub fn from_spec(spec: &IpPoolSpec) -> Result<Self, Error> {
        let name = &spec.name;
        let invalid = |field: &str, cause: String| Error::InvalidPool {
            pool: name.clone(),
            field: field.into(),
            cause,
        };
        let mut warnings = Vec::new();
        let subnet = parse_subnet(spec, &mut warnings)?;
        let family = IpFamily::of(subnet.addr());
        let expected = if family == IpFamily::V4 { 4 } else { 6 };
        if let Some(version) = spec.ip_version.filter(|version| *version != expected) {
            return Err(invalid("ipVersion", format!("{version} does not match subnet {subnet}")));
        }
        let inside = |field: &str, ranges: &[(IpAddr, IpAddr)]| {
            let outside = ranges.iter().find(|(low, high)| !(subnet.contains(low) && subnet.contains(high)));
            match outside {
                Some((low, high)) => Err(invalid(field, format!("{low}-{high} is not in subnet {subnet}"))),
                None => Ok(()),
            }
        };
        let ips = parse_ips(&spec.ips, family).map_err(|cause| invalid("ips", cause))?;
        inside("ips", &ips)?;
        let excluded = parse_ips(&spec.exclude_ips, family).map_err(|cause| invalid("excludeIPs", cause))?;
        inside("excludeIPs", &excluded)?;
        let gateway = parse_gateway(spec, subnet)?;
        let mut withheld = excluded;
        if let Some(gateway) = gateway
            && ips.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
            && !withheld.iter().any(|(low, high)| (*low..=*high).contains(&gateway))
        {
            // Assigning the gateway's address to a pod would break the gateway for the whole subnet.
            withheld.push((gateway, gateway));
            warnings.push(IpamWarning::Ignored {
                field: "ips".into(),
                value: gateway.to_string(),
                reason: "it is the gateway address; add it to excludeIPs",
            });
        }
        let all = AddressPool::new(name.clone(), IpSpace::default_space(), subnet, ips, &[], gateway)?;
        let offered = all.withholding(withheld);
        if offered.capacity() == 0 {
            return Err(Error::NoUsableAddress { pool: name.clone() });
        }
        let total = offered.capacity();
        let affinity = validate_affinity(spec, &invalid)?;
        let (state, pool) = if spec.terminating {
            (IpPoolState::Terminating, offered.closed())
        } else if spec.disable {
            (IpPoolState::Disabled, offered.closed())
        } else {
            (IpPoolState::Active, offered)
        };
        let routes = parse_routes(spec, subnet)?;
        if spec.vlan.is_some_and(|vlan| vlan != 0) {
            let value = spec.vlan.unwrap_or_default().to_string();
            warnings.push(IpamWarning::Ignored {
                field: "vlan".into(),
                value,
                reason: "set the VLAN in the network instead",
            });
        }
        let default = spec.default;
        Ok(Self { addresses: Arc::new(pool), routes, affinity, default, state, total, warnings })
    }

    /// Returns the number of addresses in `ips` without `excludeIPs`, whether assignable now or not.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// Returns the pool without the reserved addresses. Owners of these addresses keep them.
    pub fn without_reserved(&self, reserved: &[(IpAddr, IpAddr)]) -> Self {
        Self { addresses: Arc::new(self.addresses.withholding(reserved.iter().copied())), ..self.clone() }
    }
}

fn parse_subnet(spec: &IpPoolSpec, warnings: &mut Vec<IpamWarning>) -> Result<IpNet, Error> {
    let text = &spec.subnet;
    let written: IpNet = text.parse().map_err(|_| Error::InvalidPool {
        pool: spec.name.clone(),
        field: "subnet".into(),
        cause: format!("{text:?} is not a subnet like 172.16.0.0/16"),
    })?;
    if written != written.trunc() {
        warnings.push(IpamWarning::Ignored {
            field: "subnet".into(),
            value: text.clone(),
            reason: "host bits are set, so the network address is used",
        });
    }
    Ok(written.trunc())
}

fn parse_gateway(spec: &IpPoolSpec, subnet: IpNet) -> Result<Option<IpAddr>, Error> {
    let Some(text) = spec.gateway.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let invalid =
        |cause: String| Error::InvalidPool { pool: spec.name.clone(), field: "gateway".into(), cause };
    let gateway: IpAddr = text.parse().map_err(|_| invalid(format!("{text:?} is not an IP address")))?;
    match subnet.contains(&gateway) {
        true => Ok(Some(gateway)),
        false => Err(invalid(format!("{gateway} is not in subnet {subnet}"))),
    }
}

fn validate_affinity(
    spec: &IpPoolSpec,
    invalid: &impl Fn(&str, String) -> Error,
) -> Result<PoolAffinity, Error> {
    let selectors = [
        ("podAffinity", &spec.affinity.pods),
        ("namespaceAffinity", &spec.affinity.namespaces),
        ("nodeAffinity", &spec.affinity.nodes),
    ];
    for (field, selector) in selectors {
        if selector.as_ref().is_some_and(LabelMatcher::is_empty) {
            return Err(invalid(field, "empty selector; omit the field or add a requirement".into()));
        }
    }
    Ok(spec.affinity.clone())
}

fn parse_routes(spec: &IpPoolSpec, subnet: IpNet) -> Result<Vec<IpamRoute>, Error> {
    let mut seen = BTreeSet::new();
    let read = |(position, (dst, gw)): (usize, &(String, String))| {
        let invalid = |cause: String| Error::InvalidPool {
            pool: spec.name.clone(),
            field: format!("routes[{position}]"),
            cause,
        };
        let dst: IpNet = dst.parse().map_err(|_| invalid(format!("dst {dst:?} is not a subnet")))?;
        let gw: IpAddr = gw.parse().map_err(|_| invalid(format!("gw {gw:?} is not an IP address")))?;
        if dst.prefix_len() == 0 {
            return Err(invalid("use `gateway` for the default route".into()));
        }
        if IpFamily::of(dst.addr()) != IpFamily::of(subnet.addr()) {
            return Err(invalid(format!("dst {dst} and subnet {subnet} have different address families")));
        }
        if !subnet.contains(&gw) {
            return Err(invalid(format!("gw {gw} is not in subnet {subnet}")));
        }
        if !seen.insert(dst.trunc()) {
            return Err(invalid(format!("dst {dst} is listed twice")));
        }
        Ok(IpamRoute { dst: dst.trunc(), gw: Some(gw), extra: Map::new() })
    };
    spec.routes.iter().enumerate().map(read).collect()
}
