//! Admission webhook: adds networks and device resources to pods, adds labels to networks, and validates networks and
//! address pools.
//!
//! ```text
//!  API server ──pods that name networks, networks, pools──▶ answer ─▶ pods::inject      JSON patch, warnings, denial
//!      ▲                                                     │  ├──▶ networks::review  labels, warnings, denial
//!      │                                                     │  └──▶ pools::review     warnings, denial
//!      │ caBundle, names of namespaces                       └─ serving_certificate
//!      └───────── cert_rotation (leader) ────▶ Secret ferroband-webhook ──▶ every replica
//! ```
//!
//! Every replica answers from its caches. If the webhook is down, objects are admitted unchanged (`failurePolicy:
//! Ignore`): everything that is security-relevant is checked again where it takes effect, and a pod without its
//! resources fails with an explanation when it is attached.

mod admission;
mod annotation_keys;
mod answer;
mod cert_rotation;
mod certificate;
mod configuration;
mod context;
mod limits;
mod natural_sort;
mod networks;
mod pods;
mod pools;
mod serve;
mod serving_certificate;

pub use cert_rotation::{CertRotation, WebhookObjects};

use crate::{ControllerContext, Error, networks::NetworkCaches};
use context::WebhookContext;
use ferroband_daemon::{Trigger, start_controller, tasks::TaskSet};
use serving_certificate::ServingCertificate;
use std::sync::Arc;

/// Name of the Secret with the certificate, of the Service and of the MutatingWebhookConfiguration.
const NAME: &str = "ferroband-webhook";

/// Starts the HTTPS server of the webhook. Called on every replica.
pub fn start(
    context: &ControllerContext,
    caches: &NetworkCaches,
    objects: &WebhookObjects,
    tasks: &mut TaskSet<Error>,
) -> Result<(), Error> {
    let certificate = Arc::new(ServingCertificate::default());
    let webhook_context = Arc::new(WebhookContext::new(context, caches));
    tasks.start_endless(
        "serving certificate",
        serving_certificate::follow_secret(objects.secret.clone(), certificate.clone()),
    );
    let listener = serve::listen(context.settings.webhook_port)?;
    tasks.start("webhook", serve::serve(listener, certificate, webhook_context, tasks.stop.clone()));
    Ok(())
}

/// Answers `body` at every path of the webhook, without any network in the caches. Fuzz tests call this: a request of any
/// content must get an answer.
#[doc(hidden)]
pub async fn answer_anything(context: &ControllerContext, body: &[u8]) -> Vec<(http::StatusCode, String)> {
    let context = WebhookContext::new(context, &NetworkCaches::default());
    let answers = answer::PATHS.map(|path| answer::answer(path, body, &context));
    futures::future::join_all(answers).await
}

/// Starts the certificate rotation. Called only on the leader.
pub fn start_leader_tasks(
    context: &ControllerContext,
    caches: &NetworkCaches,
    objects: &WebhookObjects,
    tasks: &mut TaskSet<Error>,
) {
    let trigger = Trigger::default()
        .on_change(&objects.secret)
        .on_change(&objects.configuration)
        .on_change(&caches.namespace_groups);
    start_controller(tasks, CertRotation::new(context, caches, objects), trigger);
}
