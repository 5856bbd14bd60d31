//! Errors in annotations and network configurations.

use ferroband_model::{Fault, FaultCode};

/// An invalid annotation or network configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The annotation looks like JSON but is not a valid list of networks.
    #[error("annotation {annotation} is not a JSON list of networks")]
    AnnotationJson {
        /// The annotation.
        annotation: &'static str,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// One network in the annotation is invalid.
    #[error("annotation {annotation}, network {position} ({network}): {field} {problem}")]
    Selection {
        /// The annotation.
        annotation: &'static str,
        /// Its position, from 1.
        position: usize,
        /// The network as written.
        network: String,
        /// The invalid field.
        field: &'static str,
        /// The problem, including the value.
        problem: String,
    },
    /// Several networks request a default route of the same address family.
    #[error("annotation {annotation}: more than one {family} default-route; ECMP is not supported")]
    MultipleDefaultRoutes {
        /// The annotation.
        annotation: &'static str,
        /// The address family.
        family: &'static str,
    },
    /// The annotation for the default network names more than one network.
    #[error("annotation {annotation} must name one network, not {count}")]
    MultipleDefaultNetworks {
        /// The annotation.
        annotation: &'static str,
        /// How many it names.
        count: usize,
    },
    /// The network configuration is not a JSON object.
    #[error("the configuration of network {network} is not a JSON object")]
    ConfigJson {
        /// The network.
        network: String,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// A field of the network configuration is missing or invalid.
    #[error("the configuration of network {network}: {field} {problem}")]
    Config {
        /// The network.
        network: String,
        /// The field.
        field: String,
        /// The problem.
        problem: &'static str,
    },
    /// The NetworkAttachmentDefinition has no configuration; it is a file on the node.
    #[error("the NetworkAttachmentDefinition of network {network} has no spec.config")]
    NoConfig {
        /// The network.
        network: String,
    },
}

impl Error {
    /// The user-facing error.
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
            Self::ConfigJson { network, .. } => Fault::new(
                FaultCode::Undecodable,
                format!("network {network}"),
                cause,
                "correct spec.config of its NetworkAttachmentDefinition",
            ),
            Self::Config { network, .. } | Self::NoConfig { network } => Fault::new(
                FaultCode::InvalidConfig,
                format!("network {network}"),
                cause,
                "correct spec.config of its NetworkAttachmentDefinition",
            ),
        }
    }
}
