//! `k8s.cni.cncf.io`: NetworkAttachmentDefinition.

mod network_attachment_definition;
mod network_config;

pub use network_attachment_definition::{
    NetworkAttachmentDefinition, NetworkAttachmentDefinitionFields, NetworkAttachmentDefinitionSpec,
};
pub use network_config::NetworkConfig;
