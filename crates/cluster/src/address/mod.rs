//! Address controllers: reclaim leaked addresses, and publish allocations in the objects of Whereabouts and Spiderpool.
//!
//! ```text
//!  blocks ─┬─ gc:                     entries of fenced nodes, reservations for pods that are gone, empty blocks
//!          ├─ spider_pools:           status, conditions and finalizers of SpiderIPPools; SpiderEndpoints
//!          ├─ whereabouts_projection: IPPools and OverlappingRangeIPReservations, as Whereabouts writes them
//!          ├─ whereabouts_cleanup:    records that Whereabouts wrote, removed as their pods go
//!          └─ legacy_import:          allocations of Whereabouts and Spiderpool, imported while their pods are running
//! ```
//!
//! No address is reclaimed by a timeout alone. An unreachable node may still run its pods, so its addresses are kept
//! until it is *fenced*: its Node object is deleted, or it has the taint `node.kubernetes.io/out-of-service`, with
//! which an administrator confirms that it is off. In all other cases the node itself reports that a sandbox is gone.
//!
//! Pods do not wait for these controllers when they start, so the published objects may be seconds behind.

mod caches;
mod gc;
mod legacy_import;
mod legacy_lease;
mod reclaim;
mod spider_endpoints;
mod spider_pools;
mod statefulset;
mod whereabouts_cleanup;
mod whereabouts_projection;

use crate::{ControllerContext, Error, node_facts::NodeFacts};
use caches::AddressCaches;
use ferroband_daemon::{SharedCache, Trigger, start_controller, tasks::TaskSet};

/// Starts the watches and all address controllers. They run until `tasks` ends.
pub fn start(context: &ControllerContext, nodes: &SharedCache<NodeFacts>, tasks: &mut TaskSet<Error>) {
    let caches = AddressCaches::watch(context, nodes, tasks);
    let trigger = Trigger::default()
        .on_change(&caches.blocks)
        .on_change(&caches.nodes)
        .on_change(&caches.stateful_sets);
    start_controller(tasks, gc::AddressGc::new(context, caches.clone()), trigger);
    let trigger = Trigger::default().on_change(&caches.blocks).on_change(&caches.ip_pools);
    start_controller(tasks, spider_pools::SpiderPoolController::new(context, caches.clone()), trigger);
    let trigger = Trigger::default().on_change(&caches.blocks);
    let projection = whereabouts_projection::WhereaboutsProjection::new(context, caches.clone());
    start_controller(tasks, projection, trigger);
    let trigger = Trigger::default()
        .on_change(&caches.blocks)
        .on_change(&caches.whereabouts_pools)
        .after_sync(&caches.nodes)
        .after_sync(&caches.stateful_sets);
    start_controller(tasks, whereabouts_cleanup::WhereaboutsCleanup::new(context, caches), trigger);
}
