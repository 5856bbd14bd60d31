//! `ferroband crds`: applies or prints the custom resource definitions.

use crate::connection::{ClusterConnection, block_on};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use ferroband_api::{all_crds, render_crds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use std::{
    fs,
    io::{Write, stdout},
    path::PathBuf,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Name of the field manager with which the CRDs are applied (server-side apply).
const FIELD_MANAGER: &str = "ferroband";
/// Time limit for a CRD to become established.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);

/// Manage the custom resource definitions of Ferroband
///
/// Most are supersets of the CRDs of the projects that Ferroband replaces (Multus, Whereabouts, Spiderpool, the SR-IOV
/// network operator). A CRD that another field manager owns is not changed, unless --take-over is given.
#[derive(Args, Debug)]
pub struct CrdsCommand {
    #[command(subcommand)]
    action: CrdsAction,
}

#[derive(Debug, Subcommand)]
enum CrdsAction {
    /// Apply the CRDs to the cluster (server-side apply) and wait until they are established.
    Apply {
        /// Overwrite CRD fields that another field manager owns, and become their owner.
        #[arg(long)]
        take_over: bool,
    },
    /// Print the CRDs as YAML.
    Print {
        /// Write one YAML file for each CRD to this directory, instead of printing the CRDs.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

impl CrdsCommand {
    pub fn run(self) -> anyhow::Result<()> {
        match self.action {
            CrdsAction::Apply { take_over } => block_on(apply(take_over)),
            CrdsAction::Print { dir: None } => {
                let mut out = stdout();
                for file in render_crds()? {
                    write!(out, "---\n{}", file.yaml)?;
                }
                Ok(())
            }
            CrdsAction::Print { dir: Some(dir) } => {
                fs::create_dir_all(&dir)
                    .with_context(|| format!("cannot create directory {}", dir.display()))?;
                for file in render_crds()? {
                    let path = dir.join(&file.file_name);
                    fs::write(&path, file.yaml)
                        .with_context(|| format!("cannot write {}", path.display()))?;
                }
                Ok(())
            }
        }
    }
}

async fn apply(take_over: bool) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(ClusterConnection::default().client().await?);
    let parameters = PatchParams { force: take_over, ..PatchParams::apply(FIELD_MANAGER) };
    let mut out = stdout();
    let definitions = all_crds();
    for definition in &definitions {
        let name = definition.name_any();
        match api.patch(&name, &parameters, &Patch::Apply(definition)).await {
            Ok(_) => writeln!(out, "applied      {name}")?,
            // Another field manager, usually that of a project that Ferroband replaces, owns the CRD.
            // Ferroband also works with the upstream CRD, so this is not an error.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                writeln!(
                    out,
                    "kept         {name} (another field manager owns it; run with --take-over to replace it)"
                )?;
            }
            Err(e) => return Err(e).with_context(|| format!("cannot apply CRD {name}")),
        }
    }
    for definition in &definitions {
        wait_established(&api, &definition.name_any()).await?;
    }
    writeln!(out, "established  all {}", definitions.len())?;
    Ok(())
}

async fn wait_established(api: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<()> {
    let until = Instant::now() + ESTABLISH_TIMEOUT;
    loop {
        let definition = api.get(name).await.with_context(|| format!("cannot read CRD {name}"))?;
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|c| c.type_ == "Established" && c.status == "True") {
            return Ok(());
        }
        if Instant::now() > until {
            let said: Vec<_> = conditions.into_iter().filter_map(|c| c.message).collect();
            bail!("CRD {name} is not established after {ESTABLISH_TIMEOUT:?}: {}", said.join("; "));
        }
        sleep(Duration::from_millis(200)).await;
    }
}
