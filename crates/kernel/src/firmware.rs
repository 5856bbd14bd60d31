//! Firmware settings of adapters, read and changed with `mstconfig`.
//!
//! `mstconfig` knows every adapter and its access rules; this module runs it and parses its output. Simulated
//! hardware accepts the same arguments and returns the same text.

use ferroband_model::PciAddress;
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

/// Access to the firmware of a node's adapters. Every call blocks for seconds.
pub trait Firmware: Send + Sync {
    /// Runs `mstconfig` with these arguments and returns its output.
    fn mstconfig(&self, arguments: &[&str]) -> Result<String, FirmwareError>;

    /// Reboots the node. May return before the reboot happens.
    fn reboot(&self) -> Result<(), FirmwareError>;
}

/// `mstconfig` could not be started or failed, or the node could not be rebooted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    #[error("{program} is not installed")]
    NotInstalled { program: &'static str },
    /// The program exists but could not be started. For a reboot, `program` is `sysrq`.
    #[error("cannot run {program}")]
    CannotRun { program: &'static str, source: std::io::Error },
    /// The program returned a nonzero exit code.
    #[error("{program} {arguments} failed: {message}")]
    Failed {
        program: &'static str,
        arguments: String,
        /// Standard error of the program, followed by its standard output.
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareSetting {
    /// Current value, such as `16`, `True(1)` or `IB(1)`.
    pub current: String,
    /// Value after the next boot.
    pub next: String,
}

/// Settings of an adapter, keyed by name, such as `NUM_OF_VFS` or `SRIOV_EN`.
pub type FirmwareSettings = BTreeMap<String, FirmwareSetting>;

/// Reads all settings of the adapter whose PCI address is `pci`.
pub fn query(firmware: &dyn Firmware, pci: PciAddress) -> Result<FirmwareSettings, FirmwareError> {
    Ok(parse_query(&firmware.mstconfig(&["-e", "-d", &pci.to_string(), "q"])?))
}

/// Changes settings of the adapter whose PCI address is `pci`. The firmware applies them at the next boot.
pub fn set(
    firmware: &dyn Firmware,
    pci: PciAddress,
    settings: &BTreeMap<String, String>,
) -> Result<(), FirmwareError> {
    let address = pci.to_string();
    let pairs: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut arguments = vec!["-d", &address, "-y", "set"];
    arguments.extend(pairs.iter().map(String::as_str));
    firmware.mstconfig(&arguments).map(drop)
}

/// Parses the output of `mstconfig -e … q`: after a header line, each line has the name and the default, current
/// and next value. Lines of another form are headers or remarks. The name of an array setting contains an index
/// range.
pub fn parse_query(text: &str) -> FirmwareSettings {
    let mut settings = FirmwareSettings::new();
    for line in text.lines() {
        // A star marks settings that the next boot changes.
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "*").collect();
        let [name, _, current, next] = words.as_slice() else { continue };
        let is_name =
            name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_[].".contains(&b));
        if is_name {
            settings.insert(
                (*name).to_owned(),
                FirmwareSetting { current: (*current).to_owned(), next: (*next).to_owned() },
            );
        }
    }
    settings
}

/// Firmware of the real adapters, accessed with the installed `mstconfig` program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mstconfig;

impl Firmware for Mstconfig {
    fn mstconfig(&self, arguments: &[&str]) -> Result<String, FirmwareError> {
        let program = "mstconfig";
        let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let ran = ran.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => FirmwareError::NotInstalled { program },
            _ => FirmwareError::CannotRun { program, source },
        })?;
        if !ran.status.success() {
            let message =
                [ran.stderr, ran.stdout].map(|text| String::from_utf8_lossy(&text).trim().to_owned());
            let message = message.join(" ").trim().to_owned();
            return Err(FirmwareError::Failed { program, arguments: arguments.join(" "), message });
        }
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// Reboots with SysRq (Documentation/admin-guide/sysrq.rst): sync, remount read-only, reboot. A container
    /// cannot request an orderly shutdown from the host's init process. The caller has already evicted the pods.
    fn reboot(&self) -> Result<(), FirmwareError> {
        for key in ["s", "u", "b"] {
            std::fs::write("/proc/sysrq-trigger", key)
                .map_err(|source| FirmwareError::CannotRun { program: "sysrq", source })?;
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mstconfig_output_is_parsed_and_unknown_lines_are_skipped() {
        let text = "\nDevice #1:\n----------\n\nDevice type:    ConnectX5       \nDevice:         0000:3b:00.0    \n\n\
            Configurations:                              Default         Current         Next Boot\n\
            *        NUM_OF_VFS                          0               8               16\n\
            \x20        SRIOV_EN                            False(0)        True(1)         True(1)\n\
            \x20        LINK_TYPE_P1                        IB(1)           IB(1)           IB(1)\n\
            \x20        BOOT_INTERRUPT_DIS broken\n\
            The '*' shows parameters with next value different from default/current value.\n";
        let settings = parse_query(text);
        assert_eq!(settings.len(), 3, "{settings:?}");
        assert_eq!(
            settings["NUM_OF_VFS"],
            FirmwareSetting { current: "8".to_owned(), next: "16".to_owned() }
        );
        assert_eq!(settings["LINK_TYPE_P1"].current, "IB(1)");
        assert_eq!(parse_query("garbage\n\0\u{1F980}"), FirmwareSettings::new());
    }
}
