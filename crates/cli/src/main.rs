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
mod choices;
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
mod node;
mod offered;
mod output;
mod partition;
mod reference;
mod sim;
mod status;
mod table;
mod uninstall;
mod verify;

use arguments::Command;
use std::process::ExitCode;

fn main() -> ExitCode {
    if kubectl::completes() {
        return ExitCode::SUCCESS;
    }
    let arguments = kubectl::arguments();
    logging::start(&arguments);
    // The one that is built in. It fails only if there is one already, which is then the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    exit::code(match arguments.command {
        Command::Node(command) => command.run(),
        Command::Cluster(command) => command.run(),
        Command::DevicePlugin(command) => command.run(),
        Command::Crds(command) => command.run(),
        Command::Manifests(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Partition(command) => command.run(),
        Command::Sim(command) => command.run(),
        Command::Uninstall(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Reference(command) => command.run(),
    })
}
