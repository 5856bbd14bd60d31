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
mod ipoib;
mod network_config;
mod plugin_config;
mod plugin_input;
mod plugin_type;
mod wrapper;

pub use coordinator::{CoordinatorConfig, CoordinatorMode};
pub use error::ConfigError;
pub use fields::{ConfigFields, pkey_text};
pub use ib_sriov::{IbSriovConfig, RdmaConfig};
pub use ipoib::IpoibConfig;
pub use network_config::{NetworkConfig, NetworkConfigError};
pub use plugin_config::{InterfaceConfig, PluginConfig, VALID_ATTACHMENTS_KEYS, ipam_section, is_identifier};
pub use plugin_input::{
    capabilities, grant_runtime_config, inject_device, limit_to_capabilities, merge_cni_args, named_devices,
    network_name, plugin_name, plugin_stdin, remove_pod_values, runtime_config, set_runtime_config,
    set_valid_attachments,
};
pub use plugin_type::{CniVersion, PluginType};
pub use wrapper::{POD_ANNOTATIONS_CAPABILITY, PlainPods, WrapperConfig};
