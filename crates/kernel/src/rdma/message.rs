//! Commands and attributes of rdma/rdma_netlink.h.

use crate::netlink::{MessageBuilder, RawMessage};

/// RDMA_NL_NLDEV, the netlink client that manages devices. A message type consists of the client, shifted by ten
/// bits, and the command.
const NLDEV: u16 = 5;

/// The commands of enum rdma_nldev_command that this crate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NldevCommand {
    Get = 1,
    Set = 2,
    SysGet = 6,
    SysSet = 7,
}

impl NldevCommand {
    pub(super) const fn kind(self) -> u16 {
        NLDEV << 10 | self as u16
    }

    /// Builds a message with this command. RDMA netlink messages have no fixed header: the attributes follow the
    /// netlink header.
    pub(super) fn message(self, body: MessageBuilder) -> RawMessage {
        body.build(self.kind())
    }
}

/// The attributes of enum rdma_nldev_attr that this crate uses. The value types are those in the comments of
/// the kernel header.
pub(super) mod attribute {
    pub(in crate::rdma) const DEV_INDEX: u16 = 1; // u32
    pub(in crate::rdma) const DEV_NAME: u16 = 2; // string
    pub(in crate::rdma) const SYS_NETNS_MODE: u16 = 66; // u8
    pub(in crate::rdma) const NET_NS_FD: u16 = 68; // u32
}
