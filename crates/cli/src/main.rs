//! `ferroband`: InfiniBand for Kubernetes pods. The daemons and the tools for people, in one program.
//!
//! ```text
//! ferroband node            the node daemon                       (DaemonSet)
//! ferroband cluster         the cluster daemon                    (Deployment)
//! ferroband device-plugin   its part that tells the kubelet of devices, alone
//! ferroband crds            the custom resource definitions       (whoever installs)
//! ferroband manifests       what to `kubectl apply`
//! ferroband inspect         the InfiniBand hardware of this node
//! ferroband sim             simulated hardware, where there is none
//! ferroband uninstall       a node as it was before
//! ferroband completions     for your shell
//! ```

mod arguments;
mod choices;
mod cluster;
mod completions;
mod crds;
mod device_plugin;
mod exit;
mod inspect;
mod logging;
mod man;
mod manifests;
mod node;
mod offered;
mod sim;
mod table;
mod uninstall;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logging::start(&arguments);
    // The one that is built in. It fails only if there is one already, which is then the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    exit::code(match arguments.command {
        Command::Node(command) => command.run(),
        Command::Cluster(command) => command.run(),
        Command::DevicePlugin(command) => command.run(),
        Command::Crds(command) => command.run(),
        Command::Manifests(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Sim(command) => command.run(),
        Command::Uninstall(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    })
}
