//! What a case file says.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The files, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// One case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConformanceCase {
    /// Its number.
    pub case: u32,
    /// What it is about, in a line.
    pub says: String,
    /// The names by which the binary is called; the case is played once for each.
    pub names: Vec<String>,
    /// What must be there.
    #[serde(default)]
    pub needs: Vec<CaseRequirement>,
    /// Whether upstream's plugins are known to do something else.
    #[serde(default)]
    pub differs: bool,
    /// Shell scripts in `CNI_PATH`, by name. They find their standard input in `$IN`, a file to note down things in
    /// `$LOG`, and a folder in `$LEASES` that must be empty at the end.
    #[serde(default)]
    pub plugins: BTreeMap<String, String>,
    /// Plugins that cannot be executed ("text file busy") for so many milliseconds.
    #[serde(default)]
    pub busy: BTreeMap<String, u64>,
    /// Arguments of `ip` in the host before the first call.
    #[serde(default)]
    pub host: Vec<String>,
    /// The calls, in order.
    pub calls: Vec<CaseCall>,
}

/// What a case may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseRequirement {
    /// An IPoIB interface `ib0` in the host.
    Infiniband,
}

/// One call of the binary.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCall {
    /// `CNI_COMMAND`.
    pub command: String,
    /// Arguments of `ip` in the pod before the call.
    #[serde(default)]
    pub pod: Vec<String>,
    /// Variables other than the usual; `null` takes one away. `$NETNS` stands for the pod's namespace.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// Standard input. The text `"$RESULT"` stands for the result of the last ADD.
    #[serde(default)]
    pub config: Value,
    /// Standard input that is no JSON, in place of `config`.
    #[serde(default)]
    pub text: Option<String>,
    /// What must come of it.
    pub expect: Expectation,
}

/// What must come of a call. What is not said is not looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The exit status.
    pub exit: i32,
    /// The code of the error.
    pub code: Option<i64>,
    /// A code that it must not be.
    pub not_code: Option<i64>,
    /// What standard output must contain: objects may have more keys, lists must be as long. `$NETNS` stands for the
    /// pod's namespace.
    pub stdout: Option<Value>,
    /// Places in standard output that must be empty, as JSON pointers.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Texts that must be in standard output.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Whether standard output must be empty.
    #[serde(default)]
    pub silent: bool,
    /// The interfaces of the pod, without `lo`.
    pub links: Option<Vec<String>>,
    /// The addresses of interfaces of the pod.
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// Routes of interfaces of the pod that must be there, as `<destination>` or `<destination> via <gateway>`.
    #[serde(default)]
    pub routes: BTreeMap<String, Vec<String>>,
    /// The MTU of interfaces of the pod.
    #[serde(default)]
    pub mtu: BTreeMap<String, i64>,
    /// Interfaces of the pod that must be up.
    #[serde(default)]
    pub up: Vec<String>,
    /// What the plugins noted down in this call, a line each.
    pub log: Option<Vec<String>>,
    /// Whether the host must have the interfaces that it had before the first call.
    #[serde(default)]
    pub host_as_before: bool,
}

/// All cases, by number.
pub fn load_all() -> Result<Vec<ConformanceCase>> {
    let mut cases = Vec::new();
    for (name, text) in FILES {
        let case: ConformanceCase = serde_json::from_str(text).with_context(|| (*name).to_owned())?;
        ensure!(*name == format!("{:03}.json", case.case), "{name} has case {}", case.case);
        ensure!(!case.calls.is_empty() && !case.names.is_empty(), "{name} plays nothing");
        cases.push(case);
    }
    cases.sort_by_key(|case| case.case);
    Ok(cases)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_understood() {
        assert!(super::load_all().unwrap().len() > 20);
    }
}
