//! Built-in hardware profiles.

use super::{GpuProfile, HcaProfile, NetdevProfile, PciId, PortProfile, Profile, SimPortState};
use ferroband_kernel::NetnsMode;
use ferroband_model::{LinkLayer, PciAddress};

impl Default for Profile {
    /// One ConnectX-5 in InfiniBand mode at 0000:86:00.0, the adapter of the documentation's examples.
    fn default() -> Self {
        let hca = HcaProfile {
            behind: bridges([(0x85, 2)]),
            ..CardModel::ConnectX5.hca(pci_address(0x86, 0, 0), 0, Some(0), "ibs5f0", &["ib0"])
        };
        Self::named("default", vec![hca])
    }
}

impl Profile {
    /// Returns the built-in profile with this name, if there is one.
    pub fn builtin(name: &str) -> Option<Self> {
        Self::builtins().into_iter().find(|profile| profile.name == name)
    }

    pub fn builtins() -> Vec<Self> {
        vec![Self::default(), connectx6(), dgx(), ethernet(), vpi()]
    }

    fn named(name: &str, hcas: Vec<HcaProfile>) -> Self {
        Self {
            name: name.to_owned(),
            netns_mode: NetnsMode::Shared,
            ipoib_follows: false,
            hcas,
            gpus: Vec::new(),
        }
    }
}

/// Two ConnectX-6 with one port each, one on each NUMA node.
fn connectx6() -> Profile {
    let hca = |position, root, bus, numa, netdev: &str, altname: &str| HcaProfile {
        behind: bridges([(root, 2)]),
        ..CardModel::ConnectX6.hca(pci_address(bus, 0, 0), position, Some(numa), netdev, &[altname])
    };
    Profile::named(
        "connectx-6",
        vec![hca(0, 0x3a, 0x3b, 0, "ibs1", "ib0"), hca(1, 0xd7, 0xd8, 1, "ibs2", "ib1")],
    )
}

/// Eight pairs of a GPU and a ConnectX-7. Each pair has its own PCIe switch, and each NUMA node has four
/// pairs.
///
/// One of the interfaces has the name of an Ethernet port, like an onboard adapter that was switched to InfiniBand.
fn dgx() -> Profile {
    const ROOTS: [u8; 8] = [0x15, 0x37, 0x48, 0x59, 0x97, 0xb7, 0xc7, 0xd7];
    let mut profile = Profile::named("dgx", Vec::new());
    for (position, root) in ROOTS.into_iter().enumerate() {
        let numa = Some(u32::from(position >= 4));
        let netdev = if position == 2 { "eno3np2".to_owned() } else { format!("ibp{}s0", root + 3) };
        // `up` contains the root port and the upstream port of the switch. `down` is the bus of the
        // downstream ports to the adapter and to the GPU.
        let (up, down) = ([(root, 1), (root + 1, 0)], root + 2);
        let altname = format!("ib{position}");
        profile.hcas.push(HcaProfile {
            behind: bridges(up.into_iter().chain([(down, 0)])),
            ..CardModel::ConnectX7.hca(pci_address(root + 3, 0, 0), position, numa, &netdev, &[&altname])
        });
        profile.gpus.push(GpuProfile {
            pci: pci_address(root + 4, 0, 0),
            behind: bridges(up.into_iter().chain([(down, 1)])),
            device: PciId(0x2330),
            numa,
        });
    }
    profile
}

/// One ConnectX-6 Dx with two functions in Ethernet mode.
fn ethernet() -> Profile {
    let hca = |position: usize, function, netdev: &str, vf_offset| HcaProfile {
        behind: bridges([(0x3a, 0)]),
        vf_offset,
        ..CardModel::ConnectX6Dx.hca(pci_address(0x3b, 0, function), position, Some(0), netdev, &[])
    };
    // The virtual functions of both physical functions follow the second physical function: first those of
    // function 0, then those of function 1.
    Profile::named("ethernet", vec![hca(0, 0, "ens5f0np0", 2), hca(1, 1, "ens5f1np1", 9)])
}

/// One ConnectX-6 that supports both link layers, in Ethernet mode by default.
fn vpi() -> Profile {
    let mut hca = HcaProfile {
        behind: bridges([(0x3a, 2)]),
        ..CardModel::ConnectX6.hca(pci_address(0x3b, 0, 0), 0, Some(0), "ens1np0", &[])
    };
    for port in &mut hca.ports {
        port.link_layer = LinkLayer::Ethernet;
    }
    Profile::named("vpi", vec![hca])
}

/// Adapter models of the built-in profiles.
#[derive(Clone, Copy)]
enum CardModel {
    ConnectX5,
    ConnectX6,
    ConnectX6Dx,
    ConnectX7,
}

impl CardModel {
    /// Creates an adapter of this model with one active port.
    fn hca(
        self,
        pci: PciAddress,
        position: usize,
        numa: Option<u32>,
        netdev: &str,
        altnames: &[&str],
    ) -> HcaProfile {
        let (device, vf_device, total_vfs) = match self {
            Self::ConnectX5 => (0x1017, 0x1018, 16),
            Self::ConnectX6 => (0x101b, 0x101c, 16),
            Self::ConnectX6Dx => (0x101d, 0x101e, 8),
            Self::ConnectX7 => (0x1021, 0x101e, 16),
        };
        let (model, board, firmware, rate) = match self {
            Self::ConnectX5 => ("MT4119", "MT_0000000008", "16.35.4030", "100 Gb/sec (4X EDR)"),
            Self::ConnectX6 => ("MT4123", "MT_0000000223", "20.41.1000", "200 Gb/sec (4X HDR)"),
            Self::ConnectX6Dx => ("MT4125", "MT_0000000359", "22.41.1000", "100 Gb/sec (2X HDR)"),
            Self::ConnectX7 => ("MT4129", "MT_0000000838", "28.41.1000", "400 Gb/sec (4X NDR)"),
        };
        let link_layer = match self {
            Self::ConnectX6Dx => LinkLayer::Ethernet,
            _ => LinkLayer::InfiniBand,
        };
        let netdev = NetdevProfile {
            name: netdev.to_owned(),
            altnames: altnames.iter().map(|&altname| altname.to_owned()).collect(),
        };
        HcaProfile {
            pci,
            behind: Vec::new(),
            vendor: PciId(0x15b3),
            device: PciId(device),
            driver: "mlx5_core".to_owned(),
            numa,
            total_vfs,
            vf_device: Some(PciId(vf_device)),
            vf_offset: 2,
            rdma: format!("mlx5_{position}"),
            model: model.to_owned(),
            board: board.to_owned(),
            firmware: firmware.to_owned(),
            ports: vec![PortProfile {
                link_layer,
                state: SimPortState::Active,
                rate: rate.to_owned(),
                netdev: Some(netdev),
            }],
        }
    }
}

/// Creates an address in domain 0. An address out of range becomes 0000:00:00.0, which `validate` reports as
/// a duplicate.
fn pci_address(bus: u8, device: u8, function: u8) -> PciAddress {
    const NOWHERE: PciAddress = match PciAddress::new(0, 0, 0, 0) {
        Some(address) => address,
        None => unreachable!(),
    };
    PciAddress::new(0, bus, device, function).unwrap_or(NOWHERE)
}

/// Returns the PCI addresses of bridges with these bus and device numbers.
fn bridges(bridges: impl IntoIterator<Item = (u8, u8)>) -> Vec<PciAddress> {
    bridges.into_iter().map(|(bus, device)| pci_address(bus, device, 0)).collect()
}
