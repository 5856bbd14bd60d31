//! Format of the case files.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The files: name and content.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// A conformance case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConformanceCase {
    /// Case number.
    pub case: u32,
    /// One-line description.
    pub says: String,
    /// Names (argv[0]) under which the binary is run; the case runs once for each.
    pub names: Vec<String>,
    /// Requirements.
    #[serde(default)]
    pub needs: Vec<CaseRequirement>,
    /// Whether the upstream plugins are known to behave differently.
    #[serde(default)]
    pub differs: bool,
    /// Shell scripts in `CNI_PATH`, by name. They can use `$IN` (their standard input), `$LOG` (a log file) and
    /// `$LEASES` (a directory that must be empty at the end).
    #[serde(default)]
    pub plugins: BTreeMap<String, String>,
    /// Plugins that cannot be executed ("text file busy") for this number of milliseconds.
    #[serde(default)]
    pub busy: BTreeMap<String, u64>,
    /// Arguments of `ip` commands in the host before the first call.
    #[serde(default)]
    pub host: Vec<String>,
    /// The calls, in order.
    pub calls: Vec<CaseCall>,
}

/// A requirement of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseRequirement {
    /// An IPoIB interface `ib0` in the host.
    Infiniband,
}

/// A call of the binary.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCall {
    /// `CNI_COMMAND`.
    pub command: String,
    /// Arguments of `ip` commands in the pod before the call.
    #[serde(default)]
    pub pod: Vec<String>,
    /// Changes to the default variables; `null` removes one. `$NETNS` is replaced by the pod's namespace.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// Standard input. `"$RESULT"` is replaced by the result of the last ADD.
    #[serde(default)]
    pub config: Value,
    /// Standard input that is not JSON, instead of `config`.
    #[serde(default)]
    pub text: Option<String>,
    /// Expected outcome.
    pub expect: Expectation,
}

/// Expected outcome of a call. Missing keys are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Exit status.
    pub exit: i32,
    /// CNI error code.
    pub code: Option<i64>,
    /// Error code that must not be returned.
    pub not_code: Option<i64>,
    /// What standard output must contain: objects may have more keys, lists must have the same length. `$NETNS` is
    /// replaced by the pod's namespace.
    pub stdout: Option<Value>,
    /// JSON pointers that must not exist in standard output.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Texts that standard output must contain.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Whether standard output must be empty.
    #[serde(default)]
    pub silent: bool,
    /// Interfaces of the pod, without `lo`.
    pub links: Option<Vec<String>>,
    /// Addresses of the pod's interfaces.
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// Required routes of the pod's interfaces, as `<destination>` or `<destination> via <gateway>`.
    #[serde(default)]
    pub routes: BTreeMap<String, Vec<String>>,
    /// MTU of the pod's interfaces.
    #[serde(default)]
    pub mtu: BTreeMap<String, i64>,
    /// Interfaces of the pod that must be up.
    #[serde(default)]
    pub up: Vec<String>,
    /// Lines that the plugins logged during this call.
    pub log: Option<Vec<String>>,
    /// Whether the host must have the same interfaces as before the first call.
    #[serde(default)]
    pub host_as_before: bool,
}

/// Load all cases, ordered by number.
pub fn load_all() -> Result<Vec<ConformanceCase>> {
    let mut cases = Vec::new();
    for (name, text) in FILES {
        let case: ConformanceCase = serde_json::from_str(text).with_context(|| (*name).to_owned())?;
        ensure!(*name == format!("{:03}.json", case.case), "{name} contains case {}", case.case);
        ensure!(!case.calls.is_empty() && !case.names.is_empty(), "{name} has no calls or no names");
        cases.push(case);
    }
    cases.sort_by_key(|case| case.case);
    Ok(cases)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_file_parses() {
        assert!(super::load_all().unwrap().len() > 20);
    }
}
