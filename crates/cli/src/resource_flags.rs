//! Flags for the resources that a node advertises.

use clap::Args;
use ferroband_node::pools::{DevicePool, PoolDefaults, PoolSources};
use std::path::PathBuf;

/// Configuration directory that is used if --device-config is absent and the directory exists.
const DEFAULT_CONFIG_DIR: &str = "/etc/ferroband/devices";

/// Flags for the resources that are advertised to the kubelet.
#[derive(Args, Debug)]
#[command(next_help_heading = "Resources")]
pub struct ResourceFlags {
    /// Configuration file of the SR-IOV device plugin (resourceList) or of the shared RDMA device plugin (configList),
    /// or a directory of such files. If a directory contains a file named after the node, only that file is used.
    /// Changes take effect immediately. Can be repeated. Defaults to /etc/ferroband/devices if that directory exists.
    #[arg(long, visible_alias = "config-file", value_name = "PATH", value_delimiter = ',')]
    device_config: Vec<PathBuf>,

    /// Prefix of the resource names for resourceList entries without resourcePrefix.
    #[arg(long, value_name = "PREFIX", default_value = "spidernet.io")]
    resource_prefix: String,

    /// Name of the resource that gives a pod all RDMA devices of the node.
    #[arg(long, value_name = "NAME", default_value = "jarvice.com/rdma", value_parser = parse_resource_name)]
    rdma_resource: String,

    /// Number of pods on the node that may use --rdma-resource at the same time; 0 disables the resource.
    #[arg(long, value_name = "N", default_value_t = 1)]
    rdma_count: usize,

    /// Pass CDI device names to the container runtime instead of device files.
    #[arg(long)]
    pub use_cdi: bool,
}

impl ResourceFlags {
    /// Converts the flags to the sources of the device pools of `node`. Configuration files are not read here. Fails
    /// if --rdma-resource is not a valid resource name.
    pub fn into_sources(self, node: &str) -> anyhow::Result<PoolSources> {
        let whole = match self.rdma_count {
            0 => Vec::new(),
            count => vec![DevicePool::whole_node(self.rdma_resource.parse()?, count)],
        };
        let mut paths = self.device_config;
        if paths.is_empty() {
            paths.extend(Some(PathBuf::from(DEFAULT_CONFIG_DIR)).filter(|folder| folder.is_dir()));
        }
        let defaults = PoolDefaults { prefix: self.resource_prefix };
        Ok(PoolSources { paths, node: node.to_owned(), defaults, pools: whole, policies: None })
    }
}

fn parse_resource_name(text: &str) -> Result<String, ferroband_model::MalformedValue> {
    text.parse::<ferroband_model::ResourceName>().map(|name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_node::pools::parse_pool_file;
    use serde_json::Value;

    #[test]
    fn example_configuration_is_valid() {
        let text = include_str!("../../../examples/device-pools/configmap.yaml");
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let defaults = PoolDefaults { prefix: "spidernet.io".to_owned() };
        let mut resources = Vec::new();
        for (file, content) in object["data"].as_object().unwrap() {
            let read = parse_pool_file(file, content.as_str().unwrap(), &defaults);
            assert_eq!(read.problems, []);
            resources.extend(read.pools.into_iter().map(|pool| pool.resource.to_string()));
        }
        resources.sort();
        assert_eq!(resources, ["rdma/hca_shared", "spidernet.io/mellanoxibsriov"]);
    }
}
