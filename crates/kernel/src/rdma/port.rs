//! The ports of a device.

use super::Rdma;
use super::message::{Command, attribute as a};
use crate::Error;
use crate::netlink::{Body, Message, wire};
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
    pub physical: u8,
    /// Its local identifier; InfiniBand only.
    pub lid: Option<u32>,
    /// The local identifier of the subnet manager; InfiniBand only.
    pub sm_lid: Option<u32>,
    /// The prefix of the subnet; InfiniBand only.
    pub subnet: Option<u64>,
    /// The interface on it, index and name; Ethernet only, and only in the asker's namespace.
    pub netdev: Option<(u32, String)>,
}

impl RdmaPort {
    pub(super) fn decode(message: &Message) -> Option<Self> {
        let find = |wanted| message.attributes(0).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let byte = |wanted| find(wanted).and_then(|value| value.first().copied());
        if message.kind != Command::PortGet.kind() {
            return None;
        }
        let netdev = find(a::NDEV_INDEX).and_then(wire::u32).zip(find(a::NDEV_NAME).map(wire::text));
        Some(Self {
            number: find(a::PORT_INDEX).and_then(wire::u32)?,
            state: PortState::of(byte(a::PORT_STATE)?),
            physical: byte(a::PORT_PHYS_STATE)?,
            lid: find(a::LID).and_then(wire::u32),
            sm_lid: find(a::SM_LID).and_then(wire::u32),
            subnet: find(a::SUBNET_PREFIX).and_then(wire::u64),
            netdev,
        })
    }
}

impl Rdma {
    /// The ports of the device called `name`, by number.
    pub fn ports(&mut self, name: &str) -> Result<Vec<RdmaPort>, Error> {
        let index = self.device(name)?.index;
        let body = Body::default().with(a::DEV_INDEX, &index.to_ne_bytes());
        match self.socket.dump(Command::PortGet.message(body)) {
            Ok(answers) => Ok(answers.iter().filter_map(RdmaPort::decode).collect()),
            Err(failure) => Err(failure.about_device("list the ports of", name)),
        }
    }
}
