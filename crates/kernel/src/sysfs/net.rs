//! Network interfaces in sysfs.

use super::{attribute, infiniband};
use crate::{Error, Root};
use ferroband_model::PciAddress;

/// An interface of the namespace in which the sysfs tree was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDevice {
    pub name: String,
    /// ARPHRD_* of linux/if_arp.h: 1 Ethernet, 32 InfiniBand.
    pub link_type: Option<u16>,
    /// Hardware address with colons between the bytes.
    pub address: Option<String>,
    pub mtu: Option<u32>,
    /// RFC 2863 state: `up`, `down`, `dormant`.
    pub operstate: Option<String>,
    /// Whether the link is up; `None` while the interface is administratively down.
    pub carrier: Option<bool>,
    /// Speed in Mb/s, if the driver reports it.
    pub speed: Option<u32>,
    /// Port number on the PCI function, starting at 0.
    pub port: Option<u32>,
    /// PCI function of the interface; software interfaces have none.
    pub pci: Option<PciAddress>,
}

/// The interface `name`; `None` if it does not exist.
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
        // The kernel shows -1 if the speed is unknown.
        speed: attribute::read_number(&at("speed"))?.and_then(|speed| u32::try_from(speed).ok()),
        port: attribute::read_sized(&at("dev_port"))?,
        pci: infiniband::pci_ancestor(&at("device")),
    }))
}
