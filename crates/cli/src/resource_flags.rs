//! The flags about what a node offers.

use clap::Args;
use ferroband_node::pools::{DevicePool, PoolDefaults, PoolSources};
use std::path::PathBuf;

/// Where configurations are looked for when none is named.
const DEFAULT_CONFIG_DIR: &str = "/etc/ferroband/devices";

/// Which resources the kubelet is told of.
#[derive(Args, Debug)]
#[command(next_help_heading = "Resources")]
pub struct ResourceFlags {
    /// A configuration of the SR-IOV device plugin (resourceList) or of the shared RDMA plugin (configList), or a folder
    /// of such files; in a folder with a file called like the node, that one. Changes are seen at once. Can be repeated;
    /// /etc/ferroband/devices, where there is such a folder, unless given.
    #[arg(long, visible_alias = "config-file", value_name = "PATH", value_delimiter = ',')]
    device_config: Vec<PathBuf>,

    /// The prefix of resources in a resourceList that has none of its own.
    #[arg(long, value_name = "PREFIX", default_value = "spidernet.io")]
    resource_prefix: String,

    /// The resource that stands for all RDMA devices of the node together.
    #[arg(long, value_name = "NAME", default_value = "jarvice.com/rdma", value_parser = parse_resource_name)]
    rdma_resource: String,

    /// How many pods may hold it at once; 0 does not offer it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    rdma_count: usize,

    /// Give functions by the names of a CDI specification, not as device files.
    #[arg(long)]
    pub use_cdi: bool,
}

impl ResourceFlags {
    /// The same for the daemon on `node`.
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
    fn the_example_is_read_without_a_complaint() {
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
