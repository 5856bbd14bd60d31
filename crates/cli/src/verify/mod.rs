//! `ferroband verify`: checks that a network carries traffic between two nodes.
//!
//! ```text
//! pod A on one node, sleeping ──ready──▶ its address from network-status
//! pod B on another node: ping that address over net1 ──▶ succeeded | failed ──▶ both deleted
//! ```
//!
//! It needs no permission for `pods/exec`. The pods have a deadline, so they end even if this program is
//! killed; the next run of `ferroband verify` deletes them.

mod nodes;
mod pods;
mod verify_run;

use crate::connection::{ClusterConnection, block_on};
use anyhow::bail;
use clap::Args;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use verify_run::VerifyRun;

/// Test a network with a ping between two pods on two nodes
///
/// The pods are deleted at the end, also after a failure or an interrupt.
///
/// Exit status: 0 if the second pod reached the first, 1 otherwise.
#[derive(Args, Debug)]
pub struct VerifyCommand {
    /// Network to test: NAME or NAMESPACE/NAME.
    network: String,

    /// Namespace of the pods, and of NETWORK if it is given without a namespace.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Nodes of the two pods; by default the first two that are ready, schedulable and untainted.
    #[arg(long, value_name = "NODE,NODE", value_delimiter = ',')]
    nodes: Vec<String>,

    /// Resource that each pod requests, for example spidernet.io/ib=1. Can be repeated.
    #[arg(long, value_name = "NAME=N", value_parser = parse_resource)]
    resource: Vec<(String, u32)>,

    /// Image of the pods; it must contain `sleep` and `ping`.
    #[arg(long, default_value = "docker.io/library/busybox:1.36")]
    image: String,

    /// Time limit in seconds for the start of the first pod, and for the ping of the second.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    /// Do not delete the pods, for debugging; they end after three times --timeout.
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    connection: ClusterConnection,
}

fn parse_resource(text: &str) -> Result<(String, u32), String> {
    let (name, count) = text.split_once('=').unwrap_or((text, "1"));
    let name: ferroband_model::ResourceName = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name.to_string(), count.parse().map_err(|_| format!("`{count}` is not a number"))?))
}

impl VerifyCommand {
    pub fn run(self) -> anyhow::Result<()> {
        block_on(async {
            let client = self.connection.client().await?;
            let (one, other) = nodes::pick_two(&nodes::list_usable(&client).await?, &self.nodes)?;
            let network = match self.network.contains('/') {
                true => self.network.clone(),
                false => format!("{}/{}", self.namespace, self.network),
            };
            let specs = pods::VerifyPods {
                id: format!("{:x}", std::process::id()),
                namespace: self.namespace,
                network,
                image: self.image,
                resources: self.resource,
                step: Duration::from_secs(self.timeout),
            };
            let run = VerifyRun::new(client, specs);
            run.delete_leftovers().await;
            let (mut interrupt, mut terminate) =
                (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let outcome = tokio::select! {
                outcome = run.run(&one, &other) => outcome,
                _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted by SIGINT")),
                _ = terminate.recv() => Err(anyhow::anyhow!("terminated by SIGTERM")),
            };
            if self.keep {
                println!(
                    "pods kept: kubectl -n {} get pods -l {}",
                    run.pod_specs.namespace,
                    run.pod_specs.selector()
                );
            } else if let Err(error) = run.delete_pods().await {
                bail!(
                    "cannot delete the test pods: {error:#}; delete them: kubectl -n {} delete pods -l {}",
                    run.pod_specs.namespace,
                    run.pod_specs.selector()
                );
            }
            outcome
        })
    }
}
