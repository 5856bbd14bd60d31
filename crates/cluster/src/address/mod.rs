//! Addresses, seen from the cluster: what was lost is taken back, and what is assigned is shown where people look.
//!
//! ```text
//!  granules ─┬─ collect: entries of fenced nodes, addresses that wait for pods that will not come, empty granules
//!            ├─ pools:   status, conditions and finalizers of SpiderIPPools; SpiderEndpoints
//!            ├─ ranges:  IPPools and OverlappingRangeIPReservations, as Whereabouts wrote them
//!            └─ before:  what Whereabouts and Spiderpool had given out before us, taken over while its pods live
//! ```
//!
//! Time alone frees nothing. A node that nobody reaches may still run its pods, so its addresses stay until it is
//! *fenced*: its Node object is deleted, or it carries the taint `node.kubernetes.io/out-of-service`, by which an
//! administrator vouches that it is off. Everything else about a sandbox its own node tells.
//!
//! None of this is on the way of a pod: what is shown may be seconds behind.

mod caches;
mod gc;
mod legacy_import;
mod legacy_lease;
mod node_fencing;
mod reclaim;
mod spider_endpoints;
mod spider_pools;
mod statefulset;
mod whereabouts_cleanup;
mod whereabouts_projection;

use crate::{ControllerContext, Error, Trigger, run_controller};
use caches::AddressCaches;
use ferroband_daemon::tasks::TaskSet;

/// Start all of it.
pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) {
    let books = AddressCaches::watch(context, tasks);
    let wake = Trigger::default()
        .on_change(tasks, &books.blocks)
        .on_change(tasks, &books.nodes)
        .on_change(tasks, &books.stateful_sets);
    tasks.start_endless(
        "collecting addresses",
        run_controller(gc::AddressGc::new(context, books.clone()), wake),
    );
    let wake = Trigger::default().on_change(tasks, &books.blocks).on_change(tasks, &books.ip_pools);
    tasks.start_endless(
        "showing pools",
        run_controller(spider_pools::SpiderPoolController::new(context, books.clone()), wake),
    );
    let wake = Trigger::default().on_change(tasks, &books.blocks);
    tasks.start_endless(
        "showing ranges",
        run_controller(whereabouts_projection::WhereaboutsProjection::new(context, books.clone()), wake),
    );
    let wake = Trigger::default().on_change(tasks, &books.blocks).on_change(tasks, &books.whereabouts_pools);
    tasks.start_endless(
        "taking over ranges",
        run_controller(whereabouts_cleanup::WhereaboutsCleanup::new(context, books), wake),
    );
}
