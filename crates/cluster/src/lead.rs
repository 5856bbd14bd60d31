//! The leader's work, put together: the caches it needs, and what wakes what.

use crate::{
    Context, Error, address,
    drain::Drain,
    networks,
    partition::Partitions,
    policies::{Policies, Seen},
    webhook,
};
use ferroband_daemon::tasks::Tasks;

/// Start all of it. It ends with `tasks`, when the lease is lost or the daemon stops.
pub fn start(context: &Context, sources: &networks::Sources, kept: &webhook::Kept, tasks: &mut Tasks<Error>) {
    let seen = Seen::start(context, tasks);
    Policies::start(context, &seen, tasks);
    Drain::start(context, &seen, tasks);
    networks::start(context, sources, tasks);
    webhook::lead(context, sources, kept, tasks);
    address::start(context, tasks);
    Partitions::start(context, tasks);
}
