//! Parsing of configurations of type `ib-sriov`.

use crate::ipc::plan::VfStep;
use crate::protocol::Error;
use crate::protocol::config::ConfigFields;
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Guid, PciAddress};
use serde_json::Value;

/// Key and value that ib-kubernetes puts into `args.cni` once it has configured the pod.
const MARK: (&str, &str) = ("mellanox.infiniband.app", "configured");

pub(crate) fn parse_config(fields: ConfigFields<'_>) -> Result<VfStep, Error> {
    let runtime = fields.object("runtimeConfig")?;
    let of_runtime = |key| runtime.map_or(Ok(None), |runtime| non_empty(runtime, key));
    let args = match fields.object("args")? {
        Some(args) => args.object("cni")?,
        None => None,
    };
    let of_args = |key| args.map_or(Ok(None), |args| non_empty(args, key));

    let device = match (non_empty(fields, "deviceID")?, of_runtime("deviceID")?) {
        (Some(device), _) | (None, Some(device)) => device,
        (None, None) => non_empty(fields, "pciBusID")?.ok_or(Error::NoDeviceId)?,
    };
    let device: PciAddress = device.parse().map_err(|_| Error::NoFunction { function: device.to_owned() })?;
    let managed = fields.flag("ibKubernetesEnabled")?;
    if managed && of_args(MARK.0)? != Some(MARK.1) {
        return Err(Error::NotMarkedConfigured { function: device });
    }
    let guid = match of_runtime("infinibandGUID")? {
        Some(guid) => Some(guid),
        None => of_args("guid")?,
    };
    let mtu = fields.integer("mtu")?.filter(|mtu| *mtu > 0);
    let wrong = |_| Error::Field { field: "mtu".to_owned(), expected: "a valid MTU" };
    Ok(VfStep {
        device,
        guid: guid.map(parse_guid).transpose()?,
        link_state: parse_link_state(fields)?,
        mtu: mtu.map(u32::try_from).transpose().map_err(wrong)?,
        isolation: fields.get("rdmaIsolation").map(|_| fields.flag("rdmaIsolation")).transpose()?,
        vfio: fields.flag("vfioPciMode")?,
        managed,
    })
}

/// The string at `key`; an empty one counts as absent.
fn non_empty<'a>(fields: ConfigFields<'a>, key: &str) -> Result<Option<&'a str>, Error> {
    Ok(fields.text(key)?.filter(|text| !text.is_empty()))
}

fn parse_link_state(fields: ConfigFields<'_>) -> Result<Option<VfLinkState>, Error> {
    let expected = "`auto`, `enable`, `disable` or empty";
    match fields.text("link_state")?.unwrap_or_default() {
        "" => Ok(None),
        text => serde_json::from_value(Value::String(text.to_owned()))
            .map(Some)
            .map_err(|_| Error::Field { field: "link_state".to_owned(), expected }),
    }
}

/// Parse a GUID as upstream does: eight groups of two hexadecimal digits, separated by colons, not all zero.
fn parse_guid(text: &str) -> Result<Guid, Error> {
    let invalid = || Error::InvalidGuid { guid: text.to_owned() };
    let groups: Vec<_> = text.split(':').collect();
    let is_group = |group: &&str| group.len() == 2 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    if groups.len() != 8 || !groups.iter().all(is_group) {
        return Err(invalid());
    }
    let value = u64::from_str_radix(&groups.concat(), 16).map_err(|_| invalid())?;
    if value == 0 { Err(invalid()) } else { Ok(Guid::new(value)) }
}
