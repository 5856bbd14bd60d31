//! Where the GUIDs of virtual functions come from.

use crate::partition::GuidClaimClient;
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use ferroband_partition::ClusterSlice;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Handle;

/// An adapter as far as GUIDs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfIdentity {
    /// Where it is.
    pub pci: PciAddress,
    /// Its own GUID.
    pub guid: Option<Guid>,
}

/// Gives GUIDs to virtual functions. The same function gets the same GUID, whenever it is made again: the subnet manager
/// knows partition members by it.
pub trait GuidSource: Send + Sync {
    /// The GUID of function `vf` of `pf`.
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault>;
}

/// GUIDs that follow from the cluster, the adapter's own GUID and the function's number; or from a file of the operator.
#[derive(Clone, Debug, Default)]
pub struct DerivedGuids {
    /// What tells this cluster from others on the same fabric.
    pub cluster: String,
    /// What the node is called, for adapters without a GUID of their own.
    pub node: String,
    /// What a file says, if there is one.
    pub guid_file: Option<GuidFile>,
}

impl GuidSource for DerivedGuids {
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        if let Some(listed) = &self.guid_file {
            return listed.guid(pf, vf);
        }
        let own = match pf.guid {
            Some(guid) => guid.to_string(),
            None => format!("{}/{}", self.node, pf.pci),
        };
        Ok(derive_guid(&format!("{}/{own}/{vf}", self.cluster)))
    }
}

/// GUIDs of a range that the administrator has named, claimed one by one and kept; or from a file of the operator.
pub struct PooledGuids {
    claims: GuidClaimClient,
    share: ClusterSlice,
    guid_file: Option<GuidFile>,
    runtime: Handle,
    /// The API server is asked once for each function.
    known: Mutex<BTreeMap<(PciAddress, u32), Guid>>,
}

impl PooledGuids {
    /// From `share`; what a file says comes first.
    pub fn new(
        claims: GuidClaimClient,
        share: ClusterSlice,
        listed: Option<GuidFile>,
        runtime: Handle,
    ) -> Self {
        Self { claims, share, guid_file: listed, runtime, known: Mutex::default() }
    }
}

impl GuidSource for PooledGuids {
    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        if let Some(listed) = &self.guid_file {
            return listed.guid(pf, vf);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guid) = known.get(&(pf.pci, vf)) {
            return Ok(*guid);
        }
        let guid =
            self.runtime.block_on(self.claims.claim_own_guid(&self.share, &format!("{}/{vf}", pf.pci)))?;
        known.insert((pf.pci, vf), guid);
        Ok(guid)
    }
}

/// A locally administered EUI-64 (02:…) of a text; FNV-1a, then SplitMix64's finalizer, so that texts that differ in the
/// last letter differ everywhere.
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

/// The operator's file of GUIDs: `/etc/sriov-operator/infiniband/guids`.
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
    /// Where the operator looks for it, under the root.
    pub const PATH: &'static str = "etc/sriov-operator/infiniband/guids";

    /// Read it; nothing when it is not there.
    pub fn read(path: &Path) -> Result<Option<Self>, Fault> {
        match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(guid_file_fault(path, e.to_string())),
            Ok(text) => Self::parse(&text).map(Some).map_err(|cause| guid_file_fault(path, cause)),
        }
    }

    /// What the file says: for each adapter a list or a range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: Vec<GuidFileEntry> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let mut listed = Self::default();
        for (position, entry) in entries.into_iter().enumerate() {
            let key = match (entry.pci_address, entry.pf_guid) {
                (Some(pci), None) => GuidFileKey::Pci(pci),
                (None, Some(guid)) => GuidFileKey::Guid(guid),
                _ => return Err(format!("[{position}]: give one of pciAddress, pfGuid")),
            };
            let range = match (entry.guids, entry.guids_range) {
                (Some(guids), None) => GuidFileRange::List(guids),
                (None, Some(GuidFileEnds { start, end })) if start <= end => GuidFileRange::Span(start, end),
                (None, Some(_)) => return Err(format!("[{position}].guidsRange: start is after end")),
                _ => return Err(format!("[{position}]: give one of guids, guidsRange")),
            };
            if listed.0.insert(key, range).is_some() {
                return Err(format!("[{position}]: this adapter is listed before"));
            }
        }
        Ok(listed)
    }

    fn guid(&self, pf: PfIdentity, vf: u32) -> Result<Guid, Fault> {
        let own = pf.guid.and_then(|guid| self.0.get(&GuidFileKey::Guid(guid)));
        let range = self.0.get(&GuidFileKey::Pci(pf.pci)).or(own);
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
        guid.ok_or_else(|| guid_file_fault(&path, format!("has no GUID for function {vf} of {}", pf.pci)))
    }
}

fn guid_file_fault(path: &Path, cause: String) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("GUID file {}", path.display()),
        cause,
        "correct the file, or remove it to have GUIDs derived",
    )
}
