//! The `ipam` object of Whereabouts.
//!
//! ```text
//! {"type": "whereabouts", "range": "192.168.0.0/24", "exclude": ["192.168.0.0/28"], …}
//!     │ range, ipRanges      ──▶ one Pool each, one address of each per interface
//!     │ addresses            ──▶ fixed addresses, recorded nowhere, as there
//!     └ routes, dns, gateway ──▶ handed on
//! ```
//!
//! Options that tune the machinery of Whereabouts itself (leases, log files, kubeconfig, node slices) are
//! accepted and have no effect: granules do what they were for.

mod flat;
mod record;

pub use flat::merged;
pub use record::{PoolPlace, pool_object, recorded, reservation_object};

use crate::batch::Request;
use crate::family::Family;
use crate::options::Options;
use crate::range::{sloppy_address, sloppy_subnet};
use crate::{Error, Exclusion, Pool, Range, Space, Warning};
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

/// What a network asks of Whereabouts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whereabouts {
    /// The pools; an interface gets one address of each, in this order.
    pub pools: Vec<Arc<Pool>>,
    /// Addresses that go to every interface after those, and are nobody's.
    pub fixed: Vec<FixedAddress>,
    /// Routes, as written.
    pub routes: Vec<Route>,
    /// DNS settings, as written.
    pub dns: Option<Value>,
    /// What has no effect.
    pub warnings: Vec<Warning>,
}

/// An address of the configuration itself (`addresses`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedAddress {
    /// Address and prefix length.
    pub address: IpNet,
    /// Its gateway.
    pub gateway: Option<IpAddr>,
}

/// A route of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Destination.
    pub dst: IpNet,
    /// Gateway.
    pub gw: Option<IpAddr>,
    /// Everything else that stands in it (`mtu`, `priority`, …).
    pub rest: Map<String, Value>,
}

impl Whereabouts {
    /// Reads the `ipam` object of a plugin's configuration.
    pub fn of_plugin(config: &Map<String, Value>) -> Result<Self, Error> {
        match config.get("ipam") {
            Some(Value::Object(ipam)) => Self::parse(ipam),
            _ => Err(Error::NoIpam),
        }
    }

    /// Reads an `ipam` object.
    pub fn parse(ipam: &Map<String, Value>) -> Result<Self, Error> {
        let options = Options::new("", ipam);
        let found = options.text("type")?.unwrap_or_default();
        if found != "whereabouts" {
            return Err(Error::OtherType { found: found.into() });
        }
        let mut warnings = Vec::new();
        options.unknown(known, &mut warnings);
        let gateway = address(&options, "gateway")?;
        let network = options.text("network_name")?;
        let overlaps_checked = options.flag("enable_overlapping_ranges")?.unwrap_or(true);
        let space = |subnet| match network {
            Some(name) => Space::network(name),
            None if overlaps_checked => Space::default_space(),
            None => Space::pool(subnet),
        };
        let mut pools = Vec::new();
        if let Some(text) = options.text("range")? {
            let range = top_range(&options, text, &mut warnings)?;
            pools.push(pool(&options, range, space(range.subnet), gateway)?);
        }
        for options in options.objects("ipRanges")? {
            options.unknown(|key| RANGE_KEYS.contains(&key), &mut warnings);
            let text = options
                .text("range")?
                .ok_or_else(|| Error::Range { field: options.field("range"), value: String::new() })?;
            let (start, end) = (address(&options, "range_start")?, address(&options, "range_end")?);
            let range = Range::parse(&options.field("range"), text, start, end, &mut warnings)?;
            pools.push(pool(&options, range, space(range.subnet), gateway)?);
        }
        let fixed = options.objects("addresses")?.iter().map(fixed).collect::<Result<Vec<_>, _>>()?;
        if pools.is_empty() && fixed.is_empty() {
            return Err(Error::NoRange);
        }
        let routes = options.list("routes")?.iter().enumerate();
        let routes = routes.map(|(position, value)| route(position, value)).collect::<Result<_, _>>()?;
        let dns =
            options.value("dns").filter(|dns| dns.as_object().is_none_or(|dns| !dns.is_empty())).cloned();
        Ok(Self { pools, fixed, routes, dns, warnings })
    }

    /// The same with the addresses of the runtime's arguments (`IP`, a list of addresses with prefix length, and
    /// `GATEWAY`, each for the addresses whose subnet it is in).
    pub fn with_arguments(mut self, ips: &str, gateways: &str) -> Result<Self, Error> {
        let listed = |text: &str| -> Vec<String> {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        let gateway = |text: String| {
            let wrong =
                || Error::Address { field: "GATEWAY".into(), value: text.clone(), expected: "an address" };
            sloppy_address(&text).ok_or_else(wrong)
        };
        let gateways = listed(gateways).into_iter().map(gateway).collect::<Result<Vec<_>, _>>()?;
        for text in listed(ips) {
            let expected = "an address with a prefix length";
            let wrong = || Error::Address { field: "IP".into(), value: text.clone(), expected };
            let address = sloppy_subnet(&text).ok_or_else(wrong)?;
            self.fixed.push(FixedAddress { address, gateway: None });
        }
        for fixed in &mut self.fixed {
            let within = gateways.iter().copied().find(|gateway| fixed.address.contains(gateway));
            fixed.gateway = within.or(fixed.gateway);
        }
        Ok(self)
    }

    /// The same, giving out nothing of what somebody else's records say is taken.
    pub fn leaving_out(mut self, taken: &[(Space, IpAddr)]) -> Self {
        for pool in &mut self.pools {
            // A record does not say whether its range may share addresses with others.
            let unnamed = Space::pool(pool.subnet()) == *pool.space();
            let within = |space: &Space| space == pool.space() || unnamed && *space == Space::default_space();
            let mine = taken.iter().filter(|(space, address)| within(space) && pool.contains(*address));
            let held_back: Vec<_> = mine.map(|(_, address)| (*address, *address)).collect();
            if !held_back.is_empty() {
                *pool = Arc::new(pool.holding_back(held_back));
            }
        }
        self
    }

    /// One request for each pool, for an interface of a pod.
    pub fn requests(&self, pod: &PodRef, sticky: bool, interface: &str, container: &str) -> Vec<Request> {
        let mut counted = [0u8; 2];
        let request = |pool: &Arc<Pool>| {
            let counter = &mut counted[usize::from(pool.family() == Family::V6)];
            let ordinal = *counter;
            *counter = counter.saturating_add(1);
            Request {
                pools: vec![Arc::clone(pool)],
                pod: pod.clone(),
                sticky,
                interface: interface.into(),
                ordinal,
                container: container.into(),
            }
        };
        self.pools.iter().map(request).collect()
    }
}

const RANGE_KEYS: [&str; 4] = ["range", "range_start", "range_end", "exclude"];

/// The options of Whereabouts, in lower case; those of its old etcd store too.
fn known(key: &str) -> bool {
    const KEYS: [&str; 19] = [
        "type",
        "ipranges",
        "gateway",
        "routes",
        "dns",
        "addresses",
        "network_name",
        "node_slice_size",
        "enable_overlapping_ranges",
        "leader_lease_duration",
        "leader_renew_deadline",
        "leader_retry_period",
        "kubernetes",
        "configuration_path",
        "log_file",
        "log_level",
        "reconciler_cron_expression",
        "sleep_for_race",
        "datastore",
    ];
    KEYS.contains(&key) || RANGE_KEYS.contains(&key) || key.starts_with("etcd_")
}

/// The range at the top level, whose start and end are dropped when they do not parse.
fn top_range(options: &Options<'_>, text: &str, warnings: &mut Vec<Warning>) -> Result<Range, Error> {
    let mut bound = |key: &str| -> Result<Option<IpAddr>, Error> {
        let Some(text) = options.text(key)? else { return Ok(None) };
        let address = sloppy_address(text);
        if address.is_none() {
            let (field, value) = (key.into(), text.into());
            warnings.push(Warning::Ignored { field, value, why: "it is not an address" });
        }
        Ok(address)
    };
    let (start, end) = (bound("range_start")?, bound("range_end")?);
    Range::parse("range", text, start, end, warnings)
}

fn pool(
    options: &Options<'_>,
    range: Range,
    space: Space,
    gateway: Option<IpAddr>,
) -> Result<Arc<Pool>, Error> {
    let exclusion = |(field, text): (String, &str)| Exclusion::parse(&field, text);
    let exclude = options.texts("exclude")?.into_iter().map(exclusion).collect::<Result<Vec<_>, _>>()?;
    // Upstream puts one gateway on the addresses of both families; a gateway of the other can never be reached.
    let gateway = gateway.filter(|gateway| Family::of(*gateway) == Family::of(range.subnet.addr()));
    let window = [(range.first, range.last)];
    Ok(Arc::new(Pool::new(range.to_string(), space, range.subnet, window, &exclude, gateway)?))
}

fn address(options: &Options<'_>, key: &str) -> Result<Option<IpAddr>, Error> {
    let Some(text) = options.text(key)? else { return Ok(None) };
    let wrong = || Error::Address { field: options.field(key), value: text.into(), expected: "an address" };
    sloppy_address(text).map(Some).ok_or_else(wrong)
}

fn fixed(options: &Options<'_>) -> Result<FixedAddress, Error> {
    let text = options.text("address")?.unwrap_or_default();
    let expected = "an address with a prefix length";
    let wrong = || Error::Address { field: options.field("address"), value: text.into(), expected };
    Ok(FixedAddress {
        address: sloppy_subnet(text).ok_or_else(wrong)?,
        gateway: address(options, "gateway")?,
    })
}

fn route(position: usize, value: &Value) -> Result<Route, Error> {
    let options = Options::element(format!("routes[{position}]"), value)?;
    let text = options.text("dst")?.unwrap_or_default();
    let wrong = || Error::Address { field: options.field("dst"), value: text.into(), expected: "a subnet" };
    let dst = sloppy_subnet(text).ok_or_else(wrong)?.trunc();
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !["dst", "gw"].contains(&key.to_lowercase().as_str()));
    Ok(Route { dst, gw: address(&options, "gw")?, rest })
}

#[cfg(test)]
mod tests;
