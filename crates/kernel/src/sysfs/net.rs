//! Interfaces, as sysfs has them.

use super::{attribute, infiniband};
use crate::{Error, Root};
use ferroband_model::PciAddress;

/// An interface of the namespace that the sysfs tree was mounted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDevice {
    /// Its name.
    pub name: String,
    /// ARPHRD_* of linux/if_arp.h: 1 Ethernet, 32 InfiniBand.
    pub link_type: Option<u16>,
    /// Its hardware address, bytes with colons between.
    pub address: Option<String>,
    /// Its MTU.
    pub mtu: Option<u32>,
    /// RFC 2863's word: `up`, `down`, `dormant`.
    pub operstate: Option<String>,
    /// Whether there is a carrier; nothing while it is down.
    pub carrier: Option<bool>,
    /// Its speed in Mb/s, where the driver knows.
    pub speed: Option<u32>,
    /// Which port of its function it is on, from 0.
    pub port: Option<u32>,
    /// The function it is on; what is made of software has none.
    pub pci: Option<PciAddress>,
}

/// The interface called `name`; nothing when it is not there.
pub fn netdev(root: &Root, name: &str) -> Result<Option<NetDevice>, Error> {
    let directory = root.sys("class/net").join(name);
    let at = |file: &str| directory.join(file);
    let Some(link_type) = attribute::read_sized(&at("type"))? else { return Ok(None) };
    Ok(Some(NetDevice {
        name: name.to_owned(),
        link_type: Some(link_type),
        address: attribute::read_text(&at("address"))?,
        mtu: attribute::read_sized(&at("mtu"))?,
        operstate: attribute::read_text(&at("operstate"))?,
        carrier: attribute::read_number(&at("carrier"))?.map(|carrier| carrier != 0),
        // -1: not known.
        speed: attribute::read_number(&at("speed"))?.and_then(|speed| u32::try_from(speed).ok()),
        port: attribute::read_sized(&at("dev_port"))?,
        pci: infiniband::pci_ancestor(&at("device")),
    }))
}
