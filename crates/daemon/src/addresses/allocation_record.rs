//! The records in the status of a SpiderIPPool.

use ferroband_api::spiderpool::SpiderIPPool;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::IpAddr};

/// What marks the records that show what we assigned; all others are Spiderpool's own.
pub const MANAGED_MARKER: &str = "ferroband";

/// Who has an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiderpoolRecord {
    /// The pod, `<namespace>/<name>`.
    #[serde(default)]
    pub pod: String,
    /// Its UID.
    #[serde(default, rename = "podUid")]
    pub pod_uid: String,
    /// The interface in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whose record it is. Spiderpool does not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl SpiderpoolRecord {
    /// Whether it shows what stands in a granule.
    pub fn is_managed(&self) -> bool {
        self.by.as_deref() == Some(MANAGED_MARKER)
    }
}

/// The records of a pool; none if they cannot be read.
pub fn allocation_records(pool: &SpiderIPPool) -> Vec<(IpAddr, SpiderpoolRecord)> {
    let text = pool.status.as_ref().and_then(|status| status.allocated_ips.as_deref()).unwrap_or("{}");
    let read: BTreeMap<String, SpiderpoolRecord> = serde_json::from_str(text).unwrap_or_default();
    read.into_iter().filter_map(|(address, record)| Some((address.parse().ok()?, record))).collect()
}
