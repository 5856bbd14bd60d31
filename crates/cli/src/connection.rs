//! Connection to the API server. The flags and their defaults are those of kubectl.

use anyhow::Context;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::future::Future;
use std::path::PathBuf;

/// Flags that select the cluster to connect to.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterConnection {
    /// Kubeconfig file; defaults to $KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use; defaults to its current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterConnection {
    pub async fn client(&self) -> anyhow::Result<Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let read = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read kubeconfig {}", file.display()))?;
                Config::from_custom_kubeconfig(read, &options).await?
            }
            (None, Some(context)) => Config::from_kubeconfig(&options)
                .await
                .with_context(|| format!("cannot use context {context} of the kubeconfig"))?,
            (None, None) => {
                Config::infer().await.context("cannot connect to the API server; is KUBECONFIG set?")?
            }
        };
        Ok(Client::try_from(config)?)
    }
}

/// Runs `work` to completion on a new single-threaded Tokio runtime.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
