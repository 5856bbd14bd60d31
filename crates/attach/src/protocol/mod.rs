//! The CNI protocol: variables, configuration and arguments of a call, its result or error, and its context.

pub mod args;
mod attachment_id;
pub(crate) mod config;
mod context;
mod error;
mod fault;
pub(crate) mod invocation;
mod plugin_type;
pub mod result;
mod version;

pub use attachment_id::AttachmentId;
pub use config::{ConfigFields, PluginConfig};
pub use context::{CallTimeouts, CniContext, FailPoint};
pub use error::Error;
pub use invocation::{CniCommand, CniEnvironment, Invocation, error_reply, version_reply};
pub use plugin_type::PluginType;
pub use result::CniResult;
pub use version::CniVersion;
