//! The way to the cluster, for people: what kubectl would use.

use anyhow::Context;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::future::Future;
use std::path::PathBuf;

/// Which cluster is meant.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterConnection {
    /// The kubeconfig; $KUBECONFIG, ~/.kube/config or the pod's own account unless given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context in it.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterConnection {
    /// A client for it.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let read =
                    Kubeconfig::read_from(file).with_context(|| format!("kubeconfig {}", file.display()))?;
                Config::from_custom_kubeconfig(read, &options).await?
            }
            (None, Some(context)) => {
                Config::from_kubeconfig(&options).await.with_context(|| format!("context {context}"))?
            }
            (None, None) => Config::infer().await.context("no way to the API server; is KUBECONFIG set?")?,
        };
        Ok(Client::try_from(config)?)
    }
}

/// Run something that asks the API server, to its end.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
