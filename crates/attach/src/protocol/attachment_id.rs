//! The identity that a journal, a lock and a pending release share.

use crate::protocol::PluginType;

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
mod tests {
    use super::*;

    #[test]
    fn file_stems_are_unique_and_parse_back() {
        let ids = [
            AttachmentId::new(PluginType::Ferroband, "c1", "eth0"),
            AttachmentId::new(PluginType::Ipoib, "c1", "net1"),
            AttachmentId::new(PluginType::Ipoib, "c1", "net2"),
            AttachmentId::new(PluginType::Whereabouts, "c1", "net1"),
            AttachmentId::new(PluginType::Ferroband, "c1.net1.ipoib", "eth0"),
        ]
        .to_vec();
        let stems: Vec<_> = ids.iter().map(AttachmentId::file_stem).collect();
        for (id, stem) in ids.iter().zip(&stems) {
            assert_eq!(AttachmentId::from_stem(stem).as_ref(), Some(id));
        }
        assert_eq!(
            (AttachmentId::from_stem("c1:net1"), AttachmentId::from_stem("c1:net1:bridge")),
            (None, None)
        );
        assert_eq!(stems, ["c1", "c1:net1:ipoib", "c1:net2:ipoib", "c1:net1:whereabouts", "c1.net1.ipoib"]);
    }

    #[test]
    fn the_meta_plugin_has_one_id_per_container() {
        let id = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        assert_eq!((id.plugin_type(), id.container()), (None, "c1"));
        let alone = AttachmentId::new(PluginType::Ipoib, "c1", "net1");
        assert_eq!((alone.plugin_type(), alone.ifname()), (Some(PluginType::Ipoib), Some("net1")));
        assert_eq!((id.ifname(), &id), (None, &AttachmentId::new(PluginType::Ferroband, "c1", "eth1")));
    }
}
