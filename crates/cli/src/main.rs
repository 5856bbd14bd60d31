//! `ferroband`: InfiniBand for Kubernetes pods. The daemons and the tools for people, in one program.
//!
//! ```text
//! ferroband node            the node daemon                       (DaemonSet)
//! ferroband cluster         the cluster daemon                    (Deployment)
//! ferroband device-plugin   its part that tells the kubelet of devices, alone
//! ferroband crds            the custom resource definitions       (whoever installs)
//! ferroband manifests       what to `kubectl apply`
//! ferroband status          the cluster: daemons, nodes, pods and their interfaces
//! ferroband inspect         the InfiniBand hardware of this node
//! ferroband doctor          what is wrong, and what to do about it
//! ferroband verify          a ping between two nodes over a network
//! ferroband explain         what an error's code means
//! ferroband partition       who is in which partition of the fabric
//! ferroband sim             simulated hardware, where there is none
//! ferroband uninstall       a node as it was before
//! ferroband completions     for your shell
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
    // The one that is built in. It fails only if there is one already, which is then the same.
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
