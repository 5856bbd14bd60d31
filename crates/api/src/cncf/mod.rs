//! `k8s.cni.cncf.io`: NetworkAttachmentDefinition.

mod network_attachment_definition;

pub use ferroband_config::NetworkConfig;
pub use network_attachment_definition::{
    NetworkAttachmentDefinition, NetworkAttachmentDefinitionFields, NetworkAttachmentDefinitionSpec,
};
