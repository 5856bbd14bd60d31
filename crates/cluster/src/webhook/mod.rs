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

mod admission;
mod cert_rotation;
mod certificate;
mod configuration;
mod context;
mod natural_sort;
mod networks;
mod pods;
mod pools;
mod serve;
mod serving_certificate;

pub use cert_rotation::{CertRotation, WebhookObjects};

use crate::{ControllerContext, Error, Trigger, networks::NetworkCaches, run_controller as keep_work};
use context::WebhookContext;
use ferroband_daemon::tasks::TaskSet;
use serving_certificate::ServingCertificate;
use std::sync::Arc;

/// The Secret with the certificate, the Service, and the configuration of the API server.
const NAME: &str = "ferroband-webhook";

/// Start answering. Every replica does.
pub fn start(
    context: &ControllerContext,
    sources: &NetworkCaches,
    kept: &WebhookObjects,
    tasks: &mut TaskSet<Error>,
) -> Result<(), Error> {
    let identity = Arc::new(ServingCertificate::default());
    let world = Arc::new(WebhookContext::new(context, sources));
    tasks.start_endless(
        "certificate",
        serving_certificate::follow_secret(kept.secret.clone(), identity.clone()),
    );
    let listener = serve::listen(context.settings.webhook_port)?;
    tasks.start("webhook", serve::serve(listener, identity, world, tasks.stop.clone()));
    Ok(())
}

/// Start the leader's part: the certificate, and what the API server is told.
pub fn start_leader_tasks(
    context: &ControllerContext,
    sources: &NetworkCaches,
    kept: &WebhookObjects,
    tasks: &mut TaskSet<Error>,
) {
    let wake = Trigger::default()
        .on_change(tasks, &kept.secret)
        .on_change(tasks, &kept.configuration)
        .on_change(tasks, &sources.namespace_groups);
    tasks.start_endless("webhook's certificate", keep_work(CertRotation::new(context, sources, kept), wake));
}
