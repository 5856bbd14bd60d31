//! `ferroband verify`: does a network carry traffic between two nodes?
//!
//! ```text
//! pod A on one node, sleeping ──ready──▶ its address from network-status
//! pod B on another node: ping that address over net1 ──▶ succeeded | failed ──▶ both deleted
//! ```
//!
//! No shell is opened in a pod, so no right to do so is needed. Pods carry a deadline, so they end even if this program
//! is killed; the next run deletes what such a one left.

mod nodes;
mod pods;
mod verify_run;

use crate::connection::{ClusterConnection, block_on};
use anyhow::bail;
use clap::Args;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use verify_run::VerifyRun;

/// Try a network: two short-lived pods on two nodes, and a ping between them
///
/// The pods are deleted at the end, also after a failure and when interrupted.
///
/// Exit status: 0 if the second pod reached the first, 1 if not.
#[derive(Args, Debug)]
pub struct VerifyCommand {
    /// The network, NAME or NAMESPACE/NAME.
    network: String,

    /// The namespace of the pods, and of a network without one.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// The two nodes; two that are ready unless given.
    #[arg(long, value_name = "NODE,NODE", value_delimiter = ',')]
    nodes: Vec<String>,

    /// A resource that each pod asks for, for example spidernet.io/ib=1. Can be repeated.
    #[arg(long, value_name = "NAME=N", value_parser = parse_resource)]
    resource: Vec<(String, u32)>,

    /// An image with `sleep` and `ping`.
    #[arg(long, default_value = "docker.io/library/busybox:1.36")]
    image: String,

    /// How many seconds each step may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    /// Leave the pods for a look around; they end by themselves after a while.
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    connection: ClusterConnection,
}

fn parse_resource(text: &str) -> Result<(String, u32), String> {
    let (name, count) = text.split_once('=').unwrap_or((text, "1"));
    let name: ferroband_model::ResourceName = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name.to_string(), count.parse().map_err(|_| format!("`{count}` is no number"))?))
}

impl VerifyCommand {
    /// Try it.
    pub fn run(self) -> anyhow::Result<()> {
        block_on(async {
            let client = self.connection.client().await?;
            let (one, other) = nodes::pick_two(&nodes::list_usable(&client).await?, &self.nodes)?;
            let network = match self.network.contains('/') {
                true => self.network.clone(),
                false => format!("{}/{}", self.namespace, self.network),
            };
            let wanted = pods::VerifyPods {
                id: format!("{:x}", std::process::id()),
                namespace: self.namespace,
                network,
                image: self.image,
                resources: self.resource,
                step: Duration::from_secs(self.timeout),
            };
            let trial = VerifyRun::new(client, wanted);
            trial.delete_leftovers().await;
            let (mut interrupt, mut terminate) =
                (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let outcome = tokio::select! {
                outcome = trial.run(&one, &other) => outcome,
                _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
                _ = terminate.recv() => Err(anyhow::anyhow!("terminated")),
            };
            if self.keep {
                println!(
                    "the pods stay: kubectl -n {} get pods -l {}",
                    trial.pod_specs.namespace,
                    trial.pod_specs.selector()
                );
            } else if let Err(error) = trial.delete_pods().await {
                bail!(
                    "the pods could not be deleted: {error:#}; delete them: kubectl -n {} delete pods -l {}",
                    trial.pod_specs.namespace,
                    trial.pod_specs.selector()
                );
            }
            outcome
        })
    }
}
