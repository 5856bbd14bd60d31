//! What can be wrong with what users write.

use ferroband_model::{Fault, FaultCode};

/// Why something a user wrote cannot be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An annotation with networks is not the JSON list it looks like.
    #[error("annotation {annotation} is not a JSON list of networks")]
    AnnotationJson {
        /// The annotation.
        annotation: &'static str,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// One network of an annotation is not valid.
    #[error("annotation {annotation}, network {position} ({network}): {field} {problem}")]
    Selection {
        /// The annotation.
        annotation: &'static str,
        /// Its position, counted from 1.
        position: usize,
        /// The network as written.
        network: String,
        /// The key or part.
        field: &'static str,
        /// What is wrong with it, with the value.
        problem: String,
    },
    /// Several networks ask for a default route of one family.
    #[error("annotation {annotation}: more than one {family} default-route; ECMP is not supported")]
    MultipleDefaultRoutes {
        /// The annotation.
        annotation: &'static str,
        /// The family.
        family: &'static str,
    },
    /// The default network is not one network.
    #[error("annotation {annotation} must name one network, not {count}")]
    MultipleDefaultNetworks {
        /// The annotation.
        annotation: &'static str,
        /// How many it names.
        count: usize,
    },
    /// A network's configuration is not a JSON object.
    #[error("the configuration of network {network} is not a JSON object")]
    ConfigJson {
        /// The network.
        network: String,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// A network's configuration is JSON of the wrong shape.
    #[error("the configuration of network {network}: {field} {problem}")]
    Config {
        /// The network.
        network: String,
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The definition carries no configuration: it is a file on the node.
    #[error("network {network} has no configuration in its definition")]
    NoConfig {
        /// The network.
        network: String,
    },
}

impl Error {
    /// The error as people see it.
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
