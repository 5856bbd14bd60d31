//! Limits of the HTTPS server. Every pod that reaches the Service can open connections and send requests; they must not
//! use up the daemon's memory, or all connections that the API servers need.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use parking_lot::Mutex;
use std::{collections::HashMap, error::Error, net::IpAddr, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections. An API server opens one for each request that it sends at the same time.
pub const MAX_CONNECTIONS: usize = 512;
/// Maximum number of connections from one address.
pub const MAX_CONNECTIONS_PER_SOURCE: usize = MAX_CONNECTIONS / 2;
/// Maximum size of a request. A request contains up to two objects, each at most as large as the API server allows,
/// and the AdmissionReview around them.
pub const MAX_BODY_BYTES: usize = 8 << 20;
/// Maximum size of all bodies together that are being read or answered. A decoded body takes up to eleven times as much.
pub const MAX_TOTAL_BODY_BYTES: usize = 2 * MAX_BODY_BYTES;

/// Counts the open connections, in total and by address.
#[derive(Default)]
pub struct ConnectionLimits {
    by_source: Mutex<HashMap<IpAddr, usize>>,
}

/// An open connection. It is counted until this value is dropped.
pub struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    source: IpAddr,
}

impl ConnectionLimits {
    /// Counts a new connection from `source`; `None` if there are too many.
    pub fn admit(self: &Arc<Self>, source: IpAddr) -> Option<ConnectionPermit> {
        let source = source.to_canonical();
        let mut by_source = self.by_source.lock();
        let total: usize = by_source.values().sum();
        let open = by_source.get(&source).copied().unwrap_or_default();
        if total >= MAX_CONNECTIONS || open >= MAX_CONNECTIONS_PER_SOURCE {
            return None;
        }
        by_source.insert(source, open + 1);
        drop(by_source);
        Some(ConnectionPermit { limits: self.clone(), source })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut by_source = self.limits.by_source.lock();
        if let Some(open) = by_source.get_mut(&self.source) {
            *open -= 1;
            if *open == 0 {
                by_source.remove(&self.source);
            }
        }
    }
}

/// The memory that bodies may use together.
pub struct BodyBudget(Arc<Semaphore>);

/// A body that was read. Its memory counts until this value is dropped.
pub struct ReceivedBody {
    pub bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_TOTAL_BODY_BYTES)))
    }
}

impl BodyBudget {
    /// Reads a body. Waits while other bodies use all memory. A client that announces a body and does not send it uses
    /// none. Returns `None` if the body is too large or incomplete.
    pub async fn read<B>(&self, mut body: B) -> Option<ReceivedBody>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Error,
    {
        let mut bytes = Vec::new();
        let mut memory: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.ok()?.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY_BYTES {
                return None;
            }
            let permit = self.0.clone().acquire_many_owned(u32::try_from(data.len()).ok()?).await.ok()?;
            match &mut memory {
                Some(memory) => memory.merge(permit),
                None => memory = Some(permit),
            }
            bytes.extend_from_slice(&data);
        }
        Some(ReceivedBody { bytes, _memory: memory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use std::{net::Ipv4Addr, time::Duration};

    #[test]
    fn one_address_cannot_take_all_connections() {
        let limits = Arc::new(ConnectionLimits::default());
        let source = |last: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
        let mut of_attacker: Vec<_> = (0..MAX_CONNECTIONS).filter_map(|_| limits.admit(source(1))).collect();
        assert_eq!(of_attacker.len(), MAX_CONNECTIONS_PER_SOURCE);
        let mapped = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert!(limits.admit(mapped).is_none(), "the same address on an IPv6 socket");
        let of_api_server = limits.admit(source(2));
        assert!(of_api_server.is_some());
        of_attacker.pop();
        assert!(limits.admit(source(1)).is_some(), "a closed connection does not count");
        drop((of_attacker, of_api_server));
        assert!(limits.by_source.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_share_a_limited_memory() {
        let budget = BodyBudget::default();
        let body = |bytes: usize| Full::new(Bytes::from(vec![b'x'; bytes]));
        assert!(budget.read(body(MAX_BODY_BYTES + 1)).await.is_none());
        let first = budget.read(body(MAX_BODY_BYTES)).await.unwrap();
        let second = budget.read(body(MAX_BODY_BYTES)).await.unwrap();
        assert_eq!(first.bytes.len() + second.bytes.len(), MAX_TOTAL_BODY_BYTES);
        let waiting = tokio::time::timeout(Duration::from_secs(1), budget.read(body(1)));
        assert!(waiting.await.is_err(), "no memory is left");
        drop(first);
        assert!(budget.read(body(1)).await.is_some());
        assert!(budget.read(body(0)).await.unwrap().bytes.is_empty());
    }
}
