//! Whether a machine could have what a profile says.

use super::Profile;
use crate::Error;
use std::collections::BTreeSet;

impl Profile {
    /// Whether a machine could have this. Names become file names, so this also keeps them in the tree.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let altnames = self.netdevs().flat_map(|netdev| &netdev.altnames);
        self.validate_unique("netdev", 15, self.netdevs().map(|netdev| &netdev.name).chain(altnames))?;
        self.validate_unique("rdma", 63, self.hcas.iter().map(|hca| &hca.rdma))?;
        let mut places = Vec::new();
        for hca in &self.hcas {
            self.validate_name("driver", 63, &hca.driver)?;
            places.push(hca.pci);
            for index in 0..hca.total_vfs {
                let vf = hca
                    .vf_address(index)
                    .ok_or_else(|| self.invalid("totalVfs", &hca.total_vfs.to_string()))?;
                places.push(vf);
            }
            if hca.ports.iter().any(|port| port.link_layer != hca.link_layer()) {
                return Err(self.invalid("linkLayer", "different ones on one adapter"));
            }
        }
        places.extend(self.gpus.iter().map(|gpu| gpu.pci));
        let behind = self.hcas.iter().map(|hca| &hca.behind).chain(self.gpus.iter().map(|gpu| &gpu.behind));
        let bridges: BTreeSet<_> = behind.flatten().collect();
        if let Some(bridge) = places.iter().find(|place| bridges.contains(place)) {
            return Err(self.invalid("behind", &bridge.to_string()));
        }
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        self.validate_unique("pci", usize::MAX, places.iter())
    }

    fn validate_unique<'a>(
        &self,
        field: &'static str,
        most: usize,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for name in names {
            self.validate_name(field, most, name)?;
            if !seen.insert(name) {
                return Err(self.invalid(field, name));
            }
        }
        Ok(())
    }

    fn validate_name(&self, field: &'static str, most: usize, text: &str) -> Result<(), Error> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if text.is_empty() || text.len() > most || text.starts_with('.') || !text.bytes().all(plain) {
            return Err(self.invalid(field, text));
        }
        Ok(())
    }

    fn invalid(&self, field: &'static str, text: &str) -> Error {
        Error::InvalidProfile { profile: self.name.clone(), field, text: text.to_owned() }
    }
}
