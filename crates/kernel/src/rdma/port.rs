//! The ports of a device.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use crate::sysfs::infiniband::PortState;

/// A port as the kernel's RDMA core knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// Its logical state.
    pub state: PortState,
    /// Its physical state, by enum ib_port_phys_state of rdma/ib_verbs.h: 2 polling, 3 disabled, 5 link up.
    pub phys_state: u8,
    /// Its local identifier; InfiniBand only.
    pub lid: Option<u32>,
    /// The local identifier of the subnet manager; InfiniBand only.
    pub sm_lid: Option<u32>,
    /// The prefix of the subnet; InfiniBand only.
    pub subnet_prefix: Option<u64>,
    /// The interface on it, index and name; Ethernet only, and only in the asker's namespace.
    pub netdev: Option<(u32, String)>,
}

impl RdmaPort {
    pub(super) fn decode(message: &RawMessage) -> Option<Self> {
        let find = |wanted| message.attributes(0).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let byte = |wanted| find(wanted).and_then(|value| value.first().copied());
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
    /// The ports of the device called `name`, by number.
    pub fn ports(&mut self, name: &str) -> Result<Vec<RdmaPort>, Error> {
        let index = self.device(name)?.index;
        let body = MessageBuilder::default().with(a::DEV_INDEX, &index.to_ne_bytes());
        match self.socket.dump(NldevCommand::PortGet.message(body)) {
            Ok(answers) => Ok(answers.iter().filter_map(RdmaPort::decode).collect()),
            Err(failure) => Err(failure.for_device("list the ports of", name)),
        }
    }
}
