//! What the firmware of a card must be told for what is wanted of its ports. Pure.

use super::{ObservedAdapter, want::DesiredAdapter};
use ferroband_kernel::firmware::{FirmwareSetting, FirmwareSettings};
use ferroband_model::{Fault, FaultCode, LinkLayer, PciAddress};
use std::collections::BTreeMap;

/// What a card's firmware must be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwarePlan {
    /// The settings to change.
    pub set: BTreeMap<String, String>,
    /// Whether what is wanted comes into force with a reboot only.
    pub needs_reboot: bool,
}

/// A port of a card, and what is wanted of it.
pub type CardPort<'a> = (&'a ObservedAdapter, Option<&'a DesiredAdapter>);

/// The ports of one card: they differ in the function only.
pub fn card_address(pci: PciAddress) -> (u32, u8, u8) {
    (pci.domain(), pci.bus(), pci.device())
}

/// Whether the firmware has to be asked at all: more functions than there can be now, or another link.
pub fn needs_firmware(ports: &[CardPort<'_>]) -> bool {
    ports.iter().any(|(seen, want)| {
        want.is_some_and(|want| {
            !want.externally_managed && want.vf_count > seen.total_vfs || link_change(want, seen).is_some()
        })
    })
}

/// What a card's firmware must be told, given what it says now.
pub fn plan_firmware(ports: &[CardPort<'_>], settings: &FirmwareSettings) -> Result<FirmwarePlan, Fault> {
    let mut due = FirmwarePlan::default();
    let wants = || ports.iter().filter_map(|(seen, want)| Some((*seen, (*want)?)));
    let Some((first, _)) = wants().next() else { return Ok(due) };
    reject_dpu_mode(first, settings)?;
    // One number for all ports of the card.
    let wanted = wants()
        .filter(|(_, want)| !want.externally_managed)
        .map(|(_, want)| want.vf_count)
        .max()
        .unwrap_or_default();
    if wanted > 0 {
        plan_vf_count(first, wanted, settings, &mut due)?;
    }
    for (seen, want) in wants() {
        if let Some(link) = link_change(want, seen) {
            plan_link_type(seen, link, settings, &mut due)?;
        }
    }
    if let Some((seen, _)) = wants().find(|(_, want)| want.externally_managed)
        && due != FirmwarePlan::default()
        && wants().all(|(_, want)| want.externally_managed)
    {
        return Err(fault(
            seen.pci,
            "its firmware would have to change, but it is externallyManaged",
            "change it there",
        ));
    }
    Ok(due)
}

fn plan_vf_count(
    seen: &ObservedAdapter,
    wanted: u16,
    settings: &FirmwareSettings,
    due: &mut FirmwarePlan,
) -> Result<(), Fault> {
    let (Some(count), Some(enabled)) = (settings.get("NUM_OF_VFS"), settings.get("SRIOV_EN")) else {
        // A card without these settings has what it has.
        let cause = format!("{wanted} functions are wanted, and its firmware has no setting NUM_OF_VFS");
        return if wanted > seen.total_vfs {
            Err(fault(seen.pci, cause, "lower numVfs of the policy"))
        } else {
            Ok(())
        };
    };
    let number = |text: &str| text.parse::<u16>().unwrap_or_default();
    let (current, next) = (number(&count.current), number(&count.next));
    // More than is wanted does no harm.
    if current < wanted {
        due.needs_reboot = true;
        if next < wanted {
            due.set.insert("NUM_OF_VFS".to_owned(), wanted.to_string());
        }
    } else if next < wanted {
        due.set.insert("NUM_OF_VFS".to_owned(), current.to_string());
    }
    let on = |text: &str| text.starts_with("True");
    due.needs_reboot |= !on(&enabled.current);
    if !on(&enabled.next) {
        due.set.insert("SRIOV_EN".to_owned(), "True".to_owned());
    }
    Ok(())
}

fn plan_link_type(
    seen: &ObservedAdapter,
    link: LinkLayer,
    settings: &FirmwareSettings,
    due: &mut FirmwarePlan,
) -> Result<(), Fault> {
    let name = format!("LINK_TYPE_P{}", seen.pci.function() + 1);
    let word = match link {
        LinkLayer::InfiniBand => "IB",
        LinkLayer::Ethernet => "ETH",
    };
    let Some(FirmwareSetting { current, next }) = settings.get(&name) else {
        let cause = format!("{link} is wanted, and the card does not support a change of the link type");
        return Err(fault(seen.pci, cause, "change linkType of the policy, or the card"));
    };
    if !["IB", "ETH"].iter().any(|known| current.starts_with(known)) {
        let cause = format!("Unknown link type {current} in {name}");
        return Err(fault(seen.pci, cause, "set it to IB or ETH with mstconfig, and reboot"));
    }
    if !next.starts_with(word) {
        due.set.insert(name, word.to_owned());
    }
    due.needs_reboot = true;
    Ok(())
}

/// The link layer that is wanted in place of the one there is.
fn link_change(want: &DesiredAdapter, seen: &ObservedAdapter) -> Option<LinkLayer> {
    want.link_layer.filter(|link| !want.externally_managed && seen.link_layer.is_some_and(|now| now != *link))
}

/// A BlueField whose own processors have the network is configured from there.
fn reject_dpu_mode(seen: &ObservedAdapter, settings: &FirmwareSettings) -> Result<(), Fault> {
    let is =
        |name: &str, word: &str| settings.get(name).is_some_and(|setting| setting.current.starts_with(word));
    if is("INTERNAL_CPU_MODEL", "EMBEDDED_CPU") && is("INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED") {
        let cause = "it is a BlueField in DPU mode, whose functions its own processors make";
        return Err(fault(seen.pci, cause, "switch it to NIC mode, or set externallyManaged"));
    }
    Ok(())
}

/// A kernel that lets nobody at the hardware.
pub fn lockdown_fault(text: Option<&str>) -> Option<Fault> {
    let mode = ["integrity", "confidentiality"]
        .into_iter()
        .find(|mode| text.is_some_and(|text| text.contains(&format!("[{mode}]"))))?;
    Some(Fault::new(
        FaultCode::KernelRefused,
        "firmware of the adapters",
        format!("the kernel is locked down ({mode}), so mstconfig cannot reach them"),
        "switch Secure Boot off, or set NUM_OF_VFS and LINK_TYPE by other means and reboot",
    ))
}

fn fault(pci: PciAddress, cause: impl Into<String>, remedy: &str) -> Fault {
    Fault::new(FaultCode::InvalidConfig, format!("adapter {pci}"), cause, remedy)
}
