//! Errors in configurations. [`ConfigError::fault`] formats them for users.

use crate::CniVersion;
use ferroband_model::{Fault, FaultCode, InvalidPKey, PciAddress};

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    #[error("the configuration is not a JSON object: {source}")]
    InvalidJson { source: serde_json::Error },
    #[error("field `{field}` must be {expected}")]
    Field { field: String, expected: &'static str },
    #[error("invalid network name {name:?}; use letters, digits, `_`, `.` and `-`, first a letter or digit")]
    NetworkName { name: String },
    #[error("configuration has unsupported CNI version {version:?}")]
    IncompatibleVersion { version: String },
    #[error("host master interface is missing: `master` is not set")]
    NoMaster,
    #[error("deviceID is required but not set")]
    NoDeviceId,
    #[error("there is no PCI function {device} on this node")]
    InvalidDeviceId { device: String },
    #[error("invalid guid {guid:?}")]
    InvalidGuid { guid: String },
    #[error(transparent)]
    InvalidPKey(#[from] InvalidPKey),
    #[error("invalid membership {membership:?}: must be full or limited")]
    InvalidMembership { membership: String },
    #[error("ibKubernetesEnabled is set, but ib-kubernetes has not marked function {function} as configured")]
    NotMarkedConfigured { function: PciAddress },
    #[error("IPAM type dhcp does not work on InfiniBand")]
    Dhcp,
}

impl ConfigError {
    /// An invalid value of `field`.
    pub fn field(field: &str, expected: &'static str) -> Self {
        Self::Field { field: field.to_owned(), expected }
    }

    /// The error as shown to users: what failed, why, and what to do.
    pub fn fault(&self) -> Fault {
        let (code, what) = (FaultCode::InvalidConfig, "network configuration");
        let versions = || format!("supported versions: {}", CniVersion::supported_list());
        let (code, what, remedy) = match self {
            Self::InvalidJson { .. } => (FaultCode::Undecodable, what, "fix the JSON syntax".to_owned()),
            Self::IncompatibleVersion { .. } => {
                (FaultCode::IncompatibleVersion, "incompatible CNI versions", versions())
            }
            Self::InvalidDeviceId { .. } => (
                FaultCode::NoDevice,
                "pod's device",
                "run `ferroband inspect` to list the functions of this node".to_owned(),
            ),
            Self::NotMarkedConfigured { .. } => (
                code,
                "pod's InfiniBand network",
                "check that ib-kubernetes, or Ferroband in its place, is running; retried automatically"
                    .to_owned(),
            ),
            Self::Field { .. }
            | Self::NetworkName { .. }
            | Self::NoMaster
            | Self::NoDeviceId
            | Self::InvalidGuid { .. }
            | Self::InvalidPKey(_)
            | Self::InvalidMembership { .. }
            | Self::Dhcp => (code, what, self.correction().to_owned()),
        };
        Fault::new(code, what, self.to_string(), remedy)
    }

    /// How to correct an invalid field.
    fn correction(&self) -> &'static str {
        match self {
            Self::NoMaster => "set `master` to an IPoIB interface of the node",
            Self::NoDeviceId => {
                "set the annotation k8s.v1.cni.cncf.io/resourceName of the \
                 NetworkAttachmentDefinition, and request that resource in the pod"
            }
            Self::InvalidGuid { .. } => "use eight hexadecimal bytes separated by colons, not all zero",
            Self::InvalidPKey(_) => "correct `pkey` in the network's configuration",
            Self::InvalidMembership { .. } => "correct `membership` in the network's configuration",
            Self::Dhcp => "use another IPAM plugin, for example whereabouts",
            _ => "correct the field",
        }
    }
}
