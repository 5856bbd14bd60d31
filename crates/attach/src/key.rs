//! What one journal, one lock and one debt are about.

use crate::PluginType;

/// A sandbox as the meta plugin sees it, or one interface of it as a plugin called by itself does.
///
/// The two never share a file: a plugin called by itself may run inside a call of the meta plugin for the same
/// container (a foreign plugin delegates to it), and must neither wait for that call's lock nor touch
/// its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentId {
    container: String,
    single: Option<(String, PluginType)>,
}

impl AttachmentId {
    /// The key of a call. The role decides whether it is about the whole sandbox.
    pub fn new(role: PluginType, container: &str, ifname: &str) -> Self {
        let single = (!role.is_meta()).then(|| (ifname.to_owned(), role));
        Self { container: container.to_owned(), single }
    }

    /// The key whose files have this stem.
    pub fn from_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.splitn(3, ':');
        let container = parts.next()?.to_owned();
        let single = match (parts.next(), parts.next()) {
            (None, None) => None,
            (Some(ifname), Some(role)) => Some((ifname.to_owned(), PluginType::from_name(role)?)),
            _ => return None,
        };
        Some(Self { container, single })
    }

    /// The role of a plugin called by itself; none for the meta plugin.
    pub fn plugin_type(&self) -> Option<PluginType> {
        self.single.as_ref().map(|(_, role)| *role)
    }

    /// `CNI_CONTAINERID`.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The interface, if this is about one alone.
    pub fn ifname(&self) -> Option<&str> {
        self.single.as_ref().map(|(ifname, _)| ifname.as_str())
    }

    /// The name of its files, without an extension. Neither a container identifier nor an interface name can
    /// contain a colon, so no two keys have the same.
    pub fn file_stem(&self) -> String {
        match &self.single {
            None => self.container.clone(),
            Some((ifname, role)) => format!("{}:{ifname}:{role}", self.container),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_different_calls_differ() {
        let keys = [
            AttachmentId::new(PluginType::Ferroband, "c1", "eth0"),
            AttachmentId::new(PluginType::Ipoib, "c1", "net1"),
            AttachmentId::new(PluginType::Ipoib, "c1", "net2"),
            AttachmentId::new(PluginType::Whereabouts, "c1", "net1"),
            AttachmentId::new(PluginType::Ferroband, "c1.net1.ipoib", "eth0"),
        ]
        .to_vec();
        let stems: Vec<_> = keys.iter().map(AttachmentId::file_stem).collect();
        for (key, stem) in keys.iter().zip(&stems) {
            assert_eq!(AttachmentId::from_stem(stem).as_ref(), Some(key));
        }
        assert_eq!(
            (AttachmentId::from_stem("c1:net1"), AttachmentId::from_stem("c1:net1:bridge")),
            (None, None)
        );
        assert_eq!(stems, ["c1", "c1:net1:ipoib", "c1:net2:ipoib", "c1:net1:whereabouts", "c1.net1.ipoib"]);
    }

    #[test]
    fn the_meta_plugin_has_one_file_per_container() {
        let key = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        assert_eq!((key.ifname(), &key), (None, &AttachmentId::new(PluginType::Ferroband, "c1", "eth1")));
    }
}
