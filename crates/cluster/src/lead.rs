//! The leader's work, put together: the caches it needs, and what wakes what.

use crate::{
    Context, Error, address,
    drain::Drain,
    policies::{Policies, Seen},
};
use ferroband_daemon::tasks::Tasks;

/// Start all of it. It ends with `tasks`, when the lease is lost or the daemon stops.
pub fn start(context: &Context, tasks: &mut Tasks<Error>) {
    let seen = Seen::start(context, tasks);
    Policies::start(context, &seen, tasks);
    Drain::start(context, &seen, tasks);
    address::start(context, tasks);
}
