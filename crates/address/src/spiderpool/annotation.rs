//! Spiderpool annotations of pods and namespaces.

use crate::Error;
use crate::json_options::JsonOptions;
use ipnet::IpNet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Pod annotation: pools per interface.
pub(super) const IPPOOLS_ANNOTATION: &str = "ipam.spidernet.io/ippools";
/// Pod annotation: pools for all interfaces.
pub(super) const IPPOOL_ANNOTATION: &str = "ipam.spidernet.io/ippool";
/// Namespace annotation: IPv4 pools.
pub(super) const NAMESPACE_IPV4_ANNOTATION: &str = "ipam.spidernet.io/default-ipv4-ippool";
/// Namespace annotation: IPv6 pools.
pub(super) const NAMESPACE_IPV6_ANNOTATION: &str = "ipam.spidernet.io/default-ipv6-ippool";
/// Pod annotation: additional routes.
pub const ROUTES_ANNOTATION: &str = "ipam.spidernet.io/routes";
/// Annotations for pools created from SpiderSubnets, which are not supported.
const SUBNET_ANNOTATIONS: [&str; 2] = ["ipam.spidernet.io/subnets", "ipam.spidernet.io/subnet"];

/// Pool names per family, in order of preference. Names may be glob patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPreference {
    pub v4: Vec<String>,
    pub v6: Vec<String>,
    /// If true, the interface gets no default route.
    pub clean_gateway: bool,
}

impl PoolPreference {
    /// Whether the preference names no pool.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// A route from [`ROUTES_ANNOTATION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotatedRoute {
    pub dst: IpNet,
    /// Gateway. The interface whose subnet contains the gateway gets the route.
    pub gw: IpAddr,
}

type AnnotationMap = BTreeMap<String, String>;

fn invalid(key: &str, cause: impl Into<String>) -> Error {
    Error::InvalidAnnotation { key: key.into(), cause: cause.into() }
}

fn parse_json(key: &str, text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|e| invalid(key, format!("invalid JSON: {e}")))
}

/// Returns an error if the pod requests pools from SpiderSubnets.
pub(super) fn reject_subnets(annotations: &AnnotationMap) -> Result<(), Error> {
    match SUBNET_ANNOTATIONS.into_iter().find(|key| annotations.contains_key(*key)) {
        Some(key) => Err(invalid(key, "SpiderSubnets are not supported; name a SpiderIPPool")),
        None => Ok(()),
    }
}

/// Reads the pools of an interface from the `ippools` annotation. Its elements are selected by interface name
/// or, if they have none, by `position`. Returns `None` if the pod does not have the annotation.
pub(super) fn interface_preference(
    annotations: &AnnotationMap,
    interface: &str,
    position: usize,
) -> Result<Option<PoolPreference>, Error> {
    let key = IPPOOLS_ANNOTATION;
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let Value::Array(list) = parse_json(key, text)? else { return Err(invalid(key, "must be a list")) };
    let mut preferences = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let options = JsonOptions::from_element(format!("[{index}]"), value)
            .map_err(|e| invalid(key, e.to_string()))?;
        let read =
            read_preference(&options).and_then(|preference| Ok((options.text("interface")?, preference)));
        let (name, preference) = read.map_err(|e| invalid(key, e.to_string()))?;
        if preference.is_empty() {
            return Err(invalid(key, format!("element [{index}] names no pool")));
        }
        preferences.push((name, preference));
    }
    let named = preferences.iter().filter(|(name, _)| name.is_some()).count();
    if named != 0 && named != preferences.len() {
        return Err(invalid(key, "either all elements or none must set interface"));
    }
    if named == 0 {
        let count = preferences.len();
        let missing = || invalid(key, format!("has {count} elements but none for interface {interface}"));
        return preferences
            .into_iter()
            .nth(position)
            .map(|(_, preference)| Some(preference))
            .ok_or_else(missing);
    }
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = preferences.iter().find(|(name, _)| !seen.insert(*name)) {
        return Err(invalid(key, format!("interface {} is listed twice", name.unwrap_or_default())));
    }
    let found = preferences.into_iter().find(|(name, _)| *name == Some(interface));
    found
        .map(|(_, preference)| Some(preference))
        .ok_or_else(|| invalid(key, format!("has no element for interface {interface}")))
}

/// Reads the pools of one element of the `ippools` annotation, or of the `ippool` annotation.
fn read_preference(options: &JsonOptions<'_>) -> Result<PoolPreference, Error> {
    Ok(PoolPreference {
        v4: pool_names(options, "ipv4")?,
        v6: pool_names(options, "ipv6")?,
        clean_gateway: options.flag("cleangateway")?.unwrap_or_default(),
    })
}

/// Reads the `ippool` annotation. Returns `None` if the pod does not have it.
pub(super) fn pod_preference(annotations: &AnnotationMap) -> Result<Option<PoolPreference>, Error> {
    let key = IPPOOL_ANNOTATION;
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let value = parse_json(key, text)?;
    let read = JsonOptions::from_element(String::new(), &value).and_then(|options| read_preference(&options));
    let preference = read.map_err(|e| invalid(key, e.to_string()))?;
    if preference.is_empty() { Err(invalid(key, "names no pool")) } else { Ok(Some(preference)) }
}

/// Reads the annotations of the namespace. Returns `None` if they name no pool.
pub(super) fn namespace_preference(annotations: &AnnotationMap) -> Result<Option<PoolPreference>, Error> {
    let list = |key: &str| -> Result<Vec<String>, Error> {
        let Some(text) = annotations.get(key) else { return Ok(Vec::new()) };
        serde_json::from_value(parse_json(key, text)?).map_err(|_| invalid(key, "must be a list of names"))
    };
    let preference = PoolPreference {
        v4: list(NAMESPACE_IPV4_ANNOTATION)?,
        v6: list(NAMESPACE_IPV6_ANNOTATION)?,
        clean_gateway: false,
    };
    Ok(Some(preference).filter(|preference| !preference.is_empty()))
}

/// Reads the `routes` annotation. Returns no routes if the pod does not have it.
pub(super) fn parse_routes(annotations: &AnnotationMap) -> Result<Vec<AnnotatedRoute>, Error> {
    let Some(text) = annotations.get(ROUTES_ANNOTATION) else { return Ok(Vec::new()) };
    let Value::Array(list) = parse_json(ROUTES_ANNOTATION, text)? else {
        return Err(invalid(ROUTES_ANNOTATION, "must be a list"));
    };
    let read = |(index, value): (usize, &Value)| {
        let part = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (dst, gw) = (part("dst"), part("gw"));
        Ok(AnnotatedRoute {
            dst: dst
                .parse()
                .map_err(|_| invalid(ROUTES_ANNOTATION, format!("[{index}].dst {dst:?} is not a subnet")))?,
            gw: gw.parse().map_err(|_| {
                invalid(ROUTES_ANNOTATION, format!("[{index}].gw {gw:?} is not an IP address"))
            })?,
        })
    };
    list.iter().enumerate().map(read).collect()
}

fn pool_names(options: &JsonOptions<'_>, key: &str) -> Result<Vec<String>, Error> {
    Ok(options.texts(key)?.into_iter().map(|(_, name)| name.to_owned()).collect())
}
