//! CNI configurations as typed settings; no I/O.
//!
//! ```text
//! text ─▶ ConfigObject ─┬─▶ PluginConfig     what a plugin gets on standard input
//!         (Go's rules   ├─▶ NetworkConfig    a network: one plugin or a chain
//!          for keys)    └─▶ IpoibConfig, IbSriovConfig, RdmaConfig, CoordinatorConfig, InterfaceConfig, WrapperConfig
//! ```
//!
//! Only this crate knows the keys of a configuration, so that the webhook, the node daemon and the plugin accept and
//! refuse the same values. The doc comments of the settings are their descriptions in the CNI reference.

#![warn(missing_docs)]

mod coordinator;
mod error;
mod fields;
mod ib_sriov;
mod interface;
mod ipoib;
mod network_config;
pub mod partition;
mod plain_pods;
mod plugin_config;
mod plugin_input;
mod plugin_type;
mod pod_values;
mod rdma;
mod version;
mod wrapper;

pub use coordinator::{CoordinatorConfig, CoordinatorMode};
pub use error::ConfigError;
pub use fields::ConfigFields;
pub use ib_sriov::IbSriovConfig;
pub use interface::InterfaceConfig;
pub use interface::ipam_section;
pub use ipoib::IpoibConfig;
pub use network_config::{NetworkConfig, NetworkConfigError};
pub use plain_pods::{POD_ANNOTATIONS_CAPABILITY, PlainPods};
pub use plugin_config::{PluginConfig, VALID_ATTACHMENTS_KEYS, is_identifier};
pub use plugin_input::{
    limit_to_capabilities, network_name, plugin_name, plugin_stdin, set_valid_attachments,
};
pub use plugin_type::PluginType;
pub use pod_values::{
    capabilities, grant_runtime_config, inject_device, merge_cni_args, remove_pod_values, runtime_config,
    set_runtime_config,
};
pub use rdma::RdmaConfig;
pub use version::CniVersion;
pub use wrapper::WrapperConfig;
