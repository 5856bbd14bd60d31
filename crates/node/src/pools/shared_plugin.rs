//! Parses an entry of `configList`, the configuration of the shared RDMA device plugin.

use super::{
    DevicePool, DevicePoolKind, DeviceSelector,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    parse::{PoolDefaults, take_resource_name},
};

pub(super) fn parse_entry(
    mut fields: JsonFields,
    _: &PoolDefaults,
    problems: &mut ProblemLog,
) -> Result<DevicePool, InvalidEntry> {
    let resource = take_resource_name(&mut fields, "rdma", false, problems)?;
    let count = fields.take_count("rdmaHcaMax", problems)?.unwrap_or_default();
    let management_files = fields.take_bool("managementDevices", problems)?;
    let selector = match (fields.has("selectors"), fields.has("devices")) {
        (true, false) => {
            let value = fields.take("selectors").unwrap_or_default();
            let mut inner = JsonFields::from_value(value, &fields.path_of("selectors"), problems)?;
            let selector = DeviceSelector {
                vendors: inner.take_strings("vendors", problems)?,
                devices: inner.take_strings("deviceIDs", problems)?,
                drivers: inner.take_strings("drivers", problems)?,
                if_names: inner.take_strings("ifNames", problems)?,
                link_types: inner.take_strings("linkTypes", problems)?,
                ..DeviceSelector::default()
            };
            inner.report_unknown("vendors, deviceIDs, drivers, ifNames, linkTypes", problems);
            selector
        }
        (false, true) => DeviceSelector {
            if_names: fields.take_strings("devices", problems)?,
            ..DeviceSelector::default()
        },
        (both, _) => {
            let which = if both { "both are" } else { "neither is" };
            problems.add(
                &fields.path_of("selectors"),
                format!("exactly one of selectors and devices is required, but {which} given"),
            );
            return Err(InvalidEntry);
        }
    };
    fields.report_unknown(
        "resourceName, resourcePrefix, rdmaHcaMax, selectors, devices, managementDevices",
        problems,
    );
    let file = problems.file().to_owned();
    Ok(DevicePool {
        resource,
        file,
        field: String::new(),
        kind: DevicePoolKind::Shared { count, selector },
        management_files,
    })
}
