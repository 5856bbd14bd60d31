//! Parses Whereabouts' `ipam` object.
//!
//! ```text
//! {"type": "whereabouts", "range": "192.168.0.0/24", "exclude": ["192.168.0.0/28"], …}
//!     │ range, ipRanges      ──▶ one AddressPool each; an interface gets one address of each
//!     │ addresses            ──▶ static addresses, not recorded, as in Whereabouts
//!     └ routes, dns, gateway ──▶ copied to the result
//! ```
//!
//! Options for Whereabouts' own implementation (leases, log files, kubeconfig, node slices) are accepted and have
//! no effect, because address blocks replace it.

mod flat_file;
mod object_names;

pub use flat_file::merge_flat_file;
pub use object_names::{
    WhereaboutsAllocationKey, allocation_key, node_slice_space, parse_allocation_key, ranges_in_name,
    reservation_name,
};

use crate::batch::AddressRequest;
use crate::ip_space::IpFamily;
use crate::json_options::JsonOptions;
use crate::range::{parse_lenient_address, parse_lenient_subnet};
use crate::{AddressPool, Error, Exclusion, IpRange, IpSpace, IpamWarning, RequestedAddress};
use ferroband_model::{
    PodRef,
    config_object::{get_key, remove_key},
};
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

/// The settings of a network's `ipam` object of type `whereabouts`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhereaboutsConfig {
    /// Pools in the order of the configuration. An interface gets one address from each.
    pub pools: Vec<Arc<AddressPool>>,
    /// Static addresses that every interface gets in addition. They are not recorded in address blocks.
    pub static_addresses: Vec<StaticAddress>,
    pub routes: Vec<IpamRoute>,
    /// DNS settings, copied to the CNI result.
    pub dns: Option<Value>,
    /// Settings of the `ipam` object that have no effect.
    pub warnings: Vec<IpamWarning>,
}

/// A static address (`addresses`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticAddress {
    /// The address with its prefix length, as configured.
    pub address: IpNet,
    pub gateway: Option<IpAddr>,
}

/// A route of an `ipam` object.
#[derive(Clone, Debug, PartialEq)]
pub struct IpamRoute {
    pub dst: IpNet,
    pub gw: Option<IpAddr>,
    /// Keys of the route other than `dst` and `gw`, for example `mtu` and `priority`.
    pub extra: Map<String, Value>,
}

impl WhereaboutsConfig {
    /// Reads the `ipam` object of a plugin configuration.
    pub fn from_plugin(config: &Map<String, Value>) -> Result<Self, Error> {
        match get_key(config, "ipam") {
            Some(Value::Object(ipam)) => Self::parse(ipam),
            _ => Err(Error::NoIpam),
        }
    }

    /// Reads an `ipam` object. Returns an error unless its `type` is `whereabouts`.
    pub fn parse(ipam: &Map<String, Value>) -> Result<Self, Error> {
        let options = JsonOptions::new("", ipam);
        let found = options.text("type")?.unwrap_or_default();
        if found != "whereabouts" {
            return Err(Error::WrongIpamType { found: found.into() });
        }
        let mut warnings = Vec::new();
        options.warn_unknown(is_known_key, &mut warnings);
        let gateway = parse_address(&options, "gateway")?;
        let network = options.text("network_name")?;
        let overlaps_checked = options.flag("enable_overlapping_ranges")?.unwrap_or(true);
        let space = |subnet| match network {
            Some(name) => IpSpace::network(name),
            None if overlaps_checked => IpSpace::default_space(),
            None => IpSpace::pool(subnet),
        };
        let mut pools = Vec::new();
        if let Some(text) = options.text("range")? {
            let range = parse_top_range(&options, text, &mut warnings)?;
            pools.push(build_pool(&options, range, space(range.subnet), gateway)?);
        }
        for options in options.objects("ipRanges")? {
            options.warn_unknown(|key| RANGE_KEYS.contains(&key), &mut warnings);
            let text = options.text("range")?.ok_or_else(|| Error::InvalidRange {
                field: options.field_path("range"),
                value: String::new(),
            })?;
            let (start, end) =
                (parse_address(&options, "range_start")?, parse_address(&options, "range_end")?);
            let range = IpRange::parse(&options.field_path("range"), text, start, end, &mut warnings)?;
            pools.push(build_pool(&options, range, space(range.subnet), gateway)?);
        }
        let static_addresses =
            options.objects("addresses")?.iter().map(parse_static).collect::<Result<Vec<_>, _>>()?;
        if pools.is_empty() && static_addresses.is_empty() {
            return Err(Error::NoRange);
        }
        let routes = options.list("routes")?.iter().enumerate();
        let routes =
            routes.map(|(position, value)| parse_route(position, value)).collect::<Result<_, _>>()?;
        let dns =
            options.value("dns").filter(|dns| dns.as_object().is_none_or(|dns| !dns.is_empty())).cloned();
        Ok(Self { pools, static_addresses, routes, dns, warnings })
    }

    /// Adds the requested addresses as static addresses if the network has no pool, as in Whereabouts. In a network
    /// with pools, requested addresses come from the pools ([`crate::restrict_to_requested`]).
    pub fn with_requested(mut self, requested: &[RequestedAddress]) -> Result<Self, Error> {
        if self.pools.is_empty() {
            for one in requested {
                self.static_addresses.push(StaticAddress { address: one.with_prefix()?, gateway: None });
            }
        }
        Ok(self)
    }

    /// Creates one request per pool for an interface of a pod.
    pub fn requests(
        &self,
        pod: &PodRef,
        sticky: bool,
        interface: &str,
        container: &str,
    ) -> Vec<AddressRequest> {
        let mut counted = [0u8; 2];
        let request = |pool: &Arc<AddressPool>| {
            let counter = &mut counted[usize::from(pool.family() == IpFamily::V6)];
            let ordinal = *counter;
            *counter = counter.saturating_add(1);
            AddressRequest {
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

/// Whether `key`, in lower case, is an option of Whereabouts, including those of its former etcd datastore.
fn is_known_key(key: &str) -> bool {
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

/// Parses `range`, `range_start` and `range_end` of the `ipam` object itself, not of `ipRanges`. As in
/// Whereabouts, a start or end that is not an address is ignored.
fn parse_top_range(
    options: &JsonOptions<'_>,
    text: &str,
    warnings: &mut Vec<IpamWarning>,
) -> Result<IpRange, Error> {
    let mut bound = |key: &str| -> Result<Option<IpAddr>, Error> {
        let Some(text) = options.text(key)? else { return Ok(None) };
        let address = parse_lenient_address(text);
        if address.is_none() {
            let (field, value) = (key.into(), text.into());
            warnings.push(IpamWarning::Ignored { field, value, reason: "not an address" });
        }
        Ok(address)
    };
    let (start, end) = (bound("range_start")?, bound("range_end")?);
    IpRange::parse("range", text, start, end, warnings)
}

fn build_pool(
    options: &JsonOptions<'_>,
    range: IpRange,
    space: IpSpace,
    gateway: Option<IpAddr>,
) -> Result<Arc<AddressPool>, Error> {
    let exclusion = |(field, text): (String, &str)| Exclusion::parse(&field, text);
    let exclude = options.texts("exclude")?.into_iter().map(exclusion).collect::<Result<Vec<_>, _>>()?;
    // Whereabouts sets one gateway for both families. A gateway of the other family would be unreachable.
    let gateway = gateway.filter(|gateway| IpFamily::of(*gateway) == IpFamily::of(range.subnet.addr()));
    let window = [(range.first, range.last)];
    Ok(Arc::new(AddressPool::new(range.to_string(), space, range.subnet, window, &exclude, gateway)?))
}

fn parse_address(options: &JsonOptions<'_>, key: &str) -> Result<Option<IpAddr>, Error> {
    let Some(text) = options.text(key)? else { return Ok(None) };
    let invalid = || Error::InvalidAddress {
        field: options.field_path(key),
        value: text.into(),
        expected: "an address",
    };
    parse_lenient_address(text).map(Some).ok_or_else(invalid)
}

fn parse_static(options: &JsonOptions<'_>) -> Result<StaticAddress, Error> {
    let text = options.text("address")?.unwrap_or_default();
    let expected = "an address with a prefix length";
    let invalid =
        || Error::InvalidAddress { field: options.field_path("address"), value: text.into(), expected };
    Ok(StaticAddress {
        address: parse_lenient_subnet(text).ok_or_else(invalid)?,
        gateway: parse_address(options, "gateway")?,
    })
}

fn parse_route(position: usize, value: &Value) -> Result<IpamRoute, Error> {
    let options = JsonOptions::from_element(format!("routes[{position}]"), value)?;
    let text = options.text("dst")?.unwrap_or_default();
    let invalid = || Error::InvalidAddress {
        field: options.field_path("dst"),
        value: text.into(),
        expected: "a subnet",
    };
    let dst = parse_lenient_subnet(text).ok_or_else(invalid)?.trunc();
    let mut rest = value.as_object().cloned().unwrap_or_default();
    for key in ["dst", "gw"] {
        remove_key(&mut rest, key);
    }
    Ok(IpamRoute { dst, gw: parse_address(&options, "gw")?, extra: rest })
}

#[cfg(test)]
mod tests;
