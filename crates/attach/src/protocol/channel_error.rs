//! Errors on the connection to the node daemon.

use ferroband_model::{Fault, FaultCode};
use std::io;

/// An error on the connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The socket failed or timed out.
    #[error("cannot read from or write to the socket: {0}")]
    Socket(#[from] io::Error),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// A message is longer than the protocol allows.
    #[error("message of {length} bytes exceeds the limit of 16 MiB")]
    TooLong {
        /// Length of the message's JSON, in bytes.
        length: usize,
    },
    /// A message could not be parsed.
    #[error("cannot parse the JSON of a message: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl ChannelError {
    /// The error as shown to users: what failed, why, and what to do.
    pub fn fault(&self) -> Fault {
        Fault::new(
            FaultCode::DaemonAway,
            "Ferroband node daemon",
            self.to_string(),
            "retried automatically; if it persists, check the `ferroband-node` pod on this node",
        )
    }
}

impl From<rustix::io::Errno> for ChannelError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Socket(errno.into())
    }
}
