//! The devices of a namespace.

use super::RdmaSocket;
use super::message::{NldevCommand, attribute as a};
use crate::netlink::{MessageBuilder, RawMessage, attr};
use crate::{Error, Netns};
use ferroband_model::Guid;
use std::os::fd::AsRawFd;

/// An RDMA device as the kernel's RDMA core knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaDeviceInfo {
    /// Its index, for as long as it is registered; a rebind gives another one.
    pub index: u32,
    /// Its name: `mlx5_0`.
    pub name: String,
    /// How many ports it has.
    pub ports: u32,
    /// The version of its firmware.
    pub firmware: Option<String>,
    /// The GUID of the node that it is on the fabric; none before somebody gave it one.
    pub node_guid: Option<Guid>,
    /// The GUID of the board that it is on.
    pub sys_image_guid: Option<Guid>,
    /// `ib`, `roce`, `iw`, where the kernel says.
    pub protocol: Option<String>,
}

impl RdmaDeviceInfo {
    /// A device to speak of: its index, its name and how many ports it has.
    pub fn new(index: u32, name: impl Into<String>, ports: u32) -> Self {
        Self { index, name: name.into(), ports, ..Self::default() }
    }

    pub(crate) fn decode(message: &RawMessage) -> Option<Self> {
        let mut device = Self::default();
        for (kind, value) in message.attributes(0) {
            match kind {
                a::DEV_INDEX => device.index = attr::u32(value)?,
                a::DEV_NAME => device.name = attr::text(value),
                // In an answer about a device this is the number of its last port.
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

/// The kernel sends the number of the EUI-64 in the machine's order (fill_dev_info of core/nldev.c).
fn guid(value: &[u8]) -> Option<Guid> {
    attr::u64(value).map(Guid::new).filter(|guid| !guid.is_unset())
}

impl RdmaSocket {
    /// The devices of the namespace, by index.
    pub fn devices(&mut self) -> Result<Vec<RdmaDeviceInfo>, Error> {
        match self.socket.dump(NldevCommand::Get.message(MessageBuilder::default())) {
            Ok(answers) => Ok(answers.iter().filter_map(RdmaDeviceInfo::decode).collect()),
            Err(failure) => Err(failure.for_device("list", "any")),
        }
    }

    /// The device called `name`; [`Error::NoRdmaDevice`] when it is not in the namespace.
    pub fn device(&mut self, name: &str) -> Result<RdmaDeviceInfo, Error> {
        // The kernel looks devices up by index only.
        let found = self.devices()?.into_iter().find(|device| device.name == name);
        found.ok_or_else(|| Error::NoRdmaDevice { device: name.to_owned() })
    }

    /// Gives the device another name.
    pub fn rename_device(&mut self, name: &str, to: &str) -> Result<(), Error> {
        let index = self.device(name)?.index;
        self.set(format!("rename to {to} the"), name, rename_request(index, to))
    }

    /// Moves the device to another namespace.
    ///
    /// The kernel destroys and makes again everything that stands on it, its IPoIB interface included, which
    /// before 6.17 comes to be in the initial namespace and since then in the device's own. With shared
    /// namespaces the answer is EOPNOTSUPP. A fatal signal in the middle leaves the device without its MAD
    /// layer, so a process that somebody may kill must not do this itself.
    pub fn move_device(&mut self, name: &str, netns: &Netns) -> Result<(), Error> {
        let index = self.device(name)?.index;
        let doing = format!("move to {} the", netns.id());
        let body = move_request(index, netns.fd().as_raw_fd());
        // The kernel looks the device up in the socket's namespace, but moves it only if it is also in that
        // of the thread that asks (rdma_dev_change_netns of core/device.c has `current`'s); else it says
        // ENODEV.
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
