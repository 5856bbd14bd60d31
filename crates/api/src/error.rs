//! Errors in annotations and network configurations.

use ferroband_config::NetworkConfigError;
use ferroband_model::{Fault, FaultCode};

/// An invalid annotation or network configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The annotation looks like JSON but is not a valid list of networks.
    #[error("annotation {annotation} is not a JSON list of networks")]
    AnnotationJson {
        /// Key of the annotation.
        annotation: &'static str,
        /// What the JSON decoder rejected, and where.
        source: serde_json::Error,
    },
    /// One network in the annotation is invalid.
    #[error("annotation {annotation}, network {position} ({network}): {field} {problem}")]
    Selection {
        /// Key of the annotation.
        annotation: &'static str,
        /// Position of the network in the annotation, from 1.
        position: usize,
        /// The network as written in the annotation.
        network: String,
        /// Name of the invalid field of the network.
        field: &'static str,
        /// The rest of the sentence that starts with the field, including the invalid value.
        problem: String,
    },
    /// Several networks request a default route of the same address family.
    #[error("annotation {annotation}: more than one {family} default-route; ECMP is not supported")]
    MultipleDefaultRoutes {
        /// Key of the annotation.
        annotation: &'static str,
        /// Address family, `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// The annotation for the default network names more than one network.
    #[error("annotation {annotation} must name one network, not {count}")]
    MultipleDefaultNetworks {
        /// Key of the annotation.
        annotation: &'static str,
        /// Number of networks that the annotation names.
        count: usize,
    },
    /// The network configuration is invalid.
    #[error(transparent)]
    Config(#[from] NetworkConfigError),
    /// The NetworkAttachmentDefinition has no `spec.config`: its configuration is a file on each node.
    #[error("the NetworkAttachmentDefinition of network {network} has no spec.config")]
    NoConfig {
        /// The network, `<namespace>/<name>`.
        network: String,
    },
}

impl Error {
    /// Converts the error to a fault with a remedy for the user.
    pub fn fault(&self) -> Fault {
        let cause = match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        };
        match self {
            Self::AnnotationJson { annotation, .. }
            | Self::Selection { annotation, .. }
            | Self::MultipleDefaultRoutes { annotation, .. }
            | Self::MultipleDefaultNetworks { annotation, .. } => Fault::new(
                FaultCode::InvalidAnnotation,
                format!("annotation {annotation}"),
                cause,
                "correct the annotation and recreate the pod",
            ),
            Self::Config(error) => error.fault(),
            Self::NoConfig { network } => Fault::new(
                FaultCode::InvalidConfig,
                format!("network {network}"),
                cause,
                "correct spec.config of its NetworkAttachmentDefinition",
            ),
        }
    }
}
