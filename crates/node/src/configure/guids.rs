//! Sources of GUIDs for virtual functions.
//!
//! ```text
//! GUID found at take-over ──▶ derived from cluster, adapter and VF index
//!                         or claimed from the administrator's range
//! ```

use crate::partition::GuidClaimClient;
use ferroband_model::{Fault, FaultCode, Guid, PciAddress, fnv1a};
use ferroband_partition::ClusterSlice;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// After a claim failed because the API server is unavailable, no other claim is tried for this time. Otherwise
/// every function of the node would wait for its own timeout.
const CLAIM_PAUSE: Duration = Duration::from_secs(5);

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
    /// Returns the GUID of a function. `adopted` is the GUID with which it was found at take-over.
    fn guid(&self, pf: PfIdentity, vf: u32, adopted: Option<Guid>) -> Result<Guid, Fault>;
}

/// Derives GUIDs from the cluster, the adapter's GUID and the VF index.
#[derive(Clone, Debug, Default)]
pub struct DerivedGuids {
    /// Cluster UID, which distinguishes this cluster from others on the same fabric.
    pub cluster: String,
    /// Node name, used for adapters without a GUID.
    pub node: String,
}

impl GuidSource for DerivedGuids {
    fn guid(&self, pf: PfIdentity, vf: u32, adopted: Option<Guid>) -> Result<Guid, Fault> {
        if let Some(adopted) = adopted {
            return Ok(adopted);
        }
        let pf_name = match pf.guid {
            Some(guid) => guid.to_string(),
            None => format!("{}/{}", self.node, pf.pci),
        };
        Ok(derive_guid(&format!("{}/{pf_name}/{vf}", self.cluster)))
    }
}

/// Claims one GUID per function from the administrator's GUID range, and keeps it for that function.
pub struct PooledGuids {
    claims: GuidClaimClient,
    slice: ClusterSlice,
    runtime: Handle,
    claimed: Mutex<ClaimedGuids>,
}

#[derive(Default)]
struct ClaimedGuids {
    /// GUIDs claimed so far by adapter and VF index, so that each function needs only one API call.
    guids: BTreeMap<(PciAddress, u32), Guid>,
    /// Time and fault of the last claim that failed because the API server is unavailable.
    unavailable: Option<(Instant, Fault)>,
}

impl PooledGuids {
    /// Creates a source that claims GUIDs from `slice`. `runtime` runs the API calls.
    pub fn new(claims: GuidClaimClient, slice: ClusterSlice, runtime: Handle) -> Self {
        Self { claims, slice, runtime, claimed: Mutex::default() }
    }

    fn claim(&self, pf: PfIdentity, vf: u32, adopted: Option<Guid>) -> Result<Guid, Fault> {
        let device = format!("{}/{vf}", pf.pci);
        self.runtime.block_on(async {
            match adopted {
                // A GUID outside the range cannot collide with one of the range.
                Some(adopted) if !self.slice.range.contains(adopted) => Ok(adopted),
                Some(adopted) if self.claims.claim_found_guid(&self.slice, &device, adopted).await? => {
                    Ok(adopted)
                }
                // Another function has claimed the GUID.
                _ => self.claims.claim_own_guid(&self.slice, &device).await,
            }
        })
    }
}

impl GuidSource for PooledGuids {
    fn guid(&self, pf: PfIdentity, vf: u32, adopted: Option<Guid>) -> Result<Guid, Fault> {
        let mut claimed = self.claimed.lock();
        if let Some(guid) = claimed.guids.get(&(pf.pci, vf)) {
            return Ok(*guid);
        }
        if let Some((at, fault)) = &claimed.unavailable
            && at.elapsed() < CLAIM_PAUSE
        {
            return Err(fault.clone());
        }
        let result = self.claim(pf, vf, adopted);
        match &result {
            Ok(guid) => drop(claimed.guids.insert((pf.pci, vf), *guid)),
            Err(fault) if fault.code == FaultCode::ApiUnavailable => {
                claimed.unavailable = Some((Instant::now(), fault.clone()));
            }
            Err(_) => {}
        }
        result
    }
}

/// Derives a locally administered EUI-64 (02:…) from `text`. The hash is FNV-1a followed by the finalizer of
/// SplitMix64, so that texts that only differ in the last letter give very different GUIDs.
fn derive_guid(text: &str) -> Guid {
    let mut mixed = fnv1a(text.bytes());
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    Guid::new(0x02 << 56 | mixed & 0x00ff_ffff_ffff_ffff)
}
