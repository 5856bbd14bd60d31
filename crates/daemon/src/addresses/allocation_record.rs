//! Allocation records in the status of a SpiderIPPool.

use ferroband_api::spiderpool::SpiderIPPool;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::IpAddr};

/// Value of `by` in the allocation records of addresses that Ferroband assigned. Other records are
/// Spiderpool's.
pub const MANAGED_MARKER: &str = "ferroband";

/// One record in `status.allocated_ips` of a SpiderIPPool: the pod that uses an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiderpoolRecord {
    /// Pod that uses the address, as `<namespace>/<name>`.
    #[serde(default)]
    pub pod: String,
    #[serde(default, rename = "podUid")]
    pub pod_uid: String,
    /// Name of the pod's interface that has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// [`MANAGED_MARKER`] in records of Ferroband, absent in those of Spiderpool, which ignores this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl SpiderpoolRecord {
    /// Whether Ferroband wrote the record.
    pub fn is_managed(&self) -> bool {
        self.by.as_deref() == Some(MANAGED_MARKER)
    }
}

/// Returns the allocation records of a pool. A status that cannot be parsed counts as empty, and records with
/// an invalid address are skipped.
pub fn allocation_records(pool: &SpiderIPPool) -> Vec<(IpAddr, SpiderpoolRecord)> {
    let text = pool.status.as_ref().and_then(|status| status.allocated_ips.as_deref()).unwrap_or("{}");
    let read: BTreeMap<String, SpiderpoolRecord> = serde_json::from_str(text).unwrap_or_default();
    read.into_iter().filter_map(|(address, record)| Some((address.parse().ok()?, record))).collect()
}
