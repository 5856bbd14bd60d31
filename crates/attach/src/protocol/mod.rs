//! The CNI protocol: variables, configuration and arguments of a call, its result or error, and its context.

pub mod args;
mod channel_error;
mod context;
mod error;
mod fault;
pub(crate) mod invocation;
mod plugin_error;
pub mod result;

pub use args::AttachmentId;
pub use channel_error::ChannelError;
pub use context::{CallTimeouts, CniContext, FailPoint};
pub use error::Error;
pub use ferroband_config::{CniVersion, ConfigError, ConfigFields, PluginConfig, PluginType};
pub use invocation::{CniCommand, CniEnvironment, Invocation, error_reply, version_reply};
pub use plugin_error::PluginError;
pub use result::CniResult;
