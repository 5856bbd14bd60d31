//! Errors of IPAM configurations and of address requests.

use crate::ip_space::IpFamily;
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::net::IpAddr;

/// An invalid IPAM configuration, or an address request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin configuration has no `ipam` object.
    #[error("IPAM config missing 'ipam' key")]
    NoIpam,
    /// The `ipam` object is for another IPAM plugin.
    #[error("only interested in networks whose IPAM type is 'whereabouts'. This one was: {found}")]
    WrongIpamType {
        /// Value of `ipam.type`.
        found: String,
    },
    /// A value has the wrong JSON type.
    #[error("{field} must be {expected}, not {found}")]
    WrongType {
        /// Field, as a path below `ipam`.
        field: String,
        /// What the field must be, for example `a list` or `an address`.
        expected: &'static str,
        found: String,
    },
    /// The configuration has neither a range nor a static address.
    #[error("the ipam object sets neither range, ipRanges nor addresses")]
    NoRange,
    /// A range is neither `<network>/<prefix>` nor `<first>-<last>/<prefix>`.
    #[error("{field}: invalid CIDR or range '{value}'")]
    InvalidRange { field: String, value: String },
    /// The first address of a range is outside the subnet of the last address.
    #[error("{field}: invalid range start for CIDR {subnet}: {start}")]
    StartOutsideSubnet {
        field: String,
        /// Subnet of the last address.
        subnet: IpNet,
        start: IpAddr,
    },
    /// A value is not an address, or lacks a prefix length.
    #[error("{field}: '{value}' is not {expected}")]
    InvalidAddress {
        field: String,
        value: String,
        /// What the field must be, for example `a list` or `an address`.
        expected: &'static str,
    },
    /// An exclusion is neither an address nor a subnet.
    #[error("could not parse exclude range {value} ({field})")]
    InvalidExclude { field: String, value: String },
    /// The pool has no usable address: the subnet is too small or fully excluded.
    #[error("{pool} has no usable address")]
    NoUsableAddress { pool: String },
    /// All addresses of the request's pools are assigned.
    #[error(
        "{}{}{}", exhausted_pools(.pools), holder_list(.holders, *.more),
        .notices.iter().map(|notice| format!("; {notice}")).collect::<String>()
    )]
    Exhausted {
        /// Names of the pools that were tried, with the number of addresses of each.
        pools: Vec<(String, u128)>,
        /// Holders of some of the addresses.
        holders: Vec<AddressHolder>,
        /// Number of assigned addresses whose holders are not listed.
        more: usize,
        /// Why addresses of the pools are withheld.
        notices: Vec<String>,
    },
    /// It is unknown which addresses of a pool are in use, so none is assigned.
    #[error("no address of {pool} is assigned: {cause}")]
    RecordsUnreadable { pool: String, cause: String },
    /// A requested address is not an address, or the list of them is not a list.
    #[error("requested addresses: {cause}")]
    InvalidRequest { cause: String },
    /// The pod requests an address that is in none of the network's pools.
    #[error("requested address {address} is in no pool of the network: {}", .pools.join("; "))]
    OutsidePools {
        address: IpAddr,
        /// Names and assignable ranges of the pools.
        pools: Vec<String>,
    },
    /// The pod requests an address that another pod has, or that is withheld from assignment.
    #[error("requested address {address} of pool {pool} is {}", holder_or_withheld(.holder.as_ref()))]
    RequestedInUse {
        address: IpAddr,
        pool: String,
        /// The pod that has the address; `None` if the address is withheld.
        holder: Option<AddressHolder>,
    },
    /// A field of a SpiderIPPool is invalid.
    #[error("SpiderIPPool {pool}: {field}: {cause}")]
    InvalidPool { pool: String, field: String, cause: String },
    /// The list `ips` of a SpiderReservedIP cannot be parsed.
    #[error("SpiderReservedIP {object}: ips: {cause}")]
    InvalidReservedIp { object: String, cause: String },
    #[error("annotation {key}: {cause}")]
    InvalidAnnotation { key: String, cause: String },
    #[error("pool {pool} is listed twice for interface {interface}")]
    DuplicatePool { interface: String, pool: String },
    /// No annotation and no `ipam` object names a pool for the interface, and there is no default pool.
    #[error("no IPPool available for {interface}, no pool selection rules of any type are specified")]
    NoPool { interface: String },
    /// None of the configured pools is eligible.
    #[error(
        "no IPPool available, all {family} IPPools [{}] of {interface} filtered out: {}",
        .requested.join(", "), .reasons.join("; ")
    )]
    NoEligiblePool {
        interface: String,
        family: IpFamily,
        /// Pool names or patterns, as configured.
        requested: Vec<String>,
        /// Why each pool is not eligible.
        reasons: Vec<String>,
    },
    /// The previous pod of a StatefulSet replica still uses the replica's address.
    #[error(
        "{} is still assigned to the previous pod {} on node {}, whose sandbox is not known to be deleted",
        .holder.address, .holder.pod, .holder.node
    )]
    StillInUse { holder: AddressHolder },
    /// The request lacks the pod or sandbox identity, so the address could not be matched to its owner later.
    #[error("address request for interface {interface} of pod {pod} has no {missing}")]
    MissingIdentity { pod: String, interface: String, missing: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressHolder {
    pub address: IpAddr,
    /// Pod that has the address, `<namespace>/<name>`.
    pub pod: String,
    pub node: String,
}

/// Formats the exhausted pools with the wording of Whereabouts (ranges) or Spiderpool (named pools).
fn exhausted_pools(pools: &[(String, u128)]) -> String {
    let describe = |(name, capacity): &(String, u128)| match capacity {
        0 => format!("{name} has no assignable address (disabled, being deleted, or fully reserved)"),
        _ => format!("all {capacity} addresses of {name} are assigned"),
    };
    let ranges = pools.iter().all(|(name, _)| name.contains('/'));
    let lead = if ranges { "Could not allocate IP in range" } else { "all IP addresses used out" };
    format!("{lead}: {}", pools.iter().map(describe).collect::<Vec<_>>().join(", "))
}

/// Formats the holders of the assigned addresses as the end of the message of [`Error::Exhausted`].
fn holder_list(holders: &[AddressHolder], more: usize) -> String {
    let describe = |holder: &AddressHolder| match holder.node.as_str() {
        // The leader withholds the address of a foreign record until it is known whether a pod has it.
        "" => format!("{} to {} according to Whereabouts or Spiderpool", holder.address, holder.pod),
        node => format!("{} to {} on {node}", holder.address, holder.pod),
    };
    let lead = if holders.is_empty() { "" } else { ": " };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{lead}{}{more}", holders.iter().map(describe).collect::<Vec<_>>().join(", "))
}

/// Formats why a requested address cannot be assigned.
fn holder_or_withheld(holder: Option<&AddressHolder>) -> String {
    match holder {
        Some(holder) => format!("assigned to {} on {}", holder.pod, holder.node),
        None => "not assignable: it is excluded or reserved, Whereabouts or Spiderpool has recorded it, or the pool is \
                 disabled"
            .to_owned(),
    }
}

impl Error {
    /// Converts the error to a [`Fault`] with a code and a remedy; `what` names the affected network.
    pub fn fault(&self, what: &str) -> Fault {
        let (code, remedy) = match self {
            Self::Exhausted { .. } => (FaultCode::PoolExhausted, "delete unused pods, or widen the range"),
            Self::MissingIdentity { .. } => {
                (FaultCode::BadCall, "use a container runtime that passes K8S_POD_UID and CNI_CONTAINERID")
            }
            Self::RecordsUnreadable { .. } => (
                FaultCode::NoPool,
                "correct or delete the object, or restore the permissions of Ferroband; the pod is retried \
                 automatically",
            ),
            Self::NoUsableAddress { .. } => (
                FaultCode::InvalidConfig,
                "use a prefix of /30 (IPv6: /126) or shorter, and exclude fewer addresses",
            ),
            Self::InvalidAnnotation { .. } | Self::DuplicatePool { .. } => {
                (FaultCode::InvalidAnnotation, "correct the annotation of the pod or its namespace")
            }
            Self::StillInUse { .. } => (
                FaultCode::AddressHeld,
                "no action needed; retried automatically; if the node will not come back, delete its Node object or \
                 taint it node.kubernetes.io/out-of-service",
            ),
            Self::InvalidRequest { .. } => (
                FaultCode::InvalidAnnotation,
                "correct `ips` or `cni-args` in the pod's annotation k8s.v1.cni.cncf.io/networks",
            ),
            Self::OutsidePools { .. } => (
                FaultCode::InvalidAnnotation,
                "request an address of these ranges, or remove the request (`ips` in the pod's annotation \
                 k8s.v1.cni.cncf.io/networks)",
            ),
            Self::RequestedInUse { .. } => (
                FaultCode::AddressHeld,
                "request another address, or delete the pod that has it; the pod is retried automatically",
            ),
            Self::NoPool { .. } => (
                FaultCode::NoPool,
                "name a SpiderIPPool in the network, the pod annotation ipam.spidernet.io/ippool or the namespace",
            ),
            Self::NoEligiblePool { .. } => (
                FaultCode::NoPool,
                "make one of the pools eligible, or name another pool; the pod is retried automatically",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_pool_names_who_has_its_addresses() {
        let holder = |last: u8, node: &str| AddressHolder {
            address: [10, 0, 0, last].into(),
            pod: "ns/p".into(),
            node: node.into(),
        };
        let (pools, holders) = (vec![("10.0.0.0/30".to_owned(), 2)], vec![holder(1, "n1"), holder(2, "")]);
        let error = Error::Exhausted { pools, holders, more: 0, notices: Vec::new() }.to_string();
        let end = "10.0.0.1 to ns/p on n1, 10.0.0.2 to ns/p according to Whereabouts or Spiderpool";
        assert!(error.ends_with(end), "{error}");
    }
}
