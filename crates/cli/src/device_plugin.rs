//! `ferroband device-plugin`.

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

/// Run the device plugin alone
///
/// It tells the kubelet about the RDMA devices of this node and says which device files containers get; pods ask for
/// them in their resource limits. It needs no API server, no network and no capabilities, only the kubelet's folder
/// device-plugins and the folder of device files. It is part of `ferroband node`: run one or the other.
#[derive(Args, Debug)]
pub struct DevicePluginCommand {
    /// The name of this node, to find its file in a folder of configurations.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "")]
    node_name: String,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// The folder of RDMA device files; /dev/infiniband under the root unless given.
    #[arg(long, value_name = "DIR")]
    device_dir: Option<PathBuf>,

    /// The kubelet's folder; /var/lib/kubelet under the root unless given.
    #[arg(long, value_name = "DIR")]
    kubelet_dir: Option<PathBuf>,

    /// How the kubelet gets to know the plugin.
    #[arg(long, value_enum, default_value_t = RegistrationArg::Auto)]
    registration: RegistrationArg,

    #[command(flatten)]
    resource_flags: ResourceFlags,
}

/// A way to be known to the kubelet.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RegistrationArg {
    /// By its plugin watcher where the folder plugins_registry is there, else by a call.
    Auto,
    /// By a call to kubelet.sock, again after each restart of the kubelet.
    Call,
    /// By a socket in plugins_registry, which the kubelet watches.
    Watcher,
}

impl DevicePluginCommand {
    /// Run until SIGTERM.
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
        // It mostly waits: one thread serves it, and reads of files have threads of their own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(run_device_plugin(plugin))?)
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::{Arguments, CliCommand};
    use clap::Parser;
    use serde_json::Value;

    #[test]
    fn the_example_runs_without_rights_and_its_command_is_understood() {
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
}
