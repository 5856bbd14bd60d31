//! The shared RDMA plugin's `configList`.

use super::{
    Kind, Pool, Selector,
    fields::{Fields, Notes, Refused},
    read::{Defaults, resource},
};
use std::time::Duration;

/// How often upstream looks at the hardware when its configuration does not say.
const USUAL: Duration = Duration::from_secs(60);

/// One entry.
pub(super) fn pool(mut fields: Fields, _: &Defaults, notes: &mut Notes) -> Result<Pool, Refused> {
    let resource = resource(&mut fields, "rdma", false, notes)?;
    let count = fields.count("rdmaHcaMax", notes)?.unwrap_or_default();
    let management = fields.flag("managementDevices", notes)?;
    let selector = match (fields.has("selectors"), fields.has("devices")) {
        (true, false) => {
            let value = fields.take("selectors").unwrap_or_default();
            let mut inner = Fields::of(value, &fields.way("selectors"), notes)?;
            let selector = Selector {
                vendors: inner.texts("vendors", notes)?,
                devices: inner.texts("deviceIDs", notes)?,
                drivers: inner.texts("drivers", notes)?,
                if_names: inner.texts("ifNames", notes)?,
                link_types: inner.texts("linkTypes", notes)?,
                ..Selector::default()
            };
            inner.done("vendors, deviceIDs, drivers, ifNames, linkTypes", notes);
            selector
        }
        (false, true) => Selector { if_names: fields.texts("devices", notes)?, ..Selector::default() },
        (both, _) => {
            let found = if both { "both are" } else { "neither is" };
            notes.note(&fields.way("selectors"), format!("one of selectors and devices, and {found} given"));
            return Err(Refused);
        }
    };
    fields.done("resourceName, resourcePrefix, rdmaHcaMax, selectors, devices, managementDevices", notes);
    let file = notes.file().to_owned();
    Ok(Pool { resource, file, field: String::new(), kind: Kind::Shared { count, selector }, management })
}

/// How often upstream would look at the hardware; nothing for never. We see changes at once, so this is only checked.
pub(super) fn interval(fields: &mut Fields, notes: &mut Notes) -> Option<Duration> {
    match fields.count("periodicUpdateInterval", notes) {
        Ok(Some(0)) => None,
        Ok(Some(seconds)) => Some(Duration::from_secs(seconds as u64)),
        Ok(None) | Err(Refused) => Some(USUAL),
    }
}
