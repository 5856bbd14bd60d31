//! `ferroband`: InfiniBand for Kubernetes pods. Daemons and command-line tools in one program.
//!
//! ```text
//! ferroband node            the node daemon                       (DaemonSet)
//! ferroband cluster         the cluster daemon                    (Deployment)
//! ferroband device-plugin   only the device plugin of the node daemon
//! ferroband crds            the custom resource definitions
//! ferroband manifests       manifests for `kubectl apply`
//! ferroband status          the cluster: daemons, nodes, pods and their interfaces
//! ferroband inspect         the InfiniBand hardware of this node
//! ferroband doctor          problems and how to fix them
//! ferroband verify          ping between two nodes over a network
//! ferroband explain         what an error code means
//! ferroband partition       members of the fabric's partitions
//! ferroband sim             simulated hardware
//! ferroband uninstall       removes Ferroband from nodes
//! ferroband completions     shell completions
//! ```

mod arguments;
#[cfg(test)]
mod book;
mod cluster;
mod completions;
mod connection;
mod crds;
mod device_plugin;
mod doctor;
mod exit;
mod explain;
mod inspect;
mod kubectl;
mod logging;
mod man;
mod manifests;
mod network_flags;
mod node;
mod output;
mod partition;
mod reference;
mod resource_flags;
mod sim;
mod status;
mod table;
mod tenant_flags;
mod uninstall;
mod verify;

use arguments::CliCommand;
use std::process::ExitCode;

fn main() -> ExitCode {
    if kubectl::handle_completion() {
        return ExitCode::SUCCESS;
    }
    let arguments = kubectl::parse_arguments();
    logging::init(&arguments);
    ferroband_daemon::abort_on_panic();
    // Installing the TLS crypto provider fails only if one is already installed. That is the same provider,
    // so the error is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    exit::exit_code(match arguments.command {
        CliCommand::Node(command) => command.run(),
        CliCommand::Cluster(command) => command.run(),
        CliCommand::DevicePlugin(command) => command.run(),
        CliCommand::Crds(command) => command.run(),
        CliCommand::Manifests(command) => command.run(),
        CliCommand::Status(command) => command.run(),
        CliCommand::Inspect(command) => command.run(),
        CliCommand::Doctor(command) => command.run(),
        CliCommand::Verify(command) => command.run(),
        CliCommand::Explain(command) => command.run(),
        CliCommand::Partition(command) => command.run(),
        CliCommand::Sim(command) => command.run(),
        CliCommand::Uninstall(command) => command.run(),
        CliCommand::Completions(command) => command.run(),
        CliCommand::Man(command) => command.run(),
        CliCommand::Reference(command) => command.run(),
    })
}
