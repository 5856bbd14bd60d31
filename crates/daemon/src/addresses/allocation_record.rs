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

/// Why the allocation records of a pool cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableStatus {
    #[error("cannot decode the records: {0}")]
    Undecodable(#[from] serde_json::Error),
    #[error("{0:?} is not an IP address")]
    Address(String),
}

/// Returns the allocation records of a pool. Returns an error if one of them cannot be read, because it is then
/// unknown which addresses are in use.
pub fn allocation_records(pool: &SpiderIPPool) -> Result<Vec<(IpAddr, SpiderpoolRecord)>, UnreadableStatus> {
    let text = pool.status.as_ref().and_then(|status| status.allocated_ips.as_deref());
    // Spiderpool writes `null` or nothing for a pool without records.
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or("null");
    let read: Option<BTreeMap<String, SpiderpoolRecord>> = serde_json::from_str(text)?;
    let parse = |(address, record): (String, SpiderpoolRecord)| match address.parse() {
        Ok(parsed) => Ok((parsed, record)),
        Err(_) => Err(UnreadableStatus::Address(address)),
    };
    read.unwrap_or_default().into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::parse_pool;
    use serde_json::json;

    fn pool(allocated: Option<&str>) -> SpiderIPPool {
        let object = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.3"]},
            "status": {"allocatedIPs": allocated},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn pool_whose_records_cannot_be_read_assigns_nothing() {
        for text in
            ["{", "[]", r#"{"10.0.0.1": 7}"#, r#"{"10.0.0.1": {"pod": 7}}"#, r#"{"x": {"pod": "a/b"}}"#]
        {
            allocation_records(&pool(Some(text))).unwrap_err();
            let parsed = parse_pool(&pool(Some(text))).unwrap().addresses;
            let first = [10, 0, 0, 1].into();
            assert!(!parsed.contains(first) && parsed.can_keep(first), "{text}: owners keep their addresses");
            let cause = parsed.unusable_cause().unwrap();
            assert!(cause.contains("SpiderIPPool p: status.allocatedIPs"), "{cause}");
        }
    }

    #[test]
    fn pool_without_records_is_empty() {
        for text in [None, Some(""), Some("null"), Some("{}")] {
            assert_eq!(allocation_records(&pool(text)).unwrap(), [], "{text:?}");
        }
        let records = pool(Some(r#"{"10.0.0.2":{"pod":"a/b","podUid":"u"}}"#));
        assert_eq!(allocation_records(&records).unwrap().len(), 1);
        assert_eq!(parse_pool(&records).unwrap().addresses.capacity(), 2);
    }
}
