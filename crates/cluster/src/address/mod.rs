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

mod before;
mod books;
mod collect;
mod endpoint;
mod evidence;
mod fence;
mod foreign;
mod pools;
mod ranges;
mod stateful;
mod struck;

use crate::{Context, Error, Wake, keep};
use books::Books;
use ferroband_daemon::tasks::Tasks;

/// Start all of it.
pub fn start(context: &Context, tasks: &mut Tasks<Error>) {
    let books = Books::watch(context, tasks);
    let wake = Wake::default().on(tasks, &books.granules).on(tasks, &books.nodes).on(tasks, &books.sets);
    tasks.start_endless("collecting addresses", keep(collect::Collect::new(context, books.clone()), wake));
    let wake = Wake::default().on(tasks, &books.granules).on(tasks, &books.pools);
    tasks.start_endless("showing pools", keep(pools::Pools::new(context, books.clone()), wake));
    let wake = Wake::default().on(tasks, &books.granules);
    tasks.start_endless("showing ranges", keep(ranges::Ranges::new(context, books.clone()), wake));
    let wake = Wake::default().on(tasks, &books.granules).on(tasks, &books.ranges);
    tasks.start_endless("taking over ranges", keep(struck::Struck::new(context, books), wake));
}
