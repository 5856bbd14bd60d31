//! Errors of CNI calls. [`Error::fault`] formats them for users.

use crate::protocol::{ChannelError, CniCommand, CniVersion, PluginError};
use ferroband_config::ConfigError;
use ferroband_model::{Fault, PciAddress};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error as Derive;

/// Any failure of a CNI call, from parsing the call to printing its result.
#[derive(Debug, Derive)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    // Errors in the environment variables of the call.
    #[error("{command} needs environment variables that are not set: {}", names.join(", "))]
    MissingVariables { command: CniCommand, names: Vec<&'static str> },
    #[error("environment variable {name} is {value:?} but must be {expected}")]
    Variable { name: &'static str, value: String, expected: &'static str },
    #[error("CNI_CONTAINERID is empty")]
    EmptyContainer,
    #[error("unknown CNI_COMMAND {command:?}")]
    UnknownCommand { command: String },
    #[error("{program:?} is not the name of a Ferroband plugin")]
    UnknownProgram { program: String },
    #[error("{pair:?} in CNI_ARGS is not KEY=VALUE")]
    MalformedArgument { pair: String },
    #[error("unknown key {key:?} in CNI_ARGS, and IgnoreUnknown is not set")]
    UnknownArgument { key: String },
    #[error("sandbox {path} is the plugin's own network namespace")]
    OwnNamespace { path: String },

    // Errors in the configuration, and of standard input and output.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot read the configuration from standard input: {source}")]
    Stdin { source: io::Error },
    #[error("cannot print the result to standard output: {source}")]
    Stdout { source: io::Error },
    #[error("{command} needs CNI version {needed} or newer, but the configuration has {version}")]
    CommandNeedsVersion { command: CniCommand, version: CniVersion, needed: CniVersion },
    #[error("ibKubernetesEnabled is set, but virtual function {function} has no GUID")]
    NoManagedGuid { function: PciAddress },
    #[error("the configuration has no prevResult")]
    NoPreviousResult,

    // Errors in CNI results.
    #[error("invalid CNI result at `{}`: {}", source.path(), source.inner())]
    InvalidResult { source: serde_path_to_error::Error<serde_json::Error> },
    #[error("a result of CNI version {version} must have an address")]
    ResultNeedsAddress { version: CniVersion },
    #[error("route to {dst} has an invalid value of the attribute `{attribute}`")]
    RouteAttribute { dst: ipnet::IpNet, attribute: String },

    // Failures of other plugins.
    #[error("invalid plugin name {plugin:?}")]
    PluginName { plugin: String },
    #[error("plugin {plugin} not found in {path}")]
    NoPlugin { plugin: String, path: String },
    #[error("plugin {plugin} executes the IPAM plugin {alias}, which is not in {path}")]
    NoAlias { plugin: String, alias: String, path: String },
    #[error("cannot run the plugin {}: {source}", file.display())]
    Exec { file: PathBuf, source: io::Error },
    #[error("plugin {plugin} failed on {command}: {}", reply.msg)]
    Plugin { plugin: String, command: CniCommand, reply: PluginError },
    #[error("plugin {plugin} did not print JSON: {source}")]
    PluginOutput { plugin: String, source: serde_json::Error },
    #[error("IPAM plugin {plugin} returned no address for {ifname}")]
    NoAddress { plugin: String, ifname: String },

    // Failures of state files and locks.
    #[error("cannot {doing} {}: {source}", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("state file {} is damaged: {source}", path.display())]
    CorruptFile { path: PathBuf, source: serde_path_to_error::Error<serde_json::Error> },
    #[error("state file {} has unsupported schema version {schema}", path.display())]
    UnknownSchema { path: PathBuf, schema: u32 },
    #[error("journal {} is inconsistent: the numbers of planned and recorded steps differ", path.display())]
    Inconsistent { path: PathBuf },
    #[error("another CNI call holds the lock {}", path.display())]
    Locked { path: PathBuf },

    // Failures to reach the node daemon, and failures that it reports.
    #[error("cannot connect to the node daemon at {}: {source}", socket.display())]
    DaemonUnavailable { socket: PathBuf, source: io::Error },
    #[error("connection to the node daemon failed: {source}")]
    Channel {
        #[from]
        source: ChannelError,
    },
    /// A fault reported by the daemon, by a helper process or by the simulated host.
    #[error("{0}")]
    Reported(Fault),
    #[error("the plugin cannot serve an ADD now: {source}")]
    NotReady { source: Box<Error> },
    #[error("the default network has not created its readiness file {} yet", path.display())]
    DefaultNetworkNotReady { path: PathBuf },
    #[error("unexpected reply from the node daemon, expected {expected}")]
    UnexpectedReply { expected: &'static str },

    // Problems with virtual functions and RDMA devices.
    #[error("there is no PCI function {function} on this node")]
    NoFunction { function: String },
    #[error("PCI function {function} is not a virtual function and not bound to vfio-pci")]
    NotVirtual { function: PciAddress },
    #[error("vfioPciMode is set, but function {function} is bound to driver {driver:?}, not vfio-pci")]
    NotVfio { function: PciAddress, driver: String },
    #[error("virtual function {function} belongs to an Ethernet adapter")]
    NotInfiniBand { function: PciAddress },
    #[error("VF {interface} GUID is not valid")]
    NoGuid { interface: String },
    #[error("virtual function {function} has no network interface")]
    NoNetdev { function: PciAddress },
    #[error("PCI function {function} is already attached to container {container}")]
    FunctionInUse { function: PciAddress, container: String },
    #[error("PCI function {function} is no longer as ADD configured it: {what}")]
    FunctionChanged { function: PciAddress, what: &'static str },
    #[error("device {device} has {count} RDMA devices in the host namespace, expected one")]
    RdmaDevices { device: String, count: usize },
    #[error("RDMA devices of this node are shared by all namespaces and cannot be moved into a pod")]
    SharedRdma,
    #[error(
        "cannot find the device of the interface with address {mac:?}: {count} virtual functions have this address"
    )]
    AmbiguousDevice { mac: String, count: usize },

    // Problems with the attachment of a sandbox.
    #[error(transparent)]
    Kernel(#[from] ferroband_kernel::Error),
    #[error("container {container} is already attached")]
    AlreadyAttached { container: String },
    #[error("container {container} is not attached")]
    NotAttached { container: String },
    #[error("interface {ifname} already exists in the sandbox")]
    NameTaken { ifname: String, network: String },
    #[error("interface {ifname} does not exist in {place}")]
    NoInterface { ifname: String, place: String },
    #[error("interface {ifname} is of kind {kind}, not ipoib")]
    WrongKind { ifname: String, kind: String },
    #[error("address {address} is missing on interface {ifname}")]
    AddressMissing { ifname: String, address: ipnet::IpNet },
    #[error("route to {dst} is missing on interface {ifname}")]
    RouteMissing { ifname: String, dst: ipnet::IpNet },
    #[error("cannot write the sysctl {}: {source}", path.display())]
    Sysctl { path: PathBuf, source: io::Error },
    #[error("address {address} of interface {ifname} is in use by another host")]
    DuplicateAddress { ifname: String, address: IpAddr },
    #[error("address {address} of interface {ifname} belongs to {owner}")]
    AddressInUse { ifname: String, address: IpAddr, owner: String },
    #[error("routing table {table} of the node is selected by another {rule}")]
    TableInUse { table: u32, rule: String },
    #[error("the CNI call was interrupted by a termination signal")]
    Interrupted,
    #[error("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / "))]
    Multiple { errors: Vec<Error> },
    /// An error and the network on which it occurred.
    #[error("network {network}: {source}")]
    OnNetwork { network: String, source: Box<Error> },
}

impl Error {
    /// Add the network on which the error occurred.
    pub(crate) fn on_network(self, network: &str) -> Self {
        Self::OnNetwork { network: network.to_owned(), source: Box::new(self) }
    }

    /// Whether a state file exists but cannot be used.
    pub(crate) fn is_damaged_state(&self) -> bool {
        matches!(self, Self::CorruptFile { .. } | Self::UnknownSchema { .. } | Self::Inconsistent { .. })
    }

    /// Combine several errors into one; `Ok` if there are none.
    pub(crate) fn combine(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Multiple { errors }),
        }
    }
}
