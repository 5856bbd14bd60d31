//! `CNI_ARGS`: key-value pairs of the runtime, among them the pod's name; and the identity that a journal, a lock and a
//! pending release of a call share.

use crate::protocol::{Error, PluginType};
use ferroband_model::PodRef;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Keys that runtimes and meta plugins send to all plugins.
const KNOWN: [&str; 8] = [
    "IgnoreUnknown",
    "K8S_POD_NAMESPACE",
    "K8S_POD_NAME",
    "K8S_POD_UID",
    "K8S_POD_INFRA_CONTAINER_ID",
    "IP",
    "MAC",
    "GATEWAY",
];

/// Parse the pod's namespace and name. Returns `None` if `CNI_ARGS` names no pod, because not every caller is
/// Kubernetes.
///
/// A pair without `=` is an error, and so is an unknown key unless `IgnoreUnknown` is set. A value may contain `=`.
pub fn parse_pod(args: &str) -> Result<Option<PodRef>, Error> {
    let mut pairs = Vec::new();
    for pair in args.split(';').filter(|pair| !pair.is_empty()) {
        let malformed = || Error::MalformedArgument { pair: pair.to_owned() };
        pairs.push(pair.split_once('=').ok_or_else(malformed)?);
    }
    // If a key occurs twice, use the first value. It is the runtime's, because meta plugins append their
    // pairs.
    let value = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);

    let ignore = value("IgnoreUnknown").unwrap_or("false");
    let ignore = ignore == "1" || ignore.eq_ignore_ascii_case("true");
    if let Some((key, _)) = pairs.iter().find(|(key, _)| !ignore && !KNOWN.contains(key)) {
        return Err(Error::UnknownArgument { key: (*key).to_owned() });
    }
    let part = |key| value(key).unwrap_or_default().to_owned();
    let pod =
        PodRef { namespace: part("K8S_POD_NAMESPACE"), name: part("K8S_POD_NAME"), uid: part("K8S_POD_UID") };
    Ok(Some(pod).filter(|pod| !pod.namespace.is_empty() && !pod.name.is_empty()))
}

/// Return the addresses in `IP`, a comma-separated list. Only the first `IP` counts, as in [`parse_pod`].
pub fn requested_ips(args: &str) -> Vec<String> {
    let list = args.split(';').find_map(|pair| pair.strip_prefix("IP=")).unwrap_or_default();
    list.split(',').map(str::trim).filter(|ip| !ip.is_empty()).map(str::to_owned).collect()
}

/// Append `more`, the additional pairs of one attachment, to `args`, which has the format of `CNI_ARGS`.
pub fn append<'a>(args: &'a str, more: &BTreeMap<String, String>) -> Cow<'a, str> {
    if more.is_empty() {
        return Cow::Borrowed(args);
    }
    let existing = args.split(';').filter(|pair| !pair.is_empty()).map(str::to_owned);
    let added = more.iter().map(|(key, value)| format!("{key}={value}"));
    Cow::Owned(existing.chain(added).collect::<Vec<_>>().join(";"))
}

/// Identifies a whole sandbox (meta plugin) or one of its interfaces (plugin called on its own).
///
/// The two never share a file: a plugin called on its own may run inside a call of the meta plugin for the same
/// container (a foreign plugin delegates to it). It must neither wait for that call's lock nor touch its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentId {
    container: String,
    interface: Option<(String, PluginType)>,
}

impl AttachmentId {
    /// The identity of a call. The plugin type decides whether it covers the whole sandbox.
    pub fn new(plugin_type: PluginType, container: &str, ifname: &str) -> Self {
        let interface = (!plugin_type.is_meta()).then(|| (ifname.to_owned(), plugin_type));
        Self { container: container.to_owned(), interface }
    }

    /// Parse what [`Self::file_stem`] returned. `None` if `stem` has another format.
    pub fn from_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.splitn(3, ':');
        let container = parts.next()?.to_owned();
        let interface = match (parts.next(), parts.next()) {
            (None, None) => None,
            (Some(ifname), Some(plugin_type)) => {
                Some((ifname.to_owned(), PluginType::from_name(plugin_type)?))
            }
            _ => return None,
        };
        Some(Self { container, interface })
    }

    /// The plugin type; `None` for the meta plugin.
    pub fn plugin_type(&self) -> Option<PluginType> {
        self.interface.as_ref().map(|(_, plugin_type)| *plugin_type)
    }

    /// `CNI_CONTAINERID`.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// `CNI_IFNAME`; `None` for a whole sandbox.
    pub fn ifname(&self) -> Option<&str> {
        self.interface.as_ref().map(|(ifname, _)| ifname.as_str())
    }

    /// The file name without extension. Neither container IDs nor interface names can contain a colon, so it is unique.
    pub fn file_stem(&self) -> String {
        match &self.interface {
            None => self.container.clone(),
            Some((ifname, plugin_type)) => format!("{}:{ifname}:{plugin_type}", self.container),
        }
    }
}

#[cfg(test)]
mod tests;
