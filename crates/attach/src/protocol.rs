//! The process contract of CNI: variables and standard input in, JSON on standard output out.

use crate::config::is_identifier;
use crate::result::pretty;
use crate::{CniVersion, Error, PluginConfig};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

/// What a runtime asks of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CniCommand {
    /// Attach.
    Add,
    /// Is it still attached?
    Check,
    /// Detach.
    Del,
    /// Detach all but these.
    Gc,
    /// Could you attach?
    Status,
    /// Which versions do you speak?
    Version,
}

impl CniCommand {
    /// The variables it must have, and the oldest version of a configuration that may ask for it.
    const fn requirements(self) -> (&'static [&'static str], CniVersion) {
        const SANDBOX: &[&str] = &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
        const DEL: &[&str] = &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"];
        match self {
            Self::Add => (SANDBOX, CniVersion::V0_1_0),
            Self::Check => (SANDBOX, CniVersion::V0_4_0),
            Self::Del => (DEL, CniVersion::V0_1_0),
            Self::Gc => (&["CNI_PATH"], CniVersion::V1_1_0),
            // The specification wants CNI_PATH here, libcni sends it, its text calls it optional.
            Self::Status => (&[], CniVersion::V1_1_0),
            Self::Version => (&[], CniVersion::V0_1_0),
        }
    }

    /// Whether it is about one sandbox.
    const fn has_sandbox(self) -> bool {
        matches!(self, Self::Add | Self::Check | Self::Del)
    }

    /// As it is written in `CNI_COMMAND`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }
}

impl fmt::Display for CniCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The `CNI_…` variables of a call.
#[derive(Clone, Debug, Default)]
pub struct CniEnvironment(BTreeMap<String, String>);

impl CniEnvironment {
    /// Those of this process.
    pub fn from_process() -> Self {
        let all = std::env::vars_os();
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        all.map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The variable `name`. An empty one counts as absent, as it does for libcni.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The command. `None` without `CNI_COMMAND`: somebody started the program by hand.
    pub fn command(&self) -> Result<Option<CniCommand>, Error> {
        const ALL: [CniCommand; 6] = [
            CniCommand::Add,
            CniCommand::Check,
            CniCommand::Del,
            CniCommand::Gc,
            CniCommand::Status,
            CniCommand::Version,
        ];
        let Some(text) = self.get("CNI_COMMAND") else { return Ok(None) };
        let found = ALL.into_iter().find(|command| command.as_str() == text);
        found.map(Some).ok_or_else(|| Error::UnknownCommand { command: text.to_owned() })
    }

    fn owned(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for CniEnvironment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(all: I) -> Self {
        let all = all.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(all.filter(|(name, _)| name.starts_with("CNI_")).collect())
    }
}

/// A call whose variables and configuration are in order.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// What is asked.
    pub command: CniCommand,
    /// `CNI_CONTAINERID`; empty for GC and STATUS.
    pub container: String,
    /// `CNI_IFNAME`; empty for GC and STATUS.
    pub ifname: String,
    /// `CNI_NETNS`; a DEL may come without.
    pub netns: Option<String>,
    /// `CNI_NETNS_OVERRIDE`: the sandbox may be the namespace that the plugin runs in.
    pub netns_override: bool,
    /// `CNI_ARGS`, as it came.
    pub args: String,
    /// `CNI_PATH`, as it came.
    pub path: String,
    /// Standard input.
    pub config: PluginConfig,
    /// The version of the configuration.
    pub version: CniVersion,
}

impl Invocation {
    /// Check the variables and read the configuration of any command but VERSION.
    pub fn read(
        command: CniCommand,
        variables: &CniEnvironment,
        stdin: &mut dyn Read,
    ) -> Result<Self, Error> {
        let (needed, oldest) = command.requirements();
        let missing: Vec<_> = needed.iter().copied().filter(|name| variables.get(name).is_none()).collect();
        match missing.as_slice() {
            [] => {}
            ["CNI_CONTAINERID"] if variables.0.contains_key("CNI_CONTAINERID") => {
                return Err(Error::EmptyContainer);
            }
            _ => return Err(Error::MissingVariables { command, names: missing }),
        }
        let mut bytes = Vec::new();
        stdin.read_to_end(&mut bytes).map_err(|source| Error::Stdin { source })?;
        let config = PluginConfig::parse(bytes)?;
        config.name()?;
        let version = config.version()?;
        if version < oldest {
            return Err(Error::CommandNeedsVersion { command, asked: version, needed: oldest });
        }
        let invocation = Self {
            command,
            container: variables.owned("CNI_CONTAINERID"),
            ifname: variables.owned("CNI_IFNAME"),
            netns: variables.get("CNI_NETNS").map(str::to_owned),
            netns_override: matches!(
                variables.owned("CNI_NETNS_OVERRIDE").to_ascii_lowercase().as_str(),
                "1" | "true"
            ),
            args: variables.owned("CNI_ARGS"),
            path: variables.owned("CNI_PATH"),
            config,
            version,
        };
        if command.has_sandbox() {
            check_container(&invocation.container)?;
            check_ifname(&invocation.ifname)?;
        }
        Ok(invocation)
    }
}

fn check_container(container: &str) -> Result<(), Error> {
    if is_identifier(container) {
        return Ok(());
    }
    let wanted = "letters, digits, `_`, `.` and `-`, the first a letter or digit";
    Err(Error::Variable { name: "CNI_CONTAINERID", value: container.to_owned(), wanted })
}

/// What the kernel takes as a name (`dev_valid_name` in net/core/dev.c).
pub(crate) fn check_ifname(ifname: &str) -> Result<(), Error> {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if ifname.is_empty() || ifname.len() > 15 || ifname == "." || ifname == ".." || ifname.contains(bad) {
        let wanted = "1 to 15 bytes, not `.` or `..`, without `/`, `:` and blanks";
        return Err(Error::Variable { name: "CNI_IFNAME", value: ifname.to_owned(), wanted });
    }
    Ok(())
}

/// The answer to VERSION.
pub fn version_reply() -> String {
    let all = CniVersion::ALL.map(CniVersion::as_str);
    format!("{}\n", json!({ "cniVersion": CniVersion::NEWEST.as_str(), "supportedVersions": all }))
}

/// A failure as the runtime reads it from standard output. `msg` and `details` joined by `; `, as libcni prints
/// them, are the fault as everybody else shows it.
pub fn error_reply(error: &Error, version: CniVersion) -> String {
    let fault = error.fault();
    let mut object = json!({
        "cniVersion": version.as_str(),
        "code": error.code(),
        "msg": format!("{}: {}", fault.what, fault.cause),
        "details": format!("{} [{}]", fault.remedy, fault.code.reason()),
    });
    if let Error::Plugin { answer, .. } = error
        && answer.is_status()
    {
        // What a delegate answers to STATUS goes to the runtime unchanged (SPEC 1.1.0, STATUS).
        object["msg"] = json!(answer.msg);
        object["details"] = json!(answer.details);
    }
    if object["details"] == "" {
        object.as_object_mut().map(|object| object.remove("details"));
    }
    pretty(&object)
}

#[cfg(test)]
mod tests;
