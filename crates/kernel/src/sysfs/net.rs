//! Network interfaces in sysfs.

use super::attribute;
use crate::{Error, Root};

/// An interface of the namespace in which the sysfs tree was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDevice {
    pub name: String,
    /// Hardware address with colons between the bytes.
    pub address: Option<String>,
    pub mtu: Option<u32>,
    /// Speed in Mb/s, if the driver reports it.
    pub speed: Option<u32>,
}

/// The interface `name`; `None` if it does not exist.
pub fn netdev(root: &Root, name: &str) -> Result<Option<NetDevice>, Error> {
    let directory = root.sys("class/net").join(name);
    let at = |file: &str| directory.join(file);
    if attribute::read_text(&at("type"))?.is_none() {
        return Ok(None);
    }
    Ok(Some(NetDevice {
        name: name.to_owned(),
        address: attribute::read_text(&at("address"))?,
        mtu: attribute::read_sized(&at("mtu"))?,
        // The kernel shows -1 if the speed is unknown.
        speed: attribute::read_number(&at("speed"))?.and_then(|speed| u32::try_from(speed).ok()),
    }))
}
