//! What can go wrong in a CNI call, and with which thing. [`Error::fault`] says it to people.

use crate::delegate::PluginError;
use crate::socket::ChannelError;
use crate::{CniCommand, CniVersion};
use ferroband_model::{Fault, PciAddress};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error as Derive;

/// A failure of a CNI call.
#[derive(Debug, Derive)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    // How we were called.
    #[error("{} not set for {command}", names.join(", "))]
    MissingVariables { command: CniCommand, names: Vec<&'static str> },
    #[error("{name} is {value:?} but must be {wanted}")]
    Variable { name: &'static str, value: String, wanted: &'static str },
    #[error("CNI_CONTAINERID is empty")]
    EmptyContainer,
    #[error("unknown CNI_COMMAND {command:?}")]
    UnknownCommand { command: String },
    #[error("the program is called {program:?}, which is no plugin of ours")]
    UnknownProgram { program: String },
    #[error("{pair:?} in CNI_ARGS is not KEY=VALUE")]
    MalformedArgument { pair: String },
    #[error("unknown key {key:?} in CNI_ARGS")]
    UnknownArgument { key: String },
    #[error("the sandbox {path} is the namespace that the plugin runs in")]
    OwnNamespace { path: String },

    // The configuration.
    #[error("cannot read the configuration: {source}")]
    Stdin { source: io::Error },
    #[error("cannot print the result: {source}")]
    Stdout { source: io::Error },
    #[error("the configuration is not a JSON object: {source}")]
    InvalidJson { source: serde_json::Error },
    #[error("`{field}` must be {wanted}")]
    Field { field: String, wanted: &'static str },
    #[error("the network name {name:?} is not usable")]
    NetworkName { name: String },
    #[error("the configuration asks for CNI version {asked:?}")]
    IncompatibleVersion { asked: String },
    #[error("{command} needs CNI version {needed}, the configuration has {asked}")]
    CommandNeedsVersion { command: CniCommand, asked: CniVersion, needed: CniVersion },
    #[error("host master interface is missing")]
    NoMaster,
    #[error("deviceID is required")]
    NoDeviceId,
    #[error("invalid guid {guid:?}")]
    InvalidGuid { guid: String },
    #[error("ibKubernetesEnabled is set, but function {function} was not marked as configured")]
    NotMarkedConfigured { function: PciAddress },
    #[error("ibKubernetesEnabled is set, but function {function} was given no GUID")]
    NoManagedGuid { function: PciAddress },
    #[error("IPAM type dhcp does not work on InfiniBand")]
    Dhcp,
    #[error("the configuration has no prevResult")]
    NoPreviousResult,

    // Results.
    #[error("the result cannot be understood at `{}`: {}", source.path(), source.inner())]
    InvalidResult { source: serde_path_to_error::Error<serde_json::Error> },
    #[error("a result of CNI version {version} must have an address")]
    ResultNeedsAddress { version: CniVersion },
    #[error("route to {dst} has a `{attribute}` that is no number of its kind")]
    RouteAttribute { dst: ipnet::IpNet, attribute: String },

    // Other plugins.
    #[error("{plugin:?} is not the name of a plugin")]
    PluginName { plugin: String },
    #[error("no plugin {plugin} in {path}")]
    NoPlugin { plugin: String, path: String },
    #[error("cannot run {}: {source}", file.display())]
    Exec { file: PathBuf, source: io::Error },
    #[error("plugin {plugin} failed on {command}: {}", answer.msg)]
    Plugin { plugin: String, command: CniCommand, answer: PluginError },
    #[error("plugin {plugin} printed no JSON: {source}")]
    PluginOutput { plugin: String, source: serde_json::Error },
    #[error("IPAM plugin {plugin} gave no address for {ifname}")]
    NoAddress { plugin: String, ifname: String },

    // Our files.
    #[error("cannot {doing} {}: {source}", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{} is damaged: {source}", path.display())]
    CorruptFile { path: PathBuf, source: serde_path_to_error::Error<serde_json::Error> },
    #[error("{} is of schema {schema}, which is not ours", path.display())]
    UnknownSchema { path: PathBuf, schema: u32 },
    #[error("{} contradicts itself", path.display())]
    Inconsistent { path: PathBuf },
    #[error("another call holds {}", path.display())]
    Locked { path: PathBuf },

    // The daemon.
    #[error("cannot connect to {}: {source}", socket.display())]
    DaemonUnavailable { socket: PathBuf, source: io::Error },
    #[error("the connection to the node daemon failed: {source}")]
    Channel {
        #[from]
        source: ChannelError,
    },
    /// What somebody else has put in words already: the daemon, or the simulated host.
    #[error("{0}")]
    Reported(Fault),
    #[error("not ready: {source}")]
    NotReady { source: Box<Error> },
    #[error("the default network has not yet written {}", path.display())]
    DefaultNetworkNotReady { path: PathBuf },
    #[error("the node daemon answered something else than {wanted}")]
    UnexpectedReply { wanted: &'static str },

    // Functions of adapters.
    #[error("there is no PCI function {function} on this node")]
    NoFunction { function: String },
    #[error("{function} is not a virtual function, and not bound to vfio-pci")]
    NotVirtual { function: PciAddress },
    #[error("vfioPciMode is set, but function {function} is bound to {driver:?}")]
    NotVfio { function: PciAddress, driver: String },
    #[error("function {function} is of an Ethernet adapter")]
    NotInfiniBand { function: PciAddress },
    #[error("VF {interface} GUID is not valid")]
    NoGuid { interface: String },
    #[error("function {function} has no interface")]
    NoNetdev { function: PciAddress },
    #[error("function {function} is given to container {container} already")]
    FunctionInUse { function: PciAddress, container: String },
    #[error("function {function} is not as it was given: {what}")]
    FunctionChanged { function: PciAddress, what: &'static str },
    #[error("device {device} has {count} RDMA devices here, not one")]
    RdmaDevices { device: String, count: usize },
    #[error("the RDMA devices of this node are shared by all namespaces")]
    SharedRdma,
    #[error(
        "the device behind the interface with address {mac:?} cannot be told: {count} virtual functions have it"
    )]
    AmbiguousDevice { mac: String, count: usize },

    // The work.
    #[error(transparent)]
    Kernel(#[from] ferroband_kernel::Error),
    #[error("container {container} is attached already")]
    AlreadyAttached { container: String },
    #[error("container {container} is not attached")]
    NotAttached { container: String },
    #[error("interface {ifname} exists in the sandbox already")]
    NameTaken { ifname: String, network: String },
    #[error("interface {ifname} is not in {place}")]
    NoInterface { ifname: String, place: String },
    #[error("interface {ifname} is of kind {kind}, not ipoib")]
    WrongKind { ifname: String, kind: String },
    #[error("address {address} is not on interface {ifname}")]
    AddressMissing { ifname: String, address: ipnet::IpNet },
    #[error("route to {dst} is not on interface {ifname}")]
    RouteMissing { ifname: String, dst: ipnet::IpNet },
    #[error("cannot write {}: {source}", path.display())]
    Sysctl { path: PathBuf, source: io::Error },
    #[error("address {address} of interface {ifname} is used by somebody else")]
    DuplicateAddress { ifname: String, address: IpAddr },
    #[error("a signal asked to stop")]
    Interrupted,
    #[error("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / "))]
    Multiple { errors: Vec<Error> },
    /// An error with the network it happened on.
    #[error("network {network}: {source}")]
    OnNetwork { network: String, source: Box<Error> },
}

impl Error {
    /// The same, with the network it happened on.
    pub(crate) fn on_network(self, network: &str) -> Self {
        Self::OnNetwork { network: network.to_owned(), source: Box::new(self) }
    }

    /// Whether it is about a record that is there but cannot be understood.
    pub(crate) fn is_damaged_state(&self) -> bool {
        matches!(self, Self::CorruptFile { .. } | Self::UnknownSchema { .. } | Self::Inconsistent { .. })
    }

    /// Several failures as one; none when there are none.
    pub(crate) fn combine(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Multiple { errors }),
        }
    }
}
