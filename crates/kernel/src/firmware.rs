//! Settings of an adapter's firmware, as the program `mstconfig` shows and changes them.
//!
//! The program is the interface: it knows every adapter and its access rules, and its text is all that is read here. A
//! simulated machine answers the same arguments with the same text.

use ferroband_model::PciAddress;
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

/// Whoever answers for the firmware of a machine. Every call blocks, for seconds.
pub trait Firmware: Send + Sync {
    /// What `mstconfig` prints when it is run with these arguments.
    fn mstconfig(&self, arguments: &[&str]) -> Result<String, FirmwareError>;

    /// Reboots the machine; returns before it happens, if it returns.
    fn reboot(&self) -> Result<(), FirmwareError>;
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// The program is not installed.
    #[error("{program} is not installed")]
    NotInstalled {
        /// Its name.
        program: &'static str,
    },
    /// It cannot be run.
    #[error("cannot run {program}")]
    CannotRun {
        /// Its name.
        program: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It ran and failed.
    #[error("{program} {arguments}: {message}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it was asked.
        arguments: String,
        /// What it said.
        message: String,
    },
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareSetting {
    /// What is in force: `16`, `True(1)`, `IB(1)`.
    pub current: String,
    /// What will be after the next boot.
    pub next: String,
}

/// The settings of an adapter by name.
pub type FirmwareSettings = BTreeMap<String, FirmwareSetting>;

/// Ask for the settings of the adapter at `pci`.
pub fn query(firmware: &dyn Firmware, pci: PciAddress) -> Result<FirmwareSettings, FirmwareError> {
    Ok(parse_query(&firmware.mstconfig(&["-e", "-d", &pci.to_string(), "q"])?))
}

/// Change settings of the adapter at `pci`, from the next boot on.
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

/// Read what `mstconfig -e … q` prints: below a line of titles, a name and its default, current and next value. A line of
/// another shape is a title or a remark; some settings are arrays, which have a range for a name.
pub fn parse_query(text: &str) -> FirmwareSettings {
    let mut settings = FirmwareSettings::new();
    for line in text.lines() {
        // A star marks what the next boot changes.
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

/// The real machine's.
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

    /// By the kernel's own keys (Documentation/admin-guide/sysrq.rst): write what is in memory to the disks, close the file
    /// systems, reboot. A container cannot ask the machine's first process, and the pods are gone already.
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
    fn what_the_program_prints_is_read_and_what_is_odd_is_skipped() {
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
