//! The sysfs tree of a simulated node.
//!
//! Laid out as the kernel does it: the facts are under `devices`, and `class` and `bus` hold links to them. Links
//! are relative, so the tree can be mounted anywhere.

use crate::chardev::CharDevice;
use crate::identity::Identity;
use crate::{Error, Hca, Port, PortState, Profile, files};
use ferroband_model::{Guid, LinkLayer};
use std::path::{Path, PathBuf};

/// Slots of a port's P_Key table; ConnectX has this many.
const PKEY_SLOTS: usize = 128;
/// The MTU of IPoIB datagrams over a 2048-byte path: four bytes are IPoIB's own header (RFC 4391).
pub(crate) const IPOIB_MTU: u32 = 2044;

/// Writes the tree into `base`, which is to be `sys`.
pub(crate) fn write(base: &Path, profile: &Profile, seed: &str, devices: &[CharDevice]) -> Result<(), Error> {
    let tree = Tree { base, identity: Identity::new(seed) };
    for (position, hca) in profile.hcas.iter().enumerate() {
        tree.function(hca)?;
        tree.adapter(hca, position)?;
        for (index, port) in hca.ports.iter().enumerate() {
            tree.port(hca, position, port, index + 1)?;
        }
    }
    for device in devices {
        tree.char_device(profile, device)?;
    }
    Ok(())
}

struct Tree<'a> {
    base: &'a Path,
    identity: Identity,
}

impl Tree<'_> {
    fn function(&self, hca: &Hca) -> Result<(), Error> {
        let place = place(hca);
        let numa = hca.numa.map_or(-1, i64::from);
        self.file(place.join("vendor"), format!("0x{}", hca.vendor))?;
        self.file(place.join("device"), format!("0x{}", hca.device))?;
        // 0x0207: network controller, InfiniBand.
        self.file(place.join("class"), "0x020700")?;
        self.file(place.join("numa_node"), numa)?;
        self.file(place.join("sriov_totalvfs"), hca.total_vfs)?;
        self.file(place.join("sriov_numvfs"), 0)?;
        self.file(
            place.join("uevent"),
            format!("DRIVER={}\nPCI_CLASS=20700\nPCI_SLOT_NAME={}", hca.driver, hca.pci),
        )?;
        let driver = Path::new("bus/pci/drivers").join(&hca.driver);
        self.link(place.join("driver"), &driver)?;
        self.link(place.join("subsystem"), Path::new("bus/pci"))?;
        self.link(driver.join(hca.pci.to_string()), &place)?;
        self.link(Path::new("bus/pci/devices").join(hca.pci.to_string()), &place)
    }

    fn adapter(&self, hca: &Hca, position: usize) -> Result<(), Error> {
        let place = rdma_place(hca);
        let guid = grouped(self.identity.node_guid(position));
        self.file(place.join("node_type"), "1: CA")?;
        self.file(place.join("node_guid"), &guid)?;
        self.file(place.join("sys_image_guid"), &guid)?;
        self.file(place.join("node_desc"), format!("simulated {}", hca.rdma))?;
        self.file(place.join("fw_ver"), &hca.firmware)?;
        self.file(place.join("hca_type"), &hca.model)?;
        self.file(place.join("board_id"), &hca.board)?;
        self.file(place.join("hw_rev"), "0")?;
        self.link(place.join("device"), &self::place(hca))?;
        self.link(Path::new("class/infiniband").join(&hca.rdma), &place)
    }

    fn port(&self, hca: &Hca, position: usize, port: &Port, number: usize) -> Result<(), Error> {
        let place = rdma_place(hca).join("ports").join(number.to_string());
        let guid = self.identity.port_guid(position, number);
        let (state, physical) = match port.state {
            PortState::Down => ("1: DOWN", "2: Polling"),
            PortState::Init => ("2: INIT", "5: LinkUp"),
            PortState::Active => ("4: ACTIVE", "5: LinkUp"),
        };
        let fabric = port.link_layer == LinkLayer::InfiniBand && port.state == PortState::Active;
        let (lid, sm_lid) = if fabric { (self.identity.lid(position, number), 1) } else { (0, 0) };
        self.file(place.join("link_layer"), port.link_layer)?;
        self.file(place.join("state"), state)?;
        self.file(place.join("phys_state"), physical)?;
        self.file(place.join("rate"), &port.rate)?;
        self.file(place.join("lid"), format!("{lid:#x}"))?;
        self.file(place.join("sm_lid"), format!("{sm_lid:#x}"))?;
        self.file(place.join("gids/0"), format!("fe80:0000:0000:0000:{}", grouped(guid)))?;
        for slot in 0..PKEY_SLOTS {
            let key = if slot == 0 { "0xffff" } else { "0x0000" };
            self.file(place.join("pkeys").join(slot.to_string()), key)?;
        }
        match &port.netdev {
            Some(netdev) => self.netdev(hca, port, number, &netdev.name, guid),
            None => Ok(()),
        }
    }

    fn netdev(&self, hca: &Hca, port: &Port, number: usize, name: &str, guid: Guid) -> Result<(), Error> {
        let place = self::place(hca).join("net").join(name);
        let infiniband = port.link_layer == LinkLayer::InfiniBand;
        let up = port.state == PortState::Active;
        self.file(place.join("type"), if infiniband { 32 } else { 1 })?;
        self.file(place.join("address"), hardware_address(infiniband, guid))?;
        self.file(place.join("mtu"), if infiniband { IPOIB_MTU } else { 1500 })?;
        // Ports count from 1, and these from 0.
        self.file(place.join("dev_port"), number - 1)?;
        self.file(place.join("dev_id"), format!("{:#x}", number - 1))?;
        self.file(place.join("operstate"), if up { "up" } else { "down" })?;
        self.file(place.join("carrier"), u8::from(up))?;
        self.link(place.join("device"), &self::place(hca))?;
        self.link(Path::new("class/net").join(name), &place)
    }

    fn char_device(&self, profile: &Profile, device: &CharDevice) -> Result<(), Error> {
        let hca = device.hca.and_then(|position| profile.hcas.get(position));
        let place = match hca {
            Some(hca) => place(hca).join(device.class),
            None => Path::new("devices/virtual").join(device.class),
        }
        .join(&device.name);
        self.file(place.join("dev"), device.number())?;
        if let Some(hca) = hca {
            self.file(place.join("ibdev"), &hca.rdma)?;
            self.link(place.join("device"), &self::place(hca))?;
        }
        if let Some(port) = device.port {
            self.file(place.join("port"), port)?;
        }
        self.link(Path::new("class").join(device.class).join(&device.name), &place)
    }

    fn file(&self, path: impl AsRef<Path>, content: impl ToString) -> Result<(), Error> {
        let path = self.base.join(path);
        files::directory(path.parent().unwrap_or(self.base))?;
        std::fs::write(&path, content.to_string() + "\n")
            .map_err(|source| files::error("write", &path, source))
    }

    /// A link at `path` to `target`, both seen from the top of the tree.
    fn link(&self, path: impl AsRef<Path>, target: &Path) -> Result<(), Error> {
        let above = path.as_ref().components().count().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", above).collect();
        let path = self.base.join(path);
        files::directory(path.parent().unwrap_or(self.base))?;
        std::os::unix::fs::symlink(up.join(target), &path)
            .map_err(|source| files::error("link", &path, source))
    }
}

/// Where the function is under `devices`: the root complex, the bridges, itself.
fn place(hca: &Hca) -> PathBuf {
    let top = hca.behind.first().copied().unwrap_or(hca.pci);
    let mut place = PathBuf::from(format!("devices/pci{:04x}:{:02x}", top.domain(), top.bus()));
    place.extend(hca.behind.iter().chain([&hca.pci]).map(ToString::to_string));
    place
}

fn rdma_place(hca: &Hca) -> PathBuf {
    place(hca).join("infiniband").join(&hca.rdma)
}

/// A GUID as sysfs writes it: four groups of four digits.
fn grouped(guid: Guid) -> String {
    let digits = format!("{:016x}", guid.value());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join(":")
}

/// IPoIB's address is a queue pair number and the port's GID (RFC 4391, 9.1.1), Ethernet's is made from the GUID.
fn hardware_address(infiniband: bool, guid: Guid) -> String {
    if infiniband {
        return format!("00:00:00:48:fe:80:00:00:00:00:00:00:{guid}");
    }
    let [first, second, _, _, _, rest @ ..] = guid.bytes();
    [first, second, 0].iter().chain(&rest).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
