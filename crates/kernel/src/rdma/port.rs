//! Ports of an RDMA device.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use crate::sysfs::infiniband::PortState;

/// A port as RDMA netlink reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaPort {
    /// Port number, starting at 1.
    pub number: u32,
    pub state: PortState,
    /// Physical state, enum ib_port_phys_state of rdma/ib_verbs.h: 2 polling, 3 disabled, 5 link up.
    pub phys_state: u8,
    /// Local identifier; InfiniBand only.
    pub lid: Option<u32>,
    /// LID of the subnet manager; InfiniBand only.
    pub sm_lid: Option<u32>,
    /// Subnet prefix, the upper half of the port's GIDs; InfiniBand only.
    pub subnet_prefix: Option<u64>,
    /// Index and name of the port's network interface; Ethernet only, and only if the interface is in the
    /// namespace of the socket.
    pub netdev: Option<(u32, String)>,
}

impl RdmaPort {
    pub(super) fn decode(message: &RawMessage) -> Option<Self> {
        let find =
            |attribute| message.attributes(0).find(|(kind, _)| *kind == attribute).map(|(_, value)| value);
        let byte = |attribute| find(attribute).and_then(|value| value.first().copied());
        if message.kind != NldevCommand::PortGet.kind() {
            return None;
        }
        let netdev = find(a::NDEV_INDEX).and_then(attr::u32).zip(find(a::NDEV_NAME).map(attr::text));
        Some(Self {
            number: find(a::PORT_INDEX).and_then(attr::u32)?,
            state: PortState::from_number(byte(a::PORT_STATE)?),
            phys_state: byte(a::PORT_PHYS_STATE)?,
            lid: find(a::LID).and_then(attr::u32),
            sm_lid: find(a::SM_LID).and_then(attr::u32),
            subnet_prefix: find(a::SUBNET_PREFIX).and_then(attr::u64),
            netdev,
        })
    }
}

impl RdmaSocket {
    /// Ports of the device `name`, ordered by number.
    pub fn ports(&mut self, name: &str) -> Result<Vec<RdmaPort>, Error> {
        let index = self.device(name)?.index;
        let body = MessageBuilder::default().with(a::DEV_INDEX, &index.to_ne_bytes());
        match self.socket.dump(NldevCommand::PortGet.message(body)) {
            Ok(replies) => Ok(replies.iter().filter_map(RdmaPort::decode).collect()),
            Err(failure) => Err(failure.for_device("list the ports of", name)),
        }
    }
}
