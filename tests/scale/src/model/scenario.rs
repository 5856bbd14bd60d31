//! What the nodes of the model do at once, and the figures of the run.

use anyhow::{Context, Result};
use ferroband_address::{AddressPool, AddressRequest, IpSpace};
use ferroband_model::PodRef;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Every node starts one pod at the same moment, with one address from each pool.
#[derive(Clone, Debug)]
pub struct ModelScenario {
    pub name: &'static str,
    pub nodes: usize,
    pub pools: Vec<Arc<AddressPool>>,
    pub seed: u64,
}

impl ModelScenario {
    /// Eight rails, each with a /16 of its own.
    pub fn rails(nodes: usize, seed: u64) -> Result<Self> {
        let pools = (0..8).map(|rail| pool(rail, 1 << 16)).collect::<Result<_>>()?;
        Ok(Self { name: "8 rails with a /16 each", nodes, pools, seed })
    }

    /// One pool with one address more than nodes for every hundred nodes.
    pub fn tight(nodes: usize, seed: u64) -> Result<Self> {
        let addresses = nodes + nodes.div_ceil(100);
        Ok(Self { name: "1 % spare", nodes, pools: vec![pool(0, addresses)?], seed })
    }

    /// The address requests of the pod on a node, for its n-th sandbox.
    pub fn requests(&self, node: usize, sandbox: usize) -> Vec<AddressRequest> {
        let request = |(rail, pool): (usize, &Arc<AddressPool>)| AddressRequest {
            pools: vec![pool.clone()],
            pod: PodRef {
                namespace: "scale".into(),
                name: format!("pod-{node}"),
                uid: format!("uid-{node}"),
            },
            sticky: false,
            interface: format!("net{}", rail + 1),
            ordinal: 0,
            container: format!("sandbox-{node}-{sandbox}"),
        };
        self.pools.iter().enumerate().map(request).collect()
    }
}

/// A pool with `size` addresses in an IP space of its own.
fn pool(rail: u8, size: usize) -> Result<Arc<AddressPool>> {
    let first = Ipv4Addr::new(10, rail, 0, 0);
    let last = u32::from(first) + u32::try_from(size)?.checked_sub(1).context("a pool needs an address")?;
    let range = (IpAddr::from(first), IpAddr::from(Ipv4Addr::from(last)));
    let space = IpSpace::network(&format!("rail-{rail}"));
    let subnet = format!("10.{rail}.0.0/8").parse()?;
    Ok(Arc::new(AddressPool::new(format!("rail-{rail}"), space, subnet, [range], &[], None)?))
}

/// Figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelResult {
    pub scenario: String,
    pub nodes: usize,
    /// Assigned addresses.
    pub addresses: usize,
    pub requests: usize,
    pub reads: usize,
    pub lists: usize,
    pub conflicts: usize,
    pub requests_per_address: f64,
    /// Writes of one rail's address by the node that needed most.
    pub most_rounds: usize,
    /// Number of addresses by the writes that they needed.
    pub rounds: BTreeMap<usize, usize>,
    /// ADDs that failed because the pool was said to be exhausted while an address was free.
    pub refused: usize,
    /// ADDs that failed for another reason, such as a timeout.
    pub failed: usize,
    pub last_failure: Option<String>,
    /// Addresses that two pods got.
    pub duplicates: usize,
    /// Nodes whose pod did not start.
    pub without_address: usize,
    pub p50_millis: f64,
    pub p99_millis: f64,
    /// Simulated time until the last pod had its addresses.
    pub simulated_seconds: f64,
    /// Real time of the run.
    pub seconds: f64,
}
