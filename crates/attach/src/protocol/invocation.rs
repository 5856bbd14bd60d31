//! The CNI process protocol: environment variables and standard input in, JSON on standard output out.

use crate::protocol::result::pretty;
use crate::protocol::{CniVersion, Error, PluginConfig};
use ferroband_config::is_identifier;
use ferroband_model::named_enum;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;

named_enum! {
    /// The value of `CNI_COMMAND`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CniCommand {
        /// Attach a container.
        Add = "ADD",
        /// Check that an attachment still exists.
        Check = "CHECK",
        /// Detach a container.
        Del = "DEL",
        /// Remove everything that does not belong to a valid attachment.
        Gc = "GC",
        /// Report whether ADD can be served.
        Status = "STATUS",
        /// List the supported versions.
        Version = "VERSION",
    }
}

impl CniCommand {
    /// Required variables, and the oldest configuration version that may use the command.
    const fn requirements(self) -> (&'static [&'static str], CniVersion) {
        const SANDBOX: &[&str] = &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
        const DEL: &[&str] = &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"];
        match self {
            Self::Add => (SANDBOX, CniVersion::V0_1_0),
            Self::Check => (SANDBOX, CniVersion::V0_4_0),
            Self::Del => (DEL, CniVersion::V0_1_0),
            Self::Gc => (&["CNI_PATH"], CniVersion::V1_1_0),
            // The specification lists CNI_PATH as required for STATUS and libcni sends it, but the
            // specification's text calls it optional.
            Self::Status => (&[], CniVersion::V1_1_0),
            Self::Version => (&[], CniVersion::V0_1_0),
        }
    }

    /// Whether the command is for one sandbox, so that `CNI_CONTAINERID` and `CNI_IFNAME` are validated.
    const fn has_sandbox(self) -> bool {
        matches!(self, Self::Add | Self::Check | Self::Del)
    }
}

/// The `CNI_…` variables of a call.
#[derive(Clone, Debug, Default)]
pub struct CniEnvironment(BTreeMap<String, String>);

impl CniEnvironment {
    /// The variables of this process.
    pub fn from_process() -> Self {
        let all = std::env::vars_os();
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        all.map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The variable `name`. An empty value counts as absent, as in libcni.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The command. `None` without `CNI_COMMAND`, when a user runs the program by hand.
    pub fn command(&self) -> Result<Option<CniCommand>, Error> {
        let Some(text) = self.get("CNI_COMMAND") else { return Ok(None) };
        CniCommand::from_name(text)
            .map(Some)
            .ok_or_else(|| Error::UnknownCommand { command: text.to_owned() })
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

/// A CNI call whose variables and configuration have been validated.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// `CNI_COMMAND`.
    pub command: CniCommand,
    /// `CNI_CONTAINERID`; empty for GC and STATUS.
    pub container: String,
    /// `CNI_IFNAME`; empty for GC and STATUS.
    pub ifname: String,
    /// `CNI_NETNS`; optional for DEL.
    pub netns: Option<String>,
    /// `CNI_NETNS_OVERRIDE`: the sandbox may be the plugin's own network namespace.
    pub netns_override: bool,
    /// `CNI_ARGS`, unmodified.
    pub args: String,
    /// `CNI_PATH`, unmodified.
    pub path: String,
    /// Configuration from standard input.
    pub config: PluginConfig,
    /// `cniVersion` of the configuration. The result is printed in this version.
    pub version: CniVersion,
}

impl Invocation {
    /// Validate the variables and parse the configuration, for any command but VERSION.
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
            return Err(Error::CommandNeedsVersion { command, version, needed: oldest });
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
    let expected = "letters, digits, `_`, `.` and `-`, starting with a letter or digit";
    Err(Error::Variable { name: "CNI_CONTAINERID", value: container.to_owned(), expected })
}

/// Fail unless the kernel accepts the name (`dev_valid_name` in net/core/dev.c). The kernel reads a name up to the first
/// zero byte, so `net1` and `net1\0x` would be one interface.
pub(crate) fn check_ifname(ifname: &str) -> Result<(), Error> {
    let bad = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if ifname.is_empty() || ifname.len() > 15 || ifname == "." || ifname == ".." || ifname.contains(bad) {
        let expected = "1 to 15 bytes, not `.` or `..`, without `/`, `:`, whitespace and zero bytes";
        return Err(Error::Variable { name: "CNI_IFNAME", value: ifname.to_owned(), expected });
    }
    Ok(())
}

pub fn version_reply() -> String {
    let all = CniVersion::ALL.map(CniVersion::as_str);
    format!("{}\n", json!({ "cniVersion": CniVersion::NEWEST.as_str(), "supportedVersions": all }))
}

/// Format an error as a CNI error object. `msg` and `details`, joined by `; ` as libcni prints them, equal
/// the text of the fault.
pub fn error_reply(error: &Error, version: CniVersion) -> String {
    let fault = error.fault();
    let mut object = json!({
        "cniVersion": version.as_str(),
        "code": error.code(),
        "msg": format!("{}: {}", fault.what, fault.cause),
        "details": format!("{} [{}]", fault.remedy, fault.code.reason()),
    });
    if let Error::Plugin { reply, .. } = error
        && reply.is_status()
    {
        // A delegate's reply to STATUS is passed to the runtime unchanged (SPEC 1.1.0, STATUS).
        object["msg"] = json!(reply.msg);
        object["details"] = json!(reply.details);
    }
    if object["details"] == "" {
        object.as_object_mut().map(|object| object.remove("details"));
    }
    pretty(&object)
}

#[cfg(test)]
mod tests;
