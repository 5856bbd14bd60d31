//! Address controllers: reclaim leaked addresses, import foreign records, and tell nodes and users what they need.
//!
//! ```text
//!  blocks ─┬─ gc:                     entries of fenced nodes, reservations for pods that are gone, empty blocks
//!          ├─ address_index:          AddressIndexes, for nodes that need another block
//!          ├─ spider_pools:           status, conditions and finalizers of SpiderIPPools; SpiderEndpoints
//!          └─ whereabouts_projection: IPPools and OverlappingRangeIPReservations, as Whereabouts writes them
//!  records of Whereabouts and Spiderpool ── record_import ──▶ blocks, AddressState
//!  SpiderIPPools ── pool_copies ──▶ SpiderPoolCopies, for nodes
//! ```
//!
//! Only an entry of a block decides whether an address is assigned (docs/decisions/0066). Pods do not wait for these
//! controllers when they start, except for the first import.
//!
//! No address is reclaimed by a timeout alone. An unreachable node may still run its pods, so its addresses are kept
//! until it is *lost* (`node_liveness`): its Node object has been deleted for ten minutes, or it has the taint
//! `node.kubernetes.io/out-of-service`, with which an administrator confirms that it is off. In all other cases the node itself reports that a sandbox is gone.

mod address_index;
mod address_state;
mod block_changes;
mod caches;
mod foreign_kinds;
mod foreign_pods;
mod foreign_records;
mod full_projection;
mod gc;
mod import_memory;
mod import_plan;
mod pool_copies;
mod pool_status;
mod reclaim;
mod record_import;
mod spider_endpoints;
mod spider_pools;
mod statefulset;
mod sticky_pointers;
mod upstream_lease;
mod whereabouts_cleanup;
mod whereabouts_objects;
mod whereabouts_projection;
mod write_pacer;

pub use full_projection::FullProjection;

use crate::{ControllerContext, Error, node_liveness::NodeLiveness};
use caches::AddressCaches;
use ferroband_daemon::{Trigger, start_controller, tasks::TaskSet};
use std::sync::Arc;

/// Starts the watches and all address controllers. They run until `tasks` ends.
pub fn start(context: &ControllerContext, liveness: &NodeLiveness, tasks: &mut TaskSet<Error>) {
    let caches = AddressCaches::watch(context, &liveness.nodes, tasks);
    let trigger = Trigger::default()
        .on_change(&caches.blocks)
        .on_change(&caches.nodes)
        .on_change(&caches.stateful_sets);
    start_controller(tasks, gc::AddressGc::new(context, caches.clone(), liveness.clone()), trigger);
    let trigger = Trigger::default().on_change(&caches.blocks).on_change(&caches.indexes);
    start_controller(tasks, address_index::AddressIndexController::new(context, caches.clone()), trigger);
    let trigger = Trigger::default().on_change(&caches.ip_pools.cache).on_change(&caches.pool_copies);
    start_controller(tasks, pool_copies::PoolCopyController::new(context, caches.clone()), trigger);

    let lease = Arc::new(upstream_lease::SpiderpoolLease::new(context.client.clone()));
    let outdated = record_import::OutdatedRecords::default();
    let trigger = Trigger::default()
        .on_change(&caches.blocks)
        .on_change(&caches.whereabouts_pools.cache)
        .on_change(&caches.ip_pools.cache)
        .on_change(&caches.address_states)
        .after_sync(&caches.nodes)
        .after_sync(&caches.stateful_sets);
    let import = record_import::RecordImport::new(context, caches.clone(), lease.clone(), outdated.clone());
    start_controller(tasks, import, trigger);
    let trigger = Trigger::default().on_change(&caches.blocks).on_change(&caches.ip_pools.cache);
    let pools = spider_pools::SpiderPoolController::new(context, caches.clone(), lease, outdated);
    start_controller(tasks, pools, trigger);
    let trigger = Trigger::default().on_change(&caches.blocks);
    let projection = whereabouts_projection::WhereaboutsProjection::new(context, caches);
    start_controller(tasks, projection, trigger);
}
