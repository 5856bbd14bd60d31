//! Errors in SpiderMultusConfigs and SriovIBNetworks.

use ferroband_model::{Fault, FaultCode, InvalidPKey, MalformedValue};

/// Why no NetworkAttachmentDefinition can be generated from a SpiderMultusConfig or SriovIBNetwork.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkSpecError {
    #[error("sections {0} are set together, but only one is allowed")]
    SeveralSections(String),
    #[error("cniType is {cni_type}, but section {section} is not set")]
    NoSection { cni_type: String, section: &'static str },
    #[error("customCNI and section {0} are set together, but only one is allowed")]
    CustomAndSection(&'static str),
    #[error("cniType {0:?} is unknown")]
    UnknownType(String),
    #[error("{0} is not set")]
    MissingField(&'static str),
    /// The field is valid for Spiderpool, but needs a CNI plugin that Ferroband does not include.
    #[error("{0} needs a CNI plugin that Ferroband does not include")]
    Unsupported(&'static str),
    #[error("{field} is not JSON")]
    InvalidJson { field: String, source: serde_json::Error },
    /// The field is valid JSON, but of the wrong type, for example not an object.
    #[error("{field} {problem}")]
    InvalidShape { field: String, problem: &'static str },
    /// The value of the field cannot be parsed.
    #[error("{field}: {source}")]
    InvalidValue { field: &'static str, source: MalformedValue },
    #[error("{field}: {source}")]
    InvalidPKey { field: &'static str, source: InvalidPKey },
    #[error("annotation {annotation}: {problem}")]
    InvalidAnnotation { annotation: &'static str, problem: String },
    #[error("{field} has {bytes} bytes, but at most {max} are allowed")]
    TooLong { field: String, bytes: usize, max: usize },
    #[error("{field} is nested deeper than {max} levels")]
    TooDeep { field: String, max: usize },
    #[error("{field} has {count} plugins, but at most {max} are allowed")]
    TooManyPlugins { field: String, count: usize, max: usize },
    /// Only objects in trusted namespaces may have a NetworkAttachmentDefinition in another namespace. The
    /// string lists the trusted namespaces.
    #[error("networkNamespace may only be set on objects in the namespaces {0}")]
    ForbiddenNamespace(String),
}

impl NetworkSpecError {
    /// Converts the error to the fault that events and conditions of `object` show.
    pub fn fault(&self, object: &str) -> Fault {
        let cause = match std::error::Error::source(self) {
            Some(source) if matches!(self, Self::InvalidJson { .. }) => format!("{self}: {source}"),
            _ => self.to_string(),
        };
        Fault::new(FaultCode::InvalidConfig, object, cause, self.remedy())
    }

    fn remedy(&self) -> String {
        match self {
            Self::SeveralSections(_) => "keep one of these sections and remove the others".to_owned(),
            Self::NoSection { section, .. } => {
                format!("add spec.{section}, or correct cniType")
            }
            Self::CustomAndSection(_) => "remove customCNI or the section".to_owned(),
            Self::UnknownType(_) => {
                "set cniType to ib-sriov, ipoib, sriov, macvlan, ipvlan or custom".to_owned()
            }
            Self::MissingField(field) => format!("set {field}"),
            Self::Unsupported(_) => "use customCNI with cniType custom".to_owned(),
            Self::InvalidJson { field, .. } | Self::InvalidShape { field, .. } => format!("correct {field}"),
            Self::InvalidValue { field, .. } | Self::InvalidPKey { field, .. } => format!("correct {field}"),
            Self::TooLong { field, .. }
            | Self::TooDeep { field, .. }
            | Self::TooManyPlugins { field, .. } => {
                format!("simplify {field}")
            }
            Self::InvalidAnnotation { .. } => "correct the annotation".to_owned(),
            Self::ForbiddenNamespace(_) => {
                "create the object in one of these namespaces, or remove networkNamespace".to_owned()
            }
        }
    }
}
