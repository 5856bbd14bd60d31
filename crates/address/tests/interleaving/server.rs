//! An API server as small as it can be: named objects, replaced only from the version they have.

use ferroband_address::{Granule, Listed, Version, View, Write};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Server {
    objects: BTreeMap<String, (Granule, u64)>,
    version: u64,
}

impl Server {
    /// Carries a write out; an error if somebody was faster.
    pub fn write(&mut self, write: &Write) -> Result<Version, ()> {
        let name = write.granule().object_name();
        let present = self.objects.get(&name).map(|(_, version)| version.to_string());
        let expected = match write {
            Write::Create(_) => None,
            Write::Replace { expected, .. } => Some(expected.0.clone()),
        };
        if present != expected {
            return Err(());
        }
        self.version += 1;
        self.objects.insert(name, (write.granule().clone(), self.version));
        Ok(Version(self.version.to_string()))
    }

    pub fn read(&self, name: &str) -> Option<(Granule, Version)> {
        self.objects.get(name).map(|(granule, version)| (granule.clone(), Version(version.to_string())))
    }

    /// What a node knows after a list.
    pub fn list(&self, node: &str) -> View {
        let (mut view, mut listed) = (View::of_node(node), Listed::default());
        for (granule, version) in self.objects.keys().filter_map(|name| self.read(name)) {
            view.list(&mut listed, granule, version);
        }
        view.take(listed, |_| false);
        view
    }

    pub fn granules(&self) -> impl Iterator<Item = &Granule> {
        self.objects.values().map(|(granule, _)| granule)
    }
}
