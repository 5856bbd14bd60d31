//! Parses a configuration file of the SR-IOV or the shared device plugin.

use super::{
    DevicePool, PoolProblem,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    shared_plugin, sriov_plugin,
};
use ferroband_model::ResourceName;
use serde_json::Value;

/// Default values for pools in a configuration file that do not set them.
#[derive(Clone, Debug)]
pub struct PoolDefaults {
    /// Prefix of resource names in a `resourceList`. The upstream plugin has a command line flag for it.
    pub prefix: String,
}

/// The valid pools of a configuration file, and the problems in the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedPoolFile {
    pub pools: Vec<DevicePool>,
    pub problems: Vec<PoolProblem>,
    /// `false` if the file cannot be read or is not a JSON object. Then the last valid content of the file
    /// stays in use. A missing file counts as readable.
    pub readable: bool,
}

/// Parses `text`, the content of `file`. Invalid entries are reported in `problems` and skipped.
pub fn parse_pool_file(file: &str, text: &str, defaults: &PoolDefaults) -> ParsedPoolFile {
    let mut log = ProblemLog::for_file(file);
    let pools = parse_lists(text, defaults, &mut log);
    ParsedPoolFile { readable: pools.is_ok(), pools: pools.unwrap_or_default(), problems: log.problems }
}

fn parse_lists(
    text: &str,
    defaults: &PoolDefaults,
    problems: &mut ProblemLog,
) -> Result<Vec<DevicePool>, InvalidEntry> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        problems.add("", format!("is not JSON: {e}"));
        InvalidEntry
    })?;
    let mut fields = JsonFields::from_value(value, "", problems)?;
    let mut pools: Vec<DevicePool> = Vec::new();
    if !fields.contains_any(&["resourceList", "configList"]) {
        problems.add("", "has neither resourceList (SR-IOV plugin) nor configList (shared plugin)");
    }
    // The upstream plugin's interval of hardware scans. Ferroband detects changes by events, so the value is only
    // validated.
    let _ = fields.take_count("periodicUpdateInterval", problems);
    for (key, parse_entry) in [
        (
            "resourceList",
            sriov_plugin::parse_entry
                as fn(JsonFields, &PoolDefaults, &mut ProblemLog) -> Result<DevicePool, InvalidEntry>,
        ),
        ("configList", shared_plugin::parse_entry),
    ] {
        let list = match fields.take(key) {
            None => continue,
            Some(Value::Array(list)) => list,
            Some(other) => {
                problems
                    .add(key, format!("must be a list, not {}", super::json_fields::describe_value(&other)));
                continue;
            }
        };
        for (index, value) in list.into_iter().enumerate() {
            let path = format!("{key}[{index}]");
            let parsed = JsonFields::from_value(value, &path, problems)
                .and_then(|fields| parse_entry(fields, defaults, problems));
            let Ok(mut pool) = parsed else { continue };
            pool.field = path;
            match pools.iter().find(|other| other.resource == pool.resource) {
                Some(first) => {
                    let cause = format!("{} is already configured in {}", pool.resource, first.field);
                    problems.add(&format!("{}.resourceName", pool.field), cause);
                }
                None => pools.push(pool),
            }
        }
    }
    fields.report_unknown("resourceList, configList, periodicUpdateInterval", problems);
    Ok(pools)
}

/// Takes `resourceName` and `resourcePrefix` from `fields`. `prefix` is the default prefix. Fails if the
/// upstream plugin or the API server would reject the name. `hyphen` says whether the plugin allows a hyphen
/// in the name.
pub(super) fn take_resource_name(
    fields: &mut JsonFields,
    prefix: &str,
    hyphen: bool,
    problems: &mut ProblemLog,
) -> Result<ResourceName, InvalidEntry> {
    let name = fields.take_string("resourceName", problems)?.unwrap_or_default();
    let own_prefix = fields.take_string("resourcePrefix", problems)?.filter(|prefix| !prefix.is_empty());
    let prefix = own_prefix.as_deref().unwrap_or(prefix);
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || (hyphen && c == '-');
    let resource = if name.chars().all(allowed) { ResourceName::new(prefix, &name).ok() } else { None };
    resource.ok_or_else(|| {
        let characters = if hyphen { "letters, digits, `_` and `-`" } else { "letters, digits and `_`" };
        let cause =
            format!("`{prefix}/{name}` is not a valid resource name; the name may contain {characters}");
        problems.add(&fields.path_of("resourceName"), cause);
        InvalidEntry
    })
}
