//! What can be wrong with a configuration, and why a request goes unserved.

use crate::family::IpFamily;
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin's configuration has no `ipam` object.
    #[error("IPAM config missing 'ipam' key")]
    NoIpam,
    /// The `ipam` object is another front end's.
    #[error("only interested in networks whose IPAM type is 'whereabouts'. This one was: {found}")]
    WrongIpamType {
        /// What `type` says.
        found: String,
    },
    /// A value has the wrong JSON type.
    #[error("{field} must be {expected}, not {found}")]
    WrongType {
        /// The field, as a path below `ipam`.
        field: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// Neither a range nor a static address is configured.
    #[error("neither range, ipRanges nor addresses is set")]
    NoRange,
    /// A range is not `<network>/<prefix>` or `<first>-<last>/<prefix>`.
    #[error("{field}: invalid CIDR or range '{value}'")]
    InvalidRange {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// The first address of a range lies outside the subnet of its last.
    #[error("{field}: invalid range start for CIDR {subnet}: {start}")]
    StartOutsideSubnet {
        /// The field.
        field: String,
        /// The subnet that the last address and the prefix length make.
        subnet: IpNet,
        /// The first address.
        start: IpAddr,
    },
    /// Not an address, or not one with a prefix length.
    #[error("{field}: '{value}' is not {expected}")]
    InvalidAddress {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An exclusion is neither an address nor a subnet.
    #[error("could not parse exclude range {value} ({field})")]
    InvalidExclude {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// Nothing is left to give out: the subnet is too small or all of it is excluded.
    #[error("{pool} has no usable address")]
    NoUsableAddress {
        /// The pool.
        pool: String,
    },
    /// Every address is assigned.
    #[error("{}{}", ExhaustedPools(.pools), HolderList(.holders, *.more))]
    Exhausted {
        /// The pools that were tried, and how many addresses each has.
        pools: Vec<(String, u128)>,
        /// Some of those who hold them.
        holders: Vec<AddressHolder>,
        /// How many more hold one.
        more: usize,
    },
    /// A pool object cannot be used.
    #[error("SpiderIPPool {pool}: {field}: {cause}")]
    InvalidPool {
        /// The pool.
        pool: String,
        /// The field.
        field: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A SpiderReservedIP cannot be used.
    #[error("SpiderReservedIP {object}: ips: {cause}")]
    InvalidReservedIp {
        /// The object.
        object: String,
        /// What is wrong with it.
        cause: String,
    },
    /// An annotation cannot be understood.
    #[error("annotation {key}: {cause}")]
    InvalidAnnotation {
        /// Its name.
        key: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A pool is named twice for one interface.
    #[error("pool {pool} is named twice for {interface}")]
    DuplicatePool {
        /// The interface.
        interface: String,
        /// The pool.
        pool: String,
    },
    /// Nobody names a pool.
    #[error("no IPPool available for {interface}, no pool selection rules of any type are specified")]
    NoPool {
        /// The interface.
        interface: String,
    },
    /// None of the pools that are named can be used.
    #[error("no IPPool available, all {family} IPPools [{}] of {interface} filtered out: {}", .requested.join(", "), .reasons.join("; "))]
    NoEligiblePool {
        /// The interface.
        interface: String,
        /// The family.
        family: IpFamily,
        /// The pools, as named.
        requested: Vec<String>,
        /// Why each is out.
        reasons: Vec<String>,
    },
    /// The address that a pod of a StatefulSet keeps is still held by its predecessor.
    #[error("{} is still held by the former {} on node {}, which has not told that its sandbox is gone", .holder.address, .holder.pod, .holder.node)]
    StillInUse {
        /// Who holds it.
        holder: AddressHolder,
    },
    /// The request does not say which pod or sandbox it is for, so its address could never be told from others.
    #[error("a request for interface {interface} of pod {pod} has no {missing}")]
    MissingIdentity {
        /// The pod.
        pod: String,
        /// The interface.
        interface: String,
        /// What is missing.
        missing: &'static str,
    },
}

/// Who holds an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressHolder {
    /// The address.
    pub address: IpAddr,
    /// The pod, `<namespace>/<name>`.
    pub pod: String,
    /// The pod's node.
    pub node: String,
}

/// The pools that are full, each front end's in the words that its users know.
struct ExhaustedPools<'a>(&'a [(String, u128)]);

impl fmt::Display for ExhaustedPools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.iter().all(|(name, _)| name.contains('/'));
        f.write_str(if ranges { "Could not allocate IP in range: " } else { "all IP addresses used out: " })?;
        for (position, (name, capacity)) in self.0.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            match capacity {
                0 => write!(f, "{name} gives out no address (disabled, being deleted, or all reserved)")?,
                _ => write!(f, "all {capacity} addresses of {name} are assigned")?,
            }
        }
        Ok(())
    }
}

/// The holders as the end of a sentence.
struct HolderList<'a>(&'a [AddressHolder], usize);

impl fmt::Display for HolderList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, holding) in self.0.iter().enumerate() {
            let lead = if position == 0 { ": " } else { ", " };
            write!(f, "{lead}{} to {} on {}", holding.address, holding.pod, holding.node)?;
        }
        if self.1 > 0 { write!(f, " and {} more", self.1) } else { Ok(()) }
    }
}

impl Error {
    /// The error as people see it, `what` being the network it concerns.
    pub fn fault(&self, what: &str) -> Fault {
        let (code, remedy) = match self {
            Self::Exhausted { .. } => {
                (FaultCode::PoolExhausted, "delete pods that no longer need it, or widen the range")
            }
            Self::MissingIdentity { .. } => {
                (FaultCode::BadCall, "let the runtime pass K8S_POD_UID and CNI_CONTAINERID")
            }
            Self::NoUsableAddress { .. } => {
                (FaultCode::InvalidConfig, "use a prefix of /30 (/126) or shorter and exclude less of it")
            }
            Self::InvalidAnnotation { .. } | Self::DuplicatePool { .. } => {
                (FaultCode::InvalidAnnotation, "correct the annotation of the pod or its namespace")
            }
            Self::StillInUse { .. } => (
                FaultCode::AddressHeld,
                "the pod is tried again by itself; if that node is lost, delete its Node or taint it node.kubernetes.io/out-of-service",
            ),
            Self::NoPool { .. } => (
                FaultCode::NoPool,
                "name a SpiderIPPool in the network, the pod's annotation ipam.spidernet.io/ippool or its namespace",
            ),
            Self::NoEligiblePool { .. } => (
                FaultCode::NoPool,
                "make one of the pools fit, or name another; the pod is tried again by itself",
            ),
            Self::InvalidPool { .. } => (FaultCode::InvalidConfig, "correct the SpiderIPPool"),
            Self::WrongType { .. } => {
                (FaultCode::Undecodable, "correct the field in the network's ipam object")
            }
            _ => (FaultCode::InvalidConfig, "correct the network's ipam object"),
        };
        Fault::new(code, what, self.to_string(), remedy)
    }
}
