//! Why an object becomes no network.

use ferroband_model::{Fault, FaultCode, Malformed};

/// What is wrong with an object that should become a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Several sections.
    #[error("sections {0} are given together, and only one can be meant")]
    Sections(String),
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
    Type(String),
    /// A field must be filled in.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// A field that means something only the other system's plugins do.
    #[error("{0} is for plugins that Ferroband does not have")]
    NotOurs(&'static str),
    /// JSON text that is none.
    #[error("{field} is not JSON")]
    Json {
        /// The field.
        field: String,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// JSON text of the wrong shape.
    #[error("{field} {problem}")]
    Shape {
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A word that is not what it should be.
    #[error("{field}: {source}")]
    Word {
        /// The field.
        field: &'static str,
        /// What is wrong.
        source: Malformed,
    },
    /// An annotation that says something impossible.
    #[error("annotation {annotation}: {problem}")]
    Annotation {
        /// Its key.
        annotation: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A definition in another namespace than the object may have it.
    #[error("networkNamespace may only be set on objects in the namespaces {0}")]
    Elsewhere(String),
}

impl Refused {
    /// The fault as people see it, about `object`.
    pub fn fault(&self, object: &str) -> Fault {
        let cause = match std::error::Error::source(self) {
            Some(source) if matches!(self, Self::Json { .. }) => format!("{self}: {source}"),
            _ => self.to_string(),
        };
        Fault::new(FaultCode::InvalidConfig, object, cause, self.remedy())
    }

    fn remedy(&self) -> String {
        match self {
            Self::Sections(_) => "keep one section".to_owned(),
            Self::NoSection { section, .. } => {
                format!("add spec.{section}, or name the plugin meant in cniType")
            }
            Self::CustomAndSection(_) => "keep one of the two".to_owned(),
            Self::Type(_) => "write one of ib-sriov, ipoib, sriov, macvlan, ipvlan, custom".to_owned(),
            Self::Missing(field) => format!("set {field}"),
            Self::NotOurs(_) => "write the configuration in customCNI, with cniType custom".to_owned(),
            Self::Json { field, .. } | Self::Shape { field, .. } => format!("correct {field}"),
            Self::Word { field, .. } => format!("correct {field}"),
            Self::Annotation { .. } => "correct the annotation".to_owned(),
            Self::Elsewhere(_) => "move the object there, or remove networkNamespace".to_owned(),
        }
    }
}
