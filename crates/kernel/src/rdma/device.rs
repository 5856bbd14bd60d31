//! RDMA devices of a namespace.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::netlink::{MessageBuilder, RawMessage, attr};
use crate::{Error, Netns};
use ferroband_model::Guid;
use std::os::fd::AsRawFd;

/// An RDMA device as RDMA netlink reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaDeviceInfo {
    /// Index, valid while the device is registered; a rebind assigns a new one.
    pub index: u32,
    /// Device name, such as `mlx5_0`.
    pub name: String,
    /// Number of ports.
    pub ports: u32,
    pub firmware: Option<String>,
    /// Node GUID; `None` until one is set.
    pub node_guid: Option<Guid>,
    /// System image GUID, common to all devices of the board.
    pub sys_image_guid: Option<Guid>,
    /// Protocol: `ib`, `roce` or `iw`; `None` if the kernel does not report it.
    pub protocol: Option<String>,
}

impl RdmaDeviceInfo {
    /// Creates a device whose optional fields are `None`.
    pub fn new(index: u32, name: impl Into<String>, ports: u32) -> Self {
        Self { index, name: name.into(), ports, ..Self::default() }
    }

    pub(crate) fn decode(message: &RawMessage) -> Option<Self> {
        let mut device = Self::default();
        for (kind, value) in message.attributes(0) {
            match kind {
                a::DEV_INDEX => device.index = attr::u32(value)?,
                a::DEV_NAME => device.name = attr::text(value),
                // In a reply about a device this is the number of its last port.
                a::PORT_INDEX => device.ports = attr::u32(value)?,
                a::FW_VERSION => device.firmware = Some(attr::text(value)).filter(|text| !text.is_empty()),
                a::NODE_GUID => device.node_guid = guid(value),
                a::SYS_IMAGE_GUID => device.sys_image_guid = guid(value),
                a::DEV_PROTOCOL => device.protocol = Some(attr::text(value)),
                _ => {}
            }
        }
        let right = message.kind == NldevCommand::Get.kind() && !device.name.is_empty();
        right.then_some(device)
    }
}

/// Decodes a GUID, which the kernel sends as an integer in native byte order (fill_dev_info of core/nldev.c).
/// Returns `None` if no GUID is set.
fn guid(value: &[u8]) -> Option<Guid> {
    attr::u64(value).map(Guid::new).filter(|guid| !guid.is_unset())
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

    pub fn rename_device(&mut self, name: &str, to: &str) -> Result<(), Error> {
        let index = self.device(name)?.index;
        self.set(format!("set name {to} of"), name, rename_request(index, to))
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
        match self.socket.request(NldevCommand::Set.message(body), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.for_device(doing, name)),
        }
    }
}

pub(super) fn rename_request(index: u32, to: &str) -> MessageBuilder {
    MessageBuilder::default().with(a::DEV_INDEX, &index.to_ne_bytes()).with_text(a::DEV_NAME, to)
}

pub(super) fn move_request(index: u32, fd: i32) -> MessageBuilder {
    MessageBuilder::default().with(a::DEV_INDEX, &index.to_ne_bytes()).with(a::NET_NS_FD, &fd.to_ne_bytes())
}
