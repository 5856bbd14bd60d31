//! System-wide RDMA settings: the network namespace mode.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::Error;
use crate::netlink::{MessageBuilder, NetlinkError, RawMessage};
use ferroband_model::named_enum;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

named_enum! {
    /// The `netns_mode` parameter of ib_core: whether network namespaces share RDMA devices.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum NetnsMode {
        /// All namespaces see all devices (the kernel's default).
        #[default]
        Shared = "shared",
        /// A device belongs to one namespace and is visible only there.
        Exclusive = "exclusive",
    }
}

impl NetnsMode {
    /// The value that netlink messages and the module parameter use.
    pub const fn number(self) -> u8 {
        match self {
            Self::Exclusive => 0,
            Self::Shared => 1,
        }
    }
}

impl RdmaSocket {
    pub fn netns_mode(&mut self) -> Result<NetnsMode, Error> {
        match self.socket.request(NldevCommand::SysGet.message(MessageBuilder::default()), 0) {
            // Kernels before 5.2 do not report the mode and have no exclusive mode.
            Ok(replies) => Ok(replies.iter().find_map(decode).unwrap_or_default()),
            Err(failure) if failure.errno() == Some(Errno::EINVAL) => Ok(NetnsMode::Shared),
            Err(failure) => Err(system_error("read the RDMA namespace mode of", failure)),
        }
    }

    /// Changes the mode. Returns EBUSY while any network namespace other than the initial one exists
    /// (rdma_compatdev_set of core/device.c).
    pub fn set_netns_mode(&mut self, mode: NetnsMode) -> Result<(), Error> {
        let reply = self.socket.request(NldevCommand::SysSet.message(mode_request(mode)), 0);
        let failed = |failure| system_error(&format!("set RDMA namespace mode {mode} of"), failure);
        reply.map(drop).map_err(failed)
    }
}

pub(super) fn mode_request(mode: NetnsMode) -> MessageBuilder {
    MessageBuilder::default().with(a::SYS_NETNS_MODE, &[mode.number()])
}

pub(super) fn decode(message: &RawMessage) -> Option<NetnsMode> {
    let value = message.attribute(0, a::SYS_NETNS_MODE)?;
    NetnsMode::ALL.into_iter().find(|mode| value.first() == Some(&mode.number()))
}

fn system_error(doing: &str, failure: NetlinkError) -> Error {
    failure.for_device(doing, "(all)")
}
