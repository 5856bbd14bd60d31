//! Why an object becomes no network.

use ferroband_model::{Fault, FaultCode, MalformedValue};

/// What is wrong with an object that should become a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkSpecError {
    /// Several sections.
    #[error("sections {0} are given together, and only one can be meant")]
    SeveralSections(String),
    /// No section.
    #[error("cniType {cni_type} has no section {section}")]
    NoSection {
        /// The type.
        cni_type: String,
        /// Its section.
        section: &'static str,
    },
    /// A section beside a whole configuration.
    #[error("customCNI and section {0} are given together, and only one can be meant")]
    CustomAndSection(&'static str),
    /// A type that nobody has.
    #[error("cniType {0:?} is not known")]
    UnknownType(String),
    /// A field must be filled in.
    #[error("{0} is not set")]
    MissingField(&'static str),
    /// A field that means something only the other system's plugins do.
    #[error("{0} is for plugins that Ferroband does not have")]
    Unsupported(&'static str),
    /// JSON text that is none.
    #[error("{field} is not JSON")]
    InvalidJson {
        /// The field.
        field: String,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// JSON text of the wrong shape.
    #[error("{field} {problem}")]
    InvalidShape {
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A word that is not what it should be.
    #[error("{field}: {source}")]
    InvalidValue {
        /// The field.
        field: &'static str,
        /// What is wrong.
        source: MalformedValue,
    },
    /// An annotation that says something impossible.
    #[error("annotation {annotation}: {problem}")]
    InvalidAnnotation {
        /// Its key.
        annotation: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A definition in another namespace than the object may have it.
    #[error("networkNamespace may only be set on objects in the namespaces {0}")]
    ForbiddenNamespace(String),
}

impl NetworkSpecError {
    /// The fault as people see it, about `object`.
    pub fn fault(&self, object: &str) -> Fault {
        let cause = match std::error::Error::source(self) {
            Some(source) if matches!(self, Self::InvalidJson { .. }) => format!("{self}: {source}"),
            _ => self.to_string(),
        };
        Fault::new(FaultCode::InvalidConfig, object, cause, self.remedy())
    }

    fn remedy(&self) -> String {
        match self {
            Self::SeveralSections(_) => "keep one section".to_owned(),
            Self::NoSection { section, .. } => {
                format!("add spec.{section}, or name the plugin meant in cniType")
            }
            Self::CustomAndSection(_) => "keep one of the two".to_owned(),
            Self::UnknownType(_) => "write one of ib-sriov, ipoib, sriov, macvlan, ipvlan, custom".to_owned(),
            Self::MissingField(field) => format!("set {field}"),
            Self::Unsupported(_) => "write the configuration in customCNI, with cniType custom".to_owned(),
            Self::InvalidJson { field, .. } | Self::InvalidShape { field, .. } => format!("correct {field}"),
            Self::InvalidValue { field, .. } => format!("correct {field}"),
            Self::InvalidAnnotation { .. } => "correct the annotation".to_owned(),
            Self::ForbiddenNamespace(_) => "move the object there, or remove networkNamespace".to_owned(),
        }
    }
}
