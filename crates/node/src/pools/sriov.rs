//! The SR-IOV plugin's `resourceList`.

use super::{
    Functions, Kind, Pool, Ranged, Selector,
    fields::{Fields, Notes, Refused},
    read::{Defaults, resource},
};
use crate::discover::Class;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One entry.
pub(super) fn pool(mut fields: Fields, defaults: &Defaults, notes: &mut Notes) -> Result<Pool, Refused> {
    let resource = resource(&mut fields, &defaults.prefix, true, notes)?;
    let kind = fields.text("deviceType", notes)?.unwrap_or_default();
    let class = match kind.to_lowercase().as_str() {
        "" | "netdevice" => Class::Network,
        "accelerator" => Class::Accelerator,
        _ => {
            let cause = format!("`{kind}` is not one of netDevice, accelerator");
            notes.note(&fields.way("deviceType"), cause);
            return Err(Refused);
        }
    };
    let at = fields.way("selectors");
    let selectors = match fields.take("selectors") {
        None => vec![Selector::default()],
        Some(Value::Array(list)) => {
            let one = |(index, value)| selector(value, &format!("{at}[{index}]"), notes);
            list.into_iter().enumerate().map(one).collect::<Result<_, _>>()?
        }
        Some(value) => vec![selector(value, &at, notes)?],
    };
    let functions = Functions {
        class,
        selectors,
        exclude_topology: fields.flag("excludeTopology", notes)?,
        extra: extra(&mut fields, notes)?,
    };
    let management = fields.flag("managementDevices", notes)?;
    fields.done(
        "resourceName, resourcePrefix, deviceType, excludeTopology, selectors, additionalInfo, managementDevices",
        notes,
    );
    let file = notes.file().to_owned();
    Ok(Pool { resource, file, field: String::new(), kind: Kind::Functions(functions), management })
}

fn selector(value: Value, at: &str, notes: &mut Notes) -> Result<Selector, Refused> {
    let mut fields = Fields::of(value, at, notes)?;
    let selector = Selector {
        vendors: fields.texts("vendors", notes)?,
        devices: fields.texts("devices", notes)?,
        drivers: fields.texts("drivers", notes)?,
        pci_addresses: fields.texts("pciAddresses", notes)?,
        acpi_indexes: fields.texts("acpiIndexes", notes)?,
        pf_names: ranged("pfNames", &mut fields, notes)?,
        root_devices: ranged("rootDevices", &mut fields, notes)?,
        link_types: fields.texts("linkTypes", notes)?,
        pkeys: fields.texts("pKeys", notes)?,
        if_names: Vec::new(),
        rdma: fields.flag("isRdma", notes)?,
        vhost_net: fields.flag("needVhostNet", notes)?,
    };
    let vdpa = fields.text("vdpaType", notes)?.filter(|kind| !kind.is_empty());
    let profiles = fields.texts("ddpProfiles", notes)?;
    let cannot = match (vdpa, profiles.is_empty()) {
        (Some(_), _) if selector.rdma => Some(("vdpaType", "cannot be together with isRdma")),
        (Some(_), _) => Some(("vdpaType", "vDPA devices are not offered by Ferroband")),
        (None, false) => Some(("ddpProfiles", "profiles of Intel's adapters are not known to Ferroband")),
        (None, true) => None,
    };
    if let Some((key, cause)) = cannot {
        notes.note(&fields.way(key), cause);
        return Err(Refused);
    }
    fields.done(
        "vendors, devices, drivers, pciAddresses, acpiIndexes, pfNames, rootDevices, linkTypes, pKeys, isRdma, \
         needVhostNet",
        notes,
    );
    Ok(selector)
}

/// An entry that cannot be read chooses nothing, as upstream has it; but it is named.
fn ranged(key: &str, fields: &mut Fields, notes: &mut Notes) -> Result<Option<Vec<Ranged>>, Refused> {
    let texts = fields.texts(key, notes)?;
    if texts.is_empty() {
        return Ok(None);
    }
    let mut list = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match Ranged::parse(text) {
            Some(one) => list.push(one),
            None => {
                let cause = format!("`{text}` is not NAME or NAME#LIST, with a list like 0,3-5,7");
                notes.note(&format!("{}[{index}]", fields.way(key)), cause);
            }
        }
    }
    Ok(Some(list))
}

fn extra(fields: &mut Fields, notes: &mut Notes) -> Result<BTreeMap<String, Map<String, Value>>, Refused> {
    let at = fields.way("additionalInfo");
    let Some(value) = fields.take("additionalInfo") else { return Ok(BTreeMap::new()) };
    serde_json::from_value(value).map_err(|e| {
        notes.note(&at, format!("must be an object of objects by PCI address or `*`: {e}"));
        Refused
    })
}
