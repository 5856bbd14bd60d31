//! `ferroband manifests`: prints the manifests that install Ferroband.
//!
//! The manifests are YAML files with comments. They contain variables, which this command or Helm fills in.
//!
//! ```text
//! manifests/*.yaml ──render_with_defaults──▶ deploy/ferroband.yaml                        kubectl apply
//!                  └─render_helm_template──▶ deploy/charts/ferroband/templates/daemons/   helm install, with values
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

/// Print the manifests of Ferroband for `kubectl apply`
///
/// The manifests contain a namespace, the service accounts and RBAC rules of both daemons, an admission
/// policy, a webhook, the DaemonSet of the node daemon and the Deployment of the cluster daemon. They do not
/// contain the custom resource definitions: run `ferroband crds apply` first.
#[derive(Args, Debug)]
pub struct ManifestsCommand {
    /// Container image of both daemons.
    #[arg(long, default_value = "ferroband:dev")]
    image: String,

    /// Container image of the node daemon, if it differs: ferroband-tools contains mstconfig and opensm.
    #[arg(long, value_name = "IMAGE")]
    node_image: Option<String>,

    /// Also install the CNI plugin under these names on every node. An existing file is kept as
    /// NAME.before-ferroband.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ALIASES))]
    alias: Vec<String>,

    /// Simulate the InfiniBand hardware of this profile on every node.
    #[arg(long, value_name = "PROFILE")]
    simulate: Option<String>,

    /// Interface that connects the simulated fabrics of the nodes; without it each node has its own fabric.
    #[arg(long, value_name = "INTERFACE", requires = "simulate")]
    simulate_uplink: Option<String>,

    /// Serve Prometheus metrics of every node at this address, for example 0.0.0.0:5711. Disabled by default.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Write the Helm chart's templates to this directory, instead of printing the manifests.
    #[arg(long, value_name = "DIR", hide = true)]
    chart: Option<PathBuf>,
}

/// The policy that limits a node daemon to objects of its own node, and its binding.
pub const NODE_POLICY: &str = include_str!("manifests/policy.yaml");

/// Each row is the file name of a manifest in the Helm chart, and its content. `ferroband manifests` prints
/// the manifests in this order.
const MANIFEST_FILES: [(&str, &str); 7] = [
    ("account.yaml", include_str!("manifests/account.yaml")),
    ("rights.yaml", include_str!("manifests/rights.yaml")),
    ("cluster-rights.yaml", include_str!("manifests/cluster-rights.yaml")),
    ("policy.yaml", NODE_POLICY),
    ("webhook.yaml", include_str!("manifests/webhook.yaml")),
    ("daemonset.yaml", include_str!("manifests/daemonset.yaml")),
    ("deployment.yaml", include_str!("manifests/deployment.yaml")),
];

impl ManifestsCommand {
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(profile) = &self.simulate {
            // Report an unknown profile here rather than in the logs of every node.
            ferroband_node::find_profile(profile)?;
        }
        match &self.chart {
            Some(folder) => self.write_chart(folder),
            None => Ok(stdout().write_all(self.render().as_bytes())?),
        }
    }

    /// Writes one Helm template for each manifest into `folder`, which is created if necessary.
    fn write_chart(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create directory {}", folder.display()))?;
        for (name, text) in MANIFEST_FILES {
            let path = folder.join(name);
            fs::write(&path, template_vars::render_helm_template(text))
                .with_context(|| format!("cannot write {}", path.display()))?;
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
        let images = (self.image.as_str(), self.node_image.as_deref().unwrap_or(&self.image));
        MANIFEST_FILES.map(|(_, text)| template_vars::render_with_defaults(text, images, &arguments)).concat()
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
    fn committed_file_is_up_to_date() {
        let committed = include_str!("../../../deploy/ferroband.yaml");
        assert!(render(&[]) == committed, "deploy/ferroband.yaml is out of date; run: cargo xtask generate");
    }

    #[test]
    fn flags_are_passed_to_the_daemonset() {
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
    fn node_daemon_may_have_another_image() {
        let objects = objects(&render(&["--image=f:1", "--node-image=ferroband-tools:1"]));
        let image = |kind: &str| {
            let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
            object["spec"]["template"]["spec"]["containers"][0]["image"].clone()
        };
        assert_eq!((image("DaemonSet"), image("Deployment")), ("ferroband-tools:1".into(), "f:1".into()));
    }

    #[test]
    fn every_host_path_is_mounted_at_the_same_path() {
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
                "paths are passed to the kubelet and the runtime"
            );
        }
    }

    #[test]
    fn every_variable_is_filled_in() {
        let at = |text: &str| text.lines().find(|line| line.contains('@')).map(str::to_owned);
        assert_eq!(at(&render(&[])), None);
        for (name, text) in MANIFEST_FILES {
            let template = template_vars::render_helm_template(text);
            assert_eq!(at(&template), None, "{name}");
            assert!(
                !template.contains("ferroband-system"),
                "{name}: the chart must use the release's namespace"
            );
        }
    }

    #[test]
    fn every_rbac_rule_has_a_comment() {
        let text = MANIFEST_FILES.map(|(_, text)| text).concat();
        let rules = text.lines().filter(|line| line.trim_start().starts_with("- apiGroups"));
        let reasons = text.lines().zip(text.lines().skip(1)).filter(|(above, line)| {
            line.trim_start().starts_with("- apiGroups") && above.trim_start().starts_with('#')
        });
        assert_eq!(rules.count(), reasons.count());
    }
}
