//! Plans the firmware settings of a card from the desired configuration of its ports.

use super::NodeDiff;
use crate::configure::{Action, DesiredAdapter, DesiredNodeConfig, ObservedAdapter, ObservedNode};
use ferroband_kernel::firmware::{FirmwareSetting, FirmwareSettings};
use ferroband_model::{Fault, FaultCode, LinkLayer, PciAddress};
use std::collections::BTreeMap;

/// PCI vendor id of the adapters whose firmware `mstconfig` can change.
pub const MELLANOX: u16 = 0x15b3;

/// Returns the cards whose firmware must be queried, by the address of their first port.
pub fn cards_to_query(desired: &DesiredNodeConfig, adapters: &[ObservedAdapter]) -> Vec<PciAddress> {
    cards(desired, adapters).into_iter().map(|(pci, _)| pci).collect()
}

/// Returns the first port and all ports of each card that may need other firmware settings.
fn cards<'a>(
    desired: &'a DesiredNodeConfig,
    adapters: &'a [ObservedAdapter],
) -> Vec<(PciAddress, Vec<CardPort<'a>>)> {
    let mut cards: BTreeMap<_, Vec<CardPort<'_>>> = BTreeMap::new();
    for adapter in adapters.iter().filter(|adapter| adapter.vendor == MELLANOX && !desired.skip_firmware) {
        // The ports of a card differ only in the function number.
        let card = (adapter.pci.domain(), adapter.pci.bus(), adapter.pci.device());
        cards.entry(card).or_default().push((adapter, desired.adapters.get(&adapter.pci)));
    }
    let first = |ports: Vec<CardPort<'a>>| Some((ports.first()?.0.pci, ports));
    cards.into_values().filter(|ports| needs_firmware(ports)).filter_map(first).collect()
}

pub(super) fn diff_firmware(desired: &DesiredNodeConfig, observed: &ObservedNode, diff: &mut NodeDiff) {
    for (card, ports) in cards(desired, &observed.adapters) {
        if let Some(blocked) = &observed.firmware.blocked {
            diff.faults.push(blocked.clone());
            return;
        }
        let plan = match observed.firmware.cards.get(&card) {
            Some(Ok(settings)) => plan_firmware(&ports, settings),
            Some(Err(error)) => Err(firmware_fault(card, &shortage(&ports), error)),
            None => continue,
        };
        match plan {
            Ok(plan) if !plan.set.is_empty() => {
                let shortage = shortage(&ports);
                diff.actions.push(Action::SetFirmware { card, settings: plan.set, shortage });
            }
            // A reboot is useful only after all settings are set.
            Ok(plan) => diff.reboot.extend(plan.needs_reboot.then(|| format!("firmware of {card}"))),
            Err(fault) => diff.faults.push(fault),
        }
    }
}

/// Firmware settings to be changed on one card, by name, for example `NUM_OF_VFS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwarePlan {
    pub set: BTreeMap<String, String>,
    /// Whether a reboot is needed before the desired settings take effect.
    pub needs_reboot: bool,
}

/// A port of a card and its desired configuration; `None` if no policy selects the port.
pub type CardPort<'a> = (&'a ObservedAdapter, Option<&'a DesiredAdapter>);

/// Whether the firmware must be queried: a port needs another link layer, or more virtual functions than it
/// supports now.
pub fn needs_firmware(ports: &[CardPort<'_>]) -> bool {
    ports.iter().any(|(adapter, desired)| {
        desired.is_some_and(|desired| {
            !desired.externally_managed && desired.vf_count > adapter.total_vfs
                || link_change(desired, adapter).is_some()
        })
    })
}

/// Plans the changes to `settings`, the current firmware settings, that the desired configuration of all
/// ports needs. Returns a fault if the firmware does not support them.
pub fn plan_firmware(ports: &[CardPort<'_>], settings: &FirmwareSettings) -> Result<FirmwarePlan, Fault> {
    let mut plan = FirmwarePlan::default();
    let desired_ports = || ports.iter().filter_map(|(adapter, desired)| Some((*adapter, (*desired)?)));
    let Some((first, _)) = desired_ports().next() else { return Ok(plan) };
    reject_dpu_mode(first, settings)?;
    // NUM_OF_VFS applies to all ports of the card.
    let vf_count = desired_ports()
        .filter(|(_, desired)| !desired.externally_managed)
        .map(|(_, desired)| desired.vf_count)
        .max()
        .unwrap_or_default();
    if vf_count > 0 {
        plan_vf_count(first, vf_count, settings, &mut plan)?;
    }
    for (adapter, desired) in desired_ports() {
        if let Some(link) = link_change(desired, adapter) {
            plan_link_type(adapter, link, settings, &mut plan)?;
        }
    }
    if let Some((adapter, _)) = desired_ports().find(|(_, desired)| desired.externally_managed)
        && plan != FirmwarePlan::default()
        && desired_ports().all(|(_, desired)| desired.externally_managed)
    {
        return Err(fault(
            adapter.pci,
            "the policy needs a firmware change, but the adapter is externallyManaged",
            "change the firmware settings by other means, or change the policy",
        ));
    }
    Ok(plan)
}

fn plan_vf_count(
    adapter: &ObservedAdapter,
    vf_count: u16,
    settings: &FirmwareSettings,
    plan: &mut FirmwarePlan,
) -> Result<(), Fault> {
    let (Some(setting), Some(enabled)) = (settings.get("NUM_OF_VFS"), settings.get("SRIOV_EN")) else {
        // Some cards lack NUM_OF_VFS or SRIOV_EN. That is a fault only if more virtual functions are needed.
        let cause =
            format!("{vf_count} virtual functions requested, but the firmware has no setting NUM_OF_VFS");
        return if vf_count > adapter.total_vfs {
            Err(fault(adapter.pci, cause, "lower numVfs in the policy"))
        } else {
            Ok(())
        };
    };
    let number = |text: &str| text.parse::<u16>().unwrap_or_default();
    let (current, next) = (number(&setting.current), number(&setting.next));
    // A NUM_OF_VFS that is higher than needed is kept.
    if current < vf_count {
        plan.needs_reboot = true;
        if next < vf_count {
            plan.set.insert("NUM_OF_VFS".to_owned(), vf_count.to_string());
        }
    } else if next < vf_count {
        plan.set.insert("NUM_OF_VFS".to_owned(), current.to_string());
    }
    let on = |text: &str| text.starts_with("True");
    plan.needs_reboot |= !on(&enabled.current);
    if !on(&enabled.next) {
        plan.set.insert("SRIOV_EN".to_owned(), "True".to_owned());
    }
    Ok(())
}

fn plan_link_type(
    adapter: &ObservedAdapter,
    link: LinkLayer,
    settings: &FirmwareSettings,
    plan: &mut FirmwarePlan,
) -> Result<(), Fault> {
    let name = format!("LINK_TYPE_P{}", adapter.pci.function() + 1);
    let word = match link {
        LinkLayer::InfiniBand => "IB",
        LinkLayer::Ethernet => "ETH",
    };
    let Some(FirmwareSetting { current, next }) = settings.get(&name) else {
        let cause =
            format!("link type {link} requested, but the card does not support a change of the link type");
        return Err(fault(adapter.pci, cause, "change linkType in the policy, or use another card"));
    };
    if !["IB", "ETH"].iter().any(|known| current.starts_with(known)) {
        let cause = format!("Unknown link type {current} in the firmware setting {name}");
        return Err(fault(
            adapter.pci,
            cause,
            "set the link type to IB or ETH with mstconfig, and reboot the node",
        ));
    }
    if !next.starts_with(word) {
        plan.set.insert(name, word.to_owned());
    }
    plan.needs_reboot = true;
    Ok(())
}

/// Returns the desired link layer if it differs from the current one and Ferroband manages the adapter.
fn link_change(desired: &DesiredAdapter, adapter: &ObservedAdapter) -> Option<LinkLayer> {
    desired
        .link_layer
        .filter(|link| !desired.externally_managed && adapter.link_layer.is_some_and(|now| now != *link))
}

/// Rejects a BlueField in DPU mode, because it is configured by its own processors.
fn reject_dpu_mode(adapter: &ObservedAdapter, settings: &FirmwareSettings) -> Result<(), Fault> {
    let is =
        |name: &str, word: &str| settings.get(name).is_some_and(|setting| setting.current.starts_with(word));
    if is("INTERNAL_CPU_MODEL", "EMBEDDED_CPU") && is("INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED") {
        let cause = "the adapter is a BlueField in DPU mode, and its own processors create the functions";
        return Err(fault(
            adapter.pci,
            cause,
            "switch the adapter to NIC mode, or set externallyManaged in the policy",
        ));
    }
    Ok(())
}

fn fault(pci: PciAddress, cause: impl Into<String>, remedy: &str) -> Fault {
    Fault::new(FaultCode::InvalidConfig, format!("adapter {pci}"), cause, remedy)
}

/// Says which port needs more virtual functions than it supports now; empty if none does.
fn shortage(ports: &[CardPort<'_>]) -> String {
    let text = ports.iter().find_map(|(adapter, desired)| {
        let (requested, total) = (desired.as_ref()?.vf_count, adapter.total_vfs);
        (requested > total)
            .then(|| format!("{requested} virtual functions requested, but sriov_totalvfs is {total}; "))
    });
    text.unwrap_or_default()
}

/// The fault of a card whose firmware settings cannot be read or changed.
pub fn firmware_fault(card: PciAddress, shortage: &str, error: &str) -> Fault {
    fault(
        card,
        format!("{shortage}cannot query or change the firmware settings: {error}"),
        "if mstconfig is missing, set the Helm value node.firmware=true, which uses the image ferroband-tools; or set \
         NUM_OF_VFS and LINK_TYPE manually, or change the policy",
    )
}
