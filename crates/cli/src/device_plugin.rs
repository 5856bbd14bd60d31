//! `ferroband device-plugin`: runs only the device plugin of the node daemon.

use crate::connection::block_on;
use crate::resource_flags::ResourceFlags;
use clap::{Args, ValueEnum};
use ferroband_kernel::{Hardware, Root};
use ferroband_node::{
    DevicePluginConfig as Plugin,
    advertise::{KubeletDir, RegistrationMode},
    discover::DiscoveryRoots,
    run_device_plugin,
};
use std::{path::PathBuf, sync::Arc};

/// Run only the device plugin
///
/// The device plugin advertises the RDMA devices of this node to the kubelet and selects the device files for
/// containers. Pods request devices in their resource limits. It requires no API server, no network and no
/// capabilities, only the kubelet's directory device-plugins and the directory of device files. `ferroband node`
/// includes it; run only one of the two.
#[derive(Args, Debug)]
pub struct DevicePluginCommand {
    /// Name of this node; selects the file of that name in a directory of --device-config.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "")]
    node_name: String,

    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Directory of RDMA device files; defaults to /dev/infiniband under --root.
    #[arg(long, value_name = "DIR")]
    device_dir: Option<PathBuf>,

    /// The kubelet's root directory; defaults to /var/lib/kubelet under --root.
    #[arg(long, value_name = "DIR")]
    kubelet_dir: Option<PathBuf>,

    /// How to register with the kubelet.
    #[arg(long, value_enum, default_value_t = RegistrationArg::Auto)]
    registration: RegistrationArg,

    #[command(flatten)]
    resource_flags: ResourceFlags,
}

/// Registration method, as selected with --registration.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RegistrationArg {
    /// Like `watcher` if the kubelet's directory plugins_registry exists, otherwise like `call`.
    Auto,
    /// Call Register on kubelet.sock, and again after each restart of the kubelet.
    Call,
    /// Create a socket in the kubelet's directory plugins_registry, which the kubelet watches.
    Watcher,
}

impl DevicePluginCommand {
    /// Runs the device plugin until SIGTERM.
    pub fn run(self) -> anyhow::Result<()> {
        let hardware: Arc<dyn Hardware> = ferroband_sim::hardware(&Root::at(self.root.clone()))?.into();
        let mut sight = DiscoveryRoots::of_host(hardware.as_ref());
        if let Some(folder) = self.device_dir {
            sight.device_dir = folder;
        }
        let folder = self.kubelet_dir.unwrap_or_else(|| Root::at(self.root).path("var/lib/kubelet"));
        let way = match self.registration {
            RegistrationArg::Auto => RegistrationMode::Auto,
            RegistrationArg::Call => RegistrationMode::Call,
            RegistrationArg::Watcher => RegistrationMode::Watcher,
        };
        let cdi = self.resource_flags.use_cdi;
        let sources = self.resource_flags.into_sources(&self.node_name)?;
        let plugin = Plugin {
            roots: sight,
            hardware,
            kubelet: KubeletDir { path: folder, registration: way },
            sources,
            cdi,
        };
        // One thread is enough: the device plugin mostly waits, and it reads files on blocking threads.
        block_on(async { Ok(run_device_plugin(plugin).await?) })
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::{Arguments, CliCommand};
    use clap::Parser;
    use serde_json::Value;

    #[test]
    fn example_runs_without_privileges_and_with_a_valid_command() {
        let text = include_str!("../../../examples/rdma-device/daemonset.yaml");
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let pod = &object["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let words = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let parsed = Arguments::try_parse_from(words).unwrap();
        assert!(matches!(parsed.command, CliCommand::DevicePlugin(_)), "{parsed:?}");
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"]["drop"][0], "ALL");
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert!(pod["hostNetwork"].is_null() && pod["automountServiceAccountToken"] == false);
    }

    #[test]
    fn containers_without_privileges_have_a_seccomp_profile() {
        for text in [
            include_str!("../../../examples/rdma-device/daemonset.yaml"),
            include_str!("../../../deploy/charts/ferroband/templates/_helpers.tpl"),
            include_str!("../../../deploy/charts/ferroband/templates/daemons/deployment.yaml"),
            include_str!("../../../deploy/charts/rdma-tools/values.yaml"),
        ] {
            let containers = text.matches("capabilities:\n").count();
            assert_eq!(text.matches("type: RuntimeDefault\n").count(), containers, "{text}");
        }
    }
}
