//! `ferroband manifests`.
//!
//! The objects stand in YAML files with their reasons beside them; a few words in them are filled in: here, or by Helm.
//!
//! ```text
//! manifests/*.yaml ──words::fill──────▶ deploy/ferroband.yaml                          kubectl apply
//!                  └─words::template──▶ deploy/charts/ferroband/templates/daemons/     helm install, with values
//! ```

mod template_vars;

use crate::node::ALIASES;
use anyhow::Context;
use clap::{Args, builder::PossibleValuesParser};
use std::{
    fs,
    io::{Write, stdout},
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Print what to `kubectl apply` to run Ferroband
///
/// A namespace, the accounts of the two daemons with their rights, the DaemonSet and the Deployment. The custom resource definitions are
/// not among them: run `ferroband crds apply` first.
#[derive(Args, Debug)]
pub struct ManifestsCommand {
    /// The image.
    #[arg(long, default_value = "ferroband:dev")]
    image: String,

    /// Install ferroband-cni under these names, too.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ALIASES))]
    alias: Vec<String>,

    /// Simulate the InfiniBand hardware of this profile on every node.
    #[arg(long, value_name = "PROFILE")]
    simulate: Option<String>,

    /// Join the simulated fabrics of the nodes over this interface.
    #[arg(long, value_name = "INTERFACE", requires = "simulate")]
    simulate_uplink: Option<String>,

    /// Serve metrics of every node for Prometheus at this address, for example 0.0.0.0:5711. Off unless given.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Write the templates of the Helm chart into this folder instead.
    #[arg(long, value_name = "DIR", hide = true)]
    chart: Option<PathBuf>,
}

/// The objects, each file with its name in the chart.
const MANIFEST_FILES: [(&str, &str); 7] = [
    ("account.yaml", include_str!("manifests/account.yaml")),
    ("rights.yaml", include_str!("manifests/rights.yaml")),
    ("cluster-rights.yaml", include_str!("manifests/cluster-rights.yaml")),
    ("policy.yaml", include_str!("manifests/policy.yaml")),
    ("webhook.yaml", include_str!("manifests/webhook.yaml")),
    ("daemonset.yaml", include_str!("manifests/daemonset.yaml")),
    ("deployment.yaml", include_str!("manifests/deployment.yaml")),
];

impl ManifestsCommand {
    /// Print them.
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(profile) = &self.simulate {
            // Better here than in the logs of every node.
            ferroband_node::find_profile(profile)?;
        }
        match &self.chart {
            Some(folder) => self.write_chart(folder),
            None => Ok(stdout().write_all(self.render().as_bytes())?),
        }
    }

    /// The same objects as templates of the chart: one source, two ways to fill it in.
    fn write_chart(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
        for (name, text) in MANIFEST_FILES {
            let path = folder.join(name);
            fs::write(&path, template_vars::render_helm_template(text))
                .with_context(|| format!("file {}", path.display()))?;
        }
        Ok(())
    }

    fn render(&self) -> String {
        let mut arguments = vec!["node".to_owned()];
        if !self.alias.is_empty() {
            arguments.push(format!("--alias={}", self.alias.join(",")));
        }
        if let Some(profile) = &self.simulate {
            arguments.push(format!("--simulate={profile}"));
        }
        if let Some(uplink) = &self.simulate_uplink {
            arguments.push(format!("--simulate-uplink={uplink}"));
        }
        if let Some(address) = &self.metrics_address {
            arguments.push(format!("--metrics-address={address}"));
        }
        MANIFEST_FILES
            .map(|(_, text)| template_vars::render_with_defaults(text, &self.image, &arguments))
            .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, CliCommand};
    use clap::Parser;
    use serde_json::Value;

    fn render(arguments: &[&str]) -> String {
        let all = [&["ferroband", "manifests"], arguments].concat();
        match Arguments::parse_from(all).command {
            CliCommand::Manifests(manifests) => manifests.render(),
            other => panic!("{other:?}"),
        }
    }

    fn objects(yaml: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(yaml).unwrap()
    }

    fn daemonset(objects: &[Value]) -> &Value {
        objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap()
    }

    #[test]
    fn the_committed_file_is_what_is_printed() {
        let committed = include_str!("../../../deploy/ferroband.yaml");
        assert!(
            render(&[]) == committed,
            "deploy/ferroband.yaml is behind; run: cargo run -p ferroband-cli -- manifests > deploy/ferroband.yaml"
        );
    }

    #[test]
    fn what_is_asked_for_is_in_the_daemonset() {
        let yaml = render(&[
            "--image=r.example/f:1",
            "--alias=ipoib,whereabouts",
            "--simulate=default",
            "--simulate-uplink=eth0",
        ]);
        let objects = objects(&yaml);
        let container = &daemonset(&objects)["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "r.example/f:1");
        assert_eq!(
            container["args"],
            serde_json::json!([
                "node",
                "--alias=ipoib,whereabouts",
                "--simulate=default",
                "--simulate-uplink=eth0"
            ])
        );
    }

    #[test]
    fn every_mount_is_at_the_hosts_own_path() {
        let objects = objects(&render(&[]));
        let pod = &daemonset(&objects)["spec"]["template"]["spec"];
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let volumes = pod["volumes"].as_array().unwrap();
        assert_eq!(mounts.len(), volumes.len());
        for mount in mounts {
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            if volume["configMap"].is_object() {
                continue;
            }
            assert_eq!(
                volume["hostPath"]["path"], mount["mountPath"],
                "paths are told to kubelet and runtime"
            );
        }
    }

    #[test]
    fn no_word_is_left_open() {
        let at = |text: &str| text.lines().find(|line| line.contains('@')).map(str::to_owned);
        assert_eq!(at(&render(&[])), None);
        for (name, text) in MANIFEST_FILES {
            let template = template_vars::render_helm_template(text);
            assert_eq!(at(&template), None, "{name}");
            assert!(!template.contains("ferroband-system"), "{name}: the chart's namespace is the release's");
        }
    }

    #[test]
    fn every_right_has_its_reason() {
        let text = MANIFEST_FILES.map(|(_, text)| text).concat();
        let rules = text.lines().filter(|line| line.trim_start().starts_with("- apiGroups"));
        let reasons = text.lines().zip(text.lines().skip(1)).filter(|(above, line)| {
            line.trim_start().starts_with("- apiGroups") && above.trim_start().starts_with('#')
        });
        assert_eq!(rules.count(), reasons.count());
    }
}
