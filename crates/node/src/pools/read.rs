//! A file of either plugin.

use super::{
    Pool, Problem,
    fields::{Fields, Notes, Refused},
    shared, sriov,
};
use ferroband_model::ResourceName;
use serde_json::Value;

/// What a configuration need not say.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The prefix of the SR-IOV plugin's resources; upstream has a flag for it.
    pub prefix: String,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Its pools.
    pub pools: Vec<Pool>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// Whether it could be read at all.
    pub whole: bool,
}

/// Read `text`, the content of `file`. An entry that cannot be used is named and left out; the others stand.
pub fn read(file: &str, text: &str, defaults: &Defaults) -> Read {
    let mut notes = Notes::on(file);
    let pools = top(text, defaults, &mut notes);
    Read { whole: pools.is_ok(), pools: pools.unwrap_or_default(), problems: notes.problems }
}

fn top(text: &str, defaults: &Defaults, notes: &mut Notes) -> Result<Vec<Pool>, Refused> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        notes.note("", format!("is not JSON: {e}"));
        Refused
    })?;
    let mut fields = Fields::of(value, "", notes)?;
    let mut pools: Vec<Pool> = Vec::new();
    if !fields.names_any(&["resourceList", "configList"]) {
        notes.note("", "has neither resourceList (SR-IOV plugin) nor configList (shared plugin)");
    }
    shared::interval(&mut fields, notes);
    for (key, entry) in [
        ("resourceList", sriov::pool as fn(Fields, &Defaults, &mut Notes) -> Result<Pool, Refused>),
        ("configList", shared::pool),
    ] {
        let list = match fields.take(key) {
            None => continue,
            Some(Value::Array(list)) => list,
            Some(other) => {
                notes.note(key, format!("must be a list, not {}", super::fields::kind(&other)));
                continue;
            }
        };
        for (index, value) in list.into_iter().enumerate() {
            let at = format!("{key}[{index}]");
            let read = Fields::of(value, &at, notes).and_then(|fields| entry(fields, defaults, notes));
            let Ok(mut pool) = read else { continue };
            pool.field = at;
            match pools.iter().find(|other| other.resource == pool.resource) {
                Some(first) => {
                    let cause = format!("{} is configured before, in {}", pool.resource, first.field);
                    notes.note(&format!("{}.resourceName", pool.field), cause);
                }
                None => pools.push(pool),
            }
        }
    }
    fields.done("resourceList, configList, periodicUpdateInterval", notes);
    Ok(pools)
}

/// `prefix/name`, if the plugin's pattern and the API server take it.
pub(super) fn resource(
    fields: &mut Fields,
    prefix: &str,
    hyphen: bool,
    notes: &mut Notes,
) -> Result<ResourceName, Refused> {
    let name = fields.text("resourceName", notes)?.unwrap_or_default();
    let own = fields.text("resourcePrefix", notes)?.filter(|prefix| !prefix.is_empty());
    let prefix = own.as_deref().unwrap_or(prefix);
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || (hyphen && c == '-');
    let named = if name.chars().all(allowed) { ResourceName::new(prefix, &name).ok() } else { None };
    named.ok_or_else(|| {
        let signs = if hyphen { "letters, digits, `_` and `-`" } else { "letters, digits and `_`" };
        let cause = format!("`{prefix}/{name}` is no name of a resource; the name takes {signs}");
        notes.note(&fields.way("resourceName"), cause);
        Refused
    })
}
