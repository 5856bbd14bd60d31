//! What is filled in before an object is stored: networks and resources of pods, labels and complaints of networks, and
//! complaints of pools.
//!
//! ```text
//!  API server ──only pods that name networks, networks, pools──▶ serve ──▶ pods::inject     JSON patch, warnings
//!      ▲                                                          │  ├──▶ networks::review  labels, warnings, refusals
//!      │                                                          │  └──▶ pools::review     warnings, refusals
//!      │ caBundle, names of namespaces                            └─ certificate
//!      └────────────── keep (leader) ────▶ Secret ferroband-webhook ──▶ every replica
//! ```
//!
//! Every replica answers, from its caches. An answer that does not come changes nothing (`failurePolicy: Ignore`): whatever
//! is security-relevant is checked again where it takes effect, and a pod that was not filled in is told so when it is
//! attached.

mod certificate;
mod configuration;
mod identity;
mod keep;
mod networks;
mod order;
mod pods;
mod pools;
mod review;
mod serve;
mod world;

pub use keep::{Keep, Kept};

use crate::{Context, Error, Wake, keep as keep_work, networks::Sources};
use ferroband_daemon::tasks::Tasks;
use identity::Identity;
use std::sync::Arc;
use world::World;

/// The Secret with the certificate, the Service, and the configuration of the API server.
const NAME: &str = "ferroband-webhook";

/// Start answering. Every replica does.
pub fn start(
    context: &Context,
    sources: &Sources,
    kept: &Kept,
    tasks: &mut Tasks<Error>,
) -> Result<(), Error> {
    let identity = Arc::new(Identity::default());
    let world = Arc::new(World::new(context, sources));
    tasks.start_endless("certificate", identity::follow(kept.secret.clone(), identity.clone()));
    let listener = serve::listen(context.settings.webhook_port)?;
    tasks.start("webhook", serve::serve(listener, identity, world, tasks.stop.clone()));
    Ok(())
}

/// Start the leader's part: the certificate, and what the API server is told.
pub fn lead(context: &Context, sources: &Sources, kept: &Kept, tasks: &mut Tasks<Error>) {
    let wake =
        Wake::default().on(tasks, &kept.secret).on(tasks, &kept.configuration).on(tasks, &sources.namespaces);
    tasks.start_endless("webhook's certificate", keep_work(Keep::new(context, sources, kept), wake));
}
