//! How the machine's RDMA devices and its network namespaces go together.

use super::Rdma;
use super::message::{Command, attribute as a};
use crate::Error;
use crate::netlink::{Body, Failure, Message};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;

/// ib_core's `netns_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetnsMode {
    /// Every namespace sees every device (the kernel's default).
    #[default]
    Shared,
    /// A device is in one namespace and seen in that one only.
    Exclusive,
}

impl NetnsMode {
    /// Its number on the wire and as the module's parameter.
    pub const fn number(self) -> u8 {
        match self {
            Self::Exclusive => 0,
            Self::Shared => 1,
        }
    }
}

impl fmt::Display for NetnsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

impl Rdma {
    /// The mode of the machine.
    pub fn netns_mode(&mut self) -> Result<NetnsMode, Error> {
        match self.socket.request(Command::SysGet.message(Body::default()), 0) {
            // A kernel that does not say (before 5.2) has no exclusive mode.
            Ok(answers) => Ok(answers.iter().find_map(decode).unwrap_or_default()),
            Err(failure) if failure.errno() == Some(Errno::EINVAL) => Ok(NetnsMode::Shared),
            Err(failure) => Err(failed("ask for the namespace mode of", failure)),
        }
    }

    /// Changes the mode. EBUSY while the machine has a network namespace besides the initial one
    /// (rdma_compatdev_set of core/device.c).
    pub fn set_netns_mode(&mut self, mode: NetnsMode) -> Result<(), Error> {
        match self.socket.request(Command::SysSet.message(setting(mode)), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failed(&format!("make the namespaces {mode} of"), failure)),
        }
    }
}

pub(super) fn setting(mode: NetnsMode) -> Body {
    Body::default().with(a::SYS_NETNS_MODE, &[mode.number()])
}

pub(super) fn decode(message: &Message) -> Option<NetnsMode> {
    let (_, value) = message.attributes(0).find(|(kind, _)| *kind == a::SYS_NETNS_MODE)?;
    [NetnsMode::Shared, NetnsMode::Exclusive].into_iter().find(|mode| value.first() == Some(&mode.number()))
}

fn failed(doing: &str, failure: Failure) -> Error {
    failure.about_device(doing, "any RDMA")
}
