//! A file of either plugin.

use super::{
    DevicePool, PoolProblem,
    json_fields::{InvalidEntry, JsonFields, ProblemLog},
    shared_plugin, sriov_plugin,
};
use ferroband_model::ResourceName;
use serde_json::Value;

/// What a configuration need not say.
#[derive(Clone, Debug)]
pub struct PoolDefaults {
    /// The prefix of the SR-IOV plugin's resources; upstream has a flag for it.
    pub prefix: String,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedPoolFile {
    /// Its pools.
    pub pools: Vec<DevicePool>,
    /// What is wrong with it.
    pub problems: Vec<PoolProblem>,
    /// Whether it could be read at all.
    pub readable: bool,
}

/// Read `text`, the content of `file`. An entry that cannot be used is named and left out; the others stand.
pub fn parse_pool_file(file: &str, text: &str, defaults: &PoolDefaults) -> ParsedPoolFile {
    let mut notes = ProblemLog::for_file(file);
    let pools = parse_lists(text, defaults, &mut notes);
    ParsedPoolFile { readable: pools.is_ok(), pools: pools.unwrap_or_default(), problems: notes.problems }
}

fn parse_lists(
    text: &str,
    defaults: &PoolDefaults,
    notes: &mut ProblemLog,
) -> Result<Vec<DevicePool>, InvalidEntry> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        notes.add("", format!("is not JSON: {e}"));
        InvalidEntry
    })?;
    let mut fields = JsonFields::from_value(value, "", notes)?;
    let mut pools: Vec<DevicePool> = Vec::new();
    if !fields.contains_any(&["resourceList", "configList"]) {
        notes.add("", "has neither resourceList (SR-IOV plugin) nor configList (shared plugin)");
    }
    shared_plugin::update_interval(&mut fields, notes);
    for (key, entry) in [
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
                notes.add(key, format!("must be a list, not {}", super::json_fields::describe_value(&other)));
                continue;
            }
        };
        for (index, value) in list.into_iter().enumerate() {
            let at = format!("{key}[{index}]");
            let read =
                JsonFields::from_value(value, &at, notes).and_then(|fields| entry(fields, defaults, notes));
            let Ok(mut pool) = read else { continue };
            pool.field = at;
            match pools.iter().find(|other| other.resource == pool.resource) {
                Some(first) => {
                    let cause = format!("{} is configured before, in {}", pool.resource, first.field);
                    notes.add(&format!("{}.resourceName", pool.field), cause);
                }
                None => pools.push(pool),
            }
        }
    }
    fields.report_unknown("resourceList, configList, periodicUpdateInterval", notes);
    Ok(pools)
}

/// `prefix/name`, if the plugin's pattern and the API server take it.
pub(super) fn take_resource_name(
    fields: &mut JsonFields,
    prefix: &str,
    hyphen: bool,
    notes: &mut ProblemLog,
) -> Result<ResourceName, InvalidEntry> {
    let name = fields.take_string("resourceName", notes)?.unwrap_or_default();
    let own = fields.take_string("resourcePrefix", notes)?.filter(|prefix| !prefix.is_empty());
    let prefix = own.as_deref().unwrap_or(prefix);
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || (hyphen && c == '-');
    let named = if name.chars().all(allowed) { ResourceName::new(prefix, &name).ok() } else { None };
    named.ok_or_else(|| {
        let signs = if hyphen { "letters, digits, `_` and `-`" } else { "letters, digits and `_`" };
        let cause = format!("`{prefix}/{name}` is no name of a resource; the name takes {signs}");
        notes.add(&fields.path_of("resourceName"), cause);
        InvalidEntry
    })
}
