//! The shared RDMA plugin's `configList`.

use super::{
    DevicePool, DevicePoolKind, DeviceSelector,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    parse::{PoolDefaults, take_resource_name},
};
use std::time::Duration;

/// How often upstream looks at the hardware when its configuration does not say.
const DEFAULT_UPDATE_INTERVAL: Duration = Duration::from_secs(60);

/// One entry.
pub(super) fn parse_entry(
    mut fields: JsonFields,
    _: &PoolDefaults,
    notes: &mut ProblemLog,
) -> Result<DevicePool, InvalidEntry> {
    let resource = take_resource_name(&mut fields, "rdma", false, notes)?;
    let count = fields.take_count("rdmaHcaMax", notes)?.unwrap_or_default();
    let management = fields.take_bool("managementDevices", notes)?;
    let selector = match (fields.has("selectors"), fields.has("devices")) {
        (true, false) => {
            let value = fields.take("selectors").unwrap_or_default();
            let mut inner = JsonFields::from_value(value, &fields.path_of("selectors"), notes)?;
            let selector = DeviceSelector {
                vendors: inner.take_strings("vendors", notes)?,
                devices: inner.take_strings("deviceIDs", notes)?,
                drivers: inner.take_strings("drivers", notes)?,
                if_names: inner.take_strings("ifNames", notes)?,
                link_types: inner.take_strings("linkTypes", notes)?,
                ..DeviceSelector::default()
            };
            inner.report_unknown("vendors, deviceIDs, drivers, ifNames, linkTypes", notes);
            selector
        }
        (false, true) => {
            DeviceSelector { if_names: fields.take_strings("devices", notes)?, ..DeviceSelector::default() }
        }
        (both, _) => {
            let found = if both { "both are" } else { "neither is" };
            notes.add(
                &fields.path_of("selectors"),
                format!("one of selectors and devices, and {found} given"),
            );
            return Err(InvalidEntry);
        }
    };
    fields.report_unknown(
        "resourceName, resourcePrefix, rdmaHcaMax, selectors, devices, managementDevices",
        notes,
    );
    let file = notes.file().to_owned();
    Ok(DevicePool {
        resource,
        file,
        field: String::new(),
        kind: DevicePoolKind::Shared { count, selector },
        management_files: management,
    })
}

/// How often upstream would look at the hardware; nothing for never. We see changes at once, so this is only checked.
pub(super) fn update_interval(fields: &mut JsonFields, notes: &mut ProblemLog) -> Option<Duration> {
    match fields.take_count("periodicUpdateInterval", notes) {
        Ok(Some(0)) => None,
        Ok(Some(seconds)) => Some(Duration::from_secs(seconds as u64)),
        Ok(None) | Err(InvalidEntry) => Some(DEFAULT_UPDATE_INTERVAL),
    }
}
