//! What pods and namespaces say in their annotations.

use crate::Error;
use crate::json_options::JsonOptions;
use ipnet::IpNet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The pools of each interface of a pod.
pub(super) const IPPOOLS_ANNOTATION: &str = "ipam.spidernet.io/ippools";
/// The pools of all interfaces of a pod.
pub(super) const IPPOOL_ANNOTATION: &str = "ipam.spidernet.io/ippool";
/// The pools of a namespace.
pub(super) const NAMESPACE_IPV4_ANNOTATION: &str = "ipam.spidernet.io/default-ipv4-ippool";
/// The same for IPv6.
pub(super) const NAMESPACE_IPV6_ANNOTATION: &str = "ipam.spidernet.io/default-ipv6-ippool";
/// Further routes of a pod.
pub const ROUTES_ANNOTATION: &str = "ipam.spidernet.io/routes";
/// Pools made on demand, which are not made here.
const SUBNET_ANNOTATIONS: [&str; 2] = ["ipam.spidernet.io/subnets", "ipam.spidernet.io/subnet"];

/// The pools that somebody names, of each family, the first preferred. Names may be patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPreference {
    /// For IPv4.
    pub v4: Vec<String>,
    /// For IPv6.
    pub v6: Vec<String>,
    /// Whether the interface gets no default route.
    pub clean_gateway: bool,
}

impl PoolPreference {
    /// Whether it names no pool.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// A route of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotatedRoute {
    /// Destination.
    pub dst: IpNet,
    /// Gateway; it decides which interface the route is of.
    pub gw: IpAddr,
}

type AnnotationMap = BTreeMap<String, String>;

fn invalid(key: &str, cause: impl Into<String>) -> Error {
    Error::InvalidAnnotation { key: key.into(), cause: cause.into() }
}

fn parse_json(key: &str, text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|e| invalid(key, format!("it is not JSON: {e}")))
}

/// Whether the pod asks for pools that would have to be made for it.
pub(super) fn reject_subnets(annotations: &AnnotationMap) -> Result<(), Error> {
    match SUBNET_ANNOTATIONS.into_iter().find(|key| annotations.contains_key(*key)) {
        Some(key) => Err(invalid(key, "pools are not made from SpiderSubnets; name a SpiderIPPool")),
        None => Ok(()),
    }
}

/// What `ippools` says about the interface, which is the one at `position`, if the pod has that annotation.
pub(super) fn interface_preference(
    annotations: &AnnotationMap,
    interface: &str,
    position: usize,
) -> Result<Option<PoolPreference>, Error> {
    let key = IPPOOLS_ANNOTATION;
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let Value::Array(list) = parse_json(key, text)? else { return Err(invalid(key, "it is not a list")) };
    let mut wishes = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let options =
            JsonOptions::from_element(format!("[{at}]"), value).map_err(|e| invalid(key, e.to_string()))?;
        let read = || -> Result<_, Error> {
            let wish = PoolPreference {
                v4: pool_names(&options, "ipv4")?,
                v6: pool_names(&options, "ipv6")?,
                clean_gateway: options.flag("cleangateway")?.unwrap_or_default(),
            };
            Ok((options.text("interface")?, wish))
        };
        let (name, wish) = read().map_err(|e| invalid(key, e.to_string()))?;
        if wish.is_empty() {
            return Err(invalid(key, format!("[{at}] names no pool")));
        }
        wishes.push((name, wish));
    }
    let named = wishes.iter().filter(|(name, _)| name.is_some()).count();
    if named != 0 && named != wishes.len() {
        return Err(invalid(key, "either every element says its interface, or none does"));
    }
    if named == 0 {
        let count = wishes.len();
        let missing = || invalid(key, format!("it has {count} elements, and none for {interface}"));
        return wishes.into_iter().nth(position).map(|(_, wish)| Some(wish)).ok_or_else(missing);
    }
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = wishes.iter().find(|(name, _)| !seen.insert(*name)) {
        return Err(invalid(key, format!("interface {} is there twice", name.unwrap_or_default())));
    }
    let found = wishes.into_iter().find(|(name, _)| *name == Some(interface));
    found.map(|(_, wish)| Some(wish)).ok_or_else(|| invalid(key, format!("it does not name {interface}")))
}

/// What `ippool` says, if the pod has that annotation.
pub(super) fn pod_preference(annotations: &AnnotationMap) -> Result<Option<PoolPreference>, Error> {
    let key = IPPOOL_ANNOTATION;
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let value = parse_json(key, text)?;
    let read = || -> Result<_, Error> {
        let options = JsonOptions::from_element(String::new(), &value)?;
        Ok(PoolPreference {
            v4: pool_names(&options, "ipv4")?,
            v6: pool_names(&options, "ipv6")?,
            clean_gateway: options.flag("cleangateway")?.unwrap_or_default(),
        })
    };
    let wish = read().map_err(|e| invalid(key, e.to_string()))?;
    if wish.is_empty() { Err(invalid(key, "it names no pool")) } else { Ok(Some(wish)) }
}

/// What the annotations of the namespace say.
pub(super) fn namespace_preference(annotations: &AnnotationMap) -> Result<Option<PoolPreference>, Error> {
    let list = |key: &str| -> Result<Vec<String>, Error> {
        let Some(text) = annotations.get(key) else { return Ok(Vec::new()) };
        serde_json::from_value(parse_json(key, text)?).map_err(|_| invalid(key, "it is not a list of names"))
    };
    let wish = PoolPreference {
        v4: list(NAMESPACE_IPV4_ANNOTATION)?,
        v6: list(NAMESPACE_IPV6_ANNOTATION)?,
        clean_gateway: false,
    };
    Ok(Some(wish).filter(|wish| !wish.is_empty()))
}

/// What `routes` says.
pub(super) fn parse_routes(annotations: &AnnotationMap) -> Result<Vec<AnnotatedRoute>, Error> {
    let Some(text) = annotations.get(ROUTES_ANNOTATION) else { return Ok(Vec::new()) };
    let Value::Array(list) = parse_json(ROUTES_ANNOTATION, text)? else {
        return Err(invalid(ROUTES_ANNOTATION, "it is not a list"));
    };
    let read = |(at, value): (usize, &Value)| {
        let part = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (dst, gw) = (part("dst"), part("gw"));
        Ok(AnnotatedRoute {
            dst: dst
                .parse()
                .map_err(|_| invalid(ROUTES_ANNOTATION, format!("[{at}].dst {dst:?} is not a subnet")))?,
            gw: gw
                .parse()
                .map_err(|_| invalid(ROUTES_ANNOTATION, format!("[{at}].gw {gw:?} is not an address")))?,
        })
    };
    list.iter().enumerate().map(read).collect()
}

fn pool_names(options: &JsonOptions<'_>, key: &str) -> Result<Vec<String>, Error> {
    Ok(options.texts(key)?.into_iter().map(|(_, name)| name.to_owned()).collect())
}
