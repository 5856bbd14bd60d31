//! Firmware of simulated adapters: emulation of `mstconfig`.
//!
//! The settings outlive the simulation, as they outlive a reboot on real adapters. Changes take effect the
//! next time the host is powered on.

use crate::{Error, HcaProfile, Profile, files};
use ferroband_kernel::{
    Root,
    firmware::{Firmware, FirmwareError},
};
use ferroband_model::LinkLayer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Firmware settings of all adapters, by PCI address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirmwareStore(BTreeMap<String, CardSettings>);

/// Firmware settings of one adapter: by name, the current value and the value after the next power-on.
type CardSettings = BTreeMap<String, (String, String)>;

impl FirmwareStore {
    fn path(root: &Root) -> PathBuf {
        root.state("simulated-firmware.json")
    }

    /// Reads the stored firmware settings. Returns an empty store if no setting was ever changed.
    pub(crate) fn read(root: &Root) -> Result<Self, Error> {
        Ok(files::read_json(&Self::path(root))?.unwrap_or_default())
    }

    fn write(&self, root: &Root) -> Result<(), Error> {
        files::write_volatile_json(&Self::path(root), self)
    }

    /// Makes pending settings current, as a power-on of the host does.
    pub(crate) fn apply_pending(root: &Root) -> Result<(), Error> {
        let mut cards = Self::read(root)?;
        if cards.0.is_empty() {
            return Ok(());
        }
        for (current, next) in cards.0.values_mut().flat_map(|card| card.values_mut()) {
            current.clone_from(next);
        }
        cards.write(root)
    }

    /// Sets the number of virtual functions and the link layer in the profile according to the current
    /// settings.
    pub(crate) fn apply_to(&self, profile: &mut Profile) {
        for hca in &mut profile.hcas {
            let Some(card) = self.0.get(&hca.pci.to_string()) else { continue };
            let current = |name: &str| card.get(name).map(|(current, _)| current.as_str());
            if let Some(count) = current("NUM_OF_VFS").and_then(|count| count.parse().ok()) {
                hca.total_vfs = count;
            }
            if current("SRIOV_EN") == Some("False(0)") {
                hca.total_vfs = 0;
            }
            let layer = match current("LINK_TYPE_P1") {
                Some("IB(1)") => Some(LinkLayer::InfiniBand),
                Some("ETH(2)") => Some(LinkLayer::Ethernet),
                _ => None,
            };
            for port in &mut hca.ports {
                port.link_layer = layer.unwrap_or(port.link_layer);
            }
        }
    }

    fn settings_of(&mut self, hca: &HcaProfile) -> &mut CardSettings {
        self.0.entry(hca.pci.to_string()).or_insert_with(|| factory_settings(hca))
    }
}

/// Returns the firmware settings that match the profile. The ConnectX-6 Dx supports Ethernet only and has no
/// link type setting.
fn factory_settings(hca: &HcaProfile) -> CardSettings {
    let both = |value: String| (value.clone(), value);
    let mut card = CardSettings::from([
        ("NUM_OF_VFS".to_owned(), both(hca.total_vfs.to_string())),
        ("SRIOV_EN".to_owned(), both(if hca.total_vfs > 0 { "True(1)" } else { "False(0)" }.to_owned())),
    ]);
    if hca.device.0 != 0x101d {
        let link = match hca.link_layer() {
            LinkLayer::InfiniBand => "IB(1)",
            LinkLayer::Ethernet => "ETH(2)",
        };
        card.insert("LINK_TYPE_P1".to_owned(), both(link.to_owned()));
    }
    card
}

/// Emulates `mstconfig` on a simulated host.
#[derive(Clone, Debug)]
pub struct SimulatedFirmware {
    root: Root,
    profile: Profile,
}

impl SimulatedFirmware {
    /// Creates the emulation for the host whose root directory is `root`, with the adapters of `profile`.
    pub(crate) fn new(root: Root, profile: Profile) -> Self {
        Self { root, profile }
    }

    fn run_mstconfig(&self, arguments: &[&str]) -> Result<String, String> {
        let device =
            arguments.iter().position(|argument| *argument == "-d").and_then(|at| arguments.get(at + 1));
        let device = device.ok_or("-E- No device is given")?;
        let hca = self.profile.hcas.iter().find(|hca| hca.pci.to_string() == **device);
        let hca = hca.ok_or_else(|| format!("-E- Failed to open the device {device}"))?;
        let mut cards = FirmwareStore::read(&self.root).map_err(|error| error.to_string())?;
        let card = cards.settings_of(hca);
        if let Some(at) = arguments.iter().position(|argument| *argument == "set") {
            for pair in &arguments[at + 1..] {
                let (name, value) =
                    pair.split_once('=').ok_or_else(|| format!("-E- {pair} is not NAME=VALUE"))?;
                let slot = card
                    .get_mut(name)
                    .ok_or_else(|| format!("-E- The Device doesn't support {name} parameter"))?;
                slot.1 = format_value(name, value)
                    .ok_or_else(|| format!("-E- Illegal value {value} for {name}"))?;
            }
            cards.write(&self.root).map_err(|error| error.to_string())?;
            return Ok(
                "Applying... Done!\n-I- Please reboot machine to load new configurations.\n".to_owned()
            );
        }
        let mut text = format!(
            "\nDevice #1:\n----------\n\nDevice type:    {}\nDevice:         {device}\n\n\
             Configurations:                              Default         Current         Next Boot\n",
            hca.model
        );
        let factory = factory_settings(hca);
        for (name, (current, next)) in card {
            let star = if current == next { ' ' } else { '*' };
            let default = factory.get(name).map_or("", |(default, _)| default.as_str());
            let _ = writeln!(text, "{star}        {name:<36}{default:<16}{current:<16}{next}");
        }
        Ok(text)
    }
}

/// Converts the value of a firmware setting to the format that `mstconfig` prints. Returns `None` if the
/// value is invalid.
fn format_value(name: &str, value: &str) -> Option<String> {
    match (name, value.to_lowercase().as_str()) {
        ("NUM_OF_VFS", count) => {
            count.parse::<u16>().ok().filter(|count| *count <= 127).map(|count| count.to_string())
        }
        ("SRIOV_EN", "true" | "1") => Some("True(1)".to_owned()),
        ("SRIOV_EN", "false" | "0") => Some("False(0)".to_owned()),
        ("LINK_TYPE_P1", "ib" | "1") => Some("IB(1)".to_owned()),
        ("LINK_TYPE_P1", "eth" | "2") => Some("ETH(2)".to_owned()),
        _ => None,
    }
}

impl Firmware for SimulatedFirmware {
    fn mstconfig(&self, arguments: &[&str]) -> Result<String, FirmwareError> {
        self.run_mstconfig(arguments).map_err(|message| FirmwareError::Failed {
            program: "mstconfig",
            arguments: arguments.join(" "),
            message,
        })
    }

    /// Only records the reboot request in a file. The operator of the simulation restarts the host.
    fn reboot(&self) -> Result<(), FirmwareError> {
        let path = self.root.run("ferroband/reboot-asked");
        files::write_volatile_file(&path, b"").map_err(|error| FirmwareError::Failed {
            program: "reboot",
            arguments: String::new(),
            message: error.to_string(),
        })
    }
}
