//! An API server as small as it can be: named objects, replaced only from the version they have.

use ferroband_address::{Granule, Version, View, Write};
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

    pub fn list(&self) -> View {
        let mut view = View::new();
        view.reset(self.objects.keys().filter_map(|name| self.read(name)));
        view
    }

    pub fn granules(&self) -> impl Iterator<Item = &Granule> {
        self.objects.values().map(|(granule, _)| granule)
    }
}
