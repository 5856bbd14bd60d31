//! The GUID file of the SR-IOV operator, with which an administrator chooses the GUIDs of virtual functions.

use super::PfIdentity;
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The content of `/etc/sriov-operator/infiniband/guids`: a list or a range of GUIDs per adapter.
#[derive(Clone, Debug, Default)]
pub struct GuidFile(BTreeMap<GuidFileKey, GuidFileRange>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GuidFileKey {
    Pci(PciAddress),
    Guid(Guid),
}

#[derive(Clone, Debug)]
enum GuidFileRange {
    List(Vec<Guid>),
    Span(Guid, Guid),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GuidFileEntry {
    pci_address: Option<PciAddress>,
    pf_guid: Option<Guid>,
    guids: Option<Vec<Guid>>,
    guids_range: Option<GuidFileEnds>,
}

#[derive(Deserialize)]
struct GuidFileEnds {
    start: Guid,
    end: Guid,
}

impl GuidFile {
    /// Path of the file relative to the root directory.
    pub const PATH: &'static str = "etc/sriov-operator/infiniband/guids";

    /// Reads the file; `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, Fault> {
        match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(guid_file_fault(path, e.to_string())),
            Ok(text) => Self::parse(&text).map(Some).map_err(|cause| guid_file_fault(path, cause)),
        }
    }

    /// Parses the JSON content of the file. An error names the entry and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: Vec<GuidFileEntry> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let mut guid_file = Self::default();
        for (position, entry) in entries.into_iter().enumerate() {
            let key = match (entry.pci_address, entry.pf_guid) {
                (Some(pci), None) => GuidFileKey::Pci(pci),
                (None, Some(guid)) => GuidFileKey::Guid(guid),
                _ => return Err(format!("[{position}]: exactly one of pciAddress and pfGuid is required")),
            };
            let range = match (entry.guids, entry.guids_range) {
                (Some(guids), None) => GuidFileRange::List(guids),
                (None, Some(GuidFileEnds { start, end })) if start <= end => GuidFileRange::Span(start, end),
                (None, Some(_)) => return Err(format!("[{position}].guidsRange: start is after end")),
                _ => return Err(format!("[{position}]: exactly one of guids and guidsRange is required")),
            };
            if guid_file.0.insert(key, range).is_some() {
                return Err(format!("[{position}]: duplicate entry for this adapter"));
            }
        }
        Ok(guid_file)
    }

    /// Returns the GUID of a function. A function that the file does not cover is an error.
    pub fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        let by_guid = pf.guid.and_then(|guid| self.0.get(&GuidFileKey::Guid(guid)));
        let range = self.0.get(&GuidFileKey::Pci(pf.pci)).or(by_guid);
        let path = Path::new("/").join(Self::PATH);
        let Some(range) = range else {
            return Err(guid_file_fault(&path, format!("no guid pool for pci address {}", pf.pci)));
        };
        let guid = match range {
            GuidFileRange::List(guids) => guids.get(vf as usize).copied(),
            GuidFileRange::Span(start, end) => {
                start.value().checked_add(u64::from(vf)).map(Guid::new).filter(|guid| guid <= end)
            }
        };
        guid.ok_or_else(|| guid_file_fault(&path, format!("no GUID for virtual function {vf} of {}", pf.pci)))
    }
}

fn guid_file_fault(path: &Path, cause: String) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("GUID file {}", path.display()),
        cause,
        "correct the file, or remove it so that Ferroband assigns the GUIDs",
    )
}
