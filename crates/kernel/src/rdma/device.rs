//! RDMA devices of a namespace.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::netlink::{MessageBuilder, RawMessage, attr};
use crate::{Error, Netns};
use std::os::fd::AsRawFd;

/// An RDMA device as RDMA netlink reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaDeviceInfo {
    /// Index, valid while the device is registered; a rebind assigns a new one.
    pub index: u32,
    /// Device name, such as `mlx5_0`.
    pub name: String,
}

impl RdmaDeviceInfo {
    pub fn new(index: u32, name: impl Into<String>) -> Self {
        Self { index, name: name.into() }
    }

    pub(crate) fn decode(message: &RawMessage) -> Option<Self> {
        let mut device = Self::default();
        for (kind, value) in message.attributes(0) {
            match kind {
                a::DEV_INDEX => device.index = attr::u32(value)?,
                a::DEV_NAME => device.name = attr::text(value),
                _ => {}
            }
        }
        let right = message.kind == NldevCommand::Get.kind() && !device.name.is_empty();
        right.then_some(device)
    }
}

impl RdmaSocket {
    /// Devices of the namespace, ordered by index.
    pub fn devices(&mut self) -> Result<Vec<RdmaDeviceInfo>, Error> {
        match self.socket.dump(NldevCommand::Get.message(MessageBuilder::default())) {
            Ok(replies) => Ok(replies.iter().filter_map(RdmaDeviceInfo::decode).collect()),
            Err(failure) => Err(failure.for_device("list", "(all)")),
        }
    }

    /// The device with the name `name`. Returns [`Error::NoRdmaDevice`] if it is not in the namespace.
    pub fn device(&mut self, name: &str) -> Result<RdmaDeviceInfo, Error> {
        // The kernel supports lookup by index only.
        let found = self.devices()?.into_iter().find(|device| device.name == name);
        found.ok_or_else(|| Error::NoRdmaDevice { device: name.to_owned() })
    }

    /// Moves the device to another namespace.
    ///
    /// The kernel destroys and recreates everything on top of the device, including its IPoIB interface. Before
    /// Linux 6.17 the new interface is in the initial namespace; since then it is in the namespace of the device.
    /// Returns EOPNOTSUPP in shared mode. A fatal signal during the move leaves the device without its MAD layer,
    /// so a process that may be killed must not call this.
    pub fn move_device(&mut self, name: &str, netns: &Netns) -> Result<(), Error> {
        let index = self.device(name)?.index;
        let doing = format!("set network namespace {} of", netns.id());
        let body = move_request(index, netns.fd().as_raw_fd());
        // The kernel looks the device up in the namespace of the socket, but moves it only if it is also in the
        // namespace of the calling thread (rdma_dev_change_netns of core/device.c uses `current`); otherwise it
        // returns ENODEV.
        match self.netns.take() {
            None => self.set(doing, name, body),
            Some(from) => {
                let moved = from.run(|| self.set(doing, name, body));
                self.netns = Some(from);
                moved?
            }
        }
    }

    fn set(&mut self, doing: String, name: &str, body: MessageBuilder) -> Result<(), Error> {
        let reply = self.socket.request(NldevCommand::Set.message(body), 0);
        reply.map(drop).map_err(|failure| failure.for_device(doing, name))
    }
}

pub(super) fn move_request(index: u32, fd: i32) -> MessageBuilder {
    MessageBuilder::default().with(a::DEV_INDEX, &index.to_ne_bytes()).with(a::NET_NS_FD, &fd.to_ne_bytes())
}
