//! Parses an entry of `resourceList`, the configuration of the SR-IOV device plugin.

use super::{
    DevicePool, DevicePoolKind, DeviceSelector, FunctionPool, PfVfRange,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    parse::{PoolDefaults, take_resource_name},
};
use crate::discover::DeviceClass;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub(super) fn parse_entry(
    mut fields: JsonFields,
    defaults: &PoolDefaults,
    problems: &mut ProblemLog,
) -> Result<DevicePool, InvalidEntry> {
    let resource = take_resource_name(&mut fields, &defaults.prefix, true, problems)?;
    let device_type = fields.take_string("deviceType", problems)?.unwrap_or_default();
    let class = match device_type.to_lowercase().as_str() {
        "" | "netdevice" => DeviceClass::Network,
        "accelerator" => DeviceClass::Accelerator,
        _ => {
            let cause = format!("`{device_type}` is not one of netDevice, accelerator");
            problems.add(&fields.path_of("deviceType"), cause);
            return Err(InvalidEntry);
        }
    };
    let path = fields.path_of("selectors");
    let selectors = match fields.take("selectors") {
        None => vec![DeviceSelector::default()],
        Some(Value::Array(list)) => {
            let parse = |(index, value)| parse_selector(value, &format!("{path}[{index}]"), problems);
            list.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?
        }
        Some(value) => vec![parse_selector(value, &path, problems)?],
    };
    let functions = FunctionPool {
        class,
        selectors,
        exclude_topology: fields.take_bool("excludeTopology", problems)?,
        additional_info: take_additional_info(&mut fields, problems)?,
    };
    let management_files = fields.take_bool("managementDevices", problems)?;
    fields.report_unknown(
        "resourceName, resourcePrefix, deviceType, excludeTopology, selectors, additionalInfo, managementDevices",
        problems,
    );
    let file = problems.file().to_owned();
    Ok(DevicePool {
        resource,
        file,
        field: String::new(),
        kind: DevicePoolKind::Functions(functions),
        management_files,
    })
}

fn parse_selector(
    value: Value,
    path: &str,
    problems: &mut ProblemLog,
) -> Result<DeviceSelector, InvalidEntry> {
    let mut fields = JsonFields::from_value(value, path, problems)?;
    let selector = DeviceSelector {
        vendors: fields.take_strings("vendors", problems)?,
        devices: fields.take_strings("devices", problems)?,
        drivers: fields.take_strings("drivers", problems)?,
        pci_addresses: fields.take_strings("pciAddresses", problems)?,
        acpi_indexes: fields.take_strings("acpiIndexes", problems)?,
        pf_names: take_pf_vf_ranges("pfNames", &mut fields, problems)?,
        root_devices: take_pf_vf_ranges("rootDevices", &mut fields, problems)?,
        link_types: fields.take_strings("linkTypes", problems)?,
        pkeys: fields.take_strings("pKeys", problems)?,
        if_names: Vec::new(),
        rdma: fields.take_bool("isRdma", problems)?,
        vhost_net: fields.take_bool("needVhostNet", problems)?,
    };
    let vdpa = fields.take_string("vdpaType", problems)?.filter(|vdpa| !vdpa.is_empty());
    let profiles = fields.take_strings("ddpProfiles", problems)?;
    let unsupported = match (vdpa, profiles.is_empty()) {
        (Some(_), _) if selector.rdma => Some(("vdpaType", "cannot be combined with isRdma")),
        (Some(_), _) => Some(("vdpaType", "Ferroband does not support vDPA devices")),
        (None, false) => Some(("ddpProfiles", "Ferroband does not support Intel DDP profiles")),
        (None, true) => None,
    };
    if let Some((key, cause)) = unsupported {
        problems.add(&fields.path_of(key), cause);
        return Err(InvalidEntry);
    }
    fields.report_unknown(
        "vendors, devices, drivers, pciAddresses, acpiIndexes, pfNames, rootDevices, linkTypes, pKeys, isRdma, \
         needVhostNet",
        problems,
    );
    Ok(selector)
}

/// Takes the list of [`PfVfRange`]s under `key` from `fields`. Returns `None` if the list is missing or
/// empty. As in the upstream plugin, an invalid entry selects nothing. Ferroband also reports it as a
/// problem.
fn take_pf_vf_ranges(
    key: &str,
    fields: &mut JsonFields,
    problems: &mut ProblemLog,
) -> Result<Option<Vec<PfVfRange>>, InvalidEntry> {
    let entries = fields.take_strings(key, problems)?;
    if entries.is_empty() {
        return Ok(None);
    }
    let mut list = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        match PfVfRange::parse(entry) {
            Some(range) => list.push(range),
            None => {
                let cause = format!("`{entry}` must be NAME or NAME#LIST, for example ibs1#0,3-5,7");
                problems.add(&format!("{}[{index}]", fields.path_of(key)), cause);
            }
        }
    }
    Ok(Some(list))
}

fn take_additional_info(
    fields: &mut JsonFields,
    problems: &mut ProblemLog,
) -> Result<BTreeMap<String, Map<String, Value>>, InvalidEntry> {
    let path = fields.path_of("additionalInfo");
    let Some(value) = fields.take("additionalInfo") else { return Ok(BTreeMap::new()) };
    serde_json::from_value(value).map_err(|e| {
        problems.add(&path, format!("must be an object that maps PCI addresses or `*` to objects: {e}"));
        InvalidEntry
    })
}
