//! Validation of profiles.

use super::Profile;
use crate::Error;
use std::collections::BTreeSet;

impl Profile {
    /// Checks that a host could have this hardware. Names become file names, so this also prevents path
    /// traversal.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let altnames = self.netdevs().flat_map(|netdev| &netdev.altnames);
        self.validate_unique("netdev", 15, self.netdevs().map(|netdev| &netdev.name).chain(altnames))?;
        self.validate_unique("rdma", 63, self.hcas.iter().map(|hca| &hca.rdma))?;
        let mut addresses = Vec::new();
        for hca in &self.hcas {
            self.validate_name("driver", 63, &hca.driver)?;
            addresses.push(hca.pci);
            for index in 0..hca.total_vfs {
                let vf = hca
                    .vf_address(index)
                    .ok_or_else(|| self.invalid("totalVfs", &hca.total_vfs.to_string()))?;
                addresses.push(vf);
            }
            if hca.ports.iter().any(|port| port.link_layer != hca.link_layer()) {
                return Err(self.invalid("linkLayer", "different link layers on one adapter"));
            }
        }
        addresses.extend(self.gpus.iter().map(|gpu| gpu.pci));
        let behind = self.hcas.iter().map(|hca| &hca.behind).chain(self.gpus.iter().map(|gpu| &gpu.behind));
        let bridges: BTreeSet<_> = behind.flatten().collect();
        if let Some(bridge) = addresses.iter().find(|address| bridges.contains(address)) {
            return Err(self.invalid("behind", &bridge.to_string()));
        }
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        self.validate_unique("pci", usize::MAX, addresses.iter())
    }

    fn validate_unique<'a>(
        &self,
        field: &'static str,
        max_length: usize,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), Error> {
        let mut names_so_far = BTreeSet::new();
        for name in names {
            self.validate_name(field, max_length, name)?;
            if !names_so_far.insert(name) {
                return Err(self.invalid(field, name));
            }
        }
        Ok(())
    }

    fn validate_name(&self, field: &'static str, max_length: usize, text: &str) -> Result<(), Error> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if text.is_empty()
            || text.len() > max_length
            || text.starts_with('.')
            || !text.bytes().all(is_allowed)
        {
            return Err(self.invalid(field, text));
        }
        Ok(())
    }

    fn invalid(&self, field: &'static str, text: &str) -> Error {
        Error::InvalidProfile { profile: self.name.clone(), field, text: text.to_owned() }
    }
}
