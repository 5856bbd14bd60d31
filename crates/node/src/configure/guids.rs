//! Sources of GUIDs for virtual functions.

use crate::partition::GuidClaimClient;
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use ferroband_partition::ClusterSlice;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Handle;

/// Identifies the physical function whose virtual functions get GUIDs. `guid` is absent if the adapter has no RDMA
/// device or its GUID is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfIdentity {
    pub pci: PciAddress,
    pub guid: Option<Guid>,
}

/// Assigns GUIDs to virtual functions. A function always gets the same GUID, also after recreation, because the
/// subnet manager identifies partition members by it.
pub trait GuidSource: Send + Sync {
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault>;
}

/// Derives GUIDs from the cluster, the adapter's GUID and the VF index. If the operator's GUID file exists, GUIDs
/// are taken from the file instead.
#[derive(Clone, Debug, Default)]
pub struct DerivedGuids {
    /// Cluster UID, which distinguishes this cluster from others on the same fabric.
    pub cluster: String,
    /// Node name, used for adapters without a GUID.
    pub node: String,
    /// GUID file, which takes precedence over derived GUIDs. `None` if it does not exist.
    pub guid_file: Option<GuidFile>,
}

impl GuidSource for DerivedGuids {
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        if let Some(guid_file) = &self.guid_file {
            return guid_file.guid(pf, vf);
        }
        let pf_name = match pf.guid {
            Some(guid) => guid.to_string(),
            None => format!("{}/{}", self.node, pf.pci),
        };
        Ok(derive_guid(&format!("{}/{pf_name}/{vf}", self.cluster)))
    }
}

/// Claims one GUID per function from the administrator's GUID range, and keeps it for that function. If the
/// operator's GUID file exists, GUIDs are taken from the file instead.
pub struct PooledGuids {
    claims: GuidClaimClient,
    slice: ClusterSlice,
    guid_file: Option<GuidFile>,
    runtime: Handle,
    /// GUIDs claimed so far by adapter and VF index, so that each function needs only one API call.
    claimed: Mutex<BTreeMap<(PciAddress, u32), Guid>>,
}

impl PooledGuids {
    /// Creates a source that claims GUIDs from `slice`, unless there is a GUID file. `runtime` runs the API calls.
    pub fn new(
        claims: GuidClaimClient,
        slice: ClusterSlice,
        guid_file: Option<GuidFile>,
        runtime: Handle,
    ) -> Self {
        Self { claims, slice, guid_file, runtime, claimed: Mutex::default() }
    }
}

impl GuidSource for PooledGuids {
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        if let Some(guid_file) = &self.guid_file {
            return guid_file.guid(pf, vf);
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guid) = claimed.get(&(pf.pci, vf)) {
            return Ok(*guid);
        }
        let guid =
            self.runtime.block_on(self.claims.claim_own_guid(&self.slice, &format!("{}/{vf}", pf.pci)))?;
        claimed.insert((pf.pci, vf), guid);
        Ok(guid)
    }
}

/// Derives a locally administered EUI-64 (02:…) from `text`. The hash is FNV-1a followed by the finalizer of
/// SplitMix64, so that texts that only differ in the last letter give very different GUIDs.
fn derive_guid(text: &str) -> Guid {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut mixed = hash;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    Guid::new(0x02 << 56 | mixed & 0x00ff_ffff_ffff_ffff)
}

/// The GUID file of the SR-IOV operator, `/etc/sriov-operator/infiniband/guids`. It has a list or a range of GUIDs
/// per adapter.
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

    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
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
