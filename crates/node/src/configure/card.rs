//! What the firmware of a card must be told for what is wanted of its ports. Pure.

use super::{Adapter, want::Want};
use ferroband_kernel::firmware::{Setting, Settings};
use ferroband_model::{Fault, FaultCode, LinkLayer, PciAddress};
use std::collections::BTreeMap;

/// What a card's firmware must be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardDue {
    /// The settings to change.
    pub set: BTreeMap<String, String>,
    /// Whether what is wanted comes into force with a reboot only.
    pub reboot: bool,
}

/// A port of a card, and what is wanted of it.
pub type Port<'a> = (&'a Adapter, Option<&'a Want>);

/// The ports of one card: they differ in the function only.
pub fn card(pci: PciAddress) -> (u32, u8, u8) {
    (pci.domain(), pci.bus(), pci.device())
}

/// Whether the firmware has to be asked at all: more functions than there can be now, or another link.
pub fn is_needed(ports: &[Port<'_>]) -> bool {
    ports.iter().any(|(seen, want)| {
        want.is_some_and(|want| !want.external && want.count > seen.total || other_link(want, seen).is_some())
    })
}

/// What a card's firmware must be told, given what it says now.
pub fn card_due(ports: &[Port<'_>], settings: &Settings) -> Result<CardDue, Fault> {
    let mut due = CardDue::default();
    let wants = || ports.iter().filter_map(|(seen, want)| Some((*seen, (*want)?)));
    let Some((first, _)) = wants().next() else { return Ok(due) };
    in_dpu_mode(first, settings)?;
    // One number for all ports of the card.
    let wanted =
        wants().filter(|(_, want)| !want.external).map(|(_, want)| want.count).max().unwrap_or_default();
    if wanted > 0 {
        functions(first, wanted, settings, &mut due)?;
    }
    for (seen, want) in wants() {
        if let Some(link) = other_link(want, seen) {
            link_type(seen, link, settings, &mut due)?;
        }
    }
    if let Some((seen, _)) = wants().find(|(_, want)| want.external)
        && due != CardDue::default()
        && wants().all(|(_, want)| want.external)
    {
        return Err(fault(
            seen.pci,
            "its firmware would have to change, but it is externallyManaged",
            "change it there",
        ));
    }
    Ok(due)
}

fn functions(seen: &Adapter, wanted: u16, settings: &Settings, due: &mut CardDue) -> Result<(), Fault> {
    let (Some(count), Some(enabled)) = (settings.get("NUM_OF_VFS"), settings.get("SRIOV_EN")) else {
        // A card without these settings has what it has.
        let cause = format!("{wanted} functions are wanted, and its firmware has no setting NUM_OF_VFS");
        return if wanted > seen.total {
            Err(fault(seen.pci, cause, "lower numVfs of the policy"))
        } else {
            Ok(())
        };
    };
    let number = |text: &str| text.parse::<u16>().unwrap_or_default();
    let (current, next) = (number(&count.current), number(&count.next));
    // More than is wanted does no harm.
    if current < wanted {
        due.reboot = true;
        if next < wanted {
            due.set.insert("NUM_OF_VFS".to_owned(), wanted.to_string());
        }
    } else if next < wanted {
        due.set.insert("NUM_OF_VFS".to_owned(), current.to_string());
    }
    let on = |text: &str| text.starts_with("True");
    due.reboot |= !on(&enabled.current);
    if !on(&enabled.next) {
        due.set.insert("SRIOV_EN".to_owned(), "True".to_owned());
    }
    Ok(())
}

fn link_type(seen: &Adapter, link: LinkLayer, settings: &Settings, due: &mut CardDue) -> Result<(), Fault> {
    let name = format!("LINK_TYPE_P{}", seen.pci.function() + 1);
    let word = match link {
        LinkLayer::InfiniBand => "IB",
        LinkLayer::Ethernet => "ETH",
    };
    let Some(Setting { current, next }) = settings.get(&name) else {
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
    due.reboot = true;
    Ok(())
}

/// The link layer that is wanted in place of the one there is.
fn other_link(want: &Want, seen: &Adapter) -> Option<LinkLayer> {
    want.link.filter(|link| !want.external && seen.link.is_some_and(|now| now != *link))
}

/// A BlueField whose own processors have the network is configured from there.
fn in_dpu_mode(seen: &Adapter, settings: &Settings) -> Result<(), Fault> {
    let is =
        |name: &str, word: &str| settings.get(name).is_some_and(|setting| setting.current.starts_with(word));
    if is("INTERNAL_CPU_MODEL", "EMBEDDED_CPU") && is("INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED") {
        let cause = "it is a BlueField in DPU mode, whose functions its own processors make";
        return Err(fault(seen.pci, cause, "switch it to NIC mode, or set externallyManaged"));
    }
    Ok(())
}

/// A kernel that lets nobody at the hardware.
pub fn locked_down(text: Option<&str>) -> Option<Fault> {
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
