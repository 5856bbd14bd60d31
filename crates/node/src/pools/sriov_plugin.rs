//! The SR-IOV plugin's `resourceList`.

use super::{
    DevicePool, DevicePoolKind, DeviceSelector, FunctionPool, PfVfRange,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    parse::{PoolDefaults, take_resource_name},
};
use crate::discover::DeviceClass;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One entry.
pub(super) fn parse_entry(
    mut fields: JsonFields,
    defaults: &PoolDefaults,
    notes: &mut ProblemLog,
) -> Result<DevicePool, InvalidEntry> {
    let resource = take_resource_name(&mut fields, &defaults.prefix, true, notes)?;
    let kind = fields.take_string("deviceType", notes)?.unwrap_or_default();
    let class = match kind.to_lowercase().as_str() {
        "" | "netdevice" => DeviceClass::Network,
        "accelerator" => DeviceClass::Accelerator,
        _ => {
            let cause = format!("`{kind}` is not one of netDevice, accelerator");
            notes.add(&fields.path_of("deviceType"), cause);
            return Err(InvalidEntry);
        }
    };
    let at = fields.path_of("selectors");
    let selectors = match fields.take("selectors") {
        None => vec![DeviceSelector::default()],
        Some(Value::Array(list)) => {
            let one = |(index, value)| parse_selector(value, &format!("{at}[{index}]"), notes);
            list.into_iter().enumerate().map(one).collect::<Result<_, _>>()?
        }
        Some(value) => vec![parse_selector(value, &at, notes)?],
    };
    let functions = FunctionPool {
        class,
        selectors,
        exclude_topology: fields.take_bool("excludeTopology", notes)?,
        additional_info: take_additional_info(&mut fields, notes)?,
    };
    let management = fields.take_bool("managementDevices", notes)?;
    fields.report_unknown(
        "resourceName, resourcePrefix, deviceType, excludeTopology, selectors, additionalInfo, managementDevices",
        notes,
    );
    let file = notes.file().to_owned();
    Ok(DevicePool {
        resource,
        file,
        field: String::new(),
        kind: DevicePoolKind::Functions(functions),
        management_files: management,
    })
}

fn parse_selector(value: Value, at: &str, notes: &mut ProblemLog) -> Result<DeviceSelector, InvalidEntry> {
    let mut fields = JsonFields::from_value(value, at, notes)?;
    let selector = DeviceSelector {
        vendors: fields.take_strings("vendors", notes)?,
        devices: fields.take_strings("devices", notes)?,
        drivers: fields.take_strings("drivers", notes)?,
        pci_addresses: fields.take_strings("pciAddresses", notes)?,
        acpi_indexes: fields.take_strings("acpiIndexes", notes)?,
        pf_names: take_pf_vf_ranges("pfNames", &mut fields, notes)?,
        root_devices: take_pf_vf_ranges("rootDevices", &mut fields, notes)?,
        link_types: fields.take_strings("linkTypes", notes)?,
        pkeys: fields.take_strings("pKeys", notes)?,
        if_names: Vec::new(),
        rdma: fields.take_bool("isRdma", notes)?,
        vhost_net: fields.take_bool("needVhostNet", notes)?,
    };
    let vdpa = fields.take_string("vdpaType", notes)?.filter(|kind| !kind.is_empty());
    let profiles = fields.take_strings("ddpProfiles", notes)?;
    let cannot = match (vdpa, profiles.is_empty()) {
        (Some(_), _) if selector.rdma => Some(("vdpaType", "cannot be together with isRdma")),
        (Some(_), _) => Some(("vdpaType", "vDPA devices are not offered by Ferroband")),
        (None, false) => Some(("ddpProfiles", "profiles of Intel's adapters are not known to Ferroband")),
        (None, true) => None,
    };
    if let Some((key, cause)) = cannot {
        notes.add(&fields.path_of(key), cause);
        return Err(InvalidEntry);
    }
    fields.report_unknown(
        "vendors, devices, drivers, pciAddresses, acpiIndexes, pfNames, rootDevices, linkTypes, pKeys, isRdma, \
         needVhostNet",
        notes,
    );
    Ok(selector)
}

/// An entry that cannot be read chooses nothing, as upstream has it; but it is named.
fn take_pf_vf_ranges(
    key: &str,
    fields: &mut JsonFields,
    notes: &mut ProblemLog,
) -> Result<Option<Vec<PfVfRange>>, InvalidEntry> {
    let texts = fields.take_strings(key, notes)?;
    if texts.is_empty() {
        return Ok(None);
    }
    let mut list = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match PfVfRange::parse(text) {
            Some(one) => list.push(one),
            None => {
                let cause = format!("`{text}` is not NAME or NAME#LIST, with a list like 0,3-5,7");
                notes.add(&format!("{}[{index}]", fields.path_of(key)), cause);
            }
        }
    }
    Ok(Some(list))
}

fn take_additional_info(
    fields: &mut JsonFields,
    notes: &mut ProblemLog,
) -> Result<BTreeMap<String, Map<String, Value>>, InvalidEntry> {
    let at = fields.path_of("additionalInfo");
    let Some(value) = fields.take("additionalInfo") else { return Ok(BTreeMap::new()) };
    serde_json::from_value(value).map_err(|e| {
        notes.add(&at, format!("must be an object of objects by PCI address or `*`: {e}"));
        InvalidEntry
    })
}
